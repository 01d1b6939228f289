"""`dovetail repair plan --for OBJECT`: the fewest pods to move so that others fit, or leave what failed or goes."""

import argparse
import functools
import sys
from pathlib import Path
from typing import Any, Final, NamedTuple

from scheduler.cli.arguments import (
    add_format,
    add_manifests,
    add_namespace,
    cluster_access,
    completed,
    manifests,
    refuse,
    say,
    warn,
)
from scheduler.cli.exit_status import ExitStatus
from scheduler.cli.sources.configuration import add_configured_cluster, configuration
from scheduler.cli.sources.targets import Target, TargetKind, target_of

_KINDS: Final = (TargetKind.POD, TargetKind.POD_GROUP, TargetKind.NODE, TargetKind.DEVICE, TargetKind.DOMAIN)
_TIMEOUT_SECONDS: Final = 300.0


EPILOG: Final = (
    "Nothing is written without --apply. It moves only pods that this scheduler placed, that have a controller and no "
    "higher priority, and that nothing protects. Exit status: 0 there is a plan, or no pod has to move (with --apply: "
    "the pod or gang fits now), 1 there is no plan, a pod cannot leave, or --apply stopped, 2 arguments are wrong or "
    "input cannot be read, 3 the answer may be wrong, as a warning says."
)


def add(parser: argparse.ArgumentParser, *, is_optional: bool = False) -> None:
    """Add the arguments of the command."""
    parser.epilog = EPILOG
    parser.add_argument(
        "--for",
        dest="wanted",
        nargs="+",
        metavar="OBJECT",
        required=not is_optional,
        help="what the moves are for: `pod NAMESPACE/NAME` or `gang NAMESPACE/NAME` that waits, or that runs on a "
        "device that failed; `node NAME`, `domain LABEL=VALUE` or `device NODE/NAME` that is to be emptied",
    )
    add_namespace(parser)
    add_manifests(parser, "use manifests instead of the live cluster, as in `dovetail simulate`")
    add_configured_cluster(parser)
    parser.add_argument(
        "--scheduler-name", metavar="NAME", help="move pods with this spec.schedulerName (default: that of the pod)"
    )
    parser.add_argument(
        "--apply",
        action="store_true",
        help="make the moves for a waiting pod or gang one by one with your own credentials: evict a pod, wait until "
        "its successor runs, solve again; stop at the first deviation",
    )
    parser.add_argument(
        "--timeout",
        type=float,
        default=_TIMEOUT_SECONDS,
        metavar="SECONDS",
        help="seconds that a successor may take until it runs (default: %(default)s)",
    )
    parser.add_argument(
        "--save", type=Path, metavar="FILE", help="save cluster, goal and moves, for `dovetail replay` and bug reports"
    )
    add_format(parser)


def execute(options: argparse.Namespace) -> int:
    """Read, solve and print; with `--apply` also move the pods."""
    if options.apply and options.filename:
        return refuse(f"{options.command}: --apply moves pods of a live cluster and cannot be combined with -f")
    from scheduler.simulation import simulator  # noqa: PLC0415 - the solver takes a second
    from scheduler.simulation.moves import planned_moves  # noqa: PLC0415 - the same

    access = None if options.filename else cluster_access(options)
    target = target_of(options.wanted, options, _KINDS, access)
    try:
        look = _look(options, access, target)
    except planned_moves.UnknownObjectError as error:
        return refuse(f"{options.command}: {error}")
    first = look.found
    if options.save is not None:
        try:
            simulator.save(options.save, first.record, keep_parameters=False)
        except OSError as error:
            return refuse(f"--save: {options.save}: cannot be written: {error.strerror}")
    show(first, options.output)
    if access is not None and options.apply and first.found.moves:
        return _apply(options, access, target, look)
    return look.completed(ExitStatus.OK if first.is_reached else ExitStatus.NO)


def _apply(options: argparse.Namespace, access: Any, target: Target, look: "_Look") -> int:
    """Make the moves one by one."""
    from scheduler.kube.errors import KubeError  # noqa: PLC0415 - as above
    from scheduler.simulation.moves import moves_by_hand  # noqa: PLC0415 - as above

    first = look.found
    if first.goal.leaving:
        return refuse(f"{options.command}: --apply makes room for waiting pods; other moves need `repair.mode: apply`")
    if look.may_be_wrong:
        return look.completed(ExitStatus.NO)
    if not first.found.is_stepwise:
        return refuse(f"{options.command}: --apply moves one pod after the other, but these moves depend on each other")
    try:
        again = functools.partial(_again, options, access, target)
        moves_by_hand.carry_out(access, first, again, say, timeout_seconds=options.timeout)
    except (KubeError, moves_by_hand.StoppedError) as error:
        say(str(error))
        return ExitStatus.NO
    say("done: the pod or gang fits now")
    return ExitStatus.OK


class _Look(NamedTuple):
    """
    Moves, the kinds that the caller may not list, and whether the running scheduler's configuration is known.

    `is_served` says whether a scheduler takes the pods for which the others move.
    """

    found: Any
    forbidden: tuple[str, ...]
    is_configured: bool
    is_served: bool = True

    @property
    def may_be_wrong(self) -> bool:
        return bool(self.forbidden) or not (self.is_configured and self.is_served)

    def completed(self, status: int) -> int:
        """Return the exit status of the answer."""
        status = status if self.is_served else ExitStatus.NO
        return completed(status, self.forbidden, is_configured=self.is_configured)


def _look(options: argparse.Namespace, access: Any, target: Target) -> _Look:
    """Read and solve. Raise `KubeError` or `UnknownObjectError`."""
    from scheduler.simulation import case_builder, live_cluster, simulator  # noqa: PLC0415 - as above
    from scheduler.simulation.manifests import documents  # noqa: PLC0415 - as above
    from scheduler.simulation.moves import planned_moves  # noqa: PLC0415 - as above

    paths = manifests(options)
    found = live_cluster.ClusterObjects() if paths else live_cluster.fetch(access)
    made = case_builder.CaseBuilder.of(found, documents.read(paths))
    kind = "gang" if target.kind is TargetKind.POD_GROUP else str(target.kind)
    name = f"{target.namespace}/{target.name}" if target.namespace else target.name
    named = planned_moves.scheduler_of(made.pods, kind, name)
    chosen = options.scheduler_name or named
    configured = configuration(options, access, chosen)
    served, settings, unserved = configured.serving(named, options.scheduler_name)
    if unserved:
        warn(f"{unserved}. The moves are those for a pod with that name")
    case = made.case(served, {pod.id for pod in planned_moves.pods_meant(made.pods, kind, name) if unserved})
    for problem in case.problems:
        say(str(problem))
    asked = simulator.recorded(case, settings, served)
    goal = planned_moves.goal_for(asked, kind, name, is_kind_given=len(options.wanted) > 1 or "/" in options.wanted[0])
    moves = planned_moves.planned(asked, goal, settings.repair.rules())
    return _Look(moves, found.forbidden, configured.is_known, is_served=not unserved)


def _again(options: argparse.Namespace, access: Any, target: Target) -> Any:
    """Solve again; None if the pod or gang no longer waits."""
    from scheduler.simulation.moves import planned_moves  # noqa: PLC0415 - as above

    try:
        found = _look(options, access, target).found
    except planned_moves.UnknownObjectError:
        return None
    return found if found.goal.wanted.pods else None


def show(solved: Any, form: str) -> None:
    """Print moves."""
    from scheduler.simulation import printing  # noqa: PLC0415 - as above
    from scheduler.simulation.moves import moves_output  # noqa: PLC0415 - as above

    if form == "table":
        moves_output.show(solved, sys.stdout)
    else:
        sys.stdout.write(printing.text("Moves", moves_output.answer(solved), form))
    sys.stdout.flush()

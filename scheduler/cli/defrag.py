"""`dovetail defrag --for pod NS/NAME`: the fewest pods to move so that a pod or a gang fits."""

import argparse
import sys
from typing import Any, Final

from scheduler.cli.arguments import add_cluster, add_format, add_manifests, manifests, refuse, say, settings_for

_DONE, _NO_PLAN = 0, 1
_TIMEOUT_SECONDS: Final = 300.0


def add(commands: Any) -> None:
    """Add the command to the parser."""
    text = "Say which pods to move so that a waiting pod or gang fits: the fewest, with proof where there is one."
    parser = commands.add_parser(
        "defrag",
        help=text,
        description=text,
        epilog="Nothing is written without --apply. Only pods that this scheduler placed, that have a controller and "
        "no higher priority are moved. Exit status: 0 there is a plan (with --apply: the pod fits now), 1 there is "
        "none or it stopped, 2 something is wrong.",
        allow_abbrev=False,
    )
    _add_options(parser)
    parser.set_defaults(execute=execute)


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--for",
        dest="wanted",
        nargs=2,
        metavar=("KIND", "NS/NAME"),
        required=True,
        help="what has to fit: `pod NS/NAME` or `gang NS/NAME`; without a namespace it is in `default`",
    )
    add_manifests(parser, "manifests instead of the live cluster, as `dovetail simulate` reads them")
    add_cluster(parser)
    parser.add_argument(
        "--scheduler-name", metavar="NAME", help="move pods of this spec.schedulerName (default: that of the pod)"
    )
    parser.add_argument(
        "--apply",
        action="store_true",
        help="make the moves, one at a time, with your own credentials: evict, wait until the replacement runs, "
        "solve again; stop at the first deviation",
    )
    parser.add_argument(
        "--timeout",
        type=float,
        default=_TIMEOUT_SECONDS,
        metavar="SECONDS",
        help="how long a replacement may take to run (default: %(default)s)",
    )
    add_format(parser)


def execute(options: argparse.Namespace) -> int:
    """Read, solve, print, and move where that is asked for."""
    kind, _ = options.wanted
    if kind not in {"pod", "gang"}:
        return refuse(f"defrag: --for {kind}: write `--for pod NS/NAME` or `--for gang NS/NAME`")
    if options.apply and options.filename:
        return refuse("defrag: --apply moves pods of a live cluster, and -f reads manifests: give one of them")
    from scheduler.kube.errors import KubeError  # noqa: PLC0415 - the cluster's client takes a while to import
    from scheduler.simulation import defragment  # noqa: PLC0415 - the solver takes a second to import

    try:
        first = _look(options)
    except (KubeError, defragment.UnknownPodError) as error:
        return refuse(f"defrag: {error}")
    _print(first, options.output)
    if not options.apply or not first.found.moves:
        return _DONE if first.found.is_found else _NO_PLAN
    if not first.found.is_stepwise:
        return refuse("defrag: --apply makes one move after the other, and these need each other's place")
    try:
        defragment.carry_out(options.kubeconfig, first, lambda: _again(options), say, timeout_seconds=options.timeout)
    except (KubeError, defragment.StoppedError) as error:
        say(str(error))
        return _NO_PLAN
    say("done: what was asked for fits now")
    return _DONE


def _look(options: argparse.Namespace) -> Any:
    """Read the cluster or the manifests and solve. Raises KubeError and UnknownPodError."""
    from scheduler.simulation import case_builder, defragment, live_cluster, simulator  # noqa: PLC0415 - as above
    from scheduler.simulation.manifests import documents  # noqa: PLC0415 - as above

    paths = manifests(options)
    found = live_cluster.Live() if paths else live_cluster.fetch(options.kubeconfig)
    made = case_builder.Assembly.of(found, documents.read(paths))
    kind, wanted = options.wanted
    named = made.scheduler_of_gang(wanted) if kind == "gang" else made.scheduler_of(wanted)
    name, settings = settings_for(options.config, options.scheduler_name or named)
    case = made.case(name)
    for problem in case.problems:
        say(str(problem))
    asked = simulator.recorded(case, settings, name)
    batch = defragment.wanted(asked, *options.wanted)
    return defragment.MovesFound(batch, defragment.relocation(asked, batch))


def _again(options: argparse.Namespace) -> Any:
    """Look once more; None where what was asked for does not wait any more."""
    from scheduler.simulation import defragment  # noqa: PLC0415 - as above

    try:
        return _look(options)
    except defragment.UnknownPodError:
        return None


def _print(solved: Any, form: str) -> None:
    from scheduler.simulation import defragment, printing  # noqa: PLC0415 - as above

    if form == "table":
        defragment.show(solved.found, sys.stdout)
    else:
        sys.stdout.write(printing.text(defragment.answer(solved.batch, solved.found), form))
    sys.stdout.flush()

"""`dovetail defrag --for pod NS/NAME`: the fewest pods to move so that a pod or a gang fits."""

import argparse
import sys
from typing import Any, Final

from scheduler.cli.arguments import add_cluster, add_format, add_manifests, manifests, refuse, say, settings_for

_DONE, _NO_PLAN = 0, 1
_TIMEOUT_SECONDS: Final = 300.0


def add(commands: Any) -> None:
    """Add the command to the parser."""
    text = "Show which pods to move so that a waiting pod or gang fits: the smallest set, proven where possible."
    parser = commands.add_parser(
        "defrag",
        help=text,
        description=text,
        epilog="Nothing is written without --apply. It moves only pods that this scheduler placed, that have a "
        "controller and no higher priority. Exit status: 0 there is a plan (with --apply: the pod or gang fits now), "
        "1 there is no plan or --apply stopped, 2 arguments are wrong or input cannot be read.",
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
        help="what has to fit: `pod NS/NAME` or `gang NS/NAME`; the namespace defaults to `default`",
    )
    add_manifests(parser, "use manifests instead of the live cluster, as in `dovetail simulate`")
    add_cluster(parser)
    parser.add_argument(
        "--scheduler-name", metavar="NAME", help="move pods with this spec.schedulerName (default: that of the pod)"
    )
    parser.add_argument(
        "--apply",
        action="store_true",
        help="make the moves one by one with your own credentials: evict a pod, wait until its replacement runs, solve "
        "again; stop at the first deviation",
    )
    parser.add_argument(
        "--timeout",
        type=float,
        default=_TIMEOUT_SECONDS,
        metavar="SECONDS",
        help="seconds that a replacement may take until it runs (default: %(default)s)",
    )
    add_format(parser)


def execute(options: argparse.Namespace) -> int:
    """Read, solve and print; with `--apply` also move the pods."""
    kind, _ = options.wanted
    if kind not in {"pod", "gang"}:
        return refuse(f"defrag: --for {kind}: write `--for pod NS/NAME` or `--for gang NS/NAME`")
    if options.apply and options.filename:
        return refuse("defrag: --apply moves pods of a live cluster and cannot be combined with -f")
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
        return refuse("defrag: --apply moves one pod after the other, but these moves depend on each other in a cycle")
    try:
        defragment.carry_out(options.kubeconfig, first, lambda: _again(options), say, timeout_seconds=options.timeout)
    except (KubeError, defragment.StoppedError) as error:
        say(str(error))
        return _NO_PLAN
    say("done: the pod or gang fits now")
    return _DONE


def _look(options: argparse.Namespace) -> Any:
    """Read the cluster or the manifests and solve. Raise `KubeError` or `UnknownPodError`."""
    from scheduler.simulation import case_builder, defragment, live_cluster, simulator  # noqa: PLC0415 - as above
    from scheduler.simulation.manifests import documents  # noqa: PLC0415 - as above

    paths = manifests(options)
    found = live_cluster.ClusterObjects() if paths else live_cluster.fetch(options.kubeconfig)
    made = case_builder.CaseBuilder.of(found, documents.read(paths))
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
    """Solve again; None if the pod or gang no longer waits."""
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

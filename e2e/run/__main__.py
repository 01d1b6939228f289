"""`python -m e2e.run`: start everything, show it, and stay up; with `--once` end with a verdict."""

import argparse
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import NoReturn

from rich.console import Console

from e2e import table
from e2e.controlplane.access import RequestError
from e2e.controlplane.build import BuildError
from e2e.controlplane.plane import KubectlError
from e2e.controlplane.processes import ComponentError
from e2e.nodes.cluster import unusable
from e2e.nodes.node import OWN
from e2e.run import view
from e2e.run.stage import SCHEDULERS, Stage, page_of
from e2e.table import Row

INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; 0 when every pod ended as its example says."""
    options = _parser().parse_args(arguments)
    if options.nodes and (reason := unusable(OWN)):
        print(f"No node can run here: {reason}. `make run` shows the same without.", file=sys.stderr)
        return 1
    for number in (signal.SIGINT, signal.SIGTERM):  # SIGINT too: a shell's background job inherits it as ignored
        signal.signal(number, _interrupt)
    console = Console() if sys.stdout.isatty() else Console(width=table.WIDTH, color_system=None)
    try:
        with Stage.set_up(
            console,
            scheduler=options.scheduler,
            gates=options.gates,
            folder=options.folder,
            on_nodes=options.nodes,
        ) as stage:
            return _show(stage, console, options)
    except (BuildError, ComponentError, KubectlError, RequestError) as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        console.print("ended", highlight=False)
        return INTERRUPTED if options.once else 0


def _show(stage: Stage, console: Console, options: argparse.Namespace) -> int:
    rows = view.follow(stage, console, seconds=options.timeout)
    if not console.is_terminal:
        print(table.plain(rows))
    status = verdict(rows, stage.expected_pods, console)
    is_right = True
    for summary, holds in stage.audits():
        console.print(f"Audit: {summary}.", highlight=False, markup=False, soft_wrap=True)
        is_right &= holds
    if not options.once:
        with page_of(stage.plane, stage.api) as page:
            console.print(_how_to_reach(stage, page), highlight=False, soft_wrap=True)
            view.stay(stage, console, rows)
    return status if is_right else 1


def verdict(rows: Sequence[Row], expected_pods: int, console: Console) -> int:
    """Say how many pods ended as they should, and what is wrong with each other one; 0 when nothing is."""
    watched = [row for row in rows if row.expected]
    good = sum(row.is_as_expected for row in watched)
    console.print(f"{good} of {expected_pods} pods ended as their examples say.", highlight=False)
    for row in watched:
        if not row.is_as_expected:
            console.print(f"  {row.difference}", highlight=False, markup=False, soft_wrap=True)
    return 0 if view.is_settled(rows, expected_pods) else 1


def _how_to_reach(stage: Stage, page: str) -> str:
    """Say where everything is; the page and what to try come last, where a reader looks."""
    plane = stage.plane
    lines = [
        "",
        "The cluster stays up until Ctrl-C; what changes is printed below. In another terminal:",
        f"  export KUBECONFIG={plane.kubeconfig}",
        f"  alias kubectl={plane.kubectl_binary} dovetail={Path(sys.executable).with_name('dovetail')}",
        f"Logs: {stage.scheduler.log}, and of the control plane beside it.",
    ]
    if stage.nodes:
        lines.append(f"Logs of kubelets and drivers: {stage.nodes.folder}, and of containers there in NODE/log/pods,")
        lines.append("which kubectl logs does not reach.")
    if stage.address:
        lines.append(f"Health and metrics: {stage.address}/metrics")
    asked = f" --server={stage.api}" if stage.api else ""
    tries = ["dovetail status", "dovetail explain pod/cannot-fit", f"dovetail history{asked}"]
    lines += ["", f"Look at it in a browser: {page}", "Try:", *(f"  {each}" for each in tries)]
    return "\n".join(lines)


def _interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make run", description="Watch Dovetail schedule on a real control plane.")
    parser.add_argument("--nodes", action="store_true", help="`make nodes`: with real kubelets and containers (root)")
    parser.add_argument("--once", action="store_true", help="end when the examples have; non-zero if one did not")
    parser.add_argument("--timeout", type=float, default=120, metavar="SECONDS", help="for the examples (120)")
    parser.add_argument("--folder", type=Path, metavar="DIR", help="keep state and logs here (else temporary)")
    parser.add_argument("--scheduler", choices=SCHEDULERS, default=SCHEDULERS[0], help="which scheduler (dovetail)")
    gates = ("on", "defaults")
    parser.add_argument("--gates", choices=gates, default=gates[0], help="feature gates of the control plane (on)")
    return parser


if __name__ == "__main__":
    sys.exit(main())

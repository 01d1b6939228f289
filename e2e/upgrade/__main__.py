"""The API server is upgraded and rolled back by one minor version while Dovetail schedules."""

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from rich import box
from rich.console import Console
from rich.table import Table

from e2e import audit, dovetail
from e2e.controlplane import build, versions
from e2e.controlplane.access import RequestError
from e2e.controlplane.plane import ControlPlane, KubectlError
from e2e.controlplane.processes import ComponentError
from e2e.upgrade.load import Load, publish

_BEFORE_SECONDS, _AFTER_SECONDS = 5.0, 60.0
WIDTH: Final = 100


@dataclass(frozen=True, slots=True)
class Change:
    """What happened while the server changed its version; times in seconds."""

    before: str
    after: str
    bound: int
    server_away: float
    longest_pause: float
    findings: tuple[str, ...]


def main(arguments: Sequence[str] | None = None) -> int:
    """Go up and down through the versions; 1 when a pod was not bound, Dovetail ended, or the audit found something."""
    options = _parser().parse_args(arguments)
    road = [*options.kubernetes, *reversed(options.kubernetes[:-1])]
    try:
        changes = _changes(road)
    except (build.BuildError, versions.UnknownVersionError, ComponentError, KubectlError, RequestError) as error:
        print(error, file=sys.stderr)
        return 1
    table = Table(box=box.SIMPLE_HEAD)
    for name in ("from", "to"):
        table.add_column(name)
    for name in ("pods bound", "server away", "longest pause", "problems"):
        table.add_column(name, justify="right")
    for each in changes:
        times = (f"{each.server_away:.1f} s", f"{each.longest_pause:.1f} s")
        table.add_row(each.before, each.after, str(each.bound), *times, str(len(each.findings)))
    console = Console(width=WIDTH)
    console.print(table)
    for each in changes:
        for finding in each.findings:
            console.print(f"{each.before} to {each.after}: {finding}", markup=False)
    return int(any(each.findings for each in changes))


def _changes(road: Sequence[str]) -> list[Change]:
    for kubernetes in road:
        build.controlplane_binary(kubernetes)
    with ControlPlane.start(kubernetes=road[0], feature_gates="defaults", kubelet=True) as plane:
        publish(plane)
        log = plane.folder / "dovetail.log"
        with dovetail.Dovetail.start(dovetail.install(plane), log, leader_elect=False) as running:
            return [_change(plane, running, before, after) for before, after in pairwise(road)]


def _change(plane: ControlPlane, running: dovetail.Dovetail, before: str, after: str) -> Change:
    print(f"Kubernetes {before} to {after} …", file=sys.stderr)
    with Load(plane) as load:
        time.sleep(_BEFORE_SECONDS)
        left = time.monotonic()
        plane.change_version(after)
        away = time.monotonic() - left
        time.sleep(_AFTER_SECONDS)
    running.check()
    findings = [f"pod {name} is not bound" for name in load.waiting]
    findings += [str(each) for each in audit.audit(audit.read(plane.request))]
    names = build.release(before), build.release(after)
    return Change(*names, len(load.bound), away, load.longest_pause, tuple(findings))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="measure upgrade", description=__doc__)
    parser.add_argument(
        "kubernetes", nargs="*", default=list(versions.SUPPORTED), help="the versions to go up and down (default: all)"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())

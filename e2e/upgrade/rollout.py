"""
Dovetail is upgraded from an earlier commit and rolled back, with pods that come and go.

Objects of our kinds that a newer version wrote keep all of it, and this version says what it cannot read of them.
"""

import argparse
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rich import box
from rich.console import Console
from rich.table import Table

from e2e import audit
from e2e.audit.history import History
from e2e.audit.reading import Key
from e2e.audit.writes import read_writes
from e2e.checkout import UnknownCommitError, checkout
from e2e.controlplane import build
from e2e.controlplane.plane import REPOSITORY, ControlPlane
from e2e.controlplane.processes import Component, ComponentError
from e2e.dovetail import NAMESPACE, SERVICE_ACCOUNT, Dovetail, install
from e2e.upgrade import newer_kinds
from e2e.upgrade.load import Load, publish

BEFORE: Final = "98471c0"
"""The version before: the last release, or until there is one the commit that was judged last."""
NEW: Final = "this version"
_BEFORE_SECONDS, _AFTER_SECONDS = 8.0, 45.0
_LEFT_SECONDS: Final = 60.0
"""For taking an allocation back after its pods have ended."""
WIDTH: Final = 110

_ENDS: Final[dict[str, Callable[[Dovetail], None]]] = {"ends by SIGTERM": Dovetail.stop, "is killed": Component.stop}


@dataclass(frozen=True, slots=True)
class Handover:
    """What happened while one version took over from another; the pause in seconds."""

    before: str
    after: str
    end: str
    bound: int
    longest_pause: float
    problems: tuple[str, ...]


def main(arguments: Sequence[str] | None = None) -> int:
    """Hand over in both directions; 1 when a pod was not bound or the audits found something."""
    parser = argparse.ArgumentParser(prog="measure rollout", description=__doc__)
    parser.add_argument("commit", nargs="?", default=BEFORE, help="the version before (default: %(default)s)")
    options = parser.parse_args(arguments)
    try:
        handovers, problems = _run(options.commit, checkout(options.commit))
    except (build.BuildError, ComponentError, UnknownCommitError, subprocess.CalledProcessError) as error:
        print(error, file=sys.stderr)
        return 1
    table = Table(box=box.SIMPLE_HEAD)
    for name in ("from", "to", "the leader before"):
        table.add_column(name)
    for name in ("pods bound", "longest pause", "problems"):
        table.add_column(name, justify="right")
    for each in handovers:
        pause = f"{each.longest_pause:.1f} s"
        table.add_row(each.before, each.after, each.end, str(each.bound), pause, str(len(each.problems)))
    console = Console(width=WIDTH)
    console.print(table)
    problems += [f"{each.before} to {each.after}: {problem}" for each in handovers for problem in each.problems]
    for problem in problems:
        console.print(problem, markup=False)
    return int(bool(problems))


def _run(commit: str, home: Path) -> tuple[list[Handover], list[str]]:
    with ControlPlane.start(feature_gates="defaults", kubelet=True, audit_log=True) as plane:
        publish(plane)
        install(plane, "repair")
        newer_kinds.install(plane)
        homes = {commit: home, NEW: REPOSITORY}
        leader, handovers = _start(plane, commit, homes[commit]), list[Handover]()
        try:
            for end in _ENDS:
                for before, after in ((commit, NEW), (NEW, commit)):
                    print(f"{before} to {after}, the leader {end} …", file=sys.stderr)
                    leader, handover = _hand_over(plane, leader, (before, after), homes[after], end)
                    handovers.append(handover)
        finally:
            leader.stop()
        assert plane.audit_log is not None  # as asked for
        with plane.audit_log.open(encoding="utf-8") as lines:
            history = History.of(read_writes(lines), lease=Key(NAMESPACE, "dovetail"), left_seconds=_LEFT_SECONDS)
    return handovers, [str(each) for each in history.findings]


def _hand_over(
    plane: ControlPlane, leader: Dovetail, names: tuple[str, str], home: Path, end: str
) -> tuple[Dovetail, Handover]:
    """Start the other version beside the leader, end the leader, and return the other one."""
    with Load(plane) as load:
        other = _start(plane, names[1], home)
        time.sleep(_BEFORE_SECONDS)
        _ENDS[end](leader)
        time.sleep(_AFTER_SECONDS)
    other.check()
    problems = [f"pod {name} is not bound" for name in load.waiting]
    problems += [str(each) for each in audit.audit(audit.read(plane.request))]
    problems += newer_kinds.problems(plane, leads=names[1] == NEW)
    return other, Handover(*names, end, len(load.bound), load.longest_pause, tuple(problems))


def _start(plane: ControlPlane, name: str, home: Path) -> Dovetail:
    """Start a replica with a token of its own, by which the audit log tells it from the others."""
    kubeconfig = plane.kubeconfig_for_service_account(NAMESPACE, SERVICE_ACCOUNT)
    log = plane.folder / f"dovetail-{name.replace(' ', '-')}.log"
    return Dovetail.start(kubeconfig, log, home=home)


if __name__ == "__main__":
    sys.exit(main())

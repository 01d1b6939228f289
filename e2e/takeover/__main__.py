"""Leaders are killed and stopped amid work, and the audit log says how soon the standby writes."""

import argparse
import concurrent.futures
import os
import signal
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from rich import box
from rich.console import Console
from rich.table import Table

from e2e.arguments import at_least_one
from e2e.audit.history import History
from e2e.audit.reading import Key
from e2e.audit.writes import read_writes
from e2e.controlplane.build import BuildError
from e2e.controlplane.plane import ControlPlane, KubectlError
from e2e.controlplane.processes import ComponentError
from e2e.dovetail import NAMESPACE, SERVICE_ACCOUNT, Dovetail, install
from e2e.takeover.handovers import Handover, handovers
from e2e.upgrade.load import PODS_PATH, pod, publish

LEASE: Final = Key(NAMESPACE, "dovetail")
WIDTH: Final = 110
_AMID: Final = 120
_BEFORE: Final = 20
"""Pods of a turn in which the leader stops, and how many of them are bound by then."""
_WAITING: Final = 4
"""Pods that wait for the standby after a kill: few, so that their decision takes no time."""
_LONGEST_SECONDS: Final = 90.0
_LEFT_SECONDS: Final = 60.0
"""For taking an allocation back after its pods have ended."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run and print the table; 1 where a pod was not bound in time or the audit log shows a broken promise."""
    parser = argparse.ArgumentParser(prog="measure takeover", description=__doc__)
    parser.add_argument("--turns", type=at_least_one, default=10, metavar="N", help="takeovers of each kind (10)")
    options = parser.parse_args(arguments)
    try:
        found, problems = _run(options.turns)
    except (BuildError, ComponentError, KubectlError, TimeoutError) as error:
        print(error, file=sys.stderr)
        return 1
    console = Console(width=WIDTH)
    console.print(_table(found))
    for problem in problems:
        console.print(problem, markup=False)
    return int(bool(problems))


def _table(found: Sequence[Handover]) -> Table:
    table = Table(box=box.SIMPLE_HEAD)
    for name in ("the leader", "counted from"):
        table.add_column(name)
    for name in ("takeovers", "Lease taken: median", "longest", "first write: median", "longest"):
        table.add_column(name, justify="right")
    kinds = (
        ("is killed", "the end of its lease", [each for each in found if not each.is_clean]),
        ("stops (SIGTERM)", "the end of its last write", [each for each in found if each.is_clean]),
    )
    for name, since, of_kind in kinds:
        taken = [each.lease_delay for each in of_kind]
        first = [each.write_delay for each in of_kind if each.first]
        table.add_row(name, since, str(len(of_kind)), *_times(taken), *_times(first))
    return table


def _times(seconds: Sequence[float]) -> tuple[str, str]:
    if not seconds:
        return "", ""
    return f"{statistics.median(seconds):.2f} s", f"{max(seconds):.2f} s"


def _run(turns: int) -> tuple[tuple[Handover, ...], list[str]]:
    with ControlPlane.start(feature_gates="defaults", kubelet=True, audit_log=True) as plane:
        publish(plane)
        install(plane)
        replicas = [_start(plane, 0), _start(plane, 1)]
        try:
            for turn in range(2 * turns):
                print(f"{'killed' if turn % 2 else 'stopped'}, {turn + 1} of {2 * turns} …", file=sys.stderr)
                (_kill if turn % 2 else _stop)(plane, replicas.pop(0))
                replicas.append(_start(plane, turn + 2))
                _clear(plane)
        finally:
            for each in reversed(replicas):  # the standby first: that is no takeover
                each.stop()
        assert plane.audit_log is not None  # as asked for
        with plane.audit_log.open(encoding="utf-8") as lines:
            writes = read_writes(lines)
    found = handovers(writes, LEASE)
    problems = [str(each) for each in History.of(writes, lease=LEASE, left_seconds=_LEFT_SECONDS).findings]
    problems += [f"the Lease was taken {-each.lease_delay:.2f} s before it ended" for each in found if each.is_early]
    return found, problems


def _stop(plane: ControlPlane, leader: Dovetail) -> None:
    """Stop the leader amid a batch: what it has begun to write is finished."""
    _create(plane, _AMID)
    _wait(lambda: _bound(plane) >= _BEFORE)
    leader.stop()
    _wait(lambda: _bound(plane) == _AMID)


def _kill(plane: ControlPlane, leader: Dovetail) -> None:
    """Kill the leader just after a renewal, when its lease has longest to go; pods come at once."""
    before = _renewed(plane)
    _wait(lambda: _renewed(plane) != before)
    os.kill(leader.pid, signal.SIGKILL)
    leader.stop()
    _create(plane, _WAITING)
    _wait(lambda: _bound(plane) == _WAITING)


def _start(plane: ControlPlane, number: int) -> Dovetail:
    """Start a replica with a token of its own, and wait until it leads or stands by."""
    kubeconfig = plane.kubeconfig_for_service_account(NAMESPACE, SERVICE_ACCOUNT)
    replica = Dovetail.start(kubeconfig, plane.folder / f"dovetail-{number}.log")
    _wait(lambda: '"standby"' in replica.log.read_text())
    if not number:
        _wait(lambda: '"leader"' in replica.log.read_text())
    return replica


def _create(plane: ControlPlane, count: int) -> None:
    with concurrent.futures.ThreadPoolExecutor(8) as many:
        list(many.map(lambda number: plane.request("POST", PODS_PATH, pod(f"p{number:03}")), range(count)))


def _clear(plane: ControlPlane) -> None:
    plane.request("DELETE", PODS_PATH)
    _wait(lambda: not _pods(plane))


def _pods(plane: ControlPlane) -> list[Any]:
    items: list[Any] = plane.request("GET", PODS_PATH)["items"]
    return items


def _bound(plane: ControlPlane) -> int:
    return sum("nodeName" in each["spec"] for each in _pods(plane))


def _renewed(plane: ControlPlane) -> str:
    path = f"/apis/coordination.k8s.io/v1/namespaces/{LEASE.namespace}/leases/{LEASE.name}"
    return str(plane.request("GET", path)["spec"]["renewTime"])


def _wait(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + _LONGEST_SECONDS
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(f"not so within {_LONGEST_SECONDS:.0f} s: a pod is not bound, or a replica not ready")
        time.sleep(0.02)


if __name__ == "__main__":
    sys.exit(main())

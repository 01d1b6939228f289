"""
The worker process with a solver that misbehaves on pods of certain names, and is the greedy one on all others.

Run as `python shell_worker.py FD MEMORY_LIMIT_MIB`, as `python -m scheduler.worker` is: FD is a control socket.
"""

import gc
import os
import socket
import sys
import time
from pathlib import Path

from msgspec import structs

from scheduler.worker.__main__ import fork_on_demand
from scheduler.worker.serve import serve
from solver import SolverCache, solve_greedily
from solver.domain import (
    Batch,
    Budget,
    Plan,
    Policy,
    Reason,
    ReasonCode,
    SearchReport,
    SearchStatus,
    Snapshot,
    Undecided,
    UndecidedCause,
    Unplaced,
)

COMMAND = (sys.executable, str(Path(__file__)))

_MIB = 1024 * 1024


def misbehave(
    snapshot: Snapshot, batch: Batch, policy: Policy, budget: Budget, cache: SolverCache | None = None
) -> Plan:
    """Solve, unless a pod of the batch is named after what is to go wrong."""
    names = {pod.id.name for pod in batch.pods}
    if "exit" in names:
        os._exit(9)
    if "hang" in names:
        time.sleep(600)
    if "slow" in names:
        time.sleep(1)
    while "spin" in names:
        pass
    if "raise" in names:
        raise RuntimeError("the solver has a defect")
    if "eat" in names:
        bytearray(1024 * _MIB)
    if "cycles" in names:
        _leave_cycles()
    if "frozen" in names and not (gc.isenabled() and gc.get_freeze_count()):
        raise RuntimeError("the garbage collector traverses replica and caches")
    if "lie" in names:
        return Plan(report=SearchReport(status=SearchStatus.OPTIMAL))
    left = {name: tuple(pod.id for pod in batch.pods if pod.id.name == name) for name in ("fail", "costly", "later")}
    others = batch.without({key for keys in left.values() for key in keys})
    plan = solve_greedily(snapshot, others, policy, budget, cache)
    if budget.may_defer:
        causes = {"costly": UndecidedCause.TOO_COSTLY, "later": UndecidedCause.LATER}
        undecided = tuple(Undecided(key, cause) for name, cause in causes.items() for key in left[name])
        plan = structs.replace(plan, undecided=undecided)
        left = {"fail": left["fail"]}
    unplaced = tuple(
        Unplaced(pod=pod.id, pod_uid=pod.uid, reasons=(Reason(code=_CODES[name], message="as the test wants it"),))
        for name, keys in left.items()
        for pod in batch.pods
        if pod.id in keys
    )
    if "contradict" in names and budget.is_forgiving:
        defect = "ContradictionError: level placed: 4 is below 5"
        plan = structs.replace(plan, report=structs.replace(plan.report, defects=(defect,)))
    return structs.replace(plan, unplaced=(*plan.unplaced, *unplaced))


def _leave_cycles() -> None:
    """Leave twice the memory limit of the tests behind, each part of it in a cycle."""
    for _ in range(1024):
        cycle: list[object] = [bytearray(_MIB // 2), *([] for _ in range(1000))]
        cycle.append(cycle)


_CODES = {"fail": ReasonCode.SOLVER_FAILED, "costly": ReasonCode.TOO_COSTLY, "later": ReasonCode.BUDGET}


if __name__ == "__main__":
    control, memory_limit_mib = socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2])
    fork_on_demand(control, lambda connection: serve(connection, memory_limit_mib, misbehave))

"""
A plan that keeps every rule: solve and check; if a rule is broken, plan greedily for as many pods as possible.

The worker decides so, and while there is no worker the shell. The solver is imported when it is first used: the shell
usually never does.
"""

from collections.abc import Callable
from typing import Final

import msgspec

import solver
from solver.domain import (
    Batch,
    Budget,
    GangId,
    Plan,
    PodId,
    Policy,
    Reason,
    ReasonCode,
    SearchReport,
    SearchStatus,
    Snapshot,
    Unplaced,
    Violation,
)

Solve = Callable[..., Plan]
"""A function with the signature of `solver.solve`."""

_DROPPED: Final = Reason(
    code=ReasonCode.SOLVER_FAILED,
    message="the plan of the batch broke a rule and was dropped; the scheduler tries again",
)


def decide(
    snapshot: Snapshot,
    batch: Batch,
    policy: Policy,
    budget: Budget,
    solve: Solve,
    *,
    cache: "solver.verify.VerifierCache | None" = None,
) -> tuple[Plan | None, tuple[Violation, ...]]:
    """
    Solve and check. A plan that breaks a rule is replaced by a greedy plan for as many pods as possible.

    Give the valid plan, None if there is none, and the violations of the first plan. Pods that the plan
    leaves undecided are not checked. The cache is that of the checks.
    """
    plan = solve(snapshot, batch, policy, budget)
    checked = batch.without(frozenset((*plan.deferred, *plan.over_budget)))
    violations = solver.verify.check(snapshot, checked, plan, policy, cache)
    return (_salvaged(snapshot, batch, policy, budget, cache) if violations else plan), violations


def _salvaged(
    snapshot: Snapshot, batch: Batch, policy: Policy, budget: Budget, cache: "solver.verify.VerifierCache | None"
) -> Plan | None:
    """
    Plan greedily for the whole batch, or else for a half, a quarter and so on, until the plan keeps every rule.

    So one pod whose plan breaks a rule does not block the others. A gang is left out as a whole. Pods that are left out
    are unplaced with the reason SolverFailed. Give None if no pod or gang can be planned, or the time is up.
    """
    plan = solver.solve_greedily(snapshot, batch, policy, budget)
    if not solver.verify.check(snapshot, batch, plan, policy, cache):
        return plan
    first, second = _halves(batch)
    for rest in (second, first) if first and second else ():
        if budget.should_stop():
            break
        found = _salvaged(snapshot, batch.without(rest), policy, budget, cache)
        if found is not None:
            failed = (pod for pod in batch.pods if pod.id in rest)
            dropped = tuple(Unplaced(pod=pod.id, pod_uid=pod.uid, reasons=(_DROPPED,)) for pod in failed)
            return msgspec.structs.replace(found, unplaced=(*found.unplaced, *dropped))
    return None


def _halves(batch: Batch) -> tuple[set[PodId], set[PodId]]:
    """Divide a batch into two halves in order; a gang counts at the position of its first pod and stays whole."""
    units: dict[GangId | PodId, list[PodId]] = {}
    for pod in batch.pods:
        units.setdefault(pod.gang or pod.id, []).append(pod.id)
    first, second = set[PodId](), set[PodId]()
    for number, unit in enumerate(units.values()):
        is_first = number == 0 or (not second and len(first) + len(unit) <= len(batch.pods) // 2)
        (first if is_first else second).update(unit)
    return first, second


def all_failed(batch: Batch, message: str) -> Plan:
    """Return a plan that places no pod, each with the reason SolverFailed."""
    reason = Reason(code=ReasonCode.SOLVER_FAILED, message=message)
    unplaced = tuple(Unplaced(pod=pod.id, pod_uid=pod.uid, reasons=(reason,)) for pod in batch.pods)
    return Plan(unplaced=unplaced, report=SearchReport(status=SearchStatus.FALLBACK))

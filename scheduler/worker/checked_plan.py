"""
A plan that keeps every rule: solve and check; if a rule is broken, plan greedily.

The worker decides so. A batch whose greedy plan breaks a rule, too, has no plan: its pods are suspects, and decided in
isolation, in halves, until the pod that breaks the rule is alone (`scheduler.isolated_lane`). The solver is imported
when it is first used: the shell uses it never or late.
"""

from collections.abc import Callable

import solver
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
    Unplaced,
    Violation,
)

Solve = Callable[..., Plan]
"""A function with the signature of `solver.solve`."""


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
    Give a valid plan, None if there is none, and the violations of the first plan.

    Pods that the plan leaves undecided are not checked. The cache is that of the checks.
    """
    plan = solve(snapshot, batch, policy, budget)
    checked = batch.without(plan.undecided_pods())
    violations = solver.verify.check(snapshot, checked, plan, policy, cache)
    if not violations:
        return plan, ()
    greedy = solver.solve_greedily(snapshot, batch, policy, budget)
    checked = batch.without(greedy.undecided_pods())
    return (None if solver.verify.check(snapshot, checked, greedy, policy, cache) else greedy), violations


def all_failed(batch: Batch, message: str) -> Plan:
    """Return a plan that places no pod, each with the reason SolverFailed."""
    reason = Reason(code=ReasonCode.SOLVER_FAILED, message=message)
    unplaced = tuple(Unplaced(pod=pod.id, pod_uid=pod.uid, reasons=(reason,)) for pod in batch.pods)
    return Plan(unplaced=unplaced, report=SearchReport(status=SearchStatus.FALLBACK))

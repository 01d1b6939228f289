"""
Which running pods would have to end so that waiting pods start, whatever protects them from preemption.

The victims of a preemption in a cluster where nothing protects a pod: priorities, budgets, run times and schedulers are
out, and a claim is freed with its last pod. Gangs end whole.
"""

from collections.abc import Collection
from typing import Final

from msgspec.structs import replace

from solver.domain import (
    FINALIZER,
    SYSTEM_CRITICAL_PRIORITY,
    Batch,
    Budget,
    ClaimId,
    Plan,
    Pod,
    Policy,
    PreemptionRules,
    SearchReport,
    SearchStatus,
    Snapshot,
    Unplaced,
)
from solver.domain.gang import DISRUPT_ALL
from solver.preemption import preempt
from solver.problem.prepare import prepare
from solver.problem.solver_cache import SolverCache

_SCHEDULER: Final = "any"
_LOW: Final = 0
_HIGH: Final = 1


def needed(
    snapshot: Snapshot,
    batch: Batch,
    policy: Policy,
    budget: Budget,
    *,
    cache: SolverCache,
    protected: Collection[ClaimId] = (),
) -> tuple[Pod, ...]:
    """
    Return the fewest running pods that the search finds without which the pods of a batch start; () if there are none.

    Of a gang as many start as must. Pods with a claim in `protected` go on running, and so do those that are critical
    for the cluster.
    """
    kept = frozenset(pod.uid for pod in snapshot.pods if not _may_end(pod, protected))
    cleared = _unprotected(snapshot, kept)
    waiting = tuple(replace(pod, priority=_HIGH, preemption_policy="") for pod in batch.pods)
    rules = PreemptionRules(is_enabled=True, frees_devices=True, scheduler_names=(_SCHEDULER,))
    plain = replace(policy, levels=(), preemption=rules)
    problem = prepare(cleared, replace(batch, pods=waiting), plain, cache)
    nothing = Plan(
        placements=(),
        allocations=(),
        unplaced=tuple(Unplaced(pod=pod.id, pod_uid=pod.uid, reasons=()) for pod in waiting),
        report=SearchReport(status=SearchStatus.FALLBACK),
    )
    found = preempt.add_preemptions(problem, nothing, budget, cache).plan
    ending = {victim.pod for preemption in found.preemptions for victim in preemption.victims}
    return tuple(pod for pod in snapshot.pods if pod.id in ending)


def _may_end(pod: Pod, protected: Collection[ClaimId]) -> bool:
    return pod.priority < SYSTEM_CRITICAL_PRIORITY and not any(claim in protected for claim in pod.claim_ids)


def _unprotected(snapshot: Snapshot, kept: Collection[str]) -> Snapshot:
    """Let every pod be a victim, but for those that are kept, and every claim be freed with its pods."""
    pods = tuple(
        replace(
            pod,
            priority=_HIGH if pod.uid in kept else _LOW,
            scheduler_name=_SCHEDULER,
            is_preemptible=pod.uid not in kept,
        )
        for pod in snapshot.pods
    )
    claims = tuple(
        replace(claim, finalizers=tuple(dict.fromkeys((*claim.finalizers, FINALIZER))))
        if claim.allocation is not None and FINALIZER not in claim.finalizers
        else claim
        for claim in snapshot.claims
    )
    gangs = tuple(replace(gang, priority=None, disruption=DISRUPT_ALL) for gang in snapshot.gangs)
    return replace(snapshot, pods=pods, claims=claims, gangs=gangs, budgets=(), leaving=(), nominated=())

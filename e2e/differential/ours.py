"""Dovetail, asked for the whole set of nodes that can take a pod: the API server's objects, decoders, core, check."""

import asyncio
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Final

from e2e.differential.peer import Verdict
from scheduler.change import Change
from scheduler.cluster import Cluster
from scheduler.kube.access import ClusterAccess
from scheduler.simulation import live_cluster
from scheduler.status.conditions import condition_message
from solver import SolverCache, feasible_nodes, solve
from solver.domain import Batch, Budget, Pod, Policy, Snapshot
from solver.verify import check

SECONDS: Final = 60.0
DETERMINISTIC_SECONDS: Final = 5.0


class DefectError(AssertionError):
    """Dovetail contradicts itself: a plan that its own check refuses, or a node that it does not decide about."""


async def verdicts(
    kubeconfig: Path, uids: Iterable[str], policy: Policy, workers: ProcessPoolExecutor
) -> dict[str, Verdict]:
    """Give the verdicts on the pods with these uids, as the API server has the cluster now, by uid."""
    found = await asyncio.to_thread(live_cluster.fetch, ClusterAccess(kubeconfig))
    if found.warnings:
        raise DefectError("; ".join(found.warnings))
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(workers, judge, found.changes, frozenset(uids), policy)


def judge(changes: tuple[Change, ...], uids: frozenset[str], policy: Policy) -> dict[str, Verdict]:
    """Judge each of the pods alone; an error is a defect of Dovetail."""
    cluster, engine = Cluster(), SolverCache()
    for change in changes:
        cluster.apply(change)
    snapshot = cluster.snapshot()
    pods = [each.value for each in changes if isinstance(each.value, Pod) and each.value.uid in uids]
    return {pod.uid: _judge(snapshot, pod, policy, engine) for pod in pods}


def _judge(snapshot: Snapshot, pod: Pod, policy: Policy, engine: SolverCache) -> Verdict:
    try:
        return _verdict(snapshot, pod, policy, engine)
    except DefectError as error:
        return Verdict(frozenset(), f"contradicts itself: {error}", is_error=True)


def _verdict(snapshot: Snapshot, pod: Pod, policy: Policy, engine: SolverCache) -> Verdict:
    if pod.scheduling_gates:  # the queue keeps it, the solver never sees it
        return Verdict(frozenset(), "it has scheduling gates")
    budget = Budget(seconds=SECONDS, deterministic_seconds=DETERMINISTIC_SECONDS)
    found = feasible_nodes(snapshot, pod, policy, budget, engine)
    if found.undecided:
        raise DefectError(f"{pod.id}: undecided about {', '.join(found.undecided)}")
    for node, plan in found.plans.items():
        violations = check(snapshot, Batch(pods=(pod,)), plan, policy)
        if violations:
            raise DefectError(f"{pod.id} on {node}: the plan breaks a rule: {violations}")
    return Verdict(found.nodes, _why(snapshot, pod, policy, engine, found.nodes))


def _why(snapshot: Snapshot, pod: Pod, policy: Policy, engine: SolverCache, nodes: frozenset[str]) -> str:
    """Say what the pod's condition says; `solve` must place the pod exactly where there are nodes for it."""
    budget = Budget(seconds=SECONDS, deterministic_seconds=DETERMINISTIC_SECONDS)
    plan = solve(snapshot, Batch(pods=(pod,)), policy, budget, engine)
    chosen = {each.node for each in plan.placements}
    if bool(chosen) != bool(nodes) or not chosen <= nodes:
        raise DefectError(f"{pod.id}: can run on {sorted(nodes)}, and is placed on {sorted(chosen)}")
    return "".join(condition_message(lost.reasons, plan.report.node_count or 0) for lost in plan.unplaced)

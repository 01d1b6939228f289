"""Running pods with and without devices, possible victims, and the least harm by trying every set of them."""

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Final

from msgspec.structs import replace

from solver import solve
from solver.domain import (
    Batch,
    Budget,
    Claim,
    GangId,
    LabelRequirement,
    LabelSelector,
    Plan,
    Pod,
    PodDisruptionBudget,
    PodId,
    Policy,
    PreemptionRules,
    Snapshot,
)
from tests.support import builders as b
from tests.support.bruteforce import best

FINALIZER: Final = "resource.kubernetes.io/delete-protection"
NOW: Final = 100_000
RULES: Final = PreemptionRules(is_enabled=True, scheduler_names=("dovetail",), now=NOW)
DEVICES: Final = replace(RULES, frees_devices=True)

Harm = tuple[tuple[int, ...], int, int]
"""Pods evicted by priority, the highest first; parties; seconds of work."""


def decide(snapshot: Snapshot, *pods: Pod, rules: PreemptionRules = RULES) -> Plan:
    """Solve for these pods, in queue order."""
    batch = Batch(pods=tuple(sorted(pods, key=lambda pod: -pod.priority)))
    return solve(snapshot, batch, Policy(preemption=rules), Budget(seconds=60.0, deterministic_seconds=10.0))


def running(name: str, node: str, *claims: str, priority: int = 0, seconds: int = 1000, **more: object) -> Pod:
    """A pod that runs on a node, for so many seconds."""
    pod = b.pod(name, *claims, node_name=node, priority=priority, **more)  # type: ignore[arg-type]  # as the caller has it
    return replace(pod, started=NOW - seconds)


def holding(name: str, node: str, *devices: str, consumers: Sequence[str] = (), **more: object) -> Claim:
    """A claim that holds devices of a node, reserved for the pods of these names (its own, by default)."""
    results = tuple(b.result("gpu", each, node) for each in devices)
    held = b.held(name, *results, node_name=node)
    reserved = tuple(b.consumer(each) for each in consumers or (name,))
    return replace(held, reserved_for=reserved, finalizers=(FINALIZER,), **more)


def disruption_budget(name: str, allowed: int, **labels: str) -> PodDisruptionBudget:
    """A budget over pods with these labels."""
    requirements = tuple(LabelRequirement(key=key, operator="In", values=(value,)) for key, value in labels.items())
    selector = LabelSelector(requirements=requirements)
    return PodDisruptionBudget(namespace=b.NAMESPACE, name=name, selector=selector, allowed=allowed)


def victims(plan: Plan) -> list[str]:
    """The names of all victims, sorted."""
    return sorted(victim.pod.name for each in plan.preemptions for victim in each.victims)


def gone(snapshot: Snapshot, names: frozenset[PodId]) -> Snapshot:
    """The cluster without some pods, and without the allocations that no other pod keeps."""
    uids = {pod.uid for pod in snapshot.pods if pod.id in names}
    claims = []
    for claim in snapshot.claims:
        left = tuple(each for each in claim.reserved_for if each.uid not in uids)
        is_free = claim.allocation is not None and claim.reserved_for and not left and FINALIZER in claim.finalizers
        claims.append(replace(claim, reserved_for=left, allocation=None if is_free else claim.allocation))
    return replace(snapshot, pods=tuple(pod for pod in snapshot.pods if pod.id not in names), claims=tuple(claims))


def least_harm(snapshot: Snapshot, pod: Pod, rules: PreemptionRules) -> Harm | None:
    """The least harm that makes a pod fit, by trying every set of parties; None where none does."""
    helped, harm = least_harm_for_most(snapshot, (pod,), rules)
    return harm if helped else None


def least_harm_for_most(snapshot: Snapshot, pods: Sequence[Pod], rules: PreemptionRules) -> tuple[int, Harm]:
    """How many pods of one priority can be helped, and the least harm that does so, by trying every set of parties."""
    parties = list(_parties(snapshot, pods[0], rules))
    tiers = sorted({each.priority for each in snapshot.pods}, reverse=True)
    found: list[tuple[int, Harm]] = []
    for size in range(len(parties) + 1):
        for chosen in combinations(parties, size):
            gone_pods = [each for party in chosen for each in party]
            if not _is_allowed(snapshot, gone_pods) or not _is_sound(snapshot, gone_pods):
                continue
            if len(gone_pods) > rules.most_victims:
                continue
            left = gone(snapshot, frozenset(each.id for each in gone_pods))
            if not rules.frees_devices:
                left = replace(left, claims=snapshot.claims)
            (helped,) = best(left, Batch(pods=tuple(pods))).counts
            counts = tuple(sum(each.priority == tier for each in gone_pods) for tier in tiers)
            seconds = sum(rules.now - each.started for each in gone_pods if each.started)
            found.append((-helped, (counts, _units(snapshot, gone_pods), seconds)))
    helped, harm = min(found)
    return -helped, harm


def harm_of(snapshot: Snapshot, plan: Plan) -> Harm:
    """What a plan's victims come to."""
    by_id = {pod.id: pod for pod in snapshot.pods}
    pods = [by_id[victim.pod] for each in plan.preemptions for victim in each.victims]
    tiers = sorted({each.priority for each in snapshot.pods}, reverse=True)
    seconds = sum(NOW - each.started for each in pods if each.started)
    return tuple(sum(each.priority == tier for each in pods) for tier in tiers), _units(snapshot, pods), seconds


def _units(snapshot: Snapshot, pods: Sequence[Pod]) -> int:
    """Count the victims; a gang that goes whole is one."""
    alone = [pod for pod in pods if pod.gang is None]
    count = len(alone)
    for gang in {pod.gang for pod in pods if pod.gang is not None}:
        going, there = (sum(pod.gang == gang for pod in some) for some in (pods, snapshot.pods))
        count += 1 if going == there else going
    return count


def _is_sound(snapshot: Snapshot, pods: Sequence[Pod]) -> bool:
    """Whether each gang keeps what it needs, or goes whole."""
    for gang in {pod.gang for pod in pods if pod.gang is not None}:
        going, there = (sum(pod.gang == gang for pod in some) for some in (pods, snapshot.pods))
        if 0 < there - going < _need(snapshot, gang, there):
            return False
    return True


def _need(snapshot: Snapshot, gang: GangId, there: int) -> int:
    facts = [each for each in snapshot.gangs if each.id == gang]
    return min(facts[0].min_count, there) if facts else there


def _parties(snapshot: Snapshot, pod: Pod, rules: PreemptionRules) -> Iterator[list[Pod]]:
    grouped: dict[object, list[Pod]] = {}
    for each in snapshot.pods:
        together = each.gang is not None and _need(snapshot, each.gang, 1 << 20) == 1 << 20
        grouped.setdefault(each.gang if together else each.id, []).append(each)
    for pods in grouped.values():
        if all(_may_go(snapshot, each, pod, rules) for each in pods):
            yield pods


def _may_go(snapshot: Snapshot, victim: Pod, pod: Pod, rules: PreemptionRules) -> bool:
    budgets = sum(each.selects(victim.id.namespace, dict(victim.labels)) for each in snapshot.budgets)
    return (
        victim.priority < pod.priority
        and victim.is_preemptible
        and budgets <= 1
        and (victim.scheduler_name in rules.scheduler_names)
    )


def _is_allowed(snapshot: Snapshot, pods: Sequence[Pod]) -> bool:
    return all(
        sum(budget.selects(pod.id.namespace, dict(pod.labels)) for pod in pods) <= budget.allowed
        for budget in snapshot.budgets
    )

"""
Preemptions: the victims may go, no more than may, and the pods that wait for it fit then.

Each preemption is judged in the cluster as it will be: with what the plan places, without who leaves anyway, and after
the preemptions before it. That the pods fit is the whole check once more, on that cluster without the victims.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from msgspec.structs import replace

from solver.domain import (
    Allocation,
    Batch,
    Claim,
    ClaimAllocation,
    ClaimId,
    ConsumerReference,
    DisruptionBudget,
    Placement,
    Plan,
    Pod,
    PodId,
    Policy,
    Preemption,
    Protection,
    SearchReport,
    SearchStatus,
    Snapshot,
    Violation,
    with_node_allocatable,
)
from solver.verify.violations import Rule, broken

Check = Callable[[Snapshot, Batch, Plan, Policy], tuple[Violation, ...]]
_PROTECTION: Final = "resource.kubernetes.io/delete-protection"
"""The claim controller deallocates a claim without consumers only if this finalizer is set."""
_ALONE: Final = "Pod"
_WHOLE: Final = "PodGroup"
"""Values of a PodGroup's spec.disruptionMode."""


def violations(snapshot: Snapshot, batch: Batch, plan: Plan, policy: Policy, check: Check) -> Iterator[Violation]:
    """Check every preemption of a plan; `check` is the whole check."""
    if not plan.preemptions:
        return
    pods = {pod.id: pod for pod in batch.pods}
    left = _without(snapshot, _leaving(snapshot), frees=True)
    left = _placed(left, pods, plan.placements, plan.allocations)
    unplaced = {each.pod for each in plan.unplaced}
    shields = _Shields(snapshot.budgets)
    yield from _counted(plan.preemptions, policy)
    for preemption in plan.preemptions:
        preemptors = tuple(pods[each.pod] for each in preemption.placements if each.pod in pods)
        for placement in preemption.placements:
            if placement.pod not in unplaced:
                yield broken(Rule.PREEMPTOR, placement.pod, "it does not wait, and others are to make room for it")
        for pod in preemptors:
            if preemption.victims and (pod.preemption_policy == "Never" or not policy.preemption.is_enabled):
                yield broken(Rule.PREEMPTOR, pod.id, "it may have nobody evicted")
        yield from _victims(left, preemption, preemptors, policy, shields)
        named = {(each.pod, each.pod_uid, each.node) for each in preemption.victims}
        gone = {pod.id for pod in left.pods if (pod.id, pod.uid, pod.node_name) in named}
        left = _without(left, gone, frees=policy.preemption.frees_devices)
        if not preemption.victims and any(pod.nominated_node_name for pod in preemptors):
            left = _given_back(left, batch)
        yield from _fits(left, batch, preemption, policy, check)
        left = _placed(left, pods, preemption.placements, preemption.allocations)


def _counted(preemptions: Sequence[Preemption], policy: Policy) -> Iterator[Violation]:
    victims = [victim.pod for each in preemptions for victim in each.victims]
    if len(victims) > policy.preemption.most_victims:
        message = f"{len(victims)} pods are evicted, {policy.preemption.most_victims} may be"
        yield broken(Rule.VICTIM_COUNT, victims[-1], message)
    preemptors = [placement.pod for each in preemptions for placement in each.placements]
    for pod, count in (*Counter(victims).items(), *Counter(preemptors).items()):
        if count > 1:
            yield broken(Rule.PREEMPTION_TWICE, pod, f"it is in {count} preemptions")


def _victims(
    left: Snapshot, preemption: Preemption, preemptors: Sequence[Pod], policy: Policy, shields: "_Shields"
) -> Iterator[Violation]:
    named = {victim.pod for victim in preemption.victims}
    running = {pod.id: pod for pod in left.pods if pod.id in named}
    found: list[Pod] = []
    for victim in preemption.victims:
        pod = running.get(victim.pod)
        if pod is None or (pod.uid, pod.node_name) != (victim.pod_uid, victim.node):
            yield broken(Rule.VICTIM_UNKNOWN, victim.pod, f"no such pod runs on {victim.node}")
            continue
        found.append(pod)
        yield from _victim(left, pod, preemptors, policy)
    binding = _binding(preemptors, policy)
    if binding.gangs:
        yield from _gangs(left, found)
    if binding.budgets:
        yield from _budgets(left, found, shields)
    for victim in preemption.victims if binding.budgets else ():
        if victim.breaks_budgets:
            yield broken(Rule.VICTIM_BUDGET, victim.pod, "it would be deleted whatever its PodDisruptionBudgets allow")


def _binding(preemptors: Sequence[Pod], policy: Policy) -> Protection:
    """Say what protects pods from all of some preemptors."""
    rules = policy.preemption
    if preemptors and min(pod.priority for pod in preemptors) >= rules.binds_below:
        return Protection(annotation=False, budgets=False, gangs=False, minimum_run=False)
    return rules.protection


def _gangs(left: Snapshot, found: Sequence[Pod]) -> Iterator[Violation]:
    """Demand that of a gang whose pods are evicted enough stay, or none."""
    gone = {pod.id for pod in found}
    hit = {pod.gang for pod in found if pod.gang is not None}
    if not hit:
        return
    known = {each.id: each for each in left.gangs}
    for gang in sorted(hit):
        there = [pod for pod in left.pods if pod.gang == gang]
        staying = [pod for pod in there if pod.id not in gone]
        if not staying:
            continue
        facts = known.get(gang)
        if facts is None or facts.is_absent or facts.disruption == _WHOLE:
            yield broken(Rule.VICTIM_GANG, staying[0].id, f"it stays, and others of its gang {gang} are evicted")
        elif facts.disruption != _ALONE and len(staying) < min(facts.min_count, len(there)):
            message = f"{len(staying)} of its gang {gang} stay, and {min(facts.min_count, len(there))} have to"
            yield broken(Rule.VICTIM_GANG, staying[0].id, message)


def _victim(left: Snapshot, pod: Pod, preemptors: Sequence[Pod], policy: Policy) -> Iterator[Violation]:
    rules = policy.preemption
    if any(pod.priority >= each.priority for each in preemptors):
        yield broken(Rule.VICTIM_PRIORITY, pod.id, f"its priority {pod.priority} is not below that of who needs room")
    if pod.scheduler_name not in rules.scheduler_names:
        yield broken(Rule.VICTIM_NOT_OWNED, pod.id, f"it belongs to scheduler {pod.scheduler_name}")
    binding = _binding(preemptors, policy)
    if binding.annotation and not pod.is_preemptible:
        yield broken(Rule.VICTIM_PROTECTED, pod.id, "its annotation says that it is not to be evicted")
    ran = rules.now - pod.started if pod.started else 0
    if binding.minimum_run and ran < rules.minimum_run_seconds and _holds_devices(left, pod):
        message = f"it holds devices for {ran} s, {rules.minimum_run_seconds} s are its due"
        yield broken(Rule.VICTIM_PROTECTED, pod.id, message)


def _holds_devices(left: Snapshot, pod: Pod) -> bool:
    return any(
        claim.allocation is not None and any(each.uid == pod.uid for each in claim.reserved_for)
        for claim in left.claims
    )


class _Shields:
    """Finds the budgets that select a pod; pods of one namespace with the same labels are put to them once."""

    def __init__(self, budgets: Sequence[DisruptionBudget]) -> None:
        self._by_namespace: defaultdict[str, list[tuple[int, DisruptionBudget]]] = defaultdict(list)
        for position, budget in enumerate(budgets):
            self._by_namespace[budget.namespace].append((position, budget))
        self._known: dict[tuple[str, tuple[tuple[str, str], ...]], list[int]] = {}

    def over(self, pod: Pod) -> list[int]:
        """Give their positions, which stay the same however many evictions they still allow."""
        key = (pod.id.namespace, pod.labels)
        if key not in self._known:
            known, labels = self._by_namespace.get(pod.id.namespace, ()), dict(pod.labels)
            self._known[key] = [position for position, each in known if each.selects(pod.id.namespace, labels)]
        return self._known[key]


def _budgets(left: Snapshot, found: Sequence[Pod], shields: _Shields) -> Iterator[Violation]:
    used: Counter[int] = Counter()
    for pod in found:
        over = shields.over(pod)
        used.update(over)
        if len(over) > 1 or any(left.budgets[each].is_stale for each in over):
            yield broken(Rule.VICTIM_BUDGET, pod.id, "several PodDisruptionBudgets select it, or one not read yet")
    for each, count in used.items():
        budget = left.budgets[each]
        if count > budget.allowed:
            message = f"{count} of its pods are evicted, it allows {budget.allowed}"
            yield broken(Rule.VICTIM_BUDGET, f"{budget.namespace}/{budget.name}", message)


def _fits(left: Snapshot, batch: Batch, preemption: Preemption, policy: Policy, check: Check) -> Iterator[Violation]:
    wanted = {each.pod for each in preemption.placements}
    pods = tuple(pod for pod in batch.pods if pod.id in wanted)
    plan = Plan(
        placements=preemption.placements,
        allocations=preemption.allocations,
        report=SearchReport(status=SearchStatus.FEASIBLE),
    )
    for violation in check(left, Batch(pods=pods, gangs=batch.gangs_of(pods)), plan, policy):
        yield broken(Rule.PREEMPTION_FIT, violation.subject, f"{violation.rule}: {violation.message}")


def _leaving(snapshot: Snapshot) -> set[PodId]:
    return {pod.id for pod in snapshot.pods if pod.is_deleting} | set(snapshot.leaving)


def _without(snapshot: Snapshot, gone: set[PodId], *, frees: bool) -> Snapshot:
    """Take pods away, and the allocations that nobody is left for: of no group, and with the finalizer."""
    evicted = [pod for pod in snapshot.pods if pod.id in gone]
    if not evicted:
        return snapshot
    uids = {pod.uid for pod in evicted}
    claims = tuple(_bereft(claim, uids) if frees and claim.reserved_for else claim for claim in snapshot.claims)
    evicted = [pod for pod in evicted if not pod.is_deleting]
    labels: defaultdict[str, list[dict[str, str]]] = defaultdict(list)
    for pod in evicted:
        labels[pod.id.namespace].append(dict(pod.labels))
    budgets = tuple(_spent(each, labels.get(each.namespace, ())) for each in snapshot.budgets)
    pods = tuple(pod for pod in snapshot.pods if pod.id not in gone)
    return replace(snapshot, pods=pods, claims=claims, budgets=budgets)


def _spent(budget: DisruptionBudget, evicted: Sequence[dict[str, str]]) -> DisruptionBudget:
    """Count the evicted of its namespace that a budget selects; one that allows none anyway stays as it is."""
    if not evicted or budget.allowed <= 0:
        return budget
    return replace(budget, allowed=budget.allowed - sum(budget.selects(budget.namespace, each) for each in evicted))


def _bereft(claim: Claim, uids: set[str]) -> Claim:
    """Take consumers from a claim, and its allocation where nobody is left for it."""
    for each in claim.reserved_for:
        if each.uid in uids and each.resource == "pods":
            break
    else:
        return claim
    rest = tuple(each for each in claim.reserved_for if each.resource != "pods" or each.uid not in uids)
    if rest or _PROTECTION not in claim.finalizers:
        return replace(claim, reserved_for=rest)
    return replace(claim, reserved_for=(), allocation=None, device_status=())


def _given_back(snapshot: Snapshot, batch: Batch) -> Snapshot:
    """Take allocations away whose consumers are gone: who waits for their devices evicts nobody else meanwhile."""
    alive = {pod.uid for pod in (*snapshot.pods, *batch.pods)}
    claims = tuple(
        _bereft(claim, {each.uid for each in claim.reserved_for} - alive) if claim.reserved_for else claim
        for claim in snapshot.claims
    )
    return replace(snapshot, claims=claims)


def _placed(
    snapshot: Snapshot, pods: dict[PodId, Pod], placements: Iterable[Placement], made: Iterable[ClaimAllocation]
) -> Snapshot:
    """Count placements as running, with their claims."""
    allocations: dict[ClaimId, Allocation] = {each.claim: each.allocation for each in made}
    claims: dict[ClaimId, Claim] = {claim.id: claim for claim in snapshot.claims}
    seated = {pod.id: pod for pod in snapshot.pods}
    for placement in placements:
        pod = pods.get(placement.pod)
        if pod is None:
            continue
        if placement.extended_resource_claim is not None:
            claims[placement.extended_resource_claim.id] = placement.extended_resource_claim.as_claim(pod.uid)
        requests = tuple(each for each in pod.requests if each[0] not in placement.dra_resources)
        seated[pod.id] = with_node_allocatable(
            replace(pod, node_name=placement.node, requests=requests), placement.node_allocatable
        )
        consumer = ConsumerReference.of(pod.id, pod.uid)
        for key in placement.claims:
            claim = claims.get(key)
            if claim is not None:
                allocation = claim.allocation if claim.allocation is not None else allocations.get(key)
                claims[key] = replace(claim, allocation=allocation, reserved_for=(*claim.reserved_for, consumer))
    order = tuple(seated[key] for key in sorted(seated))
    return replace(snapshot, pods=order, claims=tuple(claims[key] for key in sorted(claims)))

"""
Preemption and node reservations: victims may be evicted, their preemptors fit then, and reserved nodes stay free.

Each preemption is checked in a future cluster: with the plan's placements, without terminating pods, and after the
previous preemptions. The check that the preemptors fit is the whole check again, in this cluster without the victims.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence

from msgspec.structs import replace

from solver.domain import (
    FINALIZER,
    NEVER_PREEMPT,
    Allocation,
    Batch,
    Claim,
    ClaimAllocation,
    ClaimId,
    ConsumerReference,
    NodeReservation,
    Placement,
    Plan,
    Pod,
    PodDisruptionBudget,
    PodId,
    Policy,
    Preemption,
    Protection,
    ReasonCode,
    SearchReport,
    SearchStatus,
    Snapshot,
    Unplaced,
    Violation,
    open_seats,
    with_node_allocatable,
)
from solver.domain.gang import DISRUPT_ALL, DISRUPT_SINGLE
from solver.verify.plan_context import PlanContext
from solver.verify.quotas.reclaims import ReclaimCheck
from solver.verify.violations import Rule, broken

Check = Callable[[Snapshot, Batch, Plan, Policy], tuple[Violation, ...]]


def violations(snapshot: Snapshot, batch: Batch, plan: Plan, policy: Policy, check: Check) -> Iterator[Violation]:
    """Check every preemption of a plan; `check` is the check of placements."""
    if not plan.preemptions:
        return
    pods = {pod.id: pod for pod in batch.pods}
    leaving = {pod.id for pod in snapshot.pods if pod.is_deleting} | set(snapshot.leaving)
    left = _without(snapshot, leaving, frees=True)
    arrived, made = plan.placements, plan.allocations
    unplaced = {each.pod for each in plan.unplaced}
    kept = frozenset(each.pod for each in plan.unplaced if _is_kept_by_quota(each)) if snapshot.quotas else frozenset()
    budgets, reclaim_check = _BudgetIndex(snapshot.budgets), ReclaimCheck(snapshot)
    yield from _counted(plan.preemptions, policy)
    for preemption in plan.preemptions:
        left = _placed(left, pods, arrived, made)
        preemptors = tuple(pods[each.pod] for each in preemption.placements if each.pod in pods)
        for placement in preemption.placements:
            if placement.pod not in unplaced:
                yield broken(Rule.PREEMPTOR, placement.pod, "it does not wait, and pods are evicted for it")
        for pod in preemptors:
            if preemption.victims and (pod.preemption_policy == NEVER_PREEMPT or not policy.preemption.is_enabled):
                yield broken(Rule.PREEMPTOR, pod.id, "it must not preempt other pods")
        yield from _victims(left, preemption, preemptors, policy, (budgets, reclaim_check))
        yield from _delayed(preemption, preemptors, batch, policy, kept)
        named = {(each.pod, each.pod_uid, each.node) for each in preemption.victims}
        victims = {each.pod for each in preemption.victims}
        there = (pod for pod in left.pods if pod.id in victims)
        gone = {pod.id for pod in there if (pod.id, pod.uid, pod.node_name) in named}
        left = _without(left, gone, frees=policy.preemption.frees_devices)
        if not preemption.victims and any(pod.nominated_node_name for pod in preemptors):
            left = _deallocated(left, batch)
        yield from _fits(left, batch, preemption, policy, check)
        arrived, made = preemption.placements, preemption.allocations


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
    left: Snapshot,
    preemption: Preemption,
    preemptors: Sequence[Pod],
    policy: Policy,
    of_plan: tuple["_BudgetIndex", ReclaimCheck],
) -> Iterator[Violation]:
    budgets, reclaim_check = of_plan
    named = {victim.pod for victim in preemption.victims}
    running = {pod.id: pod for pod in left.pods if pod.id in named}
    of_gangs = {each.id: each.priority for each in left.gangs if each.priority is not None}
    found: list[Pod] = []
    reclaimed: list[Pod] = []
    for victim in preemption.victims:
        pod = running.get(victim.pod)
        if pod is None or (pod.uid, pod.node_name) != (victim.pod_uid, victim.node):
            yield broken(Rule.VICTIM_UNKNOWN, victim.pod, f"no such pod runs on {victim.node}")
            continue
        found.append(pod)
        priority = of_gangs.get(pod.gang, pod.priority) if pod.gang is not None else pod.priority
        is_reclaimed = policy.preemption.reclaims and all(priority == each.priority for each in preemptors)
        if is_reclaimed:
            reclaimed.append(pod)
        elif any(priority >= each.priority for each in preemptors):
            yield broken(Rule.VICTIM_PRIORITY, pod.id, f"its priority {priority} is not below that of its preemptor")
        yield from _victim(left, pod, preemptors, policy, is_reclaimed=is_reclaimed)
    if reclaimed:
        yield from reclaim_check.violations(left, preemption, preemptors, reclaimed)
    binding = _binding(preemptors, policy)
    if binding.gangs:
        yield from _gangs(left, found)
    if binding.budgets:
        yield from _budgets(left, found, budgets)
    for victim in preemption.victims if binding.budgets else ():
        if victim.breaks_budgets:
            yield broken(Rule.VICTIM_BUDGET, victim.pod, "it would be deleted whatever its PodDisruptionBudgets allow")


def _binding(preemptors: Sequence[Pod], policy: Policy) -> Protection:
    """Return the protection of pods from these preemptors."""
    rules = policy.preemption
    if preemptors and min(pod.priority for pod in preemptors) >= rules.binds_below:
        return Protection(annotation=False, budgets=False, gangs=False, minimum_run=False)
    return rules.protection


def _gangs(left: Snapshot, found: Sequence[Pod]) -> Iterator[Violation]:
    """Check that enough pods of a gang stay, or none."""
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
        if facts is None or facts.is_absent or facts.disruption == DISRUPT_ALL:
            yield broken(Rule.VICTIM_GANG, staying[0].id, f"it stays, and others of its gang {gang} are evicted")
        elif facts.disruption != DISRUPT_SINGLE and len(staying) < min(facts.min_count, len(there)):
            message = f"{len(staying)} of its gang {gang} stay, and {min(facts.min_count, len(there))} have to"
            yield broken(Rule.VICTIM_GANG, staying[0].id, message)


def _is_kept_by_quota(unplaced: Unplaced) -> bool:
    return any(each.code is ReasonCode.QUOTA_EXCEEDED for each in unplaced.reasons)


def _delayed(
    preemption: Preemption, preemptors: Sequence[Pod], batch: Batch, policy: Policy, kept: frozenset[PodId]
) -> Iterator[Violation]:
    """Check that preemptors have waited, but for those in `kept`, which wait for a quota and for no node."""
    rules, waits = policy.preemption, dict(batch.preemption_waits)
    is_bound = rules.delay_seconds and _binding(preemptors, policy).minimum_run
    is_chosen = any(each.nominated_node_name and each.uid not in waits for each in preemptors)
    if not (preemption.victims and is_bound) or is_chosen:
        return
    for pod in preemptors:
        waited = waits.get(pod.uid, 0)
        if waited < rules.delay_seconds and pod.id not in kept:
            message = f"pods are evicted for it after {waited} s, before the delay of {rules.delay_seconds} s"
            yield broken(Rule.PREEMPTOR, pod.id, message)


def _victim(
    left: Snapshot, pod: Pod, preemptors: Sequence[Pod], policy: Policy, *, is_reclaimed: bool
) -> Iterator[Violation]:
    rules = policy.preemption
    if pod.scheduler_name not in rules.scheduler_names:
        yield broken(Rule.VICTIM_NOT_OWNED, pod.id, f"it belongs to scheduler {pod.scheduler_name}")
    binding = _binding(preemptors, policy)
    if binding.annotation and not pod.is_preemptible:
        yield broken(Rule.VICTIM_PROTECTED, pod.id, "its annotation forbids eviction")
    ran = rules.now - pod.started if pod.started else 0
    least = rules.reclaim_minimum_run_seconds if is_reclaimed else rules.minimum_run_seconds
    if binding.minimum_run and ran < least and _holds_devices(left, pod):
        message = f"it has used devices for {ran} s, less than the minimum of {least} s"
        yield broken(Rule.VICTIM_PROTECTED, pod.id, message)


def _holds_devices(left: Snapshot, pod: Pod) -> bool:
    return any(
        claim.allocation is not None and any(each.uid == pod.uid for each in claim.reserved_for)
        for claim in left.claims
    )


class _BudgetIndex:
    """The PodDisruptionBudgets that select a pod; cached by namespace and labels."""

    def __init__(self, budgets: Sequence[PodDisruptionBudget]) -> None:
        self._by_namespace: defaultdict[str, list[tuple[int, PodDisruptionBudget]]] = defaultdict(list)
        for position, budget in enumerate(budgets):
            self._by_namespace[budget.namespace].append((position, budget))
        self._known: dict[tuple[str, tuple[tuple[str, str], ...]], list[int]] = {}

    def over(self, pod: Pod) -> list[int]:
        """Return the positions of the budgets that select a pod."""
        key = (pod.id.namespace, pod.labels)
        if key not in self._known:
            known, labels = self._by_namespace.get(pod.id.namespace, ()), dict(pod.labels)
            self._known[key] = [position for position, each in known if each.selects(pod.id.namespace, labels)]
        return self._known[key]


def _budgets(left: Snapshot, found: Sequence[Pod], budgets: _BudgetIndex) -> Iterator[Violation]:
    used: Counter[int] = Counter()
    for pod in found:
        over = budgets.over(pod)
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
    for violation in check(left, replace(batch, pods=pods, gangs=batch.gangs_of(pods)), plan, policy):
        yield broken(Rule.PREEMPTION_FIT, violation.subject, f"{violation.rule}: {violation.message}")


def _without(snapshot: Snapshot, gone: set[PodId], *, frees: bool) -> Snapshot:
    """Remove pods, and deallocate claims without other consumers, if they have the finalizer."""
    evicted = [pod for pod in snapshot.pods if pod.id in gone]
    if not evicted:
        return snapshot
    uids = {pod.uid for pod in evicted}
    claims = tuple(
        _without_consumers(claim, uids) if frees and claim.reserved_for else claim for claim in snapshot.claims
    )
    evicted = [pod for pod in evicted if not pod.is_deleting]
    labels: defaultdict[str, list[dict[str, str]]] = defaultdict(list)
    for pod in evicted:
        labels[pod.id.namespace].append(dict(pod.labels))
    budgets = tuple(_charged(each, labels.get(each.namespace, ())) for each in snapshot.budgets)
    pods = tuple(pod for pod in snapshot.pods if pod.id not in gone)
    return replace(snapshot, pods=pods, claims=claims, budgets=budgets)


def _charged(budget: PodDisruptionBudget, evicted: Sequence[dict[str, str]]) -> PodDisruptionBudget:
    """Subtract evicted pods from a budget's allowed disruptions; a budget that allows none stays the same."""
    if not evicted or budget.allowed <= 0:
        return budget
    return replace(budget, allowed=budget.allowed - sum(budget.selects(budget.namespace, each) for each in evicted))


def _without_consumers(claim: Claim, uids: set[str]) -> Claim:
    """Remove consumers of a claim, and its allocation if none is left."""
    for each in claim.reserved_for:
        if each.uid in uids and each.resource == "pods":
            break
    else:
        return claim
    rest = tuple(each for each in claim.reserved_for if each.resource != "pods" or each.uid not in uids)
    if rest or FINALIZER not in claim.finalizers:
        return replace(claim, reserved_for=rest)
    return replace(claim, reserved_for=(), allocation=None, device_status=())


def _deallocated(snapshot: Snapshot, batch: Batch) -> Snapshot:
    """Remove allocations whose consumers are gone: preemptors wait for these devices."""
    alive = {pod.uid for pod in (*snapshot.pods, *batch.pods)}
    claims = tuple(
        _without_consumers(claim, {each.uid for each in claim.reserved_for} - alive) if claim.reserved_for else claim
        for claim in snapshot.claims
    )
    return replace(snapshot, claims=claims)


def _placed(
    snapshot: Snapshot, pods: dict[PodId, Pod], placements: Sequence[Placement], made: Iterable[ClaimAllocation]
) -> Snapshot:
    """Add placements as bound pods, with their claims."""
    if not placements:
        return snapshot
    allocations: dict[ClaimId, Allocation] = {each.claim: each.allocation for each in made}
    claims: dict[ClaimId, Claim] = {claim.id: claim for claim in snapshot.claims}
    bound = {pod.id: pod for pod in snapshot.pods}
    for placement in placements:
        pod = pods.get(placement.pod)
        if pod is None:
            continue
        if placement.extended_resource_claim is not None:
            claims[placement.extended_resource_claim.id] = placement.extended_resource_claim.as_claim(pod.uid)
        requests = tuple(each for each in pod.requests if each[0] not in placement.dra_resources)
        bound[pod.id] = with_node_allocatable(
            replace(pod, node_name=placement.node, requests=requests), placement.node_allocatable
        )
        consumer = ConsumerReference.of(pod.id, pod.uid)
        for key in placement.claims:
            claim = claims.get(key)
            if claim is not None:
                allocation = claim.allocation if claim.allocation is not None else allocations.get(key)
                claims[key] = replace(claim, allocation=allocation, reserved_for=(*claim.reserved_for, consumer))
    order = tuple(bound[key] for key in sorted(bound))
    return replace(snapshot, pods=order, claims=tuple(claims[key] for key in sorted(claims)))


def reservation_violations(batch: Batch, plan: Plan, context: PlanContext) -> Iterator[Violation]:
    """Check that later pods leave devices and resources of reserved nodes to the pods of the reservation."""
    for hold in batch.node_reservations:
        later = _later_pods(batch, plan, hold, context)
        if later:
            yield from _takes_devices(hold, later, plan, context)
            yield from _takes_resources(hold, later, context)


def _takes_devices(
    hold: NodeReservation, later: list[tuple[Pod, str]], plan: Plan, context: PlanContext
) -> Iterator[Violation]:
    """Check that later pods take no devices of a node that is reserved for its devices."""
    taking = _allocating(plan, context) if hold.takes_devices else set()
    for pod, node in later:
        if pod.id in taking:
            yield broken(
                Rule.NODE_RESERVED, pod.id, f"it takes devices of node {node}, which is reserved for pod {hold.pod}"
            )


def _keeps_to_its_place(pod: Pod, placement: Placement, plan: Plan, context: PlanContext) -> bool:
    """Whether a pod takes no more of its node than was held for it there: that was not free for the reservation."""
    if not placement.place:
        return False
    seat = next((each for each in open_seats(context.snapshot.holds) if each.id == placement.place), None)
    if seat is None or seat.place.node != placement.node:
        return False
    held, requests = {each.device for each in seat.place.devices}, dict(seat.place.requests)
    results = (each for made in plan.allocations if made.claim in placement.claims for each in made.allocation.results)
    is_within = all(amount <= requests.get(resource, 0) for resource, amount in pod.requests)
    return is_within and all(each.device in held for each in results)


def _later_pods(batch: Batch, plan: Plan, hold: NodeReservation, context: PlanContext) -> list[tuple[Pod, str]]:
    """
    Return pods on reserved nodes of a lower priority than the reservation, or of the same and not overdue.

    A pod for which room is held there takes none that the reservation could have.
    """
    pods, overdue = {pod.id: pod for pod in batch.pods}, set(batch.overdue)
    found = []
    for placement in plan.placements:
        pod = pods.get(placement.pod)
        if pod is None or placement.node not in hold.nodes or pod.uid in hold.uids:
            continue
        if _keeps_to_its_place(pod, placement, plan, context):
            continue
        if pod.priority < hold.priority or (pod.priority == hold.priority and pod.id not in overdue):
            found.append((pod, placement.node))
    return found


def _allocating(plan: Plan, context: PlanContext) -> set[object]:
    """Return the pods for which the plan allocates devices, without admin access."""
    allocated = {
        each.claim for each in plan.allocations if any(not result.admin_access for result in each.allocation.results)
    }
    found: set[object] = set()
    for placement in plan.placements:
        pod = context.pods.get(placement.pod)
        if pod is not None and allocated & {*pod.claim_ids, *placement.claims}:
            found.add(pod.id)
    return found


def _takes_resources(hold: NodeReservation, later: list[tuple[Pod, str]], context: PlanContext) -> Iterator[Violation]:
    """Check that the requests of later pods fit beside those of the reservation."""
    for resource, wanted in hold.requests:
        asked: Counter[str] = Counter()
        for pod, node in later:
            asked[node] += dict(pod.requests).get(resource, 0)
        for name, amount in asked.items():
            node_of = context.nodes.get(name)
            if not amount or node_of is None:
                continue
            held = sum(dict(pod.requests).get(resource, 0) for pod in context.index.pods.by_node.of(name))
            free = dict(node_of.allocatable).get(resource, 0) - held
            if amount > max(0, free - wanted):
                yield broken(Rule.NODE_RESERVED, name, f"{resource} is taken that is reserved for pod {hold.pod}")

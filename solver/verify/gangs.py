"""Gangs: at least the minimum of pods runs, in one topology domain if required (KEP-4671, KEP-5732)."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from solver.domain import (
    Allocation,
    Batch,
    ClaimId,
    Gang,
    GangId,
    GangLevel,
    Plan,
    PodId,
    PoolId,
    SubRequest,
    Violation,
)
from solver.verify import matching
from solver.verify.plan_context import PlanContext
from solver.verify.pools import Published
from solver.verify.requests import SelectionError, Values, attribute_values, selects
from solver.verify.violations import Rule, broken


@dataclass(frozen=True, slots=True, eq=False)
class _Member:
    """A pod with its node and the claims that it uses."""

    pod: PodId
    node: str
    claims: tuple[ClaimId, ...]


def violations(batch: Batch, plan: Plan, context: PlanContext) -> Iterator[Violation]:
    """Check every gang that the plan places pods of."""
    arriving, placed = _arriving(plan, context), {placement.pod_uid for placement in plan.placements}
    allocations = {each.claim: each.allocation for each in plan.allocations}
    for gang in batch.gangs:
        new, old = arriving.get(gang.id, []), _running(gang, placed, context)
        if not new:
            continue
        if gang.invalid:
            yield broken(Rule.GANG_INVALID, gang.id, f"{new[0].pod} is placed, and {gang.invalid}")
        if len(new) + len(old) < gang.min_count:
            message = f"{len(new)} of its pods are placed and {len(old)} run, {gang.min_count} must run together"
            yield broken(Rule.GANG_PARTIAL, gang.id, message)
        for level in gang.levels:
            if level.is_required and level.node_label:
                yield from _on_nodes(gang, level, new, old, context)
            elif level.is_required:
                waiting = _MemberDevices(context, allocations), _waiting(batch, gang, new)
                yield from _on_devices(gang, level, waiting, new, old)


def _arriving(plan: Plan, context: PlanContext) -> dict[GangId, list[_Member]]:
    found: defaultdict[GangId, list[_Member]] = defaultdict(list)
    for placement in plan.placements:
        pod = context.pods.get(placement.pod)
        if pod is not None and pod.gang is not None:
            made = () if placement.extended_resource_claim is None else (placement.extended_resource_claim.id,)
            found[pod.gang].append(_Member(pod.id, placement.node, (*pod.claim_ids, *made)))
    return found


def _running(gang: Gang, placed: set[str], context: PlanContext) -> list[_Member]:
    """Bound and assumed members that are not being deleted; `placed` are the uids of the plan's pods."""
    there = context.index.pods.by_gang.of(gang.id)
    staying = (pod for pod in there if not pod.is_deleting and pod.uid not in placed)
    return [_Member(pod.id, pod.node_name, pod.claim_ids) for pod in staying]


def _waiting(batch: Batch, gang: Gang, new: list[_Member]) -> list[_Member]:
    """Members of the batch that the plan leaves out."""
    placed = {each.pod for each in new}
    left = (pod for pod in batch.pods if pod.gang == gang.id and pod.id not in placed)
    return [_Member(pod.id, "", pod.claim_ids) for pod in left]


@dataclass(frozen=True, slots=True, eq=False)
class _MemberDevices:
    """The devices of pods, by the plan and the snapshot."""

    context: PlanContext
    allocations: dict[ClaimId, Allocation]

    def values(self, member: _Member, attribute: str) -> set[Values]:
        """Return the values of an attribute over a member's devices; devices without it are left out."""
        found = {attribute_values(each, attribute) for each in self._devices(member)}
        return {values for values in found if values}

    def asks_for(self, member: _Member, attribute: str) -> bool:
        """Whether a device with an attribute matches a request of a member's claim without previous allocation."""
        claims = (self.context.claims.get(each) for each in member.claims)
        return any(
            self._matches(wanted, published)
            for claim in claims
            if claim is not None and claim.allocation is None
            for request in claim.requests
            for wanted in request.alternatives
            if not wanted.admin_access
            for published in self._having(attribute)
        )

    def _having(self, attribute: str) -> Iterator[Published]:
        """The devices of usable pools that have an attribute."""
        for key in dict.fromkeys((each.driver, each.pool) for each in self.context.snapshot.slices):
            view = self.context.pools.view(PoolId(*key))
            if not view.trouble:
                yield from (each for each in view.devices.values() if attribute_values(each, attribute))

    def _matches(self, wanted: SubRequest, published: Published) -> bool:
        device_class = self.context.classes.get(wanted.device_class)
        try:
            is_meant = device_class is not None and selects(device_class, wanted, published)
        except SelectionError:
            return False
        if published.scope.node_name:
            return is_meant and published.scope.node_name in self.context.nodes
        return is_meant and any(matching.reaches(published.scope, node) for node in self.context.snapshot.nodes)

    def _devices(self, member: _Member) -> Iterator[Published]:
        for claim_id in member.claims:
            claim = self.context.claims.get(claim_id)
            allocation = self.allocations.get(claim_id) or (claim.allocation if claim is not None else None)
            for result in allocation.results if allocation is not None else ():
                published = None if result.admin_access else self.context.pools.find(result.device)
                if published is not None:
                    yield published


def _on_nodes(
    gang: Gang, level: GangLevel, new: list[_Member], old: list[_Member], context: PlanContext
) -> Iterator[Violation]:
    """Check that all new members have one value of the label, which running members have too."""

    def value(member: _Member) -> str | None:
        node = context.nodes.get(member.node)
        return dict(node.labels).get(level.node_label) if node is not None else None

    arriving = {value(each) for each in new}
    held = {value(each) for each in old} - {None}
    if None in arriving:
        yield broken(Rule.GANG_TOPOLOGY, gang.id, f"pods of it are placed on nodes without {level}")
    if len(arriving) > 1:
        yield broken(Rule.GANG_TOPOLOGY, gang.id, f"its pods are placed in several of {level}: {_listed(arriving)}")
    if held and arriving - held:
        message = f"its pods are placed in {level} {_listed(arriving)}, members run in {_listed(held)}"
        yield broken(Rule.GANG_TOPOLOGY, gang.id, message)


def _on_devices(
    gang: Gang, level: GangLevel, rest: tuple[_MemberDevices, list[_Member]], new: list[_Member], old: list[_Member]
) -> Iterator[Violation]:
    """Check that all devices have one value of the attribute, and that each member has a device with it if possible."""
    member_devices, waiting = rest
    without = [each for each in new if not member_devices.values(each, level.device_attribute)]
    for each in without:
        if member_devices.asks_for(each, level.device_attribute):
            yield broken(Rule.GANG_TOPOLOGY, gang.id, f"{each.pod} gets no device with {level}, and asks for such")
    arriving = _union(member_devices.values(each, level.device_attribute) for each in new)
    held = _union(member_devices.values(each, level.device_attribute) for each in old)
    if len(arriving) > 1:
        yield broken(Rule.GANG_TOPOLOGY, gang.id, f"its pods get devices of several values of {level}")
    if held and arriving - held:
        yield broken(Rule.GANG_TOPOLOGY, gang.id, f"its pods get devices of other values of {level} than members have")
    if arriving or held:
        return
    if not any(
        member_devices.asks_for(each, level.device_attribute) or member_devices.values(each, level.device_attribute)
        for each in (*new, *waiting)
    ):
        yield broken(Rule.GANG_TOPOLOGY, gang.id, f"no device that its pods could get has {level}")


def _union(sets: Iterable[set[Values]]) -> set[Values]:
    return set[Values]().union(*sets)


def _listed(values: Iterable[str | None]) -> str:
    return ", ".join(sorted(each or "none" for each in values))

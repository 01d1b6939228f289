"""Gangs are placed whole, and where they have to be together (KEP-4671, KEP-5732 and the levels of our own)."""

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
from solver.verify.devices import Values, attribute_values
from solver.verify.plan_context import Picture
from solver.verify.pools import Published
from solver.verify.request_matching import SelectionError, selects
from solver.verify.violations import Rule, broken


@dataclass(frozen=True, slots=True, eq=False)
class _Member:
    """A pod with its node and the claims that it uses."""

    pod: PodId
    node: str
    claims: tuple[ClaimId, ...]


def violations(batch: Batch, plan: Plan, picture: Picture) -> Iterator[Violation]:
    """Check every gang that the plan places pods of."""
    arriving, running = _arriving(plan, picture), _running(plan, picture)
    allocations = {each.claim: each.allocation for each in plan.allocations}
    for gang in batch.gangs:
        new, old = arriving.get(gang.id, []), running.get(gang.id, [])
        if not new:
            continue
        if gang.invalid:
            yield broken(Rule.GANG_INVALID, gang.id, f"{new[0].pod} is placed, and {gang.invalid}")
        if len(new) + len(old) < gang.min_count:
            message = f"{len(new)} of its pods are placed and {len(old)} run, {gang.min_count} must run together"
            yield broken(Rule.GANG_PARTIAL, gang.id, message)
        for level in gang.levels:
            if level.is_required and level.node_label:
                yield from _on_nodes(gang, level, new, old, picture)
            elif level.is_required:
                waiting = _Holdings(picture, allocations), _waiting(batch, gang, new)
                yield from _on_devices(gang, level, waiting, new, old)


def _arriving(plan: Plan, picture: Picture) -> dict[GangId, list[_Member]]:
    found: defaultdict[GangId, list[_Member]] = defaultdict(list)
    for placement in plan.placements:
        pod = picture.pods.get(placement.pod)
        if pod is not None and pod.gang is not None:
            made = () if placement.extended_resource_claim is None else (placement.extended_resource_claim.id,)
            found[pod.gang].append(_Member(pod.id, placement.node, (*pod.claim_ids, *made)))
    return found


def _running(plan: Plan, picture: Picture) -> dict[GangId, list[_Member]]:
    """Members that hold a node; one that is being deleted does not count."""
    placed = {placement.pod_uid for placement in plan.placements}
    found: defaultdict[GangId, list[_Member]] = defaultdict(list)
    for pod in picture.snapshot.pods:
        if pod.gang is not None and not pod.is_deleting and pod.uid not in placed:
            found[pod.gang].append(_Member(pod.id, pod.node_name, pod.claim_ids))
    return found


def _waiting(batch: Batch, gang: Gang, new: list[_Member]) -> list[_Member]:
    """Members of the batch that the plan leaves out."""
    placed = {each.pod for each in new}
    left = (pod for pod in batch.pods if pod.gang == gang.id and pod.id not in placed)
    return [_Member(pod.id, "", pod.claim_ids) for pod in left]


@dataclass(frozen=True, slots=True, eq=False)
class _Holdings:
    """Which devices pods hold, by the plan and by the snapshot."""

    picture: Picture
    allocations: dict[ClaimId, Allocation]

    def values(self, member: _Member, attribute: str) -> set[Values]:
        """Give the values of an attribute over a member's devices; those that lack it say nothing."""
        found = {attribute_values(each, attribute) for each in self._devices(member)}
        return {values for values in found if values}

    def asks_for(self, member: _Member, attribute: str) -> bool:
        """Whether a device that has an attribute matches a request of a member that was open before the plan."""
        claims = (self.picture.claims.get(each) for each in member.claims)
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
        """Devices of pools that can be used which have an attribute."""
        for key in dict.fromkeys((each.driver, each.pool) for each in self.picture.snapshot.slices):
            view = self.picture.pools.view(PoolId(*key))
            if not view.trouble:
                yield from (each for each in view.devices.values() if attribute_values(each, attribute))

    def _matches(self, wanted: SubRequest, published: Published) -> bool:
        device_class = self.picture.classes.get(wanted.device_class)
        try:
            is_meant = device_class is not None and selects(device_class, wanted, published)
        except SelectionError:
            return False
        if published.scope.node_name:
            return is_meant and published.scope.node_name in self.picture.nodes
        return is_meant and any(matching.reaches(published.scope, node) for node in self.picture.snapshot.nodes)

    def _devices(self, member: _Member) -> Iterator[Published]:
        for claim_id in member.claims:
            claim = self.picture.claims.get(claim_id)
            allocation = self.allocations.get(claim_id) or (claim.allocation if claim is not None else None)
            for result in allocation.results if allocation is not None else ():
                published = None if result.admin_access else self.picture.pools.find(result.device)
                if published is not None:
                    yield published


def _on_nodes(
    gang: Gang, level: GangLevel, new: list[_Member], old: list[_Member], picture: Picture
) -> Iterator[Violation]:
    """One value of the label for all that arrive, and one that running members have, where they have any."""

    def value(member: _Member) -> str | None:
        node = picture.nodes.get(member.node)
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
    gang: Gang, level: GangLevel, rest: tuple[_Holdings, list[_Member]], new: list[_Member], old: list[_Member]
) -> Iterator[Violation]:
    """One value of the attribute over all devices, each member with one unless no device with it matches its claims."""
    holdings, waiting = rest
    without = [each for each in new if not holdings.values(each, level.device_attribute)]
    for each in without:
        if holdings.asks_for(each, level.device_attribute):
            yield broken(Rule.GANG_TOPOLOGY, gang.id, f"{each.pod} gets no device with {level}, and asks for such")
    arriving = _union(holdings.values(each, level.device_attribute) for each in new)
    held = _union(holdings.values(each, level.device_attribute) for each in old)
    if len(arriving) > 1:
        yield broken(Rule.GANG_TOPOLOGY, gang.id, f"its pods get devices of several values of {level}")
    if held and arriving - held:
        yield broken(Rule.GANG_TOPOLOGY, gang.id, f"its pods get devices of other values of {level} than members have")
    if arriving or held:
        return
    if not any(
        holdings.asks_for(each, level.device_attribute) or holdings.values(each, level.device_attribute)
        for each in (*new, *waiting)
    ):
        yield broken(Rule.GANG_TOPOLOGY, gang.id, f"no device that its pods could get has {level}")


def _union(sets: Iterable[set[Values]]) -> set[Values]:
    return set[Values]().union(*sets)


def _listed(values: Iterable[str | None]) -> str:
    return ", ".join(sorted(each or "none" for each in values))

"""Make a problem of a snapshot and a batch: resolve claims, intern demands and components, form classes of pods."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from solver.domain import (
    Batch,
    Claim,
    ClaimId,
    DeviceClass,
    NodeSelector,
    Pod,
    Policy,
    Reason,
    ReasonCode,
    Snapshot,
    SpecialClaim,
    SubRequest,
)
from solver.feasibility import claims as claim_rules
from solver.feasibility import extended_resources, node_fit, taints
from solver.feasibility.device_attributes import AttributeName
from solver.problem import component, demand, fit, states
from solver.problem.component import Component, Cut
from solver.problem.demand import DemandKey
from solver.problem.inventory import Inventory
from solver.problem.memory import Engine
from solver.problem.modes import Mode, Modes
from solver.problem.problem import Part, PodClass, Problem, SharedClaim, Source


def prepare(snapshot: Snapshot, batch: Batch, policy: Policy, engine: Engine) -> Problem:
    """Build the dense form; pods that nothing can place are set aside with their reasons."""
    stock = engine.inventory(snapshot, policy.owned)
    device_classes = {each.name: each for each in snapshot.classes}
    drafting = _Draft(
        claims={claim.id: claim for claim in snapshot.claims},
        device_classes=device_classes,
        modes=Modes(stock.nodes, device_classes),
        policy=policy,
    )
    drafting.reject(batch, stock)
    drafting.find_shared(batch)
    for claim_id in drafting.shared_ids:
        drafting.cut(claim_id)
    classes = _classes(drafting, batch, stock, engine)
    layout, answers = engine.layout(stock, tuple(drafting.demands), tuple(drafting.attributes))
    counted = engine.usage(stock, snapshot)
    local, wide = states.states(layout, stock, counted)
    return Problem(
        snapshot=snapshot,
        batch=batch,
        policy=policy,
        inventory=stock,
        usage=counted,
        layout=layout,
        room=fit.room(stock.nodes, stock.node_index, snapshot.pods),
        claims=drafting.claims,
        device_classes=drafting.device_classes,
        demands=tuple(drafting.demands),
        answers=answers,
        components=list(drafting.components),
        classes=classes,
        shared=[_shared_claim(drafting, index, claim_id) for index, claim_id in enumerate(drafting.shared_ids)],
        states=local,
        wide_state=wide,
        is_whole=states.whole_nodes(stock, counted),
        rejected=drafting.rejected,
    )


@dataclass(slots=True, eq=False)
class _Draft:
    """Interned demands, attributes and components, in order of first use; `claims` get those to be made as well."""

    claims: dict[ClaimId, Claim]
    device_classes: Mapping[str, DeviceClass]
    modes: Modes
    policy: Policy
    demands: dict[DemandKey, int] = field(default_factory=dict)
    attributes: dict[AttributeName, int] = field(default_factory=dict)
    components: dict[Component, int] = field(default_factory=dict)
    cuts: dict[ClaimId, tuple[Cut, ...]] = field(default_factory=dict)
    shapes: dict[tuple[object, ...], tuple[Cut, ...]] = field(default_factory=dict)
    shared_ids: dict[ClaimId, int] = field(default_factory=dict)
    rejected: dict[int, tuple[Reason, ...]] = field(default_factory=dict)

    def reject(self, batch: Batch, stock: Inventory) -> None:
        """Set pods aside that no node can help."""
        for position, pod in enumerate(batch.pods):
            reasons = claim_rules.objections(pod, self.claims, self.device_classes)
            reasons = reasons or tuple(self._tainted(pod, stock))
            if reasons:
                self.rejected[position] = reasons

    def _tainted(self, pod: Pod, stock: Inventory) -> Iterator[Reason]:
        """
        Refuse to join an allocated claim one of whose devices has since got an untolerated taint.

        The tolerations that count are the copies in the allocation; kube-scheduler does not look again.
        """
        for claim in (self.claims[each] for each in pod.claim_ids):
            if claim.allocation is None or claim.is_reserved_for(pod.uid, pod.pod_group):
                continue
            for result in claim.allocation.results:
                taint = taints.first_untolerated(stock.taints_of(result.device), result.tolerations)
                if taint is not None:
                    message = f"claim {claim.id.name} holds device {result.device}, which has taint {taint.key} now"
                    yield Reason(code=ReasonCode.DEVICES_TAINTED, message=message)

    def find_shared(self, batch: Batch) -> None:
        """Claims without allocation that several pods of the batch use; more consumers than fit are set aside."""
        users = Counter[ClaimId]()
        for position, pod in enumerate(batch.pods):
            if position in self.rejected:
                continue
            joins = [
                claim
                for each in pod.claim_ids
                if not (claim := self.claims[each]).is_reserved_for(pod.uid, pod.pod_group)
            ]
            full = [each for each in joins if len(each.reserved_for) + users[each.id] >= claim_rules.MOST_CONSUMERS]
            if full:
                message = f"claim {full[0].id.name} gets as many consumers as a claim can have"
                self.rejected[position] = (Reason(code=ReasonCode.CLAIM_FULL, message=message),)
                continue
            users.update(each.id for each in joins)
        for claim_id, count in users.items():
            claim = self.claims[claim_id]
            if count > 1 and claim.allocation is None and claim.requests:  # without requests nothing is shared
                self.shared_ids[claim_id] = len(self.shared_ids)

    def unallocated(self, pod: Pod) -> tuple[ClaimId, ...]:
        return tuple(each for each in pod.claim_ids if self.claims[each].allocation is None)

    def demand_of(self, alternative: SubRequest) -> int:
        key = demand.key_of(alternative, self.device_classes, self.policy)
        return self.demands.setdefault(key, len(self.demands))

    def cut(self, claim_id: ClaimId) -> tuple[Cut, ...]:
        """Cut a claim; claims of equal spec (all that come from one template) are cut once."""
        found = self.cuts.get(claim_id)
        if found is None:
            claim = self.claims[claim_id]
            shape = (claim.requests, claim.constraints)
            if shape not in self.shapes:
                self.shapes[shape] = component.cut(claim, self.demand_of)
                for each in self.shapes[shape]:
                    self._intern(each.component)
            found = self.cuts[claim_id] = self.shapes[shape]
        return found

    def _intern(self, each: Component) -> None:
        self.components.setdefault(each, len(self.components))
        for link in each.links:
            self.attributes.setdefault(link.attribute, len(self.attributes))

    def parts(self, claim_ids: tuple[ClaimId, ...]) -> tuple[tuple[Part, ...], tuple[tuple[Source, ...], ...]]:
        """Merge equal components of some claims; those that need identity stay apart."""
        merged: defaultdict[tuple[int, tuple[int, ...]], list[Source]] = defaultdict(list)
        for order, claim_id in enumerate(claim_ids):
            for place, each in enumerate(self.cut(claim_id)):
                apart = (order, place) if each.component.needs_identity else ()
                merged[self.components[each.component], apart].append(Source(claim_id, each.positions))
        parts = tuple(Part(index, len(sources)) for (index, _), sources in merged.items())
        return parts, tuple(tuple(sources) for sources in merged.values())


class _Way(NamedTuple):
    """How the devices of a pod are served on some nodes."""

    mode: Mode
    special: SpecialClaim | None
    parts: tuple[Part, ...]
    sources: tuple[tuple[Source, ...], ...]


def _ways(drafting: _Draft, pod: Pod, own: tuple[ClaimId, ...]) -> tuple[tuple[_Way, ...], tuple[Reason, ...]]:
    """Give the ways in which nodes can serve a pod, and what speaks against those that are left out."""
    ways: list[_Way] = []
    obstacles: list[Reason] = []
    for mode in drafting.modes.of(pod):
        special = extended_resources.special_claim(pod, dict(mode.served), mode.number) if mode.served else None
        objections = drafting.modes.objections(special) if special is not None else ()
        if objections:
            obstacles += objections
            continue
        if special is not None:
            drafting.claims[special.id] = special.stand_in(pod.uid)
        ids = own if special is None else (*own, special.id)
        ways.append(_Way(mode, special, *drafting.parts(ids)))
    return tuple(ways), tuple(dict.fromkeys(obstacles))


def _classes(drafting: _Draft, batch: Batch, stock: Inventory, engine: Engine) -> list[PodClass]:
    families: dict[tuple[object, ...], list[PodClass]] = {}
    count = 0
    for position, pod in enumerate(batch.pods):
        if position in drafting.rejected:
            continue
        open_claims = drafting.unallocated(pod)
        shared = tuple(sorted(drafting.shared_ids[each] for each in open_claims if each in drafting.shared_ids))
        own = tuple(each for each in open_claims if each not in drafting.shared_ids)
        ways, obstacles = _ways(drafting, pod, own)
        if not ways:
            drafting.rejected[position] = obstacles
            continue
        wanted = node_fit.demand_of(pod, _claim_selectors(drafting, pod))
        needs_identity = any(each.component.needs_identity for claim_id in own for each in drafting.cut(claim_id))
        names = tuple(entry.entry for entry in pod.claims) if len(pod.claims) > 1 else ()
        parts = tuple(way.parts for way in ways)
        rest = (obstacles, shared, names, position if needs_identity else -1)
        key = (pod.priority, pod.requests, wanted, parts, *rest)
        family = families.get(key)
        if family is None:
            verdicts = engine.node_verdicts(stock, wanted)
            family = families[key] = [
                _pod_class((count, count + offset), pod, way, verdicts, shared) for offset, way in enumerate(ways)
            ]
            family[0].obstacles = obstacles
            count += len(family)
        family[0].members.append(position)
        for each, way in zip(family, ways, strict=True):
            each.members = family[0].members
            each.sources.append(way.sources)
            each.specials.append(way.special)
    return [each for family in families.values() for each in family]


def _pod_class(
    numbers: tuple[int, int], pod: Pod, way: _Way, verdicts: fit.NodeVerdicts, shared: tuple[int, ...]
) -> PodClass:
    """Make a class without members; what devices serve is not asked of its nodes."""
    family, index = numbers
    served = dict(way.mode.served)
    if way.mode.nodes is not None:
        verdicts = fit.NodeVerdicts(verdicts.allowed & way.mode.nodes, verdicts.reasons)
    requests = tuple(
        (resource, min(amount, fit.MOST + 1)) for resource, amount in pod.requests if resource not in served
    )
    return PodClass(index, pod.priority, requests, verdicts, way.parts, shared, family)


def _claim_selectors(drafting: _Draft, pod: Pod) -> tuple[NodeSelector, ...]:
    allocations = (drafting.claims[each].allocation for each in pod.claim_ids)
    return tuple(each.node_selector for each in allocations if each is not None and each.node_selector is not None)


def _shared_claim(drafting: _Draft, index: int, claim_id: ClaimId) -> SharedClaim:
    parts, sources = drafting.parts((claim_id,))
    return SharedClaim(index, drafting.claims[claim_id], parts, sources)

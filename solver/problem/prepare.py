"""Make a problem of a snapshot and a batch: resolve claims, intern demands and components, form classes of pods."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import numpy as np

from solver.domain import (
    Batch,
    Claim,
    ClaimId,
    DeviceClass,
    Gang,
    GangId,
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
from solver.problem import fit, following, tying
from solver.problem.devices import states
from solver.problem.devices.inventory import Inventory
from solver.problem.gangs import gangs
from solver.problem.gangs.splits import Splits
from solver.problem.limits import Limit
from solver.problem.memory import Engine
from solver.problem.neighbours import refusals
from solver.problem.neighbours.circle import Circle
from solver.problem.problem import Part, PodClass, Problem, SharedClaim, Source
from solver.problem.requests import burdens, component, demand, places
from solver.problem.requests.component import Component, Cut
from solver.problem.requests.demand import DemandKey
from solver.problem.requests.modes import Mode, Modes
from solver.problem.tastes import levels
from solver.problem.uncollected import uncollected
from solver.problem.volumes.store import Store


def prepare(snapshot: Snapshot, batch: Batch, policy: Policy, engine: Engine) -> Problem:
    """Build the dense form; pods that nothing can place are set aside with their reasons."""
    with uncollected():
        return _prepared(snapshot, batch, policy, engine)


def _prepared(snapshot: Snapshot, batch: Batch, policy: Policy, engine: Engine) -> Problem:
    stock = engine.inventory(snapshot, policy.owned)
    device_classes = {each.name: each for each in snapshot.classes}
    around = engine.neighbours(stock, snapshot.pods)
    drafting = _Draft(
        claims={claim.id: claim for claim in snapshot.claims},
        device_classes=device_classes,
        modes=Modes(stock.nodes, device_classes),
        keys=levels.Keys.of(policy, batch, around),
        policy=policy,
        circle=Circle.of(batch, snapshot.namespaces, around),
    )
    drafting.look_at(snapshot, batch, engine, stock)
    drafting.find_shared(batch)
    for claim_id in drafting.shared_ids:
        drafting.cut(claim_id)
    classes = _classes(drafting, batch, stock, engine)
    drafting.look_at_groups()
    layout, answers = engine.layout(stock, tuple(drafting.demands), tuple(drafting.attributes))
    counted = engine.usage(stock, snapshot)
    local, wide = states.states(layout, stock, counted)
    problem = Problem(
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
        store=drafting.store,
    )
    if drafting.burdened is not None:
        problem.has_burdens = True
        burdens.widen(problem, drafting.burdened)
    tying.tie(problem, drafting.circle, drafting.places(problem))
    levels.work_out(problem, engine)
    return problem


@dataclass(slots=True, eq=False)
class _Draft:
    """Interned demands, attributes and components, in order of first use; `claims` get those to be made as well."""

    claims: dict[ClaimId, Claim]
    device_classes: Mapping[str, DeviceClass]
    modes: Modes
    keys: levels.Keys
    policy: Policy
    circle: Circle
    demands: dict[DemandKey, int] = field(default_factory=dict)
    attributes: dict[AttributeName, int] = field(default_factory=dict)
    components: dict[Component, int] = field(default_factory=dict)
    cuts: dict[ClaimId, tuple[Cut, ...]] = field(default_factory=dict)
    shapes: dict[tuple[object, ...], tuple[Cut, ...]] = field(default_factory=dict)
    shared_ids: dict[ClaimId, int] = field(default_factory=dict)
    nearly_full: dict[ClaimId, int] = field(default_factory=dict)
    splits: Splits = field(init=False)
    burdened: burdens.Burdens | None = None
    gangs: dict[GangId, Gang] = field(default_factory=dict)
    rejected: dict[int, tuple[Reason, ...]] = field(default_factory=dict)
    store: Store | None = None

    def look_at(self, snapshot: Snapshot, batch: Batch, engine: Engine, stock: Inventory) -> None:
        """Index what pods of the batch may need, and set those aside that no node can help."""
        self.store = Store.of(snapshot, batch, stock)
        self.splits = Splits(stock, partial(engine.answers, stock), self.demands)
        self.burdened = burdens.Burdens.of(stock, self.claims)
        self.reject(snapshot, batch, stock)

    def reject(self, snapshot: Snapshot, batch: Batch, stock: Inventory) -> None:
        """Set pods aside that no node can help."""
        of_gangs = gangs.objections(snapshot, batch)
        of_followers = following.objections(snapshot, batch, tells_node=self.policy.tells_inventory)
        for position, pod in enumerate(batch.pods):
            reasons = claim_rules.objections(pod, self.claims, self.device_classes)
            reasons = reasons or tuple(self._tainted(pod, stock))
            if self.burdened is not None and not reasons:
                reasons = tuple(self.burdened.objections(pod))
            if self.store is not None:
                reasons = (*self.store.objections(pod), *reasons)
            reasons = (*of_gangs.get(position, ()), *of_followers.get(position, ()), *reasons)
            if reasons:
                self.rejected[position] = reasons
        self.rejected.update(gangs.held_up(snapshot, batch, self.rejected))

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
                    device = f"device {result.device}" if self.policy.tells_inventory else "a device"
                    message = f"claim {claim.id.name} holds {device}, which has taint {taint.key} now"
                    yield Reason(code=ReasonCode.CLAIM_TAINTED, message=message)

    def find_shared(self, batch: Batch) -> None:
        """Claims without allocation that several pods of the batch use, and claims that cannot take all of them."""
        joined: list[ClaimId] = []
        entering: list[ClaimId] = []
        self.gangs = {gang.id: gang for gang in batch.gangs}
        self.splits.demand(self.gangs)
        groups = places.Groups(self.claims, self.gangs)
        for position, pod in enumerate(batch.pods):
            refused = () if position in self.rejected else tuple(groups.objections(pod))
            if refused:
                self.rejected[position] = refused
            if position in self.rejected:
                continue
            joined += places.joined(pod, self.claims)
            entering += places.entering(pod, self.claims, self.gangs)
        self.nearly_full = places.nearly_full(Counter(entering), groups)
        for claim_id, count in Counter(joined).items():
            claim = self.claims[claim_id]
            if count > 1 and claim.allocation is None and claim.requests:  # without requests nothing is shared
                self.shared_ids[claim_id] = len(self.shared_ids)

    def gang_key(self, pod: Pod) -> tuple[object, ...]:
        """What tells a pod of a gang from others: the gang, and the devices that it holds already."""
        if pod.gang is None:
            return ()
        held = (self.claims[each].allocation for each in pod.claim_ids)
        return (pod.gang, tuple(result.device for each in held if each is not None for result in each.results))

    def places(self, problem: Problem) -> Iterator[Limit]:
        """Limit how many pods join claims that have too few places for all."""
        joining = ((each.index, self.scarce(problem.pod(each.members[0]))) for each in problem.classes)
        return iter(places.limits(self.nearly_full, joining, problem.node_count))

    def scarce(self, pod: Pod) -> tuple[ClaimId, ...]:
        """Give the claims with too few places that a pod would join."""
        if not self.nearly_full:
            return ()
        entering = places.entering(pod, self.claims, self.gangs)
        return tuple(sorted(each for each in entering if each in self.nearly_full))

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
                    self.intern(each.component)
            found = self.cuts[claim_id] = self.shapes[shape]
        return found

    def intern(self, each: Component) -> int:
        """Give the number of a component."""
        for link in each.links:
            self.attributes.setdefault(link.attribute, len(self.attributes))
        return self.components.setdefault(each, len(self.components))

    def look_at_groups(self) -> None:
        """Let attributes that group devices count where a level is about them, constrained or not."""
        for text in self.policy.group_attributes if "broken-groups" in self.policy.levels else ():
            self.attributes.setdefault(AttributeName.parse(text), len(self.attributes))

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
    within: str = ""


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
        way = _Way(mode, special, *drafting.parts(ids))
        ways += _split(drafting, pod, way) if pod.gang in drafting.splits.attributes else (way,)
    return tuple(ways), tuple(dict.fromkeys(obstacles))


def _split(drafting: _Draft, pod: Pod, way: _Way) -> Iterator[_Way]:
    """Divide a way where nodes have devices of several values of what the pod's gang has to share."""
    shared = [each.component for claim in pod.claim_ids if claim in drafting.shared_ids for each in drafting.cut(claim)]
    known = tuple(drafting.components)
    found = drafting.splits.of(pod.gang, [known[part.component] for part in way.parts], shared)
    mode = way.mode
    if found:
        whole = ~np.logical_or.reduce([each.nodes for each in found])
        yield way._replace(mode=mode._replace(nodes=whole if mode.nodes is None else whole & mode.nodes))
    else:
        yield way
    for each in found:
        narrowed = [drafting.splits.narrowed(known[part.component], each.choice) for part in way.parts]
        parts = tuple(
            Part(drafting.intern(component), part.copies) for part, component in zip(way.parts, narrowed, strict=True)
        )
        nodes = each.nodes if mode.nodes is None else each.nodes & mode.nodes
        yield way._replace(mode=mode._replace(nodes=nodes), parts=parts, within=str(each))


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
        stance = drafting.circle.stance(pod)
        wish = drafting.store.wish(pod) if drafting.store is not None else None
        wanted = node_fit.demand_of(pod, _claim_selectors(drafting, pod))
        needs_identity = any(each.component.needs_identity for claim_id in own for each in drafting.cut(claim_id))
        names = tuple(entry.entry for entry in pod.claims) if len(pod.claims) > 1 else ()
        parts = tuple(way.parts for way in ways)
        rest = (obstacles, shared, names, position if needs_identity else -1, wish.terms if wish else None)
        claimed = (drafting.scarce(pod), drafting.burdened.key(pod) if drafting.burdened is not None else ())
        key = (*drafting.keys.of_pod(pod), pod.requests, wanted, parts, drafting.gang_key(pod), stance, *rest, *claimed)
        family = families.get(key)
        if family is None:
            verdicts = drafting.circle.narrowed(stance, engine.node_verdicts(stock, wanted))
            verdicts = refusals.narrowed(verdicts, wish.refusals) if wish is not None else verdicts
            family = families[key] = [
                _pod_class((count, count + offset), pod, way, verdicts, shared) for offset, way in enumerate(ways)
            ]
            for each in family:
                each.volumes = wish.terms if wish is not None else None
                each.is_overdue = pod.id in drafting.keys.overdue
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
        verdicts = verdicts.within(way.mode.nodes)
    requests = tuple(
        (resource, min(amount, fit.MOST + 1)) for resource, amount in pod.requests if resource not in served
    )
    return PodClass(index, pod.priority, requests, verdicts, way.parts, shared, family, within=way.within)


def _claim_selectors(drafting: _Draft, pod: Pod) -> tuple[NodeSelector, ...]:
    allocations = (drafting.claims[each].allocation for each in pod.claim_ids)
    return tuple(each.node_selector for each in allocations if each is not None and each.node_selector is not None)


def _shared_claim(drafting: _Draft, index: int, claim_id: ClaimId) -> SharedClaim:
    parts, sources = drafting.parts((claim_id,))
    return SharedClaim(index, drafting.claims[claim_id], parts, sources)

"""The reasons of an unplaced pod: counts of nodes by reason, and for devices a sentence per request."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from solver.arrays import MOST, Mask
from solver.domain import Budget, ConstraintKind, Reason, ReasonCode, wording
from solver.explain import fewer_devices
from solver.explain.device_reasons import (
    NamedAlternative,
    NamedRequest,
    OversizedDevices,
    code_of,
    hinted,
    nearness,
    outranked,
    shortage,
    too_many,
)
from solver.explain.filter_statuses import CANNOT_ALLOCATE, FilterPlugin, counted_by_filter, own_nodes, passed
from solver.explain.hints import Hints
from solver.explain.pool_reasons import PoolReasons
from solver.explain.unsatisfiable import AffinityTargets, UnsatisfiableRequirements
from solver.feasibility.claims import MAX_RESULTS
from solver.fleet.request_counts import DeviceSupplies, DeviceSupply
from solver.greedy.device_fit import Condition, FitCache
from solver.greedy.placement_state import Tracker
from solver.held_room import ROOM_HELD
from solver.problem import reservations
from solver.problem.node_arrays import PODS
from solver.problem.problem import Part, PodClass, Problem, Source
from solver.problem.requests.component import Ask, Component
from solver.problem.requests.demand import Verdict
from solver.rules.node_fit import values as node_fit
from solver.rules.verdicts import ExcludedNodes

UNKNOWN: Final = Reason(
    code=ReasonCode.BUDGET,
    message="no node was found for the pod, although no single rule excludes all nodes; the scheduler tries again soon",
)
_EXCLUDED: Final = ", where some have no compatibility group in common"


class RoomOnNodes(NamedTuple):
    """Nodes where only devices can be missing for a pod, nodes that devices exclude first, and what excludes others."""

    nodes: Mask
    refused: Mask
    excluded: tuple[ExcludedNodes, ...]


class _Tried(NamedTuple):
    """An alternative of a request, the nodes that it is tried on, and the devices that it finds there."""

    asked: NamedAlternative
    nodes: Mask
    supply: DeviceSupply


@dataclass(slots=True, eq=False)
class Explanation:
    """Gives the reasons of unplaced pods of one problem; intermediate counts are cached."""

    problem: Problem
    trackers: list[Tracker]
    budget: Budget | None = None
    """The budget of hints; None for no limit."""
    leftover: "Callable[[], Explanation] | None" = None
    """The same problem as the plan leaves it; None where nothing is placed."""
    unheld: "Callable[[PodClass], Mask | None]" = field(default=lambda _: None)
    """Gives the nodes that one pod of a class could use if no room were held for others; None where none is held."""
    conditions: list[Condition] = field(default_factory=list)
    rooms: dict[int, RoomOnNodes] = field(default_factory=dict)  # by class
    condition_of: npt.NDArray[np.int64] = field(init=False)
    fit_cache: FitCache = field(init=False)
    supplies: DeviceSupplies = field(init=False)
    hints: Hints = field(init=False)
    unsatisfiable: UnsatisfiableRequirements = field(init=False)
    affinity_targets: AffinityTargets = field(init=False)
    oversized: OversizedDevices = field(init=False)
    pools: PoolReasons = field(init=False)
    gang_classes: frozenset[int] = field(init=False)
    """Classes of gang members: some nodes may fit one member while too few of them fit."""

    def should_stop(self) -> bool:
        """Whether the time is up; the remaining pods then get a general reason."""
        return self.budget is not None and self.budget.should_stop()

    def __post_init__(self) -> None:
        problem = self.problem
        self.fit_cache, self.supplies = FitCache(problem), DeviceSupplies(problem)
        self.hints = Hints.within(problem, self.budget)
        self.unsatisfiable, self.oversized = UnsatisfiableRequirements(problem), OversizedDevices(problem)
        self.affinity_targets, self.pools = AffinityTargets(self.unsatisfiable), PoolReasons(problem)
        self.gang_classes = frozenset(index for rule in problem.rules.gangs for index in rule.classes)
        keys, self.condition_of = problem.device_keys()
        wide = problem.available.wide_state
        self.conditions = [Condition(each.group, each.state, wide, each.is_unused) for each in keys]

    def short_gang(self, pod_class: PodClass) -> str:
        """Return the name of the gang that starts as a whole or not at all, with pods of a class; empty for others."""
        rules = (each for each in self.problem.rules.gangs if each.need and pod_class.index in each.classes)
        return next((each.gang.id.name for each in rules), "")

    def reasons(self, family: tuple[PodClass, ...], *, is_proven: bool) -> tuple[Reason, ...]:
        """Return reasons of unplaced pods, most specific first; `is_proven`: no plan places more of its priority."""
        return tuple(dict.fromkeys(self._reasons(family, is_proven=is_proven))) or (UNKNOWN,)

    def _reasons(self, family: tuple[PodClass, ...], *, is_proven: bool) -> Iterator[Reason]:
        problem = self.problem
        if problem.node_count == 0:
            yield Reason(code=ReasonCode.NO_NODES, message="no nodes available to schedule pods")
            return
        rooms = [(pod_class, self.room(pod_class, family)) for pod_class in family]
        fitting = any((room.nodes & ~room.refused).any() for _, room in rooms)
        if fitting:
            yield outranked(is_proven=is_proven, gang=self.short_gang(family[0]))
        devices = [
            reason
            for pod_class, room in (rooms if not fitting or family[0].index in self.gang_classes else ())
            if room.refused.any() and not pod_class.within
            for reason in self._device_reasons(pod_class, room.refused)
        ]
        of_nodes = self._counted(family, rooms, devices)
        yield from (each for each in of_nodes if each.code is ReasonCode.NODE_RESERVED)
        counted = {each.message: each for each in of_nodes}
        yield from (counted.get(each.message, each) for each in devices)
        yield from family[0].obstacles
        yield from of_nodes
        if fitting:
            return
        yield from self._pinned(family[0], of_nodes)
        if len(family) == 1:
            yield from self.unsatisfiable.reasons(family[0])
        yield from self.affinity_targets.reasons(family[0])

    def _counted(
        self, family: tuple[PodClass, ...], rooms: Sequence[tuple[PodClass, RoomOnNodes]], devices: Sequence[Reason]
    ) -> tuple[Reason, ...]:
        """Count every node that cannot take the pod by its first failing filter; `devices` say what devices lack."""
        excluded = [each for each in family[0].verdicts.excluded if each.reason.code is not ReasonCode.NODE_RESERVED]
        excluded += [each for _, room in rooms for each in room.excluded]
        lead = next((each for each in devices if each.code is not ReasonCode.POOL_INVALID), CANNOT_ALLOCATE)
        lead = msgspec.structs.replace(lead, status=CANNOT_ALLOCATE.status)
        for pod_class, room in rooms:
            if pod_class.within:
                message = f"node(s) have no value of {pod_class.within} with enough free devices for the pod"
                excluded.append(ExcludedNodes(room.refused, Reason(code=ReasonCode.GANG_TOPOLOGY, message=message)))
                continue
            invalid = room.refused & self.pools.invalid
            excluded += [ExcludedNodes(invalid, each) for each in self.pools.reasons(invalid)][:1]
            excluded.append(ExcludedNodes(room.refused, lead))
        return counted_by_filter(excluded)

    def _pinned(self, pod_class: PodClass, of_nodes: Sequence[Reason]) -> Iterator[Reason]:
        """Return the reason if a claim is allocated on certain nodes (unless nodes say so), or on one that is gone."""
        is_said = any(each.code is ReasonCode.CLAIM_ELSEWHERE for each in of_nodes)
        for claim in (self.problem.requests.claims[each] for each in self.problem.pod(pod_class.members[0]).claim_ids):
            selector = claim.allocation.node_selector if claim.allocation is not None else None
            names = node_fit.named_nodes(selector)
            message = f"claim {claim.id.name} is allocated on certain nodes, and no other node can serve it"
            if names and names.isdisjoint(self.problem.inventory.node_index):
                message = (
                    f"claim {claim.id.name} is on node {wording.listed(names)}, which is gone: delete its pods, then it"
                )
            elif is_said or selector is None or not node_fit.names_nodes(selector):
                continue
            yield Reason(code=ReasonCode.CLAIM_ELSEWHERE, message=message)

    def room(self, pod_class: PodClass, family: tuple[PodClass, ...]) -> RoomOnNodes:
        """
        Return the allowed nodes with room for one pod, and what excludes the others.

        A node that is reserved for another pod counts as reserved only if the pod would fit there, and so does one with
        held room. Of several classes of a family each has nodes of its own.
        """
        if pod_class.index in self.rooms:
            return self.rooms[pod_class.index]
        held = np.zeros(self.problem.node_count, dtype=np.bool_)
        held[list(self.problem.rules.reserved.get(pod_class.index, ()))] = True
        allowed, own = pod_class.verdicts.allowed | held, own_nodes(pod_class, family, len(held))
        excluded = list(self._insufficient(pod_class, own))
        for tracker in self.trackers:
            for open_nodes, reason in tracker.objections(pod_class):
                if reason.code is ReasonCode.NODE_RESERVED:
                    held |= ~open_nodes
                else:
                    excluded.append(ExcludedNodes(own & ~open_nodes, reason))
        for each in excluded:
            allowed = allowed & ~each.nodes
        every = (*family[0].verdicts.excluded, *excluded)
        others = own & passed(every, FilterPlugin.DYNAMIC_RESOURCES, len(held)) & ~allowed
        serving = self._serving(pod_class, allowed | others)
        reserved = allowed & serving & held
        refused = (allowed | others) & ~serving
        unheld = self.unheld(pod_class)
        if unheld is not None:
            kept = own & unheld & ~(allowed & serving)
            allowed, refused = allowed & ~kept, refused & ~kept
            excluded = [ExcludedNodes(each.nodes & ~kept, each.reason) for each in excluded]
            excluded.append(ExcludedNodes(kept, ROOM_HELD))
        excluded += reservations.excluded(self.problem, pod_class, reserved)
        found = RoomOnNodes(allowed & ~reserved, refused, tuple(excluded))
        return self.rooms.setdefault(pod_class.index, found)

    def _insufficient(self, pod_class: PodClass, own: Mask) -> Iterator[ExcludedNodes]:
        """Return the nodes with too little of a resource, for the pod or for it and its devices (KEP-5517)."""
        for resource, amount in ((PODS, 1), *pod_class.requests):
            free = self.problem.available.room.of(resource)
            short = own & (free < amount)
            if amount <= 0 or not short.any():
                continue
            asked = min(MOST, self.unsatisfiable.asked(pod_class, resource))
            alone = short & (free < asked) & (asked > 0)  # NodeResourcesFit skips what a pod does not request
            usable = alone & pod_class.verdicts.allowed
            sizes = self.unsatisfiable.sizes_of(resource)[usable if usable.any() else alone]
            lacking = node_fit.insufficient(resource, is_too_small=bool((sizes < asked).all()))
            yield ExcludedNodes(alone, lacking)
            with_devices = node_fit.insufficient(resource)
            yield ExcludedNodes(short & ~alone, msgspec.structs.replace(with_devices, status=with_devices.message))

    def _serving(self, pod_class: PodClass, nodes: Mask) -> Mask:
        """Return the nodes (of some) whose devices can serve one pod of a class alone."""
        parts = self.problem.parts_of(pod_class)
        serving = np.zeros(len(self.conditions), dtype=np.bool_)
        for number in self.numbers_of(nodes):
            serving[number] = self.fit_cache.serve(parts, self.conditions[number]) is not None
        return nodes & serving[self.condition_of]

    def numbers_of(self, nodes: Mask) -> list[int]:
        """Return the numbers of the conditions that some nodes have."""
        return np.flatnonzero(np.bincount(self.condition_of[nodes], minlength=len(self.conditions))).tolist()

    def fitting(self, family: tuple[PodClass, ...]) -> npt.NDArray[np.int64]:
        """Return the nodes that can serve one pod of a family alone."""
        found = np.zeros(self.problem.node_count, dtype=np.bool_)
        for pod_class in family:
            found |= self._serving(pod_class, self.room(pod_class, family).nodes)
        return np.flatnonzero(found)

    def _device_reasons(self, pod_class: PodClass, roomy: Mask) -> Iterator[Reason]:
        is_short = False
        for request in self._requests(pod_class):
            tried = list(self._tried(request, roomy))
            is_enough = any(map(self._has_enough, tried))
            nearest = max(tried, key=lambda each: nearness(each.asked, each.supply), default=None)
            takes_all = not all(asked.ask.needed for asked in request.alternatives)
            is_doubted = takes_all or not (is_enough or (nearest is not None and nearest.supply.verdicts))
            doubts = list(self.pools.reasons(roomy)) if is_doubted else []
            if nearest is not None and not is_enough:
                yield self._lacking(pod_class, request, nearest, is_doubted=bool(doubts))
            yield from doubts
            is_short |= not is_enough
        if not is_short:
            yield self._constrained(pod_class, fewer_devices.hint(self, pod_class, roomy))
        for request in self._requests(pod_class):
            yield from self.oversized.reasons(request.name, (each.ask for each in request.alternatives), roomy)

    def _tried(self, request: NamedRequest, roomy: Mask) -> Iterator[_Tried]:
        """Return what each alternative finds; one for all devices finds none on a node with a pool that is not used."""
        for asked in request.alternatives:
            nodes = roomy if asked.ask.needed else roomy & ~self.pools.doubted
            if nodes.any():
                yield _Tried(asked, nodes, self.supplies.of(asked.ask, self.oversized.serving(asked.ask, nodes)))

    def _lacking(self, pod_class: PodClass, request: NamedRequest, nearest: _Tried, *, is_doubted: bool) -> Reason:
        """Say what the nearest alternative of a request lacks; a pool that is not used makes hints doubtful."""
        asked, nodes, supply = nearest
        if not asked.ask.needed and supply.largest > MAX_RESULTS:
            return too_many(request.name, supply)
        count = len(request.alternatives)
        lead = f"none of its {count} alternatives fits; the nearest is {asked.name}: " if count > 1 else ""
        hint = "" if is_doubted else self._hint(asked.ask, supply, nodes) or fewer_devices.hint(self, pod_class, nodes)
        return self._short(f"{request.name}: {lead}", asked, supply, hint=hint)

    @staticmethod
    def _has_enough(tried: _Tried) -> bool:
        """Whether a request by itself has enough devices, so that other requests or constraints are the cause."""
        supply, needed = tried.supply, tried.asked.ask.needed
        if needed:
            return supply.most >= needed
        return 0 < supply.largest <= MAX_RESULTS and supply.free == supply.verdicts.total()

    def _requests(self, pod_class: PodClass) -> Iterator[NamedRequest]:
        return (request for request, _, _ in self.requests_of(pod_class))

    def requests_of(self, pod_class: PodClass) -> Iterator[tuple[NamedRequest, Component, int]]:
        """
        Return the requests of the class's unallocated claims with the names that users know.

        Each comes with its component and its position there.
        """
        problem = self.problem
        pod = problem.pod(pod_class.members[0])
        entries = {entry.claim: entry.entry for entry in pod.claims}
        special = pod_class.specials[0]
        resources = {} if special is None else {mapping.request: mapping.resource for mapping in special.mappings}
        for part, source in self._sources(pod_class):
            claim, component = problem.requests.claims[source.claim], problem.requests.components[part.component]
            place = f"claim {entries.get(source.claim)}, " if len(pod.claim_ids) > 1 else ""
            for order, (position, asks) in enumerate(zip(source.positions, component.requests, strict=True)):
                request = claim.requests[position]
                alternatives = [
                    NamedAlternative(each.name, ask, each.device_class)
                    for each, ask in zip(request.alternatives, asks, strict=True)
                ]
                if special is not None and claim.id == special.id:
                    name = f"resource {resources[request.name]}"
                    yield NamedRequest(name, f"{name}, ", request.name, claim.id, tuple(alternatives)), component, order
                    continue
                name = f"{place}request {request.name}"
                yield NamedRequest(name, place, request.name, claim.id, tuple(alternatives)), component, order

    def _sources(self, pod_class: PodClass) -> list[tuple[Part, Source]]:
        """Return the components of the class's first pod, with the requests that they come from."""
        owners = [(pod_class.parts, pod_class.sources[0])]
        owners += [(each.parts, each.sources) for each in map(self.problem.shared.__getitem__, pod_class.shared)]
        return [
            (part, source) for parts, rows in owners for part, row in zip(parts, rows, strict=True) for source in row
        ]

    def _short(self, lead: str, asked: NamedAlternative, supply: DeviceSupply, *, hint: str) -> Reason:
        """Describe what a request lacks; a hint replaces the message of a failed selector."""
        text = shortage(self.problem, asked, supply)
        if failed := supply.verdicts.get(Verdict.FAILED, 0):
            failure = self.problem.requests.answers[asked.ask.demand].failure
            shown = "" if hint or not self.problem.policy.tells_inventory else f" {failure}"
            text += f", {failed} could not be checked (CEL runtime error{shown})"
        return hinted(Reason(code=code_of(supply, asked.ask.needed), message=lead + text), hint)

    def _hint(self, ask: Ask, supply: DeviceSupply, roomy: Mask) -> str:
        """Return a hint for a request that cannot fit the cluster as it is written."""
        matching = supply.verdicts.total() - supply.verdicts.get(Verdict.FAILED, 0)
        tells_inventory = self.problem.policy.tells_inventory
        if matching == 0:
            return self.hints.on_nothing(ask.demand, roomy) if tells_inventory else ""
        if supply.verdicts.get(Verdict.CAPACITY) == matching:
            return self.hints.on_capacity(ask.demand) if tells_inventory else ""
        if 0 < supply.largest < ask.needed <= matching:
            return f"a claim never spans nodes, so split it over pods with at most {supply.largest} each"
        return ""

    def _match_hint(self, pod_class: PodClass) -> str:
        """Return a hint on an attribute of a constraint that no device of a request publishes."""
        if not self.problem.policy.tells_inventory:
            return ""
        claims, components = self.problem.requests.claims, self.problem.requests.components
        found = (
            self.hints.on_links(claims[source.claim], source.positions, components[part.component])
            for part, source in self._sources(pod_class)
        )
        return next(filter(None, found), "")

    def _together(self, pod_class: PodClass) -> str:
        """Say how many devices the requests need together, if no node has so many for all of them."""
        asked = [request.alternatives for request in self._requests(pod_class)]
        if any(len(each) > 1 or not each[0].ask.needed for each in asked):
            return ""
        needed, most = sum(each[0].ask.needed for each in asked), self.supplies.together(each[0].ask for each in asked)
        if most is None or most >= needed:
            return ""
        is_admin = any(self.problem.requests.demands[each[0].ask.demand].is_admin for each in asked)
        once = "; a claim gets a device once, also for admin access" if is_admin else ""
        return f": they need {needed} together, and no node has more than {most} free for them{once}"

    def _constrained(self, pod_class: PodClass, fallback: str) -> Reason:
        attributes = []
        for part in self.problem.parts_of(pod_class):
            for link in self.problem.requests.components[part.component].links:
                relation = "equal" if link.kind is ConstraintKind.MATCH else "different"
                attributes.append(f"{relation} {link.attribute.domain}/{link.attribute.id}")
        named: defaultdict[str, list[str]] = defaultdict(list)
        for request in self._requests(pod_class):
            named[request.place].append(request.short)
        names = "; ".join(
            f"{place}{wording.nouns(len(each), 'request')} {', '.join(each)}" for place, each in named.items()
        )
        code = ReasonCode.DEVICES_CONSTRAINT
        if attributes:
            wanted = " and ".join(dict.fromkeys(attributes))
            message = f"{names}: enough devices are free, but no combination of them on one node has {wanted}"
        elif sum(map(len, named.values())) == 1:
            code = ReasonCode.DEVICES_COUNTERS
            limits = "shared counters" + (" or compatibility groups" if self.problem.inventory.exclusions else "")
            message = f"{names}: enough devices are free, but their {limits} do not suffice for all of them"
        else:
            message = f"{names}: enough devices are free for each request, but not for all requests on one node"
            message += self._together(pod_class) or (_EXCLUDED if self.problem.inventory.exclusions else "")
        return hinted(Reason(code=code, message=message), self._match_hint(pod_class) or fallback)

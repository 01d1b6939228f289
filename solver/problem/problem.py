"""The problem in dense form: a frozen value of a few named parts, which greedy, model, search and extraction read."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

import numpy as np

from solver.arrays import Amounts, Mask
from solver.domain import (
    EXPECTED_ROOM,
    Batch,
    Claim,
    ClaimId,
    DeviceClass,
    ExtendedResourceClaim,
    Pod,
    Policy,
    Reason,
    SearchParams,
    Snapshot,
)
from solver.problem.costs.cost_model import NO_COST_MODELS, CostModels
from solver.problem.devices.inventory import Inventory
from solver.problem.devices.layout import GLOBAL, DeviceLayout, NodeGroup, State
from solver.problem.devices.ledger import DeviceLedger
from solver.problem.devices.node_ledger import NodeLedger
from solver.problem.devices.states import DeviceStates
from solver.problem.node_arrays import Room, numbered
from solver.problem.placed_levels import CountedClass, PlacedLevel, Tier, placed_levels
from solver.problem.requests.component import Component, Option
from solver.problem.requests.demand import Answers, DemandKey
from solver.problem.requests.expected_kinds import ExpectedKind
from solver.problem.requests.options import PayUnits, options, unpaid
from solver.problem.requests.remaining_options import are_complete, remaining_options
from solver.problem.rules_among_pods import PodRules
from solver.rules.forms.limits import Limit
from solver.rules.verdicts import NodeVerdicts
from solver.rules.volumes.nodes import VolumeIndex
from solver.rules.volumes.topology import VolumeKey

Requests = tuple[tuple[str, int], ...]
"""Resource requests of a pod: resource name and amount, in the units of `Pod.requests`."""


class Source(NamedTuple):
    """Where one copy of a component comes from: the claim and the positions of its requests in it."""

    claim: ClaimId
    positions: tuple[int, ...]


QUOTA_SHARES: Final = "quota-shares"
"""The level of what quotas hold beyond their shares, where not all pods fit; less is better."""
GANG_TOPOLOGY: Final = "gang-topology"
"""The level that counts the domains of preferred levels that gangs occupy; fewer is better."""
DOMAIN_ALLOCATION: Final = "domain-allocation"
"""The level of the free share of the domains that gangs take; less is better."""
SCORES: Final = "scores"
"""The level of node scores, which goes last."""


class Part(NamedTuple):
    """A component that a pod (or a shared claim) needs `copies` times."""

    component: int
    copies: int


@dataclass(frozen=True, slots=True, eq=False)
class PodClass:
    """
    An equivalence class of pods (see `pod_classes.PodClassKey`); `members` are positions in the batch, in queue order.

    `sources[i][j][k]` is the k-th copy of the j-th part of the i-th member. `shared` are indices of unallocated claims
    that several pods of the batch use.

    Where nodes serve the extended resources of a pod in different ways, the pod has one class per way. These classes
    differ in nodes, requests and parts and share their members: a family, named by the index of its first class.
    `specials` are the extended resource claims (KEP-5004) of the members. `obstacles` (of the first class) explain the
    ways that have no class. `volumes` is what the pods' volumes ask of other pods, None without volumes. `within`
    names the device attributes whose values tell the class from the others of its family on the same nodes.
    """

    index: int
    priority: int
    requests: Requests
    verdicts: NodeVerdicts
    parts: tuple[Part, ...]
    shared: tuple[int, ...]
    family: int
    members: Sequence[int] = ()
    sources: Sequence[tuple[tuple[Source, ...], ...]] = ()
    specials: Sequence[ExtendedResourceClaim | None] = ()
    obstacles: tuple[Reason, ...] = ()
    volumes: VolumeKey | None = None
    is_overdue: bool = False
    within: str = ""
    guarantee: int = -1
    """The DeviceQuota within whose guarantee its pods are counted; -1 for pods that may be beyond every guarantee."""

    @property
    def tier(self) -> Tier:
        """The tier of its pods in queue order."""
        return Tier(self.priority, self.is_overdue)

    @property
    def size(self) -> int:
        """How many pods it holds."""
        return len(self.members)

    def first(self, count: int) -> "PodClass":
        """Return the same class with its first pods only."""
        members, sources, specials = self.members[:count], self.sources[:count], self.specials[:count]
        return replace(self, members=members, sources=sources, specials=specials)


@dataclass(frozen=True, slots=True, eq=False)
class SharedClaim:
    """A claim without allocation that several pods of the batch use: allocated once or not at all."""

    index: int
    claim: Claim
    parts: tuple[Part, ...]
    sources: tuple[tuple[Source, ...], ...]


@dataclass(frozen=True, slots=True, eq=False)
class DeviceRequests:
    """
    What pods ask of devices, each thing once: `demands` and their `answers` by number, `components` of claims.

    `claims` include the extended resource claims that would be created. `takes_node_resources` says whether some device
    takes of the resources of its node (KEP-5517). `worth` is that of a place for each expected kind
    (`expected_room.weighted`).
    """

    claims: Mapping[ClaimId, Claim]
    device_classes: Mapping[str, DeviceClass]
    demands: tuple[DemandKey, ...]
    answers: tuple[Answers, ...]
    components: list[Component]
    takes_node_resources: bool = False
    expected: tuple[ExpectedKind, ...] = ()
    worth: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Available:
    """
    What nodes and devices have left.

    `room` is cpu, memory and so on per node, `states` the budgets of devices per node, `wide_state` the cluster-wide
    budgets, `ledger` the devices in use. `is_unused` marks nodes with devices none of which is in use. `kind_of` and
    `kinds` number nodes by group and state (`DeviceStates`), `keys` keeps `Problem.device_keys`.
    """

    ledger: DeviceLedger
    room: Room
    states: list[State]
    wide_state: State
    is_unused: Mask
    kind_of: Amounts
    kinds: Sequence[tuple[int, State]]
    keys: list[tuple[list["NodeDeviceKey"], Amounts]] = field(init=False, default_factory=list)

    @classmethod
    def of(cls, ledger: DeviceLedger, room: Room, left: DeviceStates) -> "Available":
        """Bring together what is left of nodes and of devices."""
        return cls(ledger, room, left.local, left.wide, left.is_unused, left.kind_of, left.kinds)

    def left(self, node: int, budget: int) -> int:
        """Return the units left of a budget of devices, of a node or of the cluster."""
        return self.wide_state[budget - GLOBAL] if budget >= GLOBAL else self.states[node][budget]

    @property
    def device_states(self) -> DeviceStates:
        """What is left of devices."""
        return DeviceStates(self.states, self.wide_state, self.is_unused, self.kind_of, list(self.kinds))


@dataclass(frozen=True, slots=True, eq=False)
class OptionCache:
    """
    Options by component and group, for what is left at first; `expected` keeps what `expected_room` counts.

    A problem shares it with its parts, so that all number options alike whatever they have left themselves.
    """

    available: Available
    known: dict[tuple[Component, int], tuple[Option, ...]] = field(default_factory=dict)
    expected: list[Any] = field(default_factory=list)

    def find(self, component: Component, group: NodeGroup, layout: DeviceLayout, pay: PayUnits) -> tuple[Option, ...]:
        """Enumerate options; those that do not depend on what is left are kept as long as the layout."""
        key = (component, group.index)
        found = layout.options.get(key)
        if found is None:
            found = layout.options[key] = options(component, group, layout, pay)
        if not are_complete(component, found):
            here = (node for node, each in enumerate(layout.group_of) if each == group.index)
            states = dict.fromkeys(self.available.states[node] for node in here)
            left = [NodeLedger.of(each, self.available.wide_state) for each in states]
            found += remaining_options(component, group, layout, left, pay)
        self.known[key] = found
        return found


class NodeDeviceKey(NamedTuple):
    """
    The key of node equivalence as far as devices go: nodes with equal keys can serve the same claims in the same ways.

    A caller that needs more adds it: `cells` the classes that may use the node, gang domains and costs, `columns` these
    and the room, `device_fit.Condition` the cluster-wide budgets. Without these three parts no two nodes are equal.
    """

    group: int
    """Index of the group: types of devices and totals of budgets (`layout.GroupKey`)."""
    state: State
    """Units left of each budget."""
    is_unused: bool
    """Whether the node has devices and none is in use: to take the first one opens the node."""


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """
    A snapshot and a batch in dense form, built by `prepare`.

    `inventory` and `layout` describe the devices, `requests` what pods ask of them, `available` what is left. `classes`
    and `shared` describe the pods, `rules` what pods demand of each other, `costs` the costs of places, `volume_index`
    the volumes, `option_cache` the options. `rejected` are the reasons of pods that nothing can place, by batch
    position. A changed problem is a new value: `replace` one part.
    """

    snapshot: Snapshot
    batch: Batch
    policy: Policy
    inventory: Inventory
    layout: DeviceLayout
    requests: DeviceRequests
    available: Available
    classes: Sequence[PodClass]
    shared: Sequence[SharedClaim]
    rejected: Mapping[int, tuple[Reason, ...]]
    option_cache: OptionCache
    rules: PodRules = field(default_factory=PodRules)
    costs: CostModels = NO_COST_MODELS
    volume_index: VolumeIndex | None = None
    params: SearchParams = field(default_factory=SearchParams)
    _placed_levels: list[tuple[PlacedLevel, ...]] = field(init=False, default_factory=list)

    @property
    def node_count(self) -> int:
        """How many nodes there are."""
        return len(self.inventory.nodes)

    def group(self, node: int) -> NodeGroup:
        """Describe a node."""
        return self.layout.groups[self.layout.group_of[node]]

    def options(self, component: int, group: NodeGroup, pay: PayUnits = unpaid) -> tuple[Option, ...]:
        """
        Ways to serve a component on nodes of a group.

        Raise `AllowanceSpentError` where `pay` does.
        """
        key = (self.requests.components[component], group.index)
        found = self.option_cache.known.get(key)
        return self.option_cache.find(key[0], group, self.layout, pay) if found is None else found

    def ledger(self, node: int) -> NodeLedger:
        """Begin a ledger with what a node and the cluster have left of devices."""
        return NodeLedger.of(self.available.states[node], self.available.wide_state)

    def device_key(self, node: int) -> NodeDeviceKey:
        """Return the key of node equivalence as far as devices go."""
        available = self.available
        return NodeDeviceKey(self.layout.group_of[node], available.states[node], bool(available.is_unused[node]))

    def device_keys(self) -> tuple[list[NodeDeviceKey], Amounts]:
        """Return the keys of node equivalence that occur, in the order of their first nodes, and each node's number."""
        left = self.available
        if not left.keys:
            codes, place_of = numbered(2 * left.kind_of + left.is_unused)
            kinds, known = self.layout.device_keys
            if kinds is not left.kinds:
                known = {}
                self.layout.device_keys = left.kinds, known
            for code in codes:
                if code not in known:
                    known[code] = NodeDeviceKey(*left.kinds[code // 2], bool(code % 2))
            left.keys.append(([known[code] for code in codes], place_of))
        return left.keys[0]

    def rejecting(self, reasons: Mapping[int, tuple[Reason, ...]]) -> "Problem":
        """Return the same problem with more pods that have their reasons already, by batch position."""
        return replace(self, rejected={**self.rejected, **reasons}) if reasons else self

    def with_limits(self, limits: Iterable[Limit]) -> "Problem":
        """Return the same problem with more limits."""
        return replace(self, rules=replace(self.rules, limits=(*self.rules.limits, *limits)))

    def with_no_unused_nodes(self) -> "Problem":
        """Return the same problem where no node counts as unused: to take its first device opens nothing."""
        return replace(self, available=replace(self.available, is_unused=np.zeros(self.node_count, dtype=np.bool_)))

    def with_verdicts(self, verdicts: Mapping[int, NodeVerdicts]) -> "Problem":
        """Return the same problem where some classes, by index, may use other nodes."""
        if not verdicts:
            return self
        classes = [
            replace(each, verdicts=verdicts[each.index]) if each.index in verdicts else each for each in self.classes
        ]
        return replace(self, classes=classes)

    def pod(self, position: int) -> Pod:
        """Return a pod of the batch."""
        return self.batch.pods[position]

    def is_coupled(self, pod_class: PodClass, *, by_gangs: bool = True, by_quotas: bool = True) -> bool:
        """
        Whether pods of a class depend on where others are, so that no part of the cluster can be solved alone.

        All stages that solve a part ask this. Without `by_gangs` a gang does not count: it can be solved alone where
        all of it is. Without `by_quotas` no quota counts: a part is solved with what the others leave of it.
        """
        index, rules = pod_class.index, self.rules
        is_joined = pod_class.shared or index in rules.inter_pod.concerned
        is_joined = is_joined or (by_quotas and rules.quotas.binds(index))
        return bool(is_joined or index in rules.limited or (by_gangs and index in rules.in_gangs))

    @property
    def other_levels(self) -> tuple[str, ...]:
        """
        Name the levels after the placed ones: those of expected pods only where some pod takes devices.

        Few domains of gangs come first and full domains before the scores, unless the policy places these itself.
        """
        expects = self.requests.expected and any(each.parts or each.shared for each in self.classes)
        named = tuple(each for each in self.policy.levels if each != EXPECTED_ROOM or expects)
        if self.costs.domains and DOMAIN_ALLOCATION not in named:
            at = named.index(SCORES) if SCORES in named else len(named)
            named = (*named[:at], DOMAIN_ALLOCATION, *named[at:])
        is_own = GANG_TOPOLOGY not in named and any(rule.preferred for rule in self.rules.gangs)
        named = (GANG_TOPOLOGY, *named) if is_own else named
        return (QUOTA_SHARES, *named) if self.rules.quotas.shares else named

    def parts_of(self, pod_class: PodClass) -> tuple[Part, ...]:
        """Return what a pod of a class needs: of its own, and of the claims that it shares."""
        return pod_class.parts + tuple(part for each in pod_class.shared for part in self.shared[each].parts)

    def within(self, nodes: Mask) -> "Problem":
        """Return the same problem with all other nodes ruled out."""
        classes = [replace(each, verdicts=each.verdicts.within(nodes)) for each in self.classes]
        reserved = self.rules.reserved
        nodes_left = {key: frozenset(node for node in those if nodes[node]) for key, those in reserved.items()}
        return replace(self, classes=classes, rules=replace(self.rules, reserved=nodes_left))

    def on(self, node: int) -> "Problem":
        """Return the same problem with every node ruled out but one."""
        return self.within(np.arange(self.node_count) == node)

    @property
    def families(self) -> list[tuple[PodClass, ...]]:
        """Classes that share their members, each pod in exactly one family; most have one class."""
        found: dict[int, list[PodClass]] = {}
        for each in self.classes:
            found.setdefault(each.family, []).append(each)
        return [tuple(each) for each in found.values()]

    @property
    def placed_levels(self) -> tuple[PlacedLevel, ...]:
        """Levels that count the pods placed, or their devices, most important first."""
        if not self._placed_levels:
            counted = (
                CountedClass(each.index, each.family, each.tier, self.devices_of(each), each.guarantee >= 0)
                for each in self.classes
            )
            self._placed_levels.append(placed_levels(self.policy, counted))
        return self._placed_levels[0]

    def devices_of(self, pod_class: PodClass) -> int:
        """Count the devices that claims of a pod's own ask for: of alternatives the most, of all that match one."""
        components = self.requests.components
        return sum(
            part.copies * sum(max(max(ask.needed, 1) for ask in asks) for asks in components[part.component].requests)
            for part in pod_class.parts
        )

    @property
    def tiers(self) -> list[Tier]:
        """Tiers that occur, the first to be placed first."""
        return sorted({each.tier for each in self.classes}, reverse=True)

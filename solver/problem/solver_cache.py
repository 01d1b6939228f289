"""
The cache between solves, so that a decision costs what changed in the cluster and not what exists.

Everything in it follows from frozen values and is kept under their identity or by key: a warm solve gives the plan of a
cold one (a property checks it). Nothing here is needed for correctness. When nodes change, all is rebuilt; when
only slices and taint rules change, `devices.inventory_update` and `devices.incremental` update inventory and layouts.
Claims and pods are counted by those that changed (`domain.changed_objects`). What a problem was given never changes.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from solver.arrays import Amounts
from solver.bounded_cache import MIB, BoundedCache
from solver.domain import Allowance, DeviceTaintRule, Node, OwnedDevices, Pod, ResourceSlice, Snapshot
from solver.feasibility.device_attributes import AttributeName
from solver.held_room import RunningPlaces
from solver.problem import gang_domains, node_arrays
from solver.problem.devices import (
    device_properties,
    device_types,
    incremental,
    inventory_builder,
    inventory_update,
    node_groups,
)
from solver.problem.devices.device_types import Column, ComparedAttribute, LayoutInput
from solver.problem.devices.inventory import DeviceRecord, Inventory
from solver.problem.devices.inventory_update import UpdatedInventory
from solver.problem.devices.layout import ChargedKey, DeviceLayout
from solver.problem.devices.ledger import ClaimTracker
from solver.problem.devices.slice_cache import SelectorResults, Selectors, SliceCache
from solver.problem.devices.states import DeviceStates, StateCounter
from solver.problem.requests import demand, evaluation
from solver.problem.requests.component import Ways
from solver.problem.requests.demand import Answers, DemandKey
from solver.problem.requests.evaluation import Requester, Unfinished
from solver.problem.requests.expected_kinds import ExpectedKindsCache
from solver.problem.requests.spared_devices import SpareDevices
from solver.rules.inter_pod.inter_pod_context import InterPodCache, Topologies
from solver.rules.inter_pod.running_pods import RunningPods
from solver.rules.node_fit import values as node_fit
from solver.rules.node_fit.nodes import NodeMatcher
from solver.rules.quotas.quota_cache import QuotaCache
from solver.rules.verdicts import NodeVerdicts

_MOST_LAYOUTS: Final = 64
"""Layouts that are kept at most. Pods with other demands than these cost a look at every node."""
_FEWEST_LAYOUTS: Final = 8
_MOST_PLACES: Final = 400_000
"""Devices that are kept in all layouts together, if there are more than the fewest: some 250 bytes each."""
_ANSWERS_BYTES: Final = 64 * MIB
_NODES_BYTES: Final = 32 * MIB
"""Of caches about nodes: which pods may use them, and amounts per node."""
_WAYS_BYTES: Final = 64 * MIB
_COSTS_BYTES: Final = 4 * MIB
_ATTRIBUTES_BYTES: Final = 32 * MIB
_ITEMS: Final = 150
"""Bytes of the values of one attribute of one device."""
_VERDICT: Final = 50
"""Bytes of the answer of one device, and as many for its consumption."""

_Basis = tuple[tuple[Node, ...], tuple[ResourceSlice, ...], tuple[DeviceTaintRule, ...], OwnedDevices]
_LeftOut = frozenset[tuple[int, frozenset[int] | None]]
_LayoutKey = tuple[tuple[DemandKey, ...], tuple[ComparedAttribute, ...], tuple[_LeftOut, ...], tuple[ChargedKey, ...]]
"""Demands, compared attributes, the spared devices by demand (KEP-5517), and what quotas count."""


@dataclass(slots=True, eq=False)
class SolverCache:
    """The cache of one solver process; never shared between threads."""

    _basis: _Basis | None = None
    _inventory: Inventory | None = None
    _answers: BoundedCache[DemandKey, Answers] = field(
        default_factory=partial(BoundedCache, _ANSWERS_BYTES, patient=True)
    )
    _stale: dict[DemandKey, tuple[Answers, frozenset[int]]] = field(default_factory=dict)
    """Answers for earlier inventories, with the indices of devices that were replaced since."""
    _layouts: dict[_LayoutKey, DeviceLayout] = field(default_factory=dict)
    _outdated: dict[_LayoutKey, tuple[DeviceLayout, dict[int, DeviceRecord | None]]] = field(default_factory=dict)
    """Layouts for earlier inventories, with the devices that were replaced since, as they were."""
    _by_value: BoundedCache[tuple[DemandKey, tuple[AttributeName, ...]], dict[tuple[str, ...], Answers]] = field(
        default_factory=partial(BoundedCache, _ANSWERS_BYTES)
    )
    _columns: BoundedCache[AttributeName, Column] = field(
        default_factory=partial(BoundedCache, _ATTRIBUTES_BYTES, patient=True)
    )
    _verdicts: BoundedCache[node_fit.NodeDemand, NodeVerdicts] = field(
        default_factory=partial(BoundedCache, _NODES_BYTES)
    )
    _node_matcher: NodeMatcher | None = None
    _claim_tracker: ClaimTracker | None = None
    _states: list[StateCounter] = field(default_factory=list)
    """What is left in layouts, those for earlier inventories included."""
    _room: node_arrays.RoomCounter | None = None
    _inter_pod_cache: InterPodCache | None = None
    _slice_cache: SliceCache = field(default_factory=SliceCache)
    _nodes: tuple[Node, ...] = ()
    _per_node: BoundedCache[Hashable, Amounts] = field(default_factory=partial(BoundedCache, _NODES_BYTES))
    quotas: QuotaCache = field(default_factory=QuotaCache)
    _ways: BoundedCache[Hashable, Ways] = field(default_factory=partial(BoundedCache, _WAYS_BYTES, patient=True))
    costs: BoundedCache[Hashable, int] = field(default_factory=partial(BoundedCache, _COSTS_BYTES))
    """Cost units that were not enough, by claim spec; valid while the devices are the same."""
    running_places: RunningPlaces = field(default_factory=dict)  # of holds
    expected: ExpectedKindsCache = field(default_factory=ExpectedKindsCache)
    paid_units: int = 0  # cost units of all decisions so far (`Budget.cost_units`)

    def inventory(self, snapshot: Snapshot, owned_devices: OwnedDevices) -> Inventory:
        """Return the inventory; rebuilt or updated when nodes, slices or taint rules changed."""
        basis = (snapshot.nodes, snapshot.slices, snapshot.taint_rules, owned_devices)
        if (self._inventory is None or not self._is_current(basis)) and not self._update(basis):
            nodes = self._sorted(snapshot.nodes)
            ownership = device_properties.resolve(owned_devices, nodes)
            self._inventory = inventory_builder.build_inventory(
                nodes,
                snapshot.slices,
                snapshot.taint_rules,
                ownership,
                self._slice_cache,
                known=self._inventory.pools if self._inventory is not None else {},
            )
            self._slice_cache.keep(snapshot.slices)
            self._basis = basis
            self._answers.clear()
            self._stale.clear()
            self._by_value.clear()
            self._columns.clear()
            self.costs.clear()
            self._layouts.clear()
            self._outdated.clear()
            self._inter_pod_cache = None
        return self._known()

    @property
    def caches(self) -> list["BoundedCache[Any, Any] | SliceCache"]:
        """The caches that are bounded in bytes and grow with what users write."""
        return [
            self._answers,
            self._by_value,
            self._ways,
            self.costs,
            self._slice_cache,
            self._columns,
            self._verdicts,
            self._per_node,
            *(self._node_matcher.caches if self._node_matcher is not None else ()),
        ]

    def trim(self) -> None:
        """Drop least recently used entries beyond the bounds; called before a decision, never in one."""
        self._answers.trim()
        self._columns.trim()
        self._ways.trim()
        self._slice_cache.trim()

    def _known(self) -> Inventory:
        if self._inventory is None:
            raise AssertionError("no inventory was built")
        return self._inventory

    def _update(self, basis: _Basis) -> bool:
        """Update inventory and caches where only some slices and taint rules changed; false where more did."""
        was = self._basis
        if self._inventory is None or was is None or was[0] is not basis[0] or was[3] != basis[3]:
            return False
        found = inventory_update.updated_inventory(self._inventory, was[1], basis[1], basis[2], self._slice_cache)
        if found is None:
            return False
        wanted = {key for demands, *_ in (*self._layouts, *self._outdated) for key in demands if not key.within}
        stale = {key: (answers, changed.union(found.replaced)) for key, (answers, changed) in self._stale.items()}
        stale |= {key: (answers, frozenset(found.replaced)) for key, answers in self._answers.items()}
        self._stale = {key: each for key, each in stale.items() if key in wanted}
        self._answers.clear()
        self.costs.clear()
        outdated = {key: (layout, found.replaced | old) for key, (layout, old) in self._outdated.items()}
        outdated |= {key: (layout, found.replaced) for key, layout in self._layouts.items()}
        self._outdated = dict(list(outdated.items())[-_MOST_LAYOUTS:])
        self._layouts.clear()
        self._by_value.clear()
        for index in found.replaced:
            for column in self._columns.values():
                column.pop(index, None)
        self._follow_claims(self._inventory, found)
        self._inventory, self._basis = found.inventory, basis
        self._slice_cache.keep(basis[1])
        return True

    def _follow_claims(self, before: Inventory, found: UpdatedInventory) -> None:
        """Count what claims hold again where devices came or went."""
        if found.inventory.record_of is before.record_of or self._claim_tracker is None:
            return
        if not self._claim_tracker.follow(before, found.inventory, found.pools):
            self._claim_tracker = None

    def _sorted(self, nodes: tuple[Node, ...]) -> tuple[Node, ...]:
        """Sort nodes by name; caches about nodes are cleared when some node changed."""
        if self._basis is not None and self._inventory is not None and self._basis[0] is nodes:
            return self._inventory.nodes
        self._verdicts.clear()
        self._node_matcher = None
        return tuple(sorted(nodes, key=lambda node: node.name))

    def _is_current(self, basis: _Basis) -> bool:
        if self._basis is None:
            return False
        return all(old is new for old, new in zip(self._basis[:3], basis[:3], strict=True)) and (
            self._basis[3] == basis[3]
        )

    def answers(self, inventory: Inventory, key: DemandKey) -> Answers:
        """Return the answers of all devices to a demand."""
        found = self._answers.get(key)
        if found is None:
            found = self._narrowed(inventory, key) if key.within else self._asked(inventory, key)
            self._answers.put(key, found, _VERDICT * (len(found.verdicts) + len(found.consumption)))
        return found

    def matching(self, inventory: Inventory, classes: Iterable[tuple[str, ...]]) -> Iterator[Iterator[int]]:
        """
        Return, for the selectors of each class, the records that they match.

        Raise `SelectorError` where one cannot be compiled.
        """
        wanted = tuple(classes)
        keys = (DemandKey(each, (), (), (), is_admin=False, takes_all=False) for each in wanted)
        demand.prefetch_selectors(inventory, keys, self._slice_cache)
        return (demand.matching(inventory, each, self._slice_cache) for each in wanted)

    def _asked(self, inventory: Inventory, key: DemandKey) -> Answers:
        """Compute the answers of all devices, or only of replaced ones where the other answers are known."""
        before, changed = self._stale.pop(key, (None, frozenset[int]()))
        if before is None:
            return demand.ask(inventory, key, self._slice_cache)
        return demand.ask_again(inventory, key, before, changed, self._slice_cache)

    def knows_demand(self, key: DemandKey) -> bool:
        """Whether the answers to a demand are known, apart from devices that were replaced since."""
        return key in self._answers or key in self._stale

    def knows_attribute(self, name: AttributeName) -> bool:
        """Whether the values of an attribute are known."""
        return name in self._columns

    def match_count(self, key: DemandKey) -> int:
        """Count the devices that the selectors of a demand are known to match."""
        return self._slice_cache.match_count((key.class_selectors, key.selectors))

    def evaluate(
        self, inventory: Inventory, wanted: Mapping[Selectors, Collection[Requester]], allowance: Allowance
    ) -> Unfinished:
        """Evaluate selectors on all devices as far as an allowance reaches; return those that did not finish."""
        return evaluation.evaluate(inventory, self._slice_cache, wanted, allowance)

    def learned(self) -> tuple[SelectorResults, ...]:
        """
        Return the results of selectors since the last call, for a process that has the same snapshot.

        A forked child calls it when it begins, to leave out what its parent knows, and when it ends.
        """
        return self._slice_cache.learned(self._basis[1] if self._basis is not None else ())

    def learn(self, learned: Iterable[SelectorResults], slices: Sequence[ResourceSlice]) -> None:
        """Store the results of another process on slices, in the order of its snapshot."""
        self._slice_cache.learn(learned, slices)

    def _narrowed(self, inventory: Inventory, key: DemandKey) -> Answers:
        """Divide the answers of the demand without `within` by the values of its attributes, once for all values."""
        everything = self.answers(inventory, key._replace(within=()))
        attributes = tuple(name for name, _ in key.within)
        by_value = self._by_value.get((key._replace(within=()), attributes))
        if by_value is None:
            by_value = gang_domains.split_by_value(inventory, everything, attributes)
            size = _VERDICT * sum(len(each.verdicts) for each in by_value.values())
            self._by_value.put((key._replace(within=()), attributes), by_value, size)
        return by_value.get(tuple(value for _, value in key.within), Answers())

    def layout(
        self,
        inventory: Inventory,
        demands: tuple[DemandKey, ...],
        attributes: tuple[ComparedAttribute, ...],
        spare: SpareDevices | None = None,
        charged: tuple[ChargedKey, ...] = (),
    ) -> tuple[DeviceLayout, tuple[Answers, ...]]:
        """
        Return the device layout for demands and compared attributes, and the answers of all devices.

        `spare` leaves devices out; it is given where some devices take of their nodes.
        """
        new = (key for key in demands if key not in self._answers and key not in self._stale and not key.within)
        demand.prefetch_selectors(inventory, new, self._slice_cache)
        answers = tuple(self.answers(inventory, key) for key in demands)
        left_out: tuple[_LeftOut, ...] = ()
        if spare is not None:
            answers = spare.left_out(demands, answers)
            left_out = tuple(each.left_out() for each in answers)
        key = (demands, attributes, left_out, charged)
        found = self._layouts.pop(key, None) or self._built(key, inventory, answers)
        found.ways = self._ways
        self._layouts[key] = found
        places = sum(len(each.place_of) for each in self._layouts.values())
        while len(self._layouts) > (_MOST_LAYOUTS if places <= _MOST_PLACES else _FEWEST_LAYOUTS):
            places -= len(self._layouts.pop(next(iter(self._layouts))).place_of)
        return found, answers

    def _built(self, key: _LayoutKey, inventory: Inventory, answers: tuple[Answers, ...]) -> DeviceLayout:
        demands, attributes, _, charged = key
        found = self._updated(key, inventory, answers)
        if found is None:
            is_admin, columns = tuple(each.is_admin for each in demands), self._read(inventory, attributes)
            found = node_groups.build_layout(
                device_types.layout_input(inventory, answers, is_admin, attributes, columns, charged=charged)
            )
        return found

    def _read(self, inventory: Inventory, attributes: tuple[ComparedAttribute, ...]) -> tuple[Column, ...]:
        """Return the known values of attributes, to be extended."""
        for name in (each.name for each in attributes):
            if name not in self._columns:
                self._columns.put(name, {}, _ITEMS * len(inventory.records))
        return tuple(self._columns[each.name] for each in attributes)

    def _updated(self, key: _LayoutKey, inventory: Inventory, answers: tuple[Answers, ...]) -> DeviceLayout | None:
        """Update a layout of an earlier inventory; None where there is none or it has to be built anew."""
        layout, replaced = self._outdated.pop(key, (None, {}))
        if layout is None or inventory.takes_node_resources:  # a changed device decides whether others are spared
            return None
        is_admin = tuple(each.is_admin for each in key[0])
        columns = self._read(inventory, key[1])
        fresh = LayoutInput(inventory, answers, key[1], is_admin, defaultdict(list), columns, charged=key[3])
        found = incremental.updated_layout(layout, fresh, replaced)
        if found is None:
            return None
        for each in (each for each in self._states if each.layout is layout):
            each.move_to(*found)
        return found.layout

    def claims(self, inventory: Inventory, snapshot: Snapshot) -> ClaimTracker:
        """Return the claims of a snapshot by id, and the devices that they hold."""
        found = self._claim_tracker
        if found is None or not found.is_for(inventory, snapshot):
            found, self._states = ClaimTracker.of(inventory, snapshot), []
            self._claim_tracker = found
        found.count(inventory, snapshot)
        for each in self._states if any(found.ledger.touched) else ():
            each.note(found.ledger.touched)
        return found

    def states(self, layout: DeviceLayout, inventory: Inventory, snapshot: Snapshot) -> DeviceStates:
        """Return what the claims of a snapshot leave of the budgets of nodes."""
        ledger = self.claims(inventory, snapshot).ledger
        found = next((each for each in self._states if each.layout is layout), None)
        if found is None:
            known = {id(each) for each in (*self._layouts.values(), *(old for old, _ in self._outdated.values()))}
            found = StateCounter.of(layout, inventory, ledger)
            self._states = [*(each for each in self._states if id(each.layout) in known), found]
        return found.count(inventory, ledger)

    def room(self, inventory: Inventory, pods: tuple[Pod, ...]) -> node_arrays.Room:
        """Return what running pods leave of nodes."""
        if self._room is None or self._room.nodes is not inventory.nodes:
            self._room = node_arrays.RoomCounter.of(inventory.nodes, inventory.node_index)
        return self._room.count(pods)

    def per_node(self, inventory: Inventory, key: Hashable, compute: Callable[[], Amounts]) -> Amounts:
        """Return an amount per node that follows from the nodes alone; computed once while nodes do not change."""
        if self._nodes is not inventory.nodes:
            self._per_node.clear()
            self._nodes = inventory.nodes
        found = self._per_node.get(key)
        if found is None:
            found = self._per_node[key] = compute()
        return found

    def inter_pod(self, inventory: Inventory, pods: tuple[Pod, ...]) -> InterPodCache:
        """Return what inter-pod rules are computed from; running pods are indexed anew when one changed."""
        found = self._inter_pod_cache
        if found is None:
            running = RunningPods.of(pods, inventory.node_index)
            found = InterPodCache(self.node_matcher(inventory), Topologies(inventory.labels), running)
            self._inter_pod_cache = found
        else:
            found.running = found.running.changed(pods)
        return found

    def node_matcher(self, inventory: Inventory) -> NodeMatcher:
        """Return the filters over nodes and their labels."""
        self._node_matcher = self._node_matcher or NodeMatcher(inventory.nodes, inventory.labels)
        return self._node_matcher

    def node_verdicts(self, inventory: Inventory, wanted: node_fit.NodeDemand) -> NodeVerdicts:
        """Return the nodes that a pod may use, whatever runs there."""
        found = self._verdicts.get(wanted)
        if found is None:
            found = self._verdicts[wanted] = self.node_matcher(inventory).verdicts(wanted)
        return found

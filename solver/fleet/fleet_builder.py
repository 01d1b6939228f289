"""The fleet of a snapshot: every device with its state, its holders and what is left of it."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from solver.domain import (
    BINDING_FAILED_TAINT,
    AllocationMode,
    Device,
    DeviceClass,
    DeviceId,
    DeviceTaintRule,
    NodeScope,
    Policy,
    ResourceSlice,
    Snapshot,
    Taint,
)
from solver.domain.fleet import (
    CapacityLeft,
    CounterLeft,
    DeviceHolder,
    DeviceProblem,
    DeviceState,
    Fleet,
    FleetDevice,
    RequestSize,
    UnusableCause,
    UnusablePool,
)
from solver.feasibility import capacity, selectors
from solver.feasibility.device_attributes import AttributeName, lookup
from solver.feasibility.pools import Pool
from solver.fleet.availability import Availability
from solver.fleet.device_facts import Holders, NodeFacts, NodeReach, holders_of, product_of
from solver.problem.devices.compatibility import is_exclusion
from solver.problem.devices.inventory import DeviceRecord, Inventory
from solver.problem.prepare import gc_paused
from solver.problem.requests.demand import Answers, DemandKey, DeviceEvaluation, Verdict
from solver.problem.solver_cache import SolverCache
from solver.rules.taints.values import first_untolerated_taint

_EVERY_DEVICE: Final = DemandKey((), (), (), (), is_admin=False, takes_all=False)
"""A request without selectors: the answer to it is about the device alone."""
_VERDICTS: Final = {
    Verdict.NOT_OWNED: DeviceProblem(UnusableCause.NOT_OWNED, "left to another scheduler by the configuration"),
    Verdict.TOO_LARGE: DeviceProblem(UnusableCause.NODE_TOO_SMALL, "it takes more of its node than the node has"),
    Verdict.UNDECLARED: DeviceProblem(
        UnusableCause.NODE_TOO_SMALL, "its node does not declare the feature that its slice needs"
    ),
    Verdict.CAPACITY: DeviceProblem(UnusableCause.NODE_TOO_SMALL, "its default share is larger than the device"),
}


def fleet_of(
    snapshot: Snapshot,
    policy: Policy = Policy(),  # noqa: B008 - a frozen value
    cache: SolverCache | None = None,
    *,
    node_group_label: str = "",
    pod_uids: Collection[str] | None = None,
    matches_classes: bool = True,
) -> Fleet:
    """
    Return every device of a snapshot; a cache that is kept saves the evaluation of selectors on unchanged slices.

    `policy` says which devices may be allocated and which labels and attributes group nodes and devices.
    `node_group_label` is the node label whose value becomes `FleetDevice.node_group`; empty: nodes have no group.
    `pod_uids` are those of all pods that exist, for `DeviceHolder.gone`; None where this is not known. Without
    `matches_classes` no device has classes, and no class is found to be broken.
    """
    cache = SolverCache() if cache is None else cache
    with gc_paused():
        inventory = cache.inventory(snapshot, policy.owned)
        builder = _FleetBuilder(
            snapshot=snapshot,
            policy=policy,
            available=Availability(inventory, cache.claims(inventory, snapshot).ledger),
            answers=cache.answers(inventory, _EVERY_DEVICE),
            holders=holders_of(snapshot, pod_uids),
            node_group_label=node_group_label,
        )
        if matches_classes:
            builder.match_classes(cache)
        return Fleet(
            devices=tuple(sorted(builder.devices(), key=lambda device: device.id)),
            pools=tuple(_unusable(pool) for pool in inventory.pools.values() if not pool.is_usable),
            sizes=_sizes(snapshot),
            broken_classes=tuple(builder.broken_classes),
        )


def _unusable(pool: Pool) -> UnusablePool:
    counts = {each.slice_count for each in pool.slices}
    message = pool.invalid or f"{len(pool.slices)} of {max(counts)} slices are published"
    return UnusablePool(
        id=pool.id,
        generation=pool.generation,
        published=len(pool.slices),
        slice_count=max(counts),
        message=message,
    )


def _sizes(snapshot: Snapshot) -> tuple[RequestSize, ...]:
    """Count the requests of all claims by class and count; of alternatives the first, which is preferred, counts."""
    counts: Counter[tuple[str, int]] = Counter()
    for claim in snapshot.claims:
        for request in claim.requests:
            first = request.alternatives[0] if request.alternatives else None
            if first is None or first.admin_access or first.allocation_mode != AllocationMode.EXACT_COUNT:
                continue
            counts[first.device_class, first.count] += 1
    return tuple(RequestSize(name, count, requests) for (name, count), requests in sorted(counts.items()))


@dataclass(slots=True, eq=False, kw_only=True)
class _FleetBuilder:
    """What all devices are made from. `classes` are by record index, and shared by devices with the same classes."""

    snapshot: Snapshot
    policy: Policy
    available: Availability
    answers: Answers
    holders: Holders
    node_group_label: str
    classes: dict[int, tuple[str, ...]] = field(default_factory=dict)
    sound_classes: list[DeviceClass] = field(default_factory=list)
    broken_classes: list[str] = field(default_factory=list)
    reaches: dict[frozenset[int] | None, NodeReach] = field(default_factory=dict)
    nodes: list[NodeFacts] = field(init=False)
    roots: tuple[AttributeName, ...] = field(init=False)

    def __post_init__(self) -> None:
        """Collect what devices of a node have in common."""
        inventory = self.inventory
        pairs = zip(inventory.nodes, inventory.labels, strict=True)
        self.nodes = [NodeFacts(node, labels, self.policy, self.node_group_label) for node, labels in pairs]
        self.roots = tuple(map(AttributeName.parse, self.policy.group_attributes))

    @property
    def inventory(self) -> Inventory:
        """The usable devices."""
        return self.available.inventory

    def match_classes(self, cache: SolverCache) -> None:
        """Find the classes of each device; those whose selectors cannot be compiled are broken."""
        known: dict[tuple[str, ...], tuple[str, ...]] = {}
        sound = self.sound_classes = [each for each in self.snapshot.classes if not each.invalid and compiles(each)]
        self.broken_classes = [each.name for each in self.snapshot.classes if each not in sound]
        matching = cache.matching(self.inventory, (each.selectors for each in sound))
        for each, found in zip(sound, matching, strict=True):
            for index in found:
                longer = (*self.classes.get(index, ()), each.name)
                self.classes[index] = known.setdefault(longer, longer)

    def _classes_of(self, driver: str, device: Device) -> tuple[str, ...]:
        """Return the classes of a device without a record."""
        asking = DeviceEvaluation(driver, device, dict(device.attributes))
        return tuple(
            each.name
            for each in self.sound_classes
            if asking.all([selectors.compile_selector(text) for text in each.selectors]) is True
        )

    def devices(self) -> Iterator[FleetDevice]:
        """Return the usable devices, those that no slice or no node makes usable, and those that are only held."""
        inventory, published = self.inventory, set[DeviceId]()
        for record in inventory.records.values():
            yield self._of_record(record)
        whole = _recorded_whole(inventory)
        for each in (each for pool in inventory.pools.values() for each in pool.slices if id(each) not in whole):
            for device_id, device in _without_record(inventory, each):
                if device_id not in published:
                    published.add(device_id)
                    yield self._unusable(device_id, device, each)
        unpublished = self.holders.keys() - inventory.record_of.keys() - published
        node_of: dict[DeviceId, str] = {}
        for claim in self.snapshot.claims if unpublished else ():
            results = claim.allocation.results if claim.allocation is not None else ()
            # Of devices of several pools one alone may be the reason for the node.
            if claim.allocation is not None and len({each.device.pool_id for each in results}) == 1:
                node = claim.allocation.only_node
                node_of.update((each.device, node) for each in results if node)
        for device_id in unpublished:
            yield self._unpublished(device_id, node_of.get(device_id, ""))

    def _unpublished(self, device_id: DeviceId, node: str) -> FleetDevice:
        """Make a device that is only held; its allocations say on which node it is."""
        pool = f"pool {device_id.driver}/{device_id.pool}"
        if device_id.pool_id in self.inventory.pools:
            message = f"no ResourceSlice of the newest generation of {pool} publishes it"
        else:
            where = f" on node {node}" if node else ""
            message = f"{pool} has no ResourceSlice: its driver{where} does not run, or publishes nothing yet"
        position = self.inventory.node_index.get(node)
        facts = self.nodes[position] if position is not None else None
        return FleetDevice(
            id=device_id,
            node=node,
            nodes=facts.names if facts else (),
            node_group=facts.group if facts else "",
            domain=facts.domain if facts else "",
            state=_state_without_room(self.holders[device_id]),
            problems=(DeviceProblem(UnusableCause.UNPUBLISHED, message), *(facts.problems if facts else ())),
            holders=self.holders[device_id],
        )

    def _pool_problem(self, each: ResourceSlice, device: Device) -> DeviceProblem:
        """Say why no claim can get a device without a record."""
        pool = self.inventory.pools[each.pool_id]
        if pool.invalid:
            return DeviceProblem(UnusableCause.POOL_INVALID, f"pool {pool.id} is not used: {pool.invalid}")
        if not pool.is_complete:
            stated = f"{len(pool.slices)} of {each.slice_count} slices"
            message = f"pool {pool.id} is incomplete: {stated} of generation {pool.generation} are published"
            return DeviceProblem(UnusableCause.POOL_INCOMPLETE, message)
        scope = _scope_of(each, device)
        node = (
            f"node {scope.node_name} does not exist" if scope.node_name else "no node matches its slice's nodeSelector"
        )
        return DeviceProblem(UnusableCause.NODE_GONE, node)

    def _unusable(self, device_id: DeviceId, device: Device, each: ResourceSlice) -> FleetDevice:
        """Make a device without a record: its pool cannot be used, or it has no node."""
        scope, holders = _scope_of(each, device), self.holders.get(device_id, ())
        product = product_of(device)
        position = self.inventory.node_index.get(scope.node_name)
        facts = self.nodes[position] if position is not None else None
        taints = self.inventory.taints_of(device_id)
        return FleetDevice(
            id=device_id,
            node=scope.node_name,
            nodes=None if scope.all_nodes else (),
            node_group=facts.group if facts else "",
            domain=facts.domain if facts else "",
            root=self._root(device_id.driver, device),
            kind=product.name,
            parent=product.parent,
            is_network=product.is_network,
            classes=self._classes_of(device_id.driver, device),
            state=_state_without_room(holders),
            problems=(
                self._pool_problem(each, device),
                *self._taint_problems(device_id, taints),
                *(facts.problems if facts else ()),
            ),
            taints=taints,
            holders=holders,
        )

    def _of_record(self, record: DeviceRecord) -> FleetDevice:
        facts = self.nodes[record.home] if record.home >= 0 else None
        problems = self._problems(record, facts)
        holders = self.holders.get(record.id, ())
        device, product = record.device, product_of(record.device)
        return FleetDevice(
            id=record.id,
            node=facts.name if facts else "",
            nodes=self._reach(record.nodes).names if facts is None else facts.names,
            open_nodes=self._reach(record.nodes).open_names if facts is None else facts.names,
            node_group=facts.group if facts else "",
            domain=facts.domain if facts else "",
            root=self._root(record.id.driver, device),
            kind=product.name,
            parent=product.parent,
            is_network=product.is_network,
            classes=self.classes.get(record.index, ()),
            state=self._state(record, is_usable=not problems),
            problems=problems,
            taints=record.taints,
            is_suspect=bool(record.taints) and record.is_suspect,
            holders=holders,
            capacities=self._capacities(record) if device.allow_multiple_allocations else (),
            counters=self._counters(record) if record.counters else (),
        )

    def _reach(self, nodes: frozenset[int] | None) -> NodeReach:
        """Return the nodes that see a device of several nodes; devices with one reach share it."""
        if nodes not in self.reaches:
            seen = self.nodes if nodes is None else [self.nodes[node] for node in nodes]
            self.reaches[nodes] = NodeReach.of(sorted(seen, key=lambda each: each.name), is_everywhere=nodes is None)
        return self.reaches[nodes]

    def _problems(self, record: DeviceRecord, facts: NodeFacts | None) -> tuple[DeviceProblem, ...]:
        verdict = self.answers.verdicts[record.index]
        of_node = facts.problems if facts else self._reach(record.nodes).problems
        if verdict is Verdict.YES and not (self.answers.unfit and self._is_unfit(record)):
            return of_node
        if verdict in {Verdict.TAINTED, Verdict.AVOIDED}:
            return (*self._taint_problems(record.id, record.taints), *of_node)
        return (_VERDICTS[Verdict.TOO_LARGE if verdict is Verdict.YES else verdict], *of_node)

    def _is_unfit(self, record: DeviceRecord) -> bool:
        """Whether every node that sees a device has less than it takes of the node (KEP-5517)."""
        unfit = self.answers.unfit.get(record.index, frozenset())
        return bool(unfit) and (len(self.inventory.nodes) if record.nodes is None else len(record.nodes)) == len(unfit)

    def _taint_problems(self, device: DeviceId, taints: tuple[Taint, ...]) -> Iterator[DeviceProblem]:
        """Name each taint that excludes claims, with the rule that adds it."""
        rules = self.inventory.taint_rules.selecting(device) if taints else ()
        for taint in taints:
            if first_untolerated_taint((taint,), ()) is None:
                continue
            if taint.key == BINDING_FAILED_TAINT:
                yield DeviceProblem(UnusableCause.AVOIDED, "it did not get ready for a pod; it is tried again, last")
            else:
                yield DeviceProblem(UnusableCause.TAINTED, _taint_text(taint, rules))

    def _state(self, record: DeviceRecord, *, is_usable: bool) -> DeviceState:
        """Return the state; a device is shared while a request without capacities fits, or some of each is left."""
        ledger, index = self.available.ledger, record.index
        if index in ledger.exclusive:
            return DeviceState.HELD
        consumption = self.answers.consumption.get(index, ())
        if index in ledger.shared:
            if not consumption and record.device.allow_multiple_allocations:  # no YES: taints, for instance
                consumption = capacity.consumption(record.id.driver, record.device, {}) or ()
            has_room = self.available.obstacle(index, consumption) is None or self.available.has_share_left(index)
            is_left = is_usable and has_room
            return DeviceState.SHARED if is_left else DeviceState.HELD
        if not is_usable:
            return DeviceState.UNUSABLE
        obstacle = self.available.obstacle(index, consumption) if record.counters else None
        return DeviceState.FREE if obstacle is None else DeviceState.BLOCKED

    def _root(self, driver: str, device: Device) -> str:
        for name in self.roots:
            items = lookup(driver, device, name)
            if items:
                return str(items[0][1])
        return ""

    def _capacities(self, record: DeviceRecord) -> tuple[CapacityLeft, ...]:
        ledger = self.available.ledger
        left = {} if record.index in ledger.exclusive else ledger.capacities_left(record)
        return tuple(
            CapacityLeft(name, each.value.nano, max(0, left.get(name, 0)), each.value.text)
            for name, each in record.device.capacities
        )

    def _counters(self, record: DeviceRecord) -> tuple[CounterLeft, ...]:
        inventory, ledger = self.inventory, self.available.ledger
        return tuple(
            CounterLeft(
                each.counter_set,
                each.counter,
                takes,
                max(0, ledger.counter_left(inventory, each)),
                inventory.budgets[each],
                not is_exclusion(each),
            )
            for each, takes in record.counters
        )


def _recorded_whole(inventory: Inventory) -> set[int]:
    """Return the identities of the slices of which every device has a record: all, in most clusters."""
    return {id(each.slice) for each in inventory.spans if all(index in inventory.records for index in each.indices)}


def _without_record(inventory: Inventory, each: ResourceSlice) -> list[tuple[DeviceId, Device]]:
    """Return the devices of an unusable pool, or those that no existing node can use."""
    ids = ((DeviceId(each.driver, each.pool, device.name), device) for device in each.devices)
    return [pair for pair in ids if pair[0] not in inventory.record_of]


def _scope_of(each: ResourceSlice, device: Device) -> NodeScope:
    return each.scope if device.scope is None or not each.scope.per_device else device.scope


def _state_without_room(holders: Iterable[DeviceHolder]) -> DeviceState:
    return DeviceState.HELD if any(not each.admin_access for each in holders) else DeviceState.UNUSABLE


def _taint_text(taint: Taint, rules: Iterable[DeviceTaintRule]) -> str:
    """Write a taint as kubectl does, with the DeviceTaintRule that adds it or the driver."""
    names = [rule.name for rule in rules if rule.taint == taint]
    return f"taint {taint} of {f'DeviceTaintRule {names[0]}' if names else 'the driver'}"


def compiles(device_class: DeviceClass) -> bool:
    """Whether the selectors of a class can be read."""
    try:
        for text in device_class.selectors:
            selectors.compile_selector(text)
    except selectors.SelectorError:
        return False
    return True

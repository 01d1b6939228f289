"""
Properties of devices that follow from more than their own slice.

- `NodeSizes`: nodes that are too small for what a device takes of their resources (KEP-5517);
- `SizeClasses`: devices with equal capacities, and what they are worth beside larger ones;
- `Ownership`: which devices may be allocated, by driver and node (setting `devices.owned`);
- `DevicePairs`: devices of several drivers that stand together, such as a GPU and a network card behind one PCIe root.
  Claims pair them by an attribute that both drivers publish (`resource.kubernetes.io/pcieRoot`). A claim that needs no
  partner should take a device without one: a device whose loss costs a pair is worth more.
- `TaintRules`: taints that DeviceTaintRules add (KEP-5055).
"""

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from itertools import product
from operator import itemgetter
from typing import Final, NamedTuple

from solver.bounded_cache import MIB, BoundedCache
from solver.domain import AttributeKind, Capacity, Device, DeviceId, DeviceTaintRule, Node, OwnedDevices, Taint
from solver.feasibility import capacity
from solver.rules.node_fit import values as node_fit

_SETS_BYTES: Final = 16 * MIB
_NODE_BYTES: Final = 64
_USED_BY_ONE: Final = 1
"""The containers that use a claim, where no pod is looked at: nearly always one at least."""


@dataclass(slots=True, eq=False)
class NodeSizes:
    """
    Finds nodes by their allocatable resources; sets of nodes are cached, since most devices take the same amounts.

    `_ordered` has, by resource, the amounts of all nodes in ascending order, and the nodes in that order.
    """

    nodes: tuple[Node, ...]
    _ordered: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = field(default_factory=dict)
    _sets: BoundedCache[tuple[tuple[tuple[str, int], ...], frozenset[int] | None], frozenset[int]] = field(
        default_factory=partial(BoundedCache, _SETS_BYTES)
    )
    """By the number of nodes with too little of each resource, and the nodes that see the device."""

    def too_small(self, device: Device, consumed: Mapping[str, int], nodes: frozenset[int] | None) -> frozenset[int]:
        """
        Return those of some nodes (None: of all) that have less than one allocation of a device takes.

        `consumed` are the nano-units of the device's capacities that the allocation consumes. No pod can have it there,
        but with admin access. Counted as one that pods could get, it would keep them from all devices of the node.
        """
        amounts = capacity.node_resources(device, consumed, _USED_BY_ONE).items()
        less = (
            (resource, self._with_less(resource, capacity.request_units(resource, nano))) for resource, nano in amounts
        )
        counts = tuple((resource, count) for resource, count in less if count)
        key = (counts, nodes)
        found = self._sets.get(key) if counts else frozenset()
        if found is None:
            small = frozenset(index for resource, count in counts for index in self._ordered[resource][1][:count])
            found = small if nodes is None else small & nodes
            self._sets.put(key, found, _NODE_BYTES * len(found))
        return found

    def excess(self, device: Device, consumed: Mapping[str, int], node: int) -> Iterator[tuple[str, int, int]]:
        """Return the resources of which an allocation takes more than a node has, with both amounts."""
        there = dict(self.nodes[node].allocatable)
        for resource, nano in capacity.node_resources(device, consumed, _USED_BY_ONE).items():
            amount = capacity.request_units(resource, nano)
            if amount > there.get(resource, 0):
                yield resource, amount, there.get(resource, 0)

    def _with_less(self, resource: str, amount: int) -> int:
        """Count the nodes that have less of a resource than an amount."""
        if resource not in self._ordered:
            pairs = sorted((dict(node.allocatable).get(resource, 0), index) for index, node in enumerate(self.nodes))
            self._ordered[resource] = (tuple(size for size, _ in pairs), tuple(index for _, index in pairs))
        return bisect_left(self._ordered[resource][0], amount)


_VALUE_SCALE: Final = 100
_Size = tuple[str, bool, tuple[tuple[str, Capacity], ...]]
"""Driver, whether devices are shared, and their capacities."""


@dataclass(slots=True, eq=False)
class SizeClasses:
    """
    Devices of one driver with equal capacities, of which a request takes the same, in numbered classes.

    `values` is what a device of a class is worth: 1, plus for each capacity its percentage of the largest one that its
    driver publishes.
    """

    values: dict[int, int] = field(default_factory=dict)
    _numbers: dict[_Size, int] = field(default_factory=dict)
    _counts: Counter[int] = field(default_factory=Counter)
    _next: int = 0

    def add(self, driver: str, device: Device) -> int:
        """Count a device, and return the number of its class."""
        size = (driver, device.allow_multiple_allocations, device.capacities)
        number = self._numbers.get(size)
        if number is None:
            number = self._numbers[size] = self._next
            self._next += 1
        self._counts[number] += 1
        return number

    def without(self, numbers: Iterable[int]) -> "SizeClasses":
        """Return a copy that does not count a device of each of these classes."""
        counts = self._counts.copy()
        counts.subtract(numbers)
        return SizeClasses(self.values.copy(), self._numbers.copy(), counts, self._next)

    def settle(self) -> None:
        """Work out the values of the classes that have devices, and drop the others."""
        self._numbers = {size: number for size, number in self._numbers.items() if self._counts[number]}
        self._counts = +self._counts
        largest: defaultdict[tuple[str, str], int] = defaultdict(int)
        for driver, _, capacities in self._numbers:
            for name, each in capacities:
                largest[driver, name] = max(largest[driver, name], each.value.nano)
        self.values = {
            number: 1 + sum(_percentage(each.value.nano, largest[driver, name]) for name, each in capacities)
            for (driver, _, capacities), number in self._numbers.items()
        }


def _percentage(amount: int, most: int) -> int:
    return _VALUE_SCALE * amount // most if most else 0


@dataclass(frozen=True, slots=True)
class Ownership:
    """Answers for a driver and a node; `nodes` is None where every node is owned."""

    drivers: frozenset[str]
    nodes: frozenset[int] | None

    def includes(self, driver: str, home: int) -> bool:
        """Whether a device may be allocated; one that is not local to a node (`home` < 0) is its driver's."""
        if self.drivers and driver not in self.drivers:
            return False
        return self.nodes is None or home < 0 or home in self.nodes


def resolve(owned: OwnedDevices, nodes: tuple[Node, ...]) -> Ownership:
    """Evaluate the setting for all nodes."""
    if not owned.node_terms:
        return Ownership(frozenset(owned.drivers), None)
    matching = frozenset(
        index
        for index, node in enumerate(nodes)
        if any(node_fit.matches_term(term, node.name, dict(node.labels)) for term in owned.node_terms)
    )
    return Ownership(frozenset(owned.drivers), matching)


_MANY: Final = 1 << 30
"""The supply of a driver at a place where its devices overlap or are shared: no bound."""

Place = tuple[str, int | str]
"""Attribute and value that devices of a node have in common."""
_NUMBER: Final = AttributeKind.INT
_TEXT: Final = AttributeKind.STRING
"""Kinds of values that name places: numbers and texts, not flags or versions."""


class NodeDevice(NamedTuple):
    """A device of a node, and its record's index."""

    record: int
    driver: str
    device: Device


class PairingKey(NamedTuple):
    """What pairing reads of a device; nodes whose devices have equal keys, one by one, have equal places."""

    driver: str
    places: tuple[Place, ...]
    is_shareable: bool
    draws: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, eq=False)
class _Sites:
    """The places of nodes with equal keys, by the positions of devices: see `Pairing`."""

    places: dict[int, tuple[Place, ...]]
    members: dict[Place, dict[str, tuple[int, ...]]]
    worth: Counter[int]


@dataclass(frozen=True, slots=True, eq=False)
class DevicePairs:
    """The places of one node where devices of several drivers stand; `records` are those of all its devices."""

    records: tuple[int, ...]
    sites: _Sites

    @property
    def worth(self) -> dict[int, int]:
        """Count by record the places where it is scarce: with one device less of its driver, there is a pair less."""
        return {self.records[position]: places for position, places in self.sites.worth.items()}

    def lost(self, record: int, is_free: Callable[[int], bool]) -> int:
        """Count the places where taking a record leaves one pair of free devices less."""
        count, position = 0, self.records.index(record)
        for place in self.sites.places.get(position, ()):
            members = self.sites.members[place]
            free = {driver: sum(is_free(self.records[each]) for each in there) for driver, there in members.items()}
            own = next(driver for driver, there in members.items() if position in there)
            count += free.pop(own) <= max(free.values())
        return count


def device_pairs(devices: Sequence[NodeDevice]) -> DevicePairs | None:
    """Return the places of a node; None where no place has devices of two drivers."""
    sites = _sites(tuple(_look(each) for each in devices))
    return None if sites is None else DevicePairs(tuple(each.record for each in devices), sites)


@lru_cache(maxsize=256)
def _sites(keys: tuple[PairingKey, ...]) -> _Sites | None:
    """Return the places for a list of keys; there are few different lists, however many nodes there are."""
    members: defaultdict[Place, defaultdict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for position, key in enumerate(keys):
        for place in key.places:
            members[place][key.driver].append(position)
    shared = {place: by_driver for place, by_driver in members.items() if len(by_driver) > 1}
    if not shared:
        return None
    places: defaultdict[int, list[Place]] = defaultdict(list)
    worth = Counter[int]()
    for place, by_driver in shared.items():
        supply = {driver: _supply([keys[each] for each in there]) for driver, there in by_driver.items()}
        for driver, there in by_driver.items():
            partners = max(count for other, count in supply.items() if other != driver)
            spare = max(0, len(there) - partners) if supply[driver] < _MANY else 0
            worth.update(there[spare:])
            for each in there:
                places[each].append(place)
    return _Sites(
        {position: tuple(there) for position, there in places.items()},
        {place: {driver: tuple(there) for driver, there in found.items()} for place, found in shared.items()},
        worth,
    )


def _look(each: NodeDevice) -> PairingKey:
    places = tuple(
        (name, value)
        for name, published in each.device.attributes
        if _is_common(each.driver, name)
        for kind, value in published.items()
        if kind is _TEXT or kind is _NUMBER
    )
    drawn = each.device.consumes_counters
    draws = tuple((draw.counter_set, counter) for draw in drawn for counter, _ in draw.counters) if drawn else ()
    return PairingKey(each.driver, places, each.device.allow_multiple_allocations, draws)


@lru_cache(maxsize=4096)
def _is_common(driver: str, name: str) -> bool:
    """Whether other drivers may publish an attribute too: not one without a domain or in the driver's own domain."""
    return "/" in name and not name.startswith(f"{driver}/")


def _supply(there: Sequence[PairingKey]) -> int:
    """Count devices that can be used at once; unbounded where they are shared or overlap."""
    drawn = [draw for look in there for draw in look.draws]
    is_many = any(look.is_shareable for look in there) or len(set(drawn)) < len(drawn)
    return _MANY if is_many else len(there)


_Selector = tuple[str | None, str | None, str | None]
"""Driver, pool and device that a rule selects; None: any."""


@dataclass(slots=True, eq=False)
class TaintRules:
    """DeviceTaintRules in their order; a rule without a selector selects nothing."""

    rules: tuple[DeviceTaintRule, ...] = ()
    _filed: dict[_Selector, list[tuple[int, DeviceTaintRule]]] = field(init=False)

    def __post_init__(self) -> None:
        """Index the rules by what they select."""
        filed: defaultdict[_Selector, list[tuple[int, DeviceTaintRule]]] = defaultdict(list)
        for number, rule in enumerate(self.rules):
            if not rule.selects_nothing:
                filed[rule.driver, rule.pool, rule.device].append((number, rule))
        self._filed = dict(filed)

    def selecting(self, device: DeviceId) -> tuple[DeviceTaintRule, ...]:
        """Return the rules that select a device."""
        if not self._filed:
            return ()
        keys = product((None, device.driver), (None, device.pool), (None, device.device))
        found = [pair for key in keys for pair in self._filed.get(key, ())]
        found.sort(key=itemgetter(0))
        return tuple(rule for _, rule in found)

    def taints(self, device: DeviceId) -> tuple[Taint, ...]:
        """Return the taints of the rules that select a device."""
        if not self._filed:
            return ()
        return tuple(rule.taint for rule in self.selecting(device))

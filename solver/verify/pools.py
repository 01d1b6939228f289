"""Pools: the newest generation of each, and whether it is usable; independent of `feasibility.pools`."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from operator import attrgetter

from solver.domain import (
    MAX_COMPATIBILITY_GROUPS,
    Capacity,
    Device,
    DeviceId,
    DeviceTaintRule,
    Node,
    NodeScope,
    PoolId,
    Quantity,
    ResourceSlice,
    Taint,
)
from solver.verify import matching
from solver.verify.object_index import ObjectGroups, ObjectIndex


@dataclass(frozen=True, slots=True, eq=False)
class Published:
    """
    A published device.

    `scope` is its own in slices with perDeviceNodeSelection, else that of the slice; `skipped` are the slice's
    `skipNodeOperations`.
    """

    id: DeviceId
    device: Device
    scope: NodeScope
    skipped: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class PoolView:
    """
    The newest generation of a pool over all slices of the cluster.

    `trouble` says why no device of it may be allocated (incomplete or invalid), else empty. `counters` are the
    published amounts by (counter set, counter).
    """

    trouble: str
    slices: tuple[ResourceSlice, ...] = ()
    devices: dict[str, Published] = field(default_factory=dict)
    counters: dict[tuple[str, str], Quantity] = field(default_factory=dict)


class Pools(ObjectIndex[ResourceSlice]):
    """All pools; each is read at its first use, and again when a slice of it has changed."""

    def __init__(self) -> None:
        super().__init__()
        self._given: tuple[DeviceTaintRule, ...] = ()
        self._rules: tuple[DeviceTaintRule, ...] = ()
        self._views: dict[PoolId, PoolView] = {}
        self._by_pool: ObjectGroups[PoolId, ResourceSlice] = ObjectGroups()
        self._by_node: ObjectGroups[str, ResourceSlice] = ObjectGroups()

    def obey(self, rules: tuple[DeviceTaintRule, ...]) -> None:
        """Take the DeviceTaintRules that are in force."""
        if rules is not self._given:
            self._given, self._rules = rules, tuple(rule for rule in rules if not rule.selects_nothing)

    def replace(self, before: ResourceSlice | None, after: ResourceSlice | None) -> None:
        """Put a slice in the place of another, where no snapshot is followed."""
        if before is not None:
            self._set(before, present=False)
        if after is not None:
            self._set(after, present=True)

    def _set(self, each: ResourceSlice, *, present: bool) -> None:
        key = each.pool_id
        self._by_pool.set(key, each, present=present)
        self._by_node.set(each.scope.node_name, each, present=present)
        self._views.pop(key, None)

    def view(self, pool: PoolId) -> PoolView:
        """Return a pool; a pool without slices has no devices."""
        found = self._views.get(pool)
        if found is None:
            found = _read(sorted(self._by_pool.of(pool), key=attrgetter("name")))
            if found.slices:
                self._views[pool] = found
        return found

    def find(self, device: DeviceId) -> Published | None:
        """Find a device in the newest generation of its pool, complete or not."""
        return self.view(device.pool_id).devices.get(device.device)

    def taints(self, device: DeviceId) -> Iterator[Taint]:
        """Return a device's taints and those of every DeviceTaintRule that selects it (KEP-5055)."""
        published = self.find(device)
        yield from published.device.taints if published is not None else ()
        for rule in self._rules:
            pairs = ((rule.driver, device.driver), (rule.pool, device.pool), (rule.device, device.device))
            if all(wanted is None or wanted == actual for wanted, actual in pairs):
                yield rule.taint

    def seen_from(self, node: Node) -> Iterator[PoolView]:
        """Return the pools with devices that the node can use in their newest generation."""
        nearby = (*self._by_node.of(""), *self._by_node.of(node.name))
        for pool in sorted({each.pool_id for each in nearby}):
            view = self.view(pool)
            if any(_shows_devices(each, node) for each in view.slices):
                yield view


def scope_of(published: ResourceSlice, device: Device) -> NodeScope:
    """Where a device can be used."""
    if published.scope.per_device:
        return device.scope or NodeScope()
    return published.scope


def _shows_devices(each: ResourceSlice, node: Node) -> bool:
    if each.scope.per_device:
        return any(matching.reaches(scope_of(each, device), node) for device in each.devices)
    return bool(each.devices) and matching.reaches(each.scope, node)


def _read(slices: list[ResourceSlice]) -> PoolView:
    if not slices:
        return PoolView("it has no slices")
    newest = max(each.generation for each in slices)
    current = tuple(each for each in slices if each.generation == newest)
    devices = {
        device.name: Published(
            DeviceId(each.driver, each.pool, device.name), device, scope_of(each, device), each.skip_node_operations
        )
        for each in current
        for device in each.devices
    }
    counters = {
        (counter_set.name, counter): amount
        for each in current
        for counter_set in each.counter_sets
        for counter, amount in counter_set.counters
    }
    return PoolView(_trouble(current, counters), current, devices, counters)


def _trouble(current: tuple[ResourceSlice, ...], counters: dict[tuple[str, str], Quantity]) -> str:
    unread = [each.name for each in current if each.invalid]
    if unread:
        return f"its slice {unread[0]} cannot be read"
    expected = {each.slice_count for each in current}
    if expected != {len(current)}:
        return f"its newest generation {current[0].generation} is not published whole"
    devices = [device for each in current for device in each.devices]
    if len({device.name for device in devices}) != len(devices):
        return "it publishes a device name twice"
    sets = [counter_set.name for each in current for counter_set in each.counter_sets]
    if len(set(sets)) != len(sets):
        return "it publishes a counter set twice"
    consumptions = [consumption for device in devices for consumption in device.consumes_counters]
    consumed = {(each.counter_set, counter) for each in consumptions for counter, _ in each.counters}
    unknown = sorted({each.counter_set for each in consumptions} - set(sets)) or sorted(
        f"{each}/{counter}" for each, counter in consumed - set(counters)
    )
    if unknown:
        return f"a device consumes {unknown[0]}, which it does not publish"
    if any(len(each.compatibility_groups) > MAX_COMPATIBILITY_GROUPS for each in consumptions):
        return "a device has too many compatibility groups"
    amounts = [*counters.values(), *(amount for each in consumptions for _, amount in each.counters)]
    amounts += (amount for device in devices for _, capacity in device.capacities for amount in _amounts(capacity))
    return "it publishes a negative amount" if any(amount.nano < 0 for amount in amounts) else ""


def _amounts(capacity: Capacity) -> Sequence[Quantity]:
    """Every amount of a capacity and its request policy."""
    policy = capacity.request_policy
    if policy is None:
        return (capacity.value,)
    limits = policy.valid_range
    found = [*policy.valid_values, policy.default, *([limits.min, limits.max, limits.step] if limits else [])]
    return (capacity.value, *(amount for amount in found if amount is not None))

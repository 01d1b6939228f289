"""Pools: the newest generation of each, and whether it is usable; independent of `feasibility.pools`."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from operator import attrgetter

from solver.domain import (
    MAX_COMPATIBILITY_GROUPS,
    Device,
    DeviceId,
    DeviceTaintRule,
    Node,
    NodeScope,
    PoolId,
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
    published nano-units by (counter set, counter).
    """

    trouble: str
    slices: tuple[ResourceSlice, ...] = ()
    devices: dict[str, Published] = field(default_factory=dict)
    counters: dict[tuple[str, str], int] = field(default_factory=dict)


class Pools(ObjectIndex[ResourceSlice]):
    """All pools; each is read at its first use, and again when a slice of it has changed."""

    def __init__(self) -> None:
        super().__init__()
        self._rules: tuple[DeviceTaintRule, ...] = ()
        self._views: dict[tuple[str, str], PoolView] = {}
        self._by_pool: ObjectGroups[tuple[str, str], ResourceSlice] = ObjectGroups()
        self._by_node: ObjectGroups[str, ResourceSlice] = ObjectGroups()

    def obey(self, rules: tuple[DeviceTaintRule, ...]) -> None:
        """Take the DeviceTaintRules that are in force."""
        self._rules = tuple(rule for rule in rules if not rule.selects_nothing)

    def _set(self, each: ResourceSlice, *, present: bool) -> None:
        key = (each.driver, each.pool)
        self._by_pool.set(key, each, present=present)
        self._by_node.set(each.scope.node_name, each, present=present)
        self._views.pop(key, None)

    def view(self, pool: PoolId) -> PoolView:
        """Return a pool; a pool without slices has no devices."""
        key = (pool.driver, pool.pool)
        found = self._views.get(key)
        if found is None:
            found = _read(sorted(self._by_pool.of(key), key=attrgetter("name")))
            if found.slices:
                self._views[key] = found
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
        for key in sorted({(each.driver, each.pool) for each in nearby}):
            view = self.view(PoolId(*key))
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
        (counter_set.name, counter): amount.nano
        for each in current
        for counter_set in each.counter_sets
        for counter, amount in counter_set.counters
    }
    return PoolView(_trouble(current, counters), current, devices, counters)


def _trouble(current: tuple[ResourceSlice, ...], counters: dict[tuple[str, str], int]) -> str:
    unread = [each.name for each in current if each.invalid]
    if unread:
        return f"its slice {unread[0]} cannot be read"
    expected = {each.slice_count for each in current}
    if expected != {len(current)}:
        return f"{len(current)} slices of generation {current[0].generation} are there, {sorted(expected)} are stated"
    names = [device.name for each in current for device in each.devices]
    if len(set(names)) != len(names):
        return "it publishes a device name twice"
    sets = [counter_set.name for each in current for counter_set in each.counter_sets]
    if len(set(sets)) != len(sets):
        return "it publishes a counter set twice"
    consumed = {
        (consumption.counter_set, counter)
        for each in current
        for device in each.devices
        for consumption in device.consumes_counters
        for counter, _ in consumption.counters
    }
    consumed_sets = {
        consumption.counter_set
        for each in current
        for device in each.devices
        for consumption in device.consumes_counters
    }
    unknown = sorted(consumed_sets - set(sets)) or sorted(
        f"{each}/{counter}" for each, counter in consumed - set(counters)
    )
    if unknown:
        return f"a device consumes {unknown[0]}, which it does not publish"
    if any(
        len(consumption.compatibility_groups) > MAX_COMPATIBILITY_GROUPS
        for each in current
        for device in each.devices
        for consumption in device.consumes_counters
    ):
        return "a device has too many compatibility groups"
    least = min(
        (*counters.values(), *(nano for each in current for d in each.devices for nano in _amounts(d))), default=0
    )
    return "it publishes a negative amount" if least < 0 else ""


def _amounts(device: Device) -> Iterator[int]:
    """Every amount of a device, in nano-units."""
    yield from (amount.nano for consumption in device.consumes_counters for _, amount in consumption.counters)
    for _, capacity in device.capacities:
        yield capacity.value.nano
        policy = capacity.request_policy
        if policy is None:
            continue
        limits = policy.valid_range
        found = [*policy.valid_values, policy.default, *([limits.min, limits.max, limits.step] if limits else [])]
        yield from (amount.nano for amount in found if amount is not None)

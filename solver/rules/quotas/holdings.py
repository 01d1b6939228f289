"""
What the claims of each namespace hold of what quotas count.

Counted are allocations by any scheduler, each claim once: All by its real number of devices, a share by the capacity
that it consumes, a partition by its own, admin access never. A device whose slice is gone counts as it was published
last. One that was never seen counts for the class that its request names.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from solver.domain import (
    Claim,
    ClaimId,
    Device,
    DeviceClass,
    DeviceId,
    DeviceResult,
    QuotaKey,
    QuotaShape,
    ResourceSlice,
    Snapshot,
    WithdrawnDevice,
)
from solver.domain.changed_objects import changed_objects
from solver.feasibility import selectors
from solver.feasibility.capacity import published_name
from solver.feasibility.selectors import SelectorError


class HeldDevice(NamedTuple):
    """A device that is known, and the node that alone can use it; empty where there is none."""

    device: Device
    node: str


Charge = tuple[tuple[QuotaKey, int, str], ...]
"""What one claim holds: key, amount, and for nodes the name of the node (each once)."""


@dataclass(slots=True, eq=False)
class Holdings:
    """
    The holdings of the last snapshot, updated by the claims, slices and classes that changed since the one before.

    `units` are by namespace and key, `nodes` count the claims by namespace, key and node. `counted` is the number of
    claims that were charged or discharged so far: the work.
    """

    units: defaultdict[str, Counter[QuotaKey]] = field(default_factory=lambda: defaultdict(Counter))
    nodes: defaultdict[tuple[str, QuotaKey], Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    counted: int = 0
    charges: dict[int, Charge] = field(default_factory=dict)
    """By the identity of the claim."""
    keys: tuple[QuotaKey, ...] = ()
    """What is counted."""
    _news: dict[ClaimId, Claim] = field(default_factory=dict)
    """Claims that were counted since `drained` was called last."""
    _selectors: dict[str, tuple[str, ...] | None] = field(default_factory=dict)
    _claims: tuple[Claim, ...] = ()
    _slices: tuple[ResourceSlice, ...] = ()
    _withdrawn: tuple[WithdrawnDevice, ...] = ()
    _published: dict[DeviceId, dict[int, ResourceSlice]] = field(default_factory=dict)
    """The slices that publish a device, by their identity."""
    _last: dict[DeviceId, HeldDevice] = field(default_factory=dict)

    def follow(self, snapshot: Snapshot, keys: tuple[QuotaKey, ...]) -> None:
        """Count what a snapshot's claims hold of some keys."""
        wanted = {key.device_class for key in keys}
        known = {each.name: _selectors_of(each) for each in snapshot.classes if each.name in wanted}
        if keys != self.keys or known != self._selectors:
            self.keys, self._selectors = keys, known
            self._discharge(self._claims)
            self._claims = ()
        changed = self._follow_devices(snapshot)
        gone, added = changed_objects(self._claims, snapshot.claims)
        self._claims = snapshot.claims
        self._discharge(gone)
        if changed:
            fresh = {id(each) for each in added}
            again = [
                each
                for each in snapshot.claims
                if id(each) not in fresh and any(result.device in changed for result in _results(each))
            ]
            self._discharge(again)
            added = (*added, *again)
        for claim in added:
            self._charge(claim)

    def held(self, namespaces: Iterable[str], key: QuotaKey) -> int:
        """Add up what namespaces hold of a key; a node that several of them use counts once."""
        if key.shape == QuotaShape.WHOLE_NODES:
            return len(self.used_nodes(namespaces, key))
        return sum(self.units[each][key] for each in namespaces if each in self.units)

    def total(self, key: QuotaKey) -> int:
        """Add up what all namespaces hold of a key."""
        return sum(counts[key] for counts in self.units.values())

    def used_nodes(self, namespaces: Iterable[str], key: QuotaKey) -> frozenset[str]:
        """Return the nodes on which namespaces hold a device of a class."""
        return frozenset().union(*(self.nodes[each, key] for each in namespaces if (each, key) in self.nodes))

    def _follow_devices(self, snapshot: Snapshot) -> set[DeviceId]:
        """Update which devices are published; return those that are published otherwise than before."""
        gone, added = changed_objects(self._slices, snapshot.slices)
        self._slices = snapshot.slices
        changed: set[DeviceId] = set()
        for each in gone:
            for device in each.devices:
                key = DeviceId(each.driver, each.pool, device.name)
                publishing = self._published[key]
                publishing.pop(id(each), None)
                if not publishing:
                    del self._published[key]
                changed.add(key)
        for each in added:
            for device in each.devices:
                key = DeviceId(each.driver, each.pool, device.name)
                self._published.setdefault(key, {})[id(each)] = each
                changed.add(key)
        if self._withdrawn != snapshot.withdrawn:
            changed |= {each.id for each in (*self._withdrawn, *snapshot.withdrawn)}
            self._withdrawn = snapshot.withdrawn
            self._last = {each.id: HeldDevice(each.device, each.node) for each in snapshot.withdrawn}
        return changed

    def _find(self, key: DeviceId) -> HeldDevice | None:
        slices = self._published.get(key)
        if not slices:
            return self._last.get(key)
        newest = max(slices.values(), key=lambda each: (each.generation, each.name))
        device = next(each for each in newest.devices if each.name == key.device)
        scope = device.scope if newest.scope.per_device and device.scope is not None else newest.scope
        return HeldDevice(device, scope.node_name)

    def _discharge(self, claims: Iterable[Claim]) -> None:
        for claim in claims:
            self._add(claim.id.namespace, self.charges.pop(id(claim), ()), -1)

    def _charge(self, claim: Claim) -> None:
        if claim.allocation is None or not self.keys:
            return
        found = self.charge_of(claim)
        if found:
            self.charges[id(claim)] = found
            self._add(claim.id.namespace, found, 1)
        self._news[claim.id] = claim

    def drained(self) -> tuple[Claim, ...]:
        """Return the claims that were counted since the last call."""
        found, self._news = tuple(self._news.values()), {}
        return found

    def _add(self, namespace: str, charge: Charge, sign: int) -> None:
        self.counted += bool(charge)
        for key, amount, node in charge:
            if node:
                users = self.nodes[namespace, key]
                users[node] += sign
                if not users[node]:
                    del users[node]
                if not users:
                    del self.nodes[namespace, key]
            else:
                units = self.units[namespace]
                units[key] += sign * amount
                if not units[key]:
                    del units[key]
                if not units:
                    del self.units[namespace]

    def charge_of(self, claim: Claim) -> Charge:
        """Return what a claim holds."""
        found: Counter[tuple[QuotaKey, str]] = Counter()
        for result in _results(claim):
            device = self._find(result.device)
            for key in self.keys:
                if device is not None:
                    self._count(found, key, result, device)
                elif _named_class(claim, result.request) == key.device_class and key.shape == QuotaShape.DEVICES:
                    found[key, ""] += dict_of(result).get(key.capacity, 0) if key.capacity else 1
        return tuple((key, amount, node) for (key, node), amount in found.items())

    def _count(
        self, found: Counter[tuple[QuotaKey, str]], key: QuotaKey, result: DeviceResult, held: HeldDevice
    ) -> None:
        texts = self._selectors.get(key.device_class)
        if texts is None or not meets(texts, result.device.driver, held.device):
            return
        if key.shape == QuotaShape.WHOLE_NODES:
            if held.node:
                found[key, held.node] = 1
            return
        amount = amount_of(key, result, held.device)
        if amount:
            found[key, ""] += amount


def amount_of(key: QuotaKey, result: DeviceResult, device: Device) -> int:
    """Return what a result counts for a key whose class its device meets: 1, or nano-units of the capacity."""
    if not key.capacity:
        return 1
    name = published_name(result.device.driver, key.capacity, dict(device.capacities))
    if name is None:
        return 0
    if result.share_id:
        return dict_of(result).get(name, 0)
    return dict(device.capacities)[name].value.nano


def meets(texts: tuple[str, ...], driver: str, device: Device) -> bool:
    """Whether a device meets all selectors of a class; one that fails or does not compile selects nothing."""
    try:
        return all(selectors.compile_selector(text).evaluate(driver, device) is True for text in texts)
    except SelectorError:
        return False


def dict_of(result: DeviceResult) -> Mapping[str, int]:
    """Return what a share consumes, in nano-units by capacity."""
    return {name: amount.nano for name, amount in result.consumed_capacity}


def _selectors_of(each: DeviceClass) -> tuple[str, ...] | None:
    return None if each.invalid else each.selectors


def _results(claim: Claim) -> Iterable[DeviceResult]:
    """Return what a claim holds; room that is kept for a pod whose devices are unknown is nobody's."""
    if claim.allocation is None or claim.id.name.startswith(KEPT_ROOM):
        return ()
    return (each for each in claim.allocation.results if not each.admin_access)


KEPT_ROOM: Final = "kept for node "
"""
Begins the name of a claim that holds what is free of a node for a nominated pod whose devices are unknown.

The spaces make it no name of an object (`solver.preemption.nominated_room`).
"""


def _named_class(claim: Claim, request: str) -> str:
    """Return the class that a result's request names."""
    for each in claim.requests:
        for position, alternative in enumerate(each.alternatives):
            if str(each.result_name(position)) == request:
                return alternative.device_class
    return ""

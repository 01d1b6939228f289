"""
PersistentVolumes that unbound claims can get: which fit, how many each node reaches, and where one can be provisioned.

Claims are grouped by shape: what a claim can get, not what it asks for. However many different selectors users write,
there are no more shapes than different sets of volumes.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from solver.arrays import Amounts, Mask
from solver.domain import (
    CSIDriver,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeClaimId,
)
from solver.domain.disjoint_sets import DisjointSets
from solver.rules.forms.domains import NO_DOMAIN, Domains
from solver.rules.node_fit.label_index import Bits, LabelIndex, bits_of, mask_of, positions_of
from solver.rules.volumes import values as volumes
from solver.rules.volumes.topology import ReachableNodes, TopologySegments

_Kind = tuple[str, str, str]
"""Volume mode, attributes class and storage class."""


@dataclass(slots=True, eq=False)
class UnboundVolumes:
    """
    Volumes that no claim is bound to, smallest first, with a set of them for each property that a claim may ask for.

    The volumes that fit a claim are an intersection of such sets. `volumes` include those with a claimRef, which fit
    only that claim.
    """

    volumes: Sequence[PersistentVolume]
    node_count: int
    index: LabelIndex
    place_of: dict[str, int] = field(default_factory=dict)
    wide: dict[tuple[int, ...], Bits] = field(default_factory=dict)
    """Volumes that several nodes reach, by these nodes."""
    _capacities: list[int] = field(default_factory=list)
    _of_kind: dict[_Kind, Bits] = field(default_factory=dict)
    _with_mode: dict[str, Bits] = field(default_factory=dict)
    _home: Amounts = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    _local: dict[int, Bits] = field(default_factory=dict)
    """Volumes that one node reaches, by this node."""

    @classmethod
    def of(
        cls, free: Iterable[PersistentVolume], reserved: Iterable[PersistentVolume], reach: ReachableNodes
    ) -> "UnboundVolumes":
        """Index free volumes and those with a claimRef."""
        found = sorted([*free, *reserved], key=lambda volume: (volume.capacity, volume.name))
        unbound = cls(found, len(reach.labels), LabelIndex([dict(each.labels) for each in found]))
        unbound.place_of = {each.name: place for place, each in enumerate(found)}
        unbound._capacities = [each.capacity for each in found]
        unbound._sort_by_kind()
        unbound._sort_by_node(reach)
        return unbound

    def _sort_by_kind(self) -> None:
        kinds: defaultdict[_Kind, list[int]] = defaultdict(list)
        modes: defaultdict[str, list[int]] = defaultdict(list)
        for place, each in enumerate(self.volumes):
            if each.claim is None and each.phase == "Available" and not each.is_deleting:
                kinds[each.mode, each.attributes_class, each.storage_class].append(place)
                for mode in set(each.access_modes):
                    modes[mode].append(place)
        self._of_kind = {kind: bits_of(places, len(self.volumes)) for kind, places in kinds.items()}
        self._with_mode = {mode: bits_of(places, len(self.volumes)) for mode, places in modes.items()}

    def _sort_by_node(self, reach: ReachableNodes) -> None:
        self._home = np.full(len(self.volumes), -1, dtype=np.int64)
        together: defaultdict[tuple[int, ...], list[int]] = defaultdict(list)
        for place, each in enumerate(self.volumes):
            together[reach.of(each.node_affinity)].append(place)
        for nodes, places in together.items():
            if len(nodes) == 1:
                self._local[nodes[0]] = bits_of(places, len(self.volumes))
                self._home[places] = nodes[0]
            elif nodes:
                self.wide[nodes] = bits_of(places, len(self.volumes))

    def fitting(self, claim: PersistentVolumeClaim) -> Bits:
        """Return the volumes for any claim that fit one (`volumes.volume_fits`)."""
        found = self._of_kind.get((claim.mode, claim.attributes_class, claim.storage_class), 0)
        for mode in claim.access_modes:
            found &= self._with_mode.get(mode, 0)
        if found and claim.selector is not None:
            found &= self.index.selected(claim.selector)
        too_small = bisect_left(self._capacities, claim.request or 0)
        return found >> too_small << too_small

    def listed(self, members: Bits) -> list[PersistentVolume]:
        """List volumes, the smallest first."""
        return [self.volumes[place] for place in positions_of(members, len(self.volumes))]

    def counts(self, members: Bits) -> Amounts:
        """Count for every node how many of some volumes it reaches."""
        homes = self._home[positions_of(members, len(self.volumes))] if members else self._home[:0]
        found: Amounts = np.bincount(homes[homes >= 0], minlength=self.node_count).astype(np.int64)
        for nodes, each in self.wide_of(members):
            found[list(nodes)] += each.bit_count()
        return found

    def on(self, members: Bits, node: int) -> Bits:
        """Return the volumes of a set that a node reaches."""
        found = self._local.get(node, 0) & members
        for nodes, each in self.wide_of(members):
            if node in nodes:
                found |= each
        return found

    def wide_of(self, members: Bits) -> Iterator[tuple[tuple[int, ...], Bits]]:
        """Return the volumes of a set that several nodes reach, by these nodes."""
        for nodes, each in self.wide.items():
            if each & members:
                yield nodes, each & members

    def local_of(self, members: Bits) -> Iterator[tuple[int, Bits]]:
        """Return the volumes of a set that one node reaches, by this node."""
        for node, each in self._local.items():
            if each & members:
                yield node, each & members


@dataclass(slots=True, eq=False)
class VolumeSupply:
    """
    The volumes for claims of one shape.

    `members` are all volumes that fit, `counts` how many of them each node reaches. `can_make` marks the nodes for
    which a volume may be provisioned, `makes` those where CSIStorageCapacity also has room; `made_on` is `makes` as a
    set.
    """

    unbound: UnboundVolumes
    members: Bits
    counts: Amounts
    can_make: Mask
    makes: Mask
    made_on: Bits
    is_open: bool
    """Whether other claims compete for these volumes: no claimRef names the claim, and no node is selected."""

    @property
    def local(self) -> dict[int, list[PersistentVolume]]:
        """The volumes that only one node reaches, by this node."""
        return {node: self.unbound.listed(each) for node, each in self.unbound.local_of(self.members)}

    @property
    def wide(self) -> list[tuple[tuple[int, ...], list[PersistentVolume]]]:
        """The volumes that several nodes reach, by these nodes."""
        return [(nodes, self.unbound.listed(each)) for nodes, each in self.unbound.wide_of(self.members)]

    def on(self, node: int) -> list[PersistentVolume]:
        """Return the volumes that a node reaches, smallest first."""
        return self.unbound.listed(self.unbound.on(self.members, node))

    def regions(self) -> tuple[Domains, tuple[int, ...]] | None:
        """Join nodes that reach a common volume to domains, and count the volumes of each; None without any."""
        wide = list(self.unbound.wide_of(self.members))
        if not wide:
            return None
        domains: Domains = np.full(len(self.counts), NO_DOMAIN, dtype=np.int64)
        joined = DisjointSets[int]()
        for nodes, _ in wide:
            joined.join(nodes)
        numbers: dict[int, int] = {}
        for node in dict.fromkeys(node for nodes, _ in wide for node in nodes):
            domains[node] = numbers.setdefault(joined.find(node), len(numbers))
        left = [0] * len(numbers)
        for nodes, each in wide:
            left[int(domains[nodes[0]])] += each.bit_count()
        for node, own in self.unbound.local_of(self.members):
            if domains[node] != NO_DOMAIN:
                left[int(domains[node])] += own.bit_count()
        return domains, tuple(left)


Wants = tuple[object, ...]
"""What decides which volumes fit a claim."""
Offer = tuple[Bits, Bits, Bits, bool]
"""The fields `members`, `can_make`, `made_on` and `is_open` of a supply: claims with equal offers have one shape."""


@dataclass(slots=True, eq=False)
class VolumeSupplies:
    """Supplies by shape, each computed once; `joint` are claims that several pods of the batch use."""

    reach: ReachableNodes
    unbound: UnboundVolumes
    reserved: dict[object, list[PersistentVolume]]
    classes: dict[str, StorageClass]
    drivers: dict[str, CSIDriver]
    capacities: tuple[CSIStorageCapacity, ...]
    node_index: dict[str, int]
    access: TopologySegments
    joint: frozenset[VolumeClaimId] = frozenset()
    supplies: list[VolumeSupply] = field(default_factory=list)
    _shapes: dict[Wants, int] = field(default_factory=dict)
    _numbers: dict[Offer, int] = field(default_factory=dict)
    _allowed: dict[str, Bits] = field(default_factory=dict)
    _rooms: dict[str, "_Rooms"] = field(default_factory=dict)

    def shape_of(self, claim: PersistentVolumeClaim) -> int:
        """Return the shape of a claim."""
        reserved = tuple(each.name for each in self.reserved.get(claim.id, ()) if volumes.volume_fits(each, claim))[:1]
        terms = (claim.storage_class, claim.request, claim.access_modes, claim.mode, claim.attributes_class)
        selected = (claim.selected_node, claim.selected_node is not None and claim.id in self.joint)
        wants = (*terms, claim.selector, selected, reserved)
        if wants not in self._shapes:
            self._shapes[wants] = self._number(self._offer(claim, reserved))
        return self._shapes[wants]

    def _offer(self, claim: PersistentVolumeClaim, reserved: tuple[str, ...]) -> Offer:
        """Return the volume with a claimRef for the claim, else all that fit; with a selected node, none."""
        members = 0
        if reserved:
            members = 1 << self.unbound.place_of[reserved[0]]
        elif claim.selected_node is None:
            members = self.unbound.fitting(claim)
        can_make = self._can_make(claim)
        return members, can_make, can_make & self._has_room(claim), not reserved and claim.selected_node is None

    def _number(self, offer: Offer) -> int:
        if offer not in self._numbers:
            members, can_make, made_on, is_open = offer
            count = len(self.reach.labels)
            supply = VolumeSupply(
                unbound=self.unbound,
                members=members,
                counts=self.unbound.counts(members),
                can_make=mask_of(can_make, count),
                makes=mask_of(made_on, count),
                made_on=made_on,
                is_open=is_open,
            )
            self._numbers[offer] = len(self.supplies)
            self.supplies.append(supply)
        return self._numbers[offer]

    def _can_make(self, claim: PersistentVolumeClaim) -> Bits:
        """
        Nodes for which the claim's class makes volumes (allowedTopologies); only the selected one if one is.

        Of pods that share the claim others may be on nodes that reach whatever is made there.
        """
        found = self.classes[claim.storage_class]
        if not found.provisions:
            return 0
        allowed = self._allowed_for(found)
        if claim.selected_node is None:
            return allowed
        index = self.node_index.get(claim.selected_node)
        nodes = [] if index is None else [index]
        if nodes and claim.id in self.joint:
            nodes = self.access.around(found.provisioner, nodes[0])
        return allowed & bits_of(nodes, len(self.reach.labels))

    def _allowed_for(self, found: StorageClass) -> Bits:
        if not found.allowed_topologies:
            return self.reach.index.everything
        if found.name not in self._allowed:
            nodes = [node for node in range(len(self.reach.labels)) if self._is_allowed(found, node)]
            self._allowed[found.name] = bits_of(nodes, len(self.reach.labels))
        return self._allowed[found.name]

    def _is_allowed(self, found: StorageClass, node: int) -> bool:
        labels = self.reach.labels[node]
        return any(term and all(labels.get(key) in values for key, values in term) for term in found.allowed_topologies)

    def _has_room(self, claim: PersistentVolumeClaim) -> Bits:
        """Nodes whose storage has room for the claim, as far as its driver publishes it (CSIStorageCapacity)."""
        driver = self.drivers.get(self.classes[claim.storage_class].provisioner)
        if claim.request is None or driver is None or not driver.tracks_capacity:
            return self.reach.index.everything
        if claim.storage_class not in self._rooms:
            own = [each for each in self.capacities if each.storage_class == claim.storage_class]
            self._rooms[claim.storage_class] = _Rooms.of(own, self.reach)
        return self._rooms[claim.storage_class].at_least(claim.request)


@dataclass(slots=True, eq=False)
class _Rooms:
    """Nodes by the largest volume that fits there: `nodes[i]` have room for at least `sizes[i]`."""

    sizes: list[int]
    nodes: list[Bits]

    @classmethod
    def of(cls, capacities: list[CSIStorageCapacity], reach: ReachableNodes) -> "_Rooms":
        """Merge the capacities of one storage class."""
        found: defaultdict[int, Bits] = defaultdict(int)
        for each in capacities:
            if each.most is not None and each.topology is not None:
                found[each.most] |= reach.selected(each.topology)
        rooms, nodes = cls(sorted(found), []), 0
        for size in reversed(rooms.sizes):
            nodes |= found[size]
            rooms.nodes.append(nodes)
        rooms.nodes.reverse()
        return rooms

    def at_least(self, size: int) -> Bits:
        """Return the nodes that have room for a volume of a size."""
        place = bisect_left(self.sizes, size)
        return self.nodes[place] if place < len(self.nodes) else 0

"""PersistentVolumes that claims of a batch could get, by the shape of the claim: how many there are on each node."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from solver.domain import (
    NodeSelector,
    StorageCapacity,
    StorageClass,
    StorageDriver,
    Volume,
    VolumeClaim,
    VolumeClaimId,
)
from solver.feasibility import volumes
from solver.problem.devices.inventory import Mask
from solver.problem.fit import Amounts
from solver.problem.limits import NO_DOMAIN, Domains
from solver.problem.volumes.access import Access
from solver.problem.volumes.reach import Reach


@dataclass(slots=True, eq=False)
class Supply:
    """
    What there is for claims of one shape.

    `names` are all volumes that fit, `local` those that few nodes reach (by node), `wide` those that share a reach of
    several nodes. `counts` says how many each node reaches. A volume can be made where `can_make` holds and, if the
    storage tells how much it has, `has_room` too.
    """

    names: frozenset[str]
    local: dict[int, list[Volume]]
    wide: list[tuple[tuple[int, ...], list[Volume]]]
    counts: Amounts
    can_make: Mask
    has_room: Mask
    is_open: bool
    """Whether other claims may want the same volumes: none is kept for the claim, and no node is selected."""

    @property
    def makes(self) -> Mask:
        """Nodes for which a volume can be made."""
        found: Mask = self.can_make & self.has_room
        return found

    def on(self, node: int) -> list[Volume]:
        """Give the volumes that a node reaches, smallest first."""
        found = list(self.local.get(node, ()))
        for nodes, each in self.wide:
            if node in nodes:
                found += each
        return sorted(found, key=lambda volume: (volume.capacity, volume.name))

    def regions(self) -> tuple[Domains, tuple[int, ...]] | None:
        """Join nodes that reach a volume together to domains, with the volumes of each; None where none do."""
        if not self.wide:
            return None
        domains: Domains = np.full(len(self.counts), NO_DOMAIN, dtype=np.int64)
        root = {node: node for nodes, _ in self.wide for node in nodes}

        def find(node: int) -> int:
            while root[node] != node:
                root[node] = root[root[node]]
                node = root[node]
            return node

        for nodes, _ in self.wide:
            for node in nodes[1:]:
                root[find(node)] = find(nodes[0])
        numbers: dict[int, int] = {}
        for node in root:
            domains[node] = numbers.setdefault(find(node), len(numbers))
        left = [0] * len(numbers)
        for nodes, each in self.wide:
            left[int(domains[nodes[0]])] += len(each)
        for node, own in self.local.items():
            if domains[node] != NO_DOMAIN:
                left[int(domains[node])] += len(own)
        return domains, tuple(left)


Shape = tuple[object, ...]
"""What decides which volumes fit a claim; claims of one shape are interchangeable."""


@dataclass(slots=True, eq=False)
class Stock:
    """Finds supplies, each shape's once; `joint` are claims that several pods of the batch use."""

    reach: Reach
    free: Sequence[Volume]
    kept: dict[object, list[Volume]]
    classes: dict[str, StorageClass]
    drivers: dict[str, StorageDriver]
    capacities: tuple[StorageCapacity, ...]
    node_index: dict[str, int]
    access: Access
    joint: frozenset[VolumeClaimId] = frozenset()
    shapes: dict[Shape, int] = field(default_factory=dict)
    supplies: list[Supply] = field(default_factory=list)

    def shape_of(self, claim: VolumeClaim) -> int:
        """Give the number of a claim's shape."""
        kept = tuple(each.name for each in self.kept.get(claim.id, ()) if volumes.fits(each, claim))[:1]
        terms = (claim.storage_class, claim.request, claim.access_modes, claim.mode, claim.attributes_class)
        selected = (claim.selected_node, claim.selected_node is not None and claim.id in self.joint)
        shape = (*terms, claim.selector, selected, kept)
        if shape not in self.shapes:
            self.shapes[shape] = len(self.supplies)
            self.supplies.append(self._supply(claim, kept))
        return self.shapes[shape]

    def _supply(self, claim: VolumeClaim, kept: tuple[str, ...]) -> Supply:
        """A volume that is kept for the claim is the only one; where a node is selected already one is made there."""
        count = len(self.reach.labels)
        fitting: list[Volume] = []
        if kept:
            fitting = [each for each in self.kept[claim.id] if each.name == kept[0]]
        elif claim.selected_node is None:
            fitting = [each for each in self.free if volumes.fits(each, claim)]
        by_reach: dict[NodeSelector | None, list[Volume]] = {}
        for each in fitting:
            by_reach.setdefault(each.node_affinity, []).append(each)
        supply = Supply(
            names=frozenset(each.name for each in fitting),
            local={},
            wide=[],
            counts=np.zeros(count, dtype=np.int64),
            can_make=self._can_make(claim),
            has_room=self._has_room(claim),
            is_open=not kept and claim.selected_node is None,
        )
        for affinity, found in by_reach.items():
            nodes = self.reach.of(affinity)
            supply.counts[list(nodes)] += len(found)
            if len(nodes) == 1:
                supply.local.setdefault(nodes[0], []).extend(found)
            elif nodes:
                supply.wide.append((nodes, found))
        return supply

    def _can_make(self, claim: VolumeClaim) -> Mask:
        """
        Nodes for which the claim's class makes volumes (allowedTopologies); only the selected one if one is.

        Of pods that share the claim others may be on nodes that reach whatever is made there.
        """
        found = self.classes[claim.storage_class]
        if not found.provisions:
            return self.reach.mask(())
        if claim.selected_node is not None:
            index = self.node_index.get(claim.selected_node)
            nodes = [] if index is None else [index]
            if nodes and claim.id in self.joint:
                nodes = self.access.around(found.provisioner, nodes[0])
        else:
            nodes = list(range(len(self.reach.labels)))
        if found.allowed_topologies:
            nodes = [node for node in nodes if self._is_allowed(found, node)]
        return self.reach.mask(nodes)

    def _is_allowed(self, found: StorageClass, node: int) -> bool:
        labels = self.reach.labels[node]
        return any(term and all(labels.get(key) in values for key, values in term) for term in found.allowed_topologies)

    def _has_room(self, claim: VolumeClaim) -> Mask:
        """Nodes whose storage has room for the claim, as far as its driver tells (CSIStorageCapacity)."""
        driver = self.drivers.get(self.classes[claim.storage_class].provisioner)
        if claim.request is None or driver is None or not driver.tracks_capacity:
            return self.reach.mask(range(len(self.reach.labels)))
        return self.reach.mask(
            node
            for each in self.capacities
            if each.storage_class == claim.storage_class and each.most is not None and each.most >= claim.request
            if each.topology is not None
            for node in self.reach.selected(each.topology)
        )

"""
Volumes attached to nodes, by driver, where CSINode has attach limits; drivers that must be on nodes; inline disks.

Disks are indexed by disk and not by pod: one pod may name thousands.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from solver.arrays import MOST, Amounts, Mask
from solver.domain import (
    CSIDriver,
    CSINode,
    DiskKind,
    InlineDisk,
    PersistentVolume,
    Pod,
    VolumeAttachment,
    VolumeClaimId,
)


class Attachable(NamedTuple):
    """A volume as attach limits count it: driver, unique name, and the in-tree plugin that nodes must have migrated."""

    driver: str
    name: str
    plugin: str = ""


@dataclass(slots=True, eq=False)
class Attachments:
    """
    Unique volumes per node with a limit: of its pods, and of VolumeAttachments that no pod accounts for.

    `limits[driver]` is per node, `MOST` where there is no limit. `nodes_of[name]` are the nodes that have a volume.
    `missing[driver]` are the nodes without a driver that must be there (CSIDriver.spec.preventPodSchedulingIfMissing).
    """

    node_count: int
    limits: dict[str, Amounts] = field(default_factory=dict)
    counts: dict[str, Amounts] = field(default_factory=dict)
    nodes_of: defaultdict[str, set[int]] = field(default_factory=lambda: defaultdict(set))
    migrated: dict[str, set[int]] = field(default_factory=dict)
    missing: dict[str, Mask] = field(default_factory=dict)

    @classmethod
    def of_drivers(
        cls, drivers: Iterable[CSINode], required: Iterable[CSIDriver], node_index: Mapping[str, int]
    ) -> "Attachments":
        """Read the drivers of nodes with their limits; nothing is attached yet."""
        found = cls(len(node_index))
        found.missing = {each.name: np.ones(len(node_index), dtype=np.bool_) for each in required if each.is_required}
        for each in drivers:
            node = node_index.get(each.node)
            if node is None:
                continue
            for plugin in each.migrated:
                found.migrated.setdefault(plugin, set()).add(node)
            for driver, limit in each.limits:
                if driver in found.missing:
                    found.missing[driver][node] = False
                if limit is not None:
                    found._limit(driver)[node] = limit
        return found

    def _limit(self, driver: str) -> Amounts:
        if driver not in self.limits:
            self.limits[driver] = np.full(self.node_count, MOST, dtype=np.int64)
            self.counts[driver] = np.zeros(self.node_count, dtype=np.int64)
        return self.limits[driver]

    def count(
        self,
        pods: Iterable[Pod],
        node_index: Mapping[str, int],
        attachable: Callable[[VolumeClaimId], Attachable | None],
    ) -> None:
        """Count the volumes of pods on nodes."""
        for pod in pods:
            node = node_index.get(pod.node_name) if pod.volumes else None
            if node is None:
                continue
            for found in map(attachable, pod.volume_claims):
                if found is not None and self.counts_on(found, node):
                    self._add(found.driver, found.name, node)

    def count_attached(
        self,
        attached: Iterable[VolumeAttachment],
        node_index: Mapping[str, int],
        volumes: Mapping[str, PersistentVolume],
    ) -> None:
        """Count volumes that are attached whether a pod uses them or not (CSI volumes only, since 1.34)."""
        for each in attached:
            node, volume = node_index.get(each.node), volumes.get(each.volume)
            if node is not None and volume is not None and volume.handle and not volume.migrated_from:
                self._add(each.attacher, f"{each.attacher}/{volume.handle}", node)

    def is_there(self, each: Attachable) -> bool:
        """Whether a volume is attached to some node."""
        return bool(self.nodes_of.get(each.name))

    def counts_on(self, each: Attachable, node: int) -> bool:
        """Whether a volume counts on a node."""
        return not each.plugin or node in self.migrated.get(each.plugin, ())

    def refused(self, volumes: Iterable[Attachable]) -> Mask:
        """Mark the nodes where volumes exceed a limit; a volume that is attached there already counts once."""
        by_driver: defaultdict[str, list[Attachable]] = defaultdict(list)
        for each in volumes:
            if each.driver in self.limits:
                by_driver[each.driver].append(each)
        refused: Mask = np.zeros(self.node_count, dtype=np.bool_)
        for driver, found in by_driver.items():
            needed = np.zeros(self.node_count, dtype=np.int64)
            for each in found:
                if each.plugin:
                    needed[list(self.migrated.get(each.plugin, ()))] += 1
                else:
                    needed += 1
                there = [node for node in self.nodes_of.get(each.name, ()) if self.counts_on(each, node)]
                needed[there] -= 1
            refused |= (needed > 0) & (self.counts[driver] + needed > self.limits[driver])
        return refused

    def without_driver(self, each: Attachable) -> Mask:
        """Mark the nodes where a volume counts and its driver, which must be there, is not."""
        missing = self.missing[each.driver]
        if not each.plugin:
            return missing
        migrated: Mask = np.zeros(self.node_count, dtype=np.bool_)
        migrated[list(self.migrated.get(each.plugin, ()))] = True
        return missing & migrated

    def left(self, driver: str) -> Amounts:
        """Return how many more volumes of a driver each node can have."""
        left: Amounts = np.maximum(self.limits[driver] - self.counts[driver], 0)
        return left

    def _add(self, driver: str, name: str, node: int) -> None:
        if driver in self.limits and node not in self.nodes_of[name]:
            self.nodes_of[name].add(node)
            self.counts[driver][node] += 1


_Identity = tuple[str, str, str]
"""Kind and name of a disk, and one of the monitors that belong to its identity (RBD)."""


@dataclass(slots=True, eq=False)
class Disks:
    """Nodes by the disks that pods there use, and by those that pods there write."""

    _used: defaultdict[_Identity, set[int]] = field(default_factory=lambda: defaultdict(set))
    _written: defaultdict[_Identity, set[int]] = field(default_factory=lambda: defaultdict(set))

    @classmethod
    def of(cls, running: Iterable[Pod], node_index: Mapping[str, int]) -> "Disks":
        """Collect the disks of running pods."""
        found = cls()
        for pod in running:
            node = node_index.get(pod.node_name)
            if node is not None:
                for disk in (each.disk for each in pod.volumes if each.disk is not None):
                    found._note(disk, node)
        return found

    def _note(self, disk: InlineDisk, node: int) -> None:
        for identity in _identities(disk):
            self._used[identity].add(node)
            if not _is_shared(disk):
                self._written[identity].add(node)

    def excluding(self, wanted: Iterable[InlineDisk]) -> set[int]:
        """Return the nodes where a pod uses one of some disks in a way that excludes other pods."""
        uses = {(identity, _is_shared(disk)) for disk in wanted for identity in _identities(disk)}
        found = ((self._written if is_shared else self._used).get(identity) for identity, is_shared in uses)
        return set[int]().union(*filter(None, found))


def _identities(disk: InlineDisk) -> Iterator[_Identity]:
    monitors = dict.fromkeys(disk.monitors) if disk.kind is DiskKind.RBD else ("",)
    return ((disk.kind, disk.name, monitor) for monitor in monitors)


def _is_shared(disk: InlineDisk) -> bool:
    """Whether pods on one node can use the disk together, if all use it so (never EBS)."""
    return disk.is_read_only and disk.kind is not DiskKind.AWS

"""Inline disks of running pods, found by the disk and not pod by pod: a pod may name thousands."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from solver.domain import DiskKind, InlineDisk, Pod

_Identity = tuple[str, str, str]
"""Kind and name of a disk, and one of the monitors that belong to its identity (RBD)."""


@dataclass(slots=True, eq=False)
class Disks:
    """Nodes by the disks that pods there use, and by those that pods there write."""

    _used: defaultdict[_Identity, set[int]] = field(default_factory=lambda: defaultdict(set))
    _written: defaultdict[_Identity, set[int]] = field(default_factory=lambda: defaultdict(set))

    @classmethod
    def of(cls, running: Iterable[Pod], node_index: Mapping[str, int]) -> "Disks":
        """Note what running pods use."""
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
        """Give the nodes where a pod uses one of some disks in a way that keeps another from it."""
        uses = {(identity, _is_shared(disk)) for disk in wanted for identity in _identities(disk)}
        found = ((self._written if is_shared else self._used).get(identity) for identity, is_shared in uses)
        return set[int]().union(*filter(None, found))


def _identities(disk: InlineDisk) -> Iterator[_Identity]:
    monitors = dict.fromkeys(disk.monitors) if disk.kind is DiskKind.RBD else ("",)
    return ((disk.kind, disk.name, monitor) for monitor in monitors)


def _is_shared(disk: InlineDisk) -> bool:
    """Whether pods on one node can use the disk together, if all of them use it so (never EBS)."""
    return disk.is_read_only and disk.kind is not DiskKind.AWS

"""PersistentVolumes that no claim is bound to: which of them fit a claim, and which nodes reach them."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from solver.domain import Volume, VolumeClaim
from solver.problem.fit import Amounts
from solver.problem.label_index import Bits, LabelIndex, bits_of, positions_of
from solver.problem.volumes.reach import Reach

_Kind = tuple[str, str, str]
"""Volume mode, attributes class and storage class."""


@dataclass(slots=True, eq=False)
class Shelf:
    """
    Volumes, the smallest first, and sets of them by what a claim asks for; claims are answered by intersecting these.

    `volumes` are also those that are kept for a claim; only the others fit one that asks for any.
    """

    volumes: Sequence[Volume]
    node_count: int
    index: LabelIndex
    place_of: dict[str, int] = field(default_factory=dict)
    wide: dict[tuple[int, ...], Bits] = field(default_factory=dict)
    """Volumes by the several nodes that reach them."""
    _capacities: list[int] = field(default_factory=list)
    _of_kind: dict[_Kind, Bits] = field(default_factory=dict)
    _with_mode: dict[str, Bits] = field(default_factory=dict)
    _home: Amounts = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    _local: dict[int, Bits] = field(default_factory=dict)
    """Volumes by the only node that reaches them."""

    @classmethod
    def of(cls, free: Iterable[Volume], kept: Iterable[Volume], reach: Reach) -> "Shelf":
        """Sort volumes that are for any claim, and those that are kept for one."""
        found = sorted([*free, *kept], key=lambda volume: (volume.capacity, volume.name))
        shelf = cls(found, len(reach.labels), LabelIndex([dict(each.labels) for each in found]))
        shelf.place_of = {each.name: place for place, each in enumerate(found)}
        shelf._capacities = [each.capacity for each in found]
        shelf._sort_by_kind()
        shelf._sort_by_node(reach)
        return shelf

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

    def _sort_by_node(self, reach: Reach) -> None:
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

    def fitting(self, claim: VolumeClaim) -> Bits:
        """Give the volumes for any claim that fit one (`feasibility.volumes.fits`)."""
        found = self._of_kind.get((claim.mode, claim.attributes_class, claim.storage_class), 0)
        for mode in claim.access_modes:
            found &= self._with_mode.get(mode, 0)
        if found and claim.selector is not None:
            found &= self.index.selected(claim.selector)
        too_small = bisect_left(self._capacities, claim.request or 0)
        return found >> too_small << too_small

    def listed(self, members: Bits) -> list[Volume]:
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
        """Give those of some volumes that a node reaches."""
        found = self._local.get(node, 0) & members
        for nodes, each in self.wide_of(members):
            if node in nodes:
                found |= each
        return found

    def wide_of(self, members: Bits) -> Iterator[tuple[tuple[int, ...], Bits]]:
        """Give those of some volumes that several nodes reach, by these nodes."""
        for nodes, each in self.wide.items():
            if each & members:
                yield nodes, each & members

    def local_of(self, members: Bits) -> Iterator[tuple[int, Bits]]:
        """Give those of some volumes that one node reaches, by this node."""
        for node, each in self._local.items():
            if each & members:
                yield node, each & members

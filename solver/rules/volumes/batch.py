"""
What pods of a batch take of volumes and attachments from each other, as limits.

The limits are necessary. They are sufficient where volumes are nested (the volumes that fit a claim all fit each larger
one) and no volume is shared in the batch. Otherwise `solver.volume_matching` drops the pods that go beyond the supply.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, zip_longest
from typing import Final, NamedTuple

import numpy as np

from solver.arrays import MOST, Mask
from solver.rules.forms.domains import NO_DOMAIN, one_domain, per_node
from solver.rules.forms.limits import Limit
from solver.rules.node_fit.label_index import Bits
from solver.rules.volumes.nodes import VolumeIndex, disk_key
from solver.rules.volumes.topology import VolumeKey

MOST_SHAPES: Final = 64
"""The most shapes of claims that get limits: each is rows of the model."""


class VolumeDemand(NamedTuple):
    """A class of pods: number, namespace, size, and what its pods ask of volumes."""

    number: int
    namespace: str
    size: int
    terms: VolumeKey


def limits(volume_index: VolumeIndex, asking: Sequence[VolumeDemand]) -> Iterator[Limit]:
    """Return the limits that can bind."""
    yield from _alone(volume_index, asking)
    yield from _disks(volume_index, asking)
    yield from _attachments(volume_index, asking)
    yield from _supplies(volume_index, asking)


def _alone(volume_index: VolumeIndex, asking: Sequence[VolumeDemand]) -> Iterator[Limit]:
    takes: defaultdict[object, dict[int, int]] = defaultdict(dict)
    for each in asking:
        for claim in each.terms.alone:
            takes[claim][each.number] = 1
    nodes = len(volume_index.reach.labels)
    for found in takes.values():
        yield Limit("volume claim of one pod", one_domain(nodes), (1,), found)


def _disks(volume_index: VolumeIndex, asking: Sequence[VolumeDemand]) -> Iterator[Limit]:
    """A pod that writes to a disk takes all of it on its node, a pod that reads it takes a share."""
    users: defaultdict[tuple[str, str], list[tuple[VolumeDemand, bool]]] = defaultdict(list)
    for each in asking:
        for disk in each.terms.disks:
            users[disk_key(disk)].append((each, disk.is_read_only))
    nodes = len(volume_index.reach.labels)
    for found in users.values():
        whole = sum(each.size for each, _ in found)
        takes: dict[int, int] = {}
        for each, is_read_only in found:
            takes[each.number] = max(takes.get(each.number, 0), 1 if is_read_only else whole)
        yield Limit("disk of a node", per_node(nodes), (whole,) * nodes, takes)


def _attachments(volume_index: VolumeIndex, asking: Sequence[VolumeDemand]) -> Iterator[Limit]:
    takes: defaultdict[str, dict[int, int]] = defaultdict(dict)
    for each in asking:
        for driver, plugin, count in each.terms.drivers:
            if not plugin:
                takes[driver][each.number] = count
    sizes = {each.number: each.size for each in asking}
    for driver, found in sorted(takes.items()):
        left = volume_index.attached.left(driver)
        wanted = sum(count * sizes[index] for index, count in found.items())
        if wanted > left.min():
            domains = np.where(volume_index.attached.limits[driver] < MOST, per_node(len(left)), NO_DOMAIN)
            yield Limit("volume attachments", domains, tuple(left.tolist()), found)


def _supplies(volume_index: VolumeIndex, asking: Sequence[VolumeDemand]) -> Iterator[Limit]:
    """Limit claims to the existing volumes, on each node and in each region, where none can be provisioned."""
    wanting = [(each, Counter(each.terms.own_shapes)) for each in asking]
    for shape in _scarce(volume_index, wanting):
        supply = volume_index.supply.supplies[shape]
        scarce: Mask = ~supply.makes
        takes = {each.number: count for each, own in wanting if (count := _taken(volume_index, own, shape))}
        wanted = sum(each.size * takes.get(each.number, 0) for each in asking)
        if wanted > supply.counts[scarce].min():
            own = np.where(scarce, per_node(len(scarce)), NO_DOMAIN)
            yield Limit("volumes of a node", own, tuple(supply.counts.tolist()), takes)
        regions = supply.regions()
        if regions is not None and wanted > min(regions[1]):
            yield Limit("volumes", np.where(scarce, regions[0], NO_DOMAIN), regions[1], takes)


def _scarce(volume_index: VolumeIndex, wanting: Sequence[tuple[VolumeDemand, Counter[int]]]) -> list[int]:
    """
    Return the shapes whose volumes may be too few.

    Where there are more than `MOST_SHAPES`, namespaces take turns, each with the shapes of most of its claims first.
    """
    wanted: defaultdict[str, Counter[int]] = defaultdict(Counter)
    for each, own in wanting:
        wanted[each.namespace].update({shape: each.size * count for shape, count in own.items()})
    found: dict[tuple[Bits, Bits], int] = {}
    equal: dict[int, int] = {}
    for shape in sorted(set[int]().union(*wanted.values())):
        supply = volume_index.supply.supplies[shape]
        if supply.is_open and not supply.makes.all():
            equal[shape] = found.setdefault((supply.members, supply.made_on), shape)
    by_namespace = (
        [equal[shape] for shape, _ in sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])) if shape in equal]
        for counts in wanted.values()
    )
    in_turns = (shape for turn in zip_longest(*by_namespace) for shape in turn if shape is not None)
    return sorted(islice(dict.fromkeys(in_turns), MOST_SHAPES))


def _taken(volume_index: VolumeIndex, own: Mapping[int, int], shape: int) -> int:
    """Count the claims of a pod that only volumes of a shape can serve where none is provisioned for it."""
    made_on = volume_index.supply.supplies[shape].made_on
    return sum(
        count
        for each, count in own.items()
        if volume_index.is_below(each, shape) and not volume_index.supply.supplies[each].made_on & ~made_on
    )

"""
What volumes make pods of a batch take from each other, as limits.

They are necessary, and enough where volumes are nested (each claim's are all of those that a larger one can have) and
no pod shares a volume with others of the batch: `settling` drops who goes beyond what is there after all.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, zip_longest
from typing import Final, NamedTuple

import numpy as np

from solver.problem.devices.inventory import Mask
from solver.problem.fit import MOST
from solver.problem.label_index import Bits
from solver.problem.limits import NO_DOMAIN, Limit, one_domain, per_node
from solver.problem.volumes.store import Store, disk_key
from solver.problem.volumes.wish import Terms

MOST_SHAPES: Final = 64
"""Shapes of claims for which there are limits: they would fill the model."""


class Asking(NamedTuple):
    """A class of pods: its number, their namespace, how many there are, and what they ask of volumes."""

    number: int
    namespace: str
    size: int
    terms: Terms


def limits(store: Store, asking: Sequence[Asking]) -> Iterator[Limit]:
    """Give the limits that can bind."""
    yield from _alone(store, asking)
    yield from _disks(store, asking)
    yield from _attachments(store, asking)
    yield from _supplies(store, asking)


def _alone(store: Store, asking: Sequence[Asking]) -> Iterator[Limit]:
    takes: defaultdict[object, dict[int, int]] = defaultdict(dict)
    for each in asking:
        for claim in each.terms.alone:
            takes[claim][each.number] = 1
    nodes = len(store.reach.labels)
    for found in takes.values():
        yield Limit("volume claim of one pod", one_domain(nodes), (1,), found)


def _disks(store: Store, asking: Sequence[Asking]) -> Iterator[Limit]:
    """A pod that writes to a disk takes the whole of it on its node, one that reads it a share."""
    users: defaultdict[tuple[str, str], list[tuple[Asking, bool]]] = defaultdict(list)
    for each in asking:
        for disk in each.terms.disks:
            users[disk_key(disk)].append((each, disk.is_read_only))
    nodes = len(store.reach.labels)
    for found in users.values():
        whole = sum(each.size for each, _ in found)
        takes: dict[int, int] = {}
        for each, is_read_only in found:
            takes[each.number] = max(takes.get(each.number, 0), 1 if is_read_only else whole)
        yield Limit("disk of a node", per_node(nodes), (whole,) * nodes, takes)


def _attachments(store: Store, asking: Sequence[Asking]) -> Iterator[Limit]:
    takes: defaultdict[str, dict[int, int]] = defaultdict(dict)
    for each in asking:
        for driver, plugin, count in each.terms.drivers:
            if not plugin:
                takes[driver][each.number] = count
    sizes = {each.number: each.size for each in asking}
    for driver, found in sorted(takes.items()):
        left = store.attached.left(driver)
        wanted = sum(count * sizes[index] for index, count in found.items())
        if wanted > left.min():
            domains = np.where(store.attached.limits[driver] < MOST, per_node(len(left)), NO_DOMAIN)
            yield Limit("volume attachments", domains, tuple(left.tolist()), found)


def _supplies(store: Store, asking: Sequence[Asking]) -> Iterator[Limit]:
    """Nodes, and nodes that reach volumes together, give no more than they have where none can be made."""
    wanting = [(each, Counter(each.terms.own_shapes)) for each in asking]
    for shape in _scarce(store, wanting):
        supply = store.stock.supplies[shape]
        scarce: Mask = ~supply.makes
        takes = {each.number: count for each, own in wanting if (count := _taken(store, own, shape))}
        wanted = sum(each.size * takes.get(each.number, 0) for each in asking)
        if wanted > supply.counts[scarce].min():
            own = np.where(scarce, per_node(len(scarce)), NO_DOMAIN)
            yield Limit("volumes of a node", own, tuple(supply.counts.tolist()), takes)
        regions = supply.regions()
        if regions is not None and wanted > min(regions[1]):
            yield Limit("volumes", np.where(scarce, regions[0], NO_DOMAIN), regions[1], takes)


def _scarce(store: Store, wanting: Sequence[tuple[Asking, Counter[int]]]) -> list[int]:
    """
    Give the shapes whose volumes may be too few.

    Where those are very many, namespaces take turns, and the shapes that most of their claims have come first.
    """
    wanted: defaultdict[str, Counter[int]] = defaultdict(Counter)
    for each, own in wanting:
        wanted[each.namespace].update({shape: each.size * count for shape, count in own.items()})
    found: dict[tuple[Bits, Bits], int] = {}
    equal: dict[int, int] = {}
    for shape in sorted(set[int]().union(*wanted.values())):
        supply = store.stock.supplies[shape]
        if supply.is_open and not supply.makes.all():
            equal[shape] = found.setdefault((supply.members, supply.made_on), shape)
    by_namespace = (
        [equal[shape] for shape, _ in sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])) if shape in equal]
        for counts in wanted.values()
    )
    in_turns = (shape for turn in zip_longest(*by_namespace) for shape in turn if shape is not None)
    return sorted(islice(dict.fromkeys(in_turns), MOST_SHAPES))


def _taken(store: Store, own: Mapping[int, int], shape: int) -> int:
    """Count the claims of a pod that only volumes which fit a shape can serve where none are made for that."""
    made_on = store.stock.supplies[shape].made_on
    return sum(
        count
        for each, count in own.items()
        if store.is_below(each, shape) and not store.stock.supplies[each].made_on & ~made_on
    )

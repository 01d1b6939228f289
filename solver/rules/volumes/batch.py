"""
What volumes make pods of a batch take from each other: limits, and levels of gangs for claims that pods share.

The limits are necessary. They are sufficient where volumes are nested (the volumes that fit a claim all fit each larger
one) and no volume is shared in the batch. Otherwise `solver.volume_matching` drops the pods that go beyond the supply.

Pods that share an unbound claim have to be where one volume can be reached. For a gang the claim is one more required
level, whose domains are the nodes that one volume serves; pods of no gang get such a rule of their own, without a
minimum. Domains do not overlap: a node that several volumes reach belongs to the volume that reaches most nodes. Pods
of different gangs do not share the decision about a claim: the pods of one go first.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, islice, zip_longest
from typing import Final, NamedTuple

import numpy as np

from solver.arrays import MOST, Mask
from solver.domain import Gang, GangId, ReasonCode, VolumeClaimId, node_reason
from solver.problem.gang_rules import GangRule, TopologyLevel
from solver.problem.inter_pod.affinity_rules import AntiAffinityRule
from solver.problem.inter_pod.inter_pod_context import Topology
from solver.rules.limits import NO_DOMAIN, Domains, Limit, one_domain, per_node
from solver.rules.node_fit.label_index import Bits
from solver.rules.volumes.nodes import VolumeIndex, disk_key
from solver.rules.volumes.topology import VolumeKey

_OTHERS_FIRST: Final = node_reason(
    ReasonCode.VOLUME_NONE, "node(s) have a volume that pods of another gang wait for too"
)


@dataclass(frozen=True, slots=True)
class ClaimLevel:
    """A level of a gang: all pods that use a claim are where its one volume can be reached."""

    claim: VolumeClaimId
    is_required: bool = True

    def __str__(self) -> str:
        """Name the level for messages."""
        return f"nodes of volume claim {self.claim.name}:"


@dataclass(frozen=True, slots=True)
class VolumeSharer:
    """A class of pods that share unbound claims: its family, its size, and its gang if any."""

    index: int
    family: int
    size: int
    gang: GangId | None
    claims: tuple[VolumeClaimId, ...]


def with_shared_claims(
    rules: Iterable[GangRule], sharers: Sequence[VolumeSharer], volume_index: VolumeIndex
) -> tuple[GangRule, ...]:
    """Add levels of shared claims to the rules of gangs, and rules for pods that are in no rule."""
    known = list(rules)
    rule_of = {index: number for number, rule in enumerate(known) for index in rule.classes}
    units: defaultdict[int, list[VolumeSharer]] = defaultdict(list)
    free: list[VolumeSharer] = []
    for each in sharers:
        if each.index in rule_of:
            units[rule_of[each.index]].append(each)
        else:
            free.append(each)
    for number, unit in units.items():
        known[number] = replace(known[number], levels=(*known[number].levels, *_levels(unit, volume_index)))
    for unit in _units(free):
        size = sum(each.size for each in unit if each.index == each.family)
        gang = Gang(id=unit[0].gang or GangId(*min(unit[0].claims), source=""))
        classes = tuple(each.index for each in unit)
        known.append(GangRule(gang=gang, classes=classes, size=size, running=0, levels=_levels(unit, volume_index)))
    return tuple(known)


def exclusive_users(rules: Iterable[GangRule], sharers: Sequence[VolumeSharer], count: int) -> list[AntiAffinityRule]:
    """Keep pods of different rules from using one claim in one plan; `count` is the number of nodes."""
    rule_of = {index: number for number, found in enumerate(rules) for index in found.classes}
    users: defaultdict[VolumeClaimId, defaultdict[int, set[int]]] = defaultdict(lambda: defaultdict(set))
    for each in sharers:
        for claim in each.claims:
            users[claim][rule_of[each.index]].add(each.index)
    everywhere = Topology(np.zeros(count, dtype=np.int64), 1)
    return [
        AntiAffinityRule(everywhere, frozenset(one), frozenset(other), _OTHERS_FIRST)
        for found in users.values()
        for one, other in combinations(found.values(), 2)
    ]


def _units(free: Iterable[VolumeSharer]) -> list[list[VolumeSharer]]:
    """Group classes of one gang, and classes without gang that share claims, directly or through others."""
    units: list[tuple[set[object], list[VolumeSharer]]] = []
    for each in free:
        marks: set[object] = {each.gang} if each.gang is not None else set(each.claims)
        unit = [each]
        for known in [known for known in units if known[0] & marks]:
            units.remove(known)
            marks |= known[0]
            unit = [*known[1], *unit]
        units.append((marks, unit))
    return [unit for _, unit in units]


def _levels(unit: Sequence[VolumeSharer], volume_index: VolumeIndex) -> tuple[TopologyLevel, ...]:
    users: defaultdict[VolumeClaimId, list[int]] = defaultdict(list)
    for each in unit:
        for claim in each.claims:
            users[claim].append(each.index)
    return tuple(_level(claim, users[claim], volume_index) for claim in sorted(users))


def _level(claim: VolumeClaimId, users: Iterable[int], volume_index: VolumeIndex) -> TopologyLevel:
    domains, names = _domains(claim, volume_index)
    return TopologyLevel(ClaimLevel(claim), names=names, domain_of=dict.fromkeys(users, domains))


def _domains(claim_id: VolumeClaimId, volume_index: VolumeIndex) -> tuple[Domains, list[str]]:
    """Divide the nodes among the volumes that the claim may get: the widest first, existing before provisioned ones."""
    claim = volume_index.claims[claim_id]
    supply = volume_index.supply.supplies[volume_index.supply.shape_of(claim)]
    provisioner = volume_index.classes[claim.storage_class].provisioner
    reaches: dict[tuple[int, ...], str] = {nodes: f"volume {found[0].name}" for nodes, found in supply.wide}
    reaches |= {(node,): f"volume {found[0].name}" for node, found in supply.local.items()}
    made = volume_index.supply.access.groups(provisioner, np.flatnonzero(supply.makes).tolist())
    ends = [(len(nodes), 1, nodes, name) for nodes, name in reaches.items()]
    node_names = {index: name for name, index in volume_index.supply.node_index.items()}
    ends += [(len(nodes), 0, nodes, f"one made for {name or f'node {node_names[nodes[0]]}'}") for nodes, name in made]
    domains: Domains = np.full(len(supply.counts), NO_DOMAIN, dtype=np.int64)
    names: list[str] = []
    for _, _, nodes, name in sorted(ends, key=lambda each: (-each[0], -each[1], each[2])):
        left = [node for node in nodes if domains[node] == NO_DOMAIN]
        if left:
            domains[left] = len(names)
            names.append(name)
    return domains, names


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

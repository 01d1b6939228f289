"""
Pods of a batch that share an unbound claim: they have to be where one volume can be reached.

For a gang the claim is one more required level, whose domains are the nodes that one volume serves; pods of no gang get
such a rule of their own, without a minimum. Domains do not overlap: a node that several volumes reach belongs to the
volume that reaches most nodes. Pods of different gangs do not share the decision about a claim: the pods of one go
first.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Final

import numpy as np

from solver.domain import Gang, GangId, ReasonCode, VolumeClaimId, node_reason
from solver.rules.forms.domains import NO_DOMAIN, Domains, Topology, one_domain
from solver.rules.forms.gang_rules import GangRule, TopologyLevel
from solver.rules.forms.inter_pod import AntiAffinityRule
from solver.rules.volumes.nodes import VolumeIndex

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
    everywhere = Topology(one_domain(count), 1)
    return [
        AntiAffinityRule(everywhere, frozenset(one), frozenset(other), _OTHERS_FIRST, _OTHERS_FIRST)
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

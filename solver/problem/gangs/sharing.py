"""
Volume claims without volume that several pods of a batch share: all of them go where one volume can be reached.

For a gang the claim is one more level that has to be kept, whose domains are the nodes that one volume can serve. Pods
of no gang that share claims are tied in the same way, only that any number of them may be left out. Domains do not
overlap: of volumes whose reaches do, the wider one has the nodes that both reach. Which volume it is shows when they
are handed out (`solver.extract.settling`).

Pods of different gangs, or of one and of none, do not share the decision: those of one go first.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Final

import numpy as np

from solver.domain import Gang, GangId, Reason, ReasonCode, VolumeClaimId
from solver.problem.gangs.rule import GangRule, Level
from solver.problem.limits import NO_DOMAIN, Domains
from solver.problem.neighbours.apart import Apart
from solver.problem.neighbours.topology import Topology
from solver.problem.volumes.store import Store

OTHERS_FIRST: Final = Reason(
    code=ReasonCode.VOLUME_NONE, message="node(s) whose volume pods of another gang wait for too", node_count=1
)


@dataclass(frozen=True, slots=True)
class ClaimLevel:
    """All pods that use a claim where its one volume can be reached."""

    claim: VolumeClaimId
    is_required: bool = True

    def __str__(self) -> str:
        """As messages name it."""
        return f"nodes of volume claim {self.claim.name}:"


@dataclass(frozen=True, slots=True)
class Sharer:
    """A class of pods that share claims: the family that counts them, how many they are, and their gang if any."""

    index: int
    family: int
    size: int
    gang: GangId | None
    claims: tuple[VolumeClaimId, ...]


def tied(rules: Iterable[GangRule], sharers: Sequence[Sharer], store: Store) -> tuple[GangRule, ...]:
    """Add levels of shared claims to the rules of gangs, and rules for pods that are in none of them."""
    known = list(rules)
    rule_of = {index: number for number, rule in enumerate(known) for index in rule.classes}
    crews: defaultdict[int, list[Sharer]] = defaultdict(list)
    free: list[Sharer] = []
    for each in sharers:
        if each.index in rule_of:
            crews[rule_of[each.index]].append(each)
        else:
            free.append(each)
    for number, crew in crews.items():
        known[number] = replace(known[number], levels=(*known[number].levels, *_levels(crew, store)))
    for crew in _crews(free):
        size = sum(each.size for each in crew if each.index == each.family)
        gang = Gang(id=crew[0].gang or GangId(*min(crew[0].claims), source=""))
        classes = tuple(each.index for each in crew)
        known.append(GangRule(gang=gang, classes=classes, size=size, running=0, levels=_levels(crew, store)))
    return tuple(known)


def apart(rules: Iterable[GangRule], sharers: Sequence[Sharer], count: int) -> list[Apart]:
    """Keep pods of different rules from using one claim in one plan; `count` is the number of nodes."""
    rule_of = {index: number for number, found in enumerate(rules) for index in found.classes}
    users: defaultdict[VolumeClaimId, defaultdict[int, set[int]]] = defaultdict(lambda: defaultdict(set))
    for each in sharers:
        for claim in each.claims:
            users[claim][rule_of[each.index]].add(each.index)
    everywhere = Topology(np.zeros(count, dtype=np.int64), 1)
    return [
        Apart(everywhere, frozenset(one), frozenset(other), OTHERS_FIRST)
        for found in users.values()
        for one, other in combinations(found.values(), 2)
    ]


def _crews(free: Iterable[Sharer]) -> list[list[Sharer]]:
    """Bring classes together that are of one gang, or of none and share claims, directly or through others."""
    crews: list[tuple[set[object], list[Sharer]]] = []
    for each in free:
        marks: set[object] = {each.gang} if each.gang is not None else set(each.claims)
        crew = [each]
        for known in [known for known in crews if known[0] & marks]:
            crews.remove(known)
            marks |= known[0]
            crew = [*known[1], *crew]
        crews.append((marks, crew))
    return [crew for _, crew in crews]


def _levels(crew: Sequence[Sharer], store: Store) -> tuple[Level, ...]:
    users: defaultdict[VolumeClaimId, list[int]] = defaultdict(list)
    for each in crew:
        for claim in each.claims:
            users[claim].append(each.index)
    return tuple(_level(claim, users[claim], store) for claim in sorted(users))


def _level(claim: VolumeClaimId, users: Iterable[int], store: Store) -> Level:
    domains, names = _domains(claim, store)
    return Level(ClaimLevel(claim), names=names, domain_of=dict.fromkeys(users, domains))


def _domains(claim_id: VolumeClaimId, store: Store) -> tuple[Domains, list[str]]:
    """Divide the nodes among what the claim may get, the widest first; a volume that is there before one to be made."""
    claim = store.claims[claim_id]
    supply = store.stock.supplies[store.stock.shape_of(claim)]
    provisioner = store.classes[claim.storage_class].provisioner
    reaches: dict[tuple[int, ...], str] = {nodes: f"volume {found[0].name}" for nodes, found in supply.wide}
    reaches |= {(node,): f"volume {found[0].name}" for node, found in supply.local.items()}
    made = store.stock.access.groups(provisioner, np.flatnonzero(supply.makes).tolist())
    ends = [(len(nodes), 1, nodes, name) for nodes, name in reaches.items()]
    node_names = {index: name for name, index in store.stock.node_index.items()}
    ends += [(len(nodes), 0, nodes, f"one made for {name or f'node {node_names[nodes[0]]}'}") for nodes, name in made]
    domains: Domains = np.full(len(supply.counts), NO_DOMAIN, dtype=np.int64)
    names: list[str] = []
    for _, _, nodes, name in sorted(ends, key=lambda each: (-each[0], -each[1], each[2])):
        left = [node for node in nodes if domains[node] == NO_DOMAIN]
        if left:
            domains[left] = len(names)
            names.append(name)
    return domains, names

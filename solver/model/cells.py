"""
Where pods and shared claims can go, with multiplicity.

The general model has one cell per node, the relaxed one a cell per kind of node.

A site is a cell of another sort: nodes that can all use the same cluster-wide devices. Claims that several pods
share may be allocated there; their pods then run on any of its nodes.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from solver.problem import groups
from solver.problem.fit import PODS, Amounts
from solver.problem.layout import Group
from solver.problem.problem import Problem, State

_MOST_SITES: Final = 32
_MOST_DOMAINS: Final = 512


@dataclass(frozen=True, slots=True, eq=False)
class Cell:
    """`nodes` of one description and condition; `state` is what each of them has left."""

    index: int
    nodes: tuple[int, ...]
    group: Group
    state: State
    is_whole: bool
    is_site: bool = False

    @property
    def multiplicity(self) -> int:
        """How many nodes it stands for."""
        return 1 if self.is_site else len(self.nodes)


@dataclass(slots=True, eq=False)
class Cells:
    """All cells: those of nodes, then the sites."""

    places: list[Cell] = field(default_factory=list)
    sites: list[Cell] = field(default_factory=list)
    _place_of: Amounts | None = None

    def summed(self, per_node: Amounts) -> list[tuple[Cell, int]]:
        """Add up a number per node over each place; places that come to nothing are left out."""
        if self._place_of is None:
            self._place_of = np.full(len(per_node), -1, dtype=np.int64)
            for place in self.places:
                self._place_of[list(place.nodes)] = place.index
        nodes = np.flatnonzero((per_node > 0) & (self._place_of >= 0))
        found, where = np.unique(self._place_of[nodes], return_inverse=True)
        sums = np.zeros(len(found), dtype=np.int64)
        np.add.at(sums, where, per_node[nodes])
        return [(self.places[index], total) for index, total in zip(found.tolist(), sums.tolist(), strict=True)]


def single(problem: Problem, nodes: Iterable[int] | None = None) -> Cells:
    """One cell per node (of some nodes): nothing is relaxed."""
    chosen = range(problem.node_count) if nodes is None else nodes
    cells = Cells()
    for node in chosen:
        group, state = problem.group(node), problem.states[node]
        cells.places.append(Cell(len(cells.places), (node,), group, state, bool(problem.is_whole[node])))
    cells.sites = _sites(problem, len(cells.places))
    return cells


def merged(problem: Problem) -> Cells:
    """One cell per kind of node: same devices left, allowed to the same classes. A relaxation of `single`."""
    allowed = np.array([each.verdicts.allowed for each in problem.classes], dtype=np.bool_)
    masks = np.ascontiguousarray(allowed.T)
    is_open = [False] * problem.node_count
    if len(allowed):
        is_open = (allowed.any(axis=0) & (problem.room.of(PODS) > 0)).tolist()
    domains, costs = _gang_domains(problem), _costs(problem)
    kinds: defaultdict[tuple[int, State, bool, bytes], list[int]] = defaultdict(list)
    for node, group in enumerate(problem.layout.group_of):
        if is_open[node]:
            mask = masks[node].tobytes() + domains[node] + costs[node]
            kinds[group, problem.states[node], bool(problem.is_whole[node]), mask].append(node)
    cells = Cells()
    for (group, state, is_whole, _), nodes in kinds.items():
        described = problem.layout.groups[group]
        cells.places.append(Cell(len(cells.places), tuple(nodes), described, state, is_whole))
    cells.sites = _sites(problem, len(cells.places))
    return cells


def _costs(problem: Problem) -> list[bytes]:
    """Tell nodes apart that pods prefer differently, while there are few kinds of them."""
    columns = list(problem.tastes.preferences.of_class.values())
    if "opened-groups" in problem.policy.levels:
        group_of, numbers = groups.node_groups(problem), dict[tuple[str, str], int]()
        where = (group_of.get(node) for node in range(problem.node_count))
        found = [-1 if group is None else numbers.setdefault(group, len(numbers)) for group in where]
        columns.append(np.array(found, dtype=np.int64))
    if columns:
        rows = np.ascontiguousarray(np.array(columns).T)
        kinds = [row.tobytes() for row in rows]
        if len(set(kinds)) <= _MOST_DOMAINS:
            return kinds
    return [b""] * problem.node_count


def _gang_domains(problem: Problem) -> list[bytes]:
    """Tell nodes of different domains of gangs apart, while there are few domains: it makes the bound much better."""
    columns = {
        id(domains): domains for rule in problem.gangs for level in rule.levels for domains in level.domain_of.values()
    }
    if not columns or sum(len(set(each.tolist())) for each in columns.values()) > _MOST_DOMAINS:
        return [b""] * problem.node_count
    stacked = np.stack(tuple(columns.values()), axis=1)
    return [row.tobytes() for row in stacked]


def _sites(problem: Problem, first: int) -> list[Cell]:
    """One site per set of nodes that some combination of cluster-wide devices reaches."""
    if not problem.shared or not problem.layout.wide_types:
        return []
    everywhere = frozenset(range(problem.node_count))
    free = [_binds_nowhere(problem, each) for each in range(len(problem.layout.wide_types))]
    reaches = dict.fromkeys(
        everywhere if nodes is None else nodes
        for nodes, is_free in zip(problem.layout.wide_nodes, free, strict=True)
        if is_free
    )
    for one in list(reaches):
        for other in list(reaches):
            if one & other and len(reaches) < _MOST_SITES:
                reaches.setdefault(one & other)
    sites = []
    for offset, nodes in enumerate(reaches):
        wide = tuple(
            each
            for each, reached in enumerate(problem.layout.wide_nodes)
            if free[each] and (reached is None or nodes <= reached)
        )
        group = Group(-1 - offset, (), (), (), wide, is_unsettled=False)
        sites.append(Cell(first + offset, tuple(sorted(nodes)), group, (), is_whole=False, is_site=True))
    return sites


def _binds_nowhere(problem: Problem, wide: int) -> bool:
    records = problem.inventory.records
    return not any(records[index].device.binds_to_node for index in problem.layout.wide_members[wide])

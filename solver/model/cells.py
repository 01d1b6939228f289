"""
Where pods and shared claims can go, with multiplicity.

The general model has one cell per node, the relaxed one a cell per kind of node.

A site is a cell of another sort: nodes that can all use the same cluster-wide devices. Claims that several pods
share may be allocated there; their pods then run on any of its nodes.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

from solver.arrays import Amounts
from solver.problem.devices import fragmentation
from solver.problem.devices.layout import NodeGroup, State
from solver.problem.node_arrays import PODS, numbered
from solver.problem.problem import Problem


@dataclass(frozen=True, eq=False)  # no slots: `indices` is cached
class Cell:
    """`nodes` of one description and condition; `state` is what each of them has left."""

    index: int
    nodes: tuple[int, ...]
    group: NodeGroup
    state: State
    is_unused: bool
    is_site: bool = False

    @cached_property
    def indices(self) -> Amounts:
        """The nodes as an index of arrays."""
        return np.array(self.nodes, dtype=np.int64)

    @property
    def multiplicity(self) -> int:
        """How many nodes it stands for."""
        return 1 if self.is_site else len(self.nodes)


@dataclass(slots=True, eq=False)
class Cells:
    """All cells: those of nodes, then the sites."""

    places: list[Cell] = field(default_factory=list)
    sites: list[Cell] = field(default_factory=list)
    is_merged: bool = False
    """Whether places stand for kinds of nodes."""
    _place_of: Amounts | None = None

    def summed(self, per_node: Amounts) -> list[tuple[Cell, int]]:
        """Add up a number per node over each place; places that come to nothing are left out."""
        if self._place_of is None:
            self._place_of = np.full(len(per_node), -1, dtype=np.int64)
            for place in self.places:
                self._place_of[place.indices] = place.index
        nodes = np.flatnonzero((per_node > 0) & (self._place_of >= 0))
        # The sums are exact: what nodes have room for is far below 2^53.
        sums = np.bincount(self._place_of[nodes], weights=per_node[nodes], minlength=len(self.places))
        return [(self.places[index], int(sums[index])) for index in np.flatnonzero(sums).tolist()]


def single(problem: Problem, nodes: Iterable[int] | None = None) -> Cells:
    """One cell per node (of some nodes): nothing is relaxed."""
    chosen = range(problem.node_count) if nodes is None else nodes
    cells = Cells()
    for node in chosen:
        group, state = problem.group(node), problem.available.states[node]
        cells.places.append(Cell(len(cells.places), (node,), group, state, bool(problem.available.is_unused[node])))
    cells.sites = _sites(problem, len(cells.places))
    return cells


def merged(problem: Problem) -> Cells:
    """
    One cell per kind of node: same devices left, allowed to the same classes. A relaxation of `single`.

    If classes and kinds are so many that even this would be large, nodes are alike whichever classes may use them: a
    class has room on those of a cell that it may use, and beyond that the cell is looked at as a whole.
    """
    wanted = [each for each in problem.classes if each.size]
    allowed = np.array([each.verdicts.allowed for each in wanted], dtype=np.bool_).reshape(
        len(wanted), problem.node_count
    )
    open_nodes = np.flatnonzero(allowed.any(axis=0) & (problem.available.room.of(PODS) > 0))
    columns = [_numbered_rows(np.packbits(allowed, axis=0).T), _gang_domains(problem), _costs(problem)]
    if problem.costs.nodes is not None:  # the last one to be left out: without it nodes to add have no price
        columns.append(problem.costs.nodes.shape_of + 1)
    counts = allowed.sum(axis=0)
    keys, key_of = problem.device_keys()
    while True:
        kinds = _kinds(open_nodes, key_of, columns)
        is_small = sum(int(counts[nodes[0]]) for nodes in kinds) <= problem.params.merged_variables
        if is_small or len(columns) <= int(problem.costs.nodes is not None):
            break
        columns.pop(0)
    cells = Cells(is_merged=True)
    for nodes in kinds:
        key = keys[key_of[nodes[0]]]
        described = problem.layout.groups[key.group]
        cells.places.append(Cell(len(cells.places), tuple(nodes.tolist()), described, key.state, key.is_unused))
    cells.sites = _sites(problem, len(cells.places))
    return cells


def _kinds(nodes: Amounts, key_of: Amounts, columns: list[Amounts]) -> list[Amounts]:
    """Bring nodes together that have the same devices left, and the same number in every column."""
    codes = key_of[nodes]
    for column in columns:
        if column.any():
            codes = np.unique(codes * (column.max() + 1) + column[nodes], return_inverse=True)[1]
    found, place_of = numbered(codes)
    order, sizes = np.argsort(place_of, kind="stable"), np.bincount(place_of, minlength=len(found))
    return np.split(nodes[order], np.cumsum(sizes)[:-1]) if found else []


def _numbered_rows(rows: npt.NDArray[np.uint8] | Amounts) -> Amounts:
    """Number equal rows alike, from 0 on."""
    if not rows.size or (rows == rows[0]).all():
        return np.zeros(len(rows), dtype=np.int64)
    return np.unique(rows, axis=0, return_inverse=True)[1].reshape(len(rows))


def _costs(problem: Problem) -> Amounts:
    """Split cells by what pods prefer of their nodes, and by domain costs, while there are few kinds of nodes."""
    columns = [each for index, each in problem.costs.of_nodes if problem.classes[index].size]
    if "opened-groups" in problem.policy.levels:
        group_of, numbers = fragmentation.node_groups(problem), dict[tuple[str, str], int]()
        where = (group_of.get(node) for node in range(problem.node_count))
        found = [-1 if group is None else numbers.setdefault(group, len(numbers)) for group in where]
        columns.append(np.array(found, dtype=np.int64))
    kinds = np.zeros(problem.node_count, dtype=np.int64)
    for column in columns:
        values = np.unique(column, return_inverse=True)[1]
        seen, kinds = np.unique(kinds * problem.node_count + values, return_inverse=True)
        if len(seen) > problem.params.merged_domains:
            return np.zeros(problem.node_count, dtype=np.int64)
    return kinds


def _gang_domains(problem: Problem) -> Amounts:
    """Split cells by domains of gangs, while there are few domains: it makes the bound much better."""
    columns = {
        id(domains): domains
        for rule in problem.rules.gangs
        for level in rule.levels
        for domains in level.domain_of.values()
    }
    if not columns or sum(len(set(each.tolist())) for each in columns.values()) > problem.params.merged_domains:
        return np.zeros(problem.node_count, dtype=np.int64)
    return _numbered_rows(np.stack(tuple(columns.values()), axis=1))


def _sites(problem: Problem, first: int) -> list[Cell]:
    """One cell per site, with the cluster-wide devices that all of its nodes reach."""
    if not problem.shared or not problem.layout.wide_types:
        return []
    free = [_binds_nowhere(problem, each) for each in range(len(problem.layout.wide_types))]
    sites = []
    for offset, nodes in enumerate(problem.layout.sites):
        wide = tuple(
            each
            for each, reached in enumerate(problem.layout.wide_nodes)
            if free[each] and (reached is None or nodes <= reached)
        )
        group = NodeGroup(-1 - offset, (), (), (), wide, is_unsettled=False)
        sites.append(Cell(first + offset, tuple(sorted(nodes)), group, (), is_unused=False, is_site=True))
    return sites


def _binds_nowhere(problem: Problem, wide: int) -> bool:
    records = problem.inventory.records
    return not any(records[index].device.binds_to_node for index in problem.layout.wide_members[wide])

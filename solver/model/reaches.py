"""Which domains (zones, nodes, …) the nodes of cells are in; worked out once for all rules over the same domains."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from solver.domain.disjoint_sets import DisjointSets
from solver.model.cells import Cell
from solver.problem.limits import NO_DOMAIN, Domains


@dataclass(slots=True, eq=False)
class Reaches:
    """The domains of cells; equal sets of domains are one object."""

    domain_of: Domains
    _of_cell: dict[int, frozenset[int]] = field(default_factory=dict)
    _known: dict[frozenset[int], frozenset[int]] = field(default_factory=dict)
    _pools: dict[frozenset[frozenset[int]], dict[int, int]] = field(default_factory=dict)

    def of(self, cell: Cell) -> frozenset[int]:
        """Give the domains that nodes of a cell are in, `NO_DOMAIN` among them where some node is in none."""
        found = self._of_cell.get(cell.index)
        if found is None:
            domains = frozenset(self.domain_of[list(cell.nodes)].tolist())
            found = self._of_cell[cell.index] = self._known.setdefault(domains, domains)
        return found

    def pools(self, cells: Iterable[Cell]) -> dict[int, int]:
        """Connect domains that share a cell: for each, one that stands for all. Cells with a node in none are out."""
        sets = frozenset(domains for domains in map(self.of, cells) if NO_DOMAIN not in domains)
        if sets not in self._pools:
            self._pools[sets] = _connected(sets)
        return self._pools[sets]


def _connected(sets: Iterable[frozenset[int]]) -> dict[int, int]:
    pools = DisjointSets[int]()
    for domains in sorted(map(sorted, sets)):
        pools.join(domains)
    return {domain: pools.find(domain) for domains in sets for domain in domains}

"""
The variables of a model, with the queries that rules ask, so that no rule indexes them itself.

`Variables` holds them by pod class, cell, option and budget. `CellDomains` says in which domains (zones, nodes, …) the
nodes of each cell are, computed once for all rules over the same domains.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from solver.domain.disjoint_sets import DisjointSets
from solver.model.cells import Cell, Cells
from solver.model.form import Expression, IntegerForm
from solver.problem.devices.layout import DeviceType, State, Takes, whole
from solver.problem.devices.node_ledger import NodeLedger
from solver.problem.problem import Part, Problem
from solver.problem.requests.component import Line, Option
from solver.rules.forms.domains import NO_DOMAIN, Domains


@dataclass(slots=True, eq=False)
class CellDomains:
    """The domains of cells; equal sets of domains are one object."""

    domain_of: Domains
    _of_cell: dict[int, frozenset[int]] = field(default_factory=dict)
    _known: dict[frozenset[int], frozenset[int]] = field(default_factory=dict)
    _pools: dict[frozenset[frozenset[int]], dict[int, int]] = field(default_factory=dict)

    def of(self, cell: Cell) -> frozenset[int]:
        """Return the domains that nodes of a cell are in, `NO_DOMAIN` among them where some node is in none."""
        found = self._of_cell.get(cell.index)
        if found is None:
            domains = frozenset(self.domain_of[cell.indices].tolist())
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


_All = tuple[tuple[int, int, frozenset[int]], ...]
"""Requests and alternatives that take all devices, with the types that those are."""


class Owner(NamedTuple):
    """What needs components: a class of pods, or a shared claim."""

    is_shared: bool
    number: int


class PartAt(NamedTuple):
    """A part (by position) of an owner in a cell."""

    owner: Owner
    part: int
    cell: int


class ChargedPool(NamedTuple):
    """The limits and the share (-1: none) that demand counts for, and what one device of each type counts by key."""

    limits: tuple[int, ...]
    share: int
    charges: tuple[Takes, ...]


class DemandPool(NamedTuple):
    """
    Demand in a cell that is served from one set of types in one way, whatever it comes from.

    `distinct` is the count per request where shareable devices must differ within a request, else 0; `owner`
    (with request and alternative) keeps demand apart that must not be mixed (see `Component.needs_identity`), and so
    does `quota` where types count differently for quotas.
    """

    cell: int
    types: tuple[int, ...]
    takes: tuple[Takes, ...]
    distinct: int
    owner: tuple[PartAt, int, int] | None
    quota: ChargedPool | None = None


class CellCapacity(NamedTuple):
    """How many owners a node can serve at most, and with which options (by position) of each part."""

    most: int
    options: list[list[tuple[int, Option]]]


@dataclass(slots=True, eq=False)
class Variables:
    """
    The model's variables.

    `pods[class, cell]` counts pods, `allocated[shared, cell]` is 0 or 1, `copies[part][option]` counts copies of a
    component served that way, `devices[pool][type]` counts devices; the last two may be expressions of others where
    there is no choice. `opened_nodes[cell]` and `opened_devices[cell, type]` (see `device_key`) count what was
    untouched. A rule with variables of its own adds to `hint_completions` how their values follow from those of the
    others, which makes hints complete.
    """

    problem: Problem
    cells: Cells
    form: IntegerForm = field(default_factory=IntegerForm)
    pods: dict[tuple[int, int], int] = field(default_factory=dict)
    allocated: dict[tuple[int, int], int] = field(default_factory=dict)
    options: dict[PartAt, list[tuple[int, Option]]] = field(default_factory=dict)
    copies: dict[PartAt, dict[int, Expression]] = field(default_factory=dict)
    pools: dict[DemandPool, list[tuple[PartAt, int, Line]]] = field(default_factory=lambda: defaultdict(list))
    devices: dict[DemandPool, dict[int, Expression]] = field(default_factory=dict)
    opened_nodes: dict[int, int] = field(default_factory=dict)
    opened_devices: dict[tuple[int, int], int] = field(default_factory=dict)
    added_nodes: dict[int, int] = field(default_factory=dict)
    """Counts the nodes in use of each cell of nodes that are to be added (`model.node_prices`)."""
    hint_completions: list[Callable[[list[int]], None]] = field(default_factory=list)
    kept_room: dict[tuple[int, str], list[tuple[int, int]]] = field(default_factory=lambda: defaultdict(list))
    """What pods that run take while their variable is 1, by cell and resource (see `model.victims`)."""
    kept_budgets: dict[tuple[int, int], list[tuple[int, int]]] = field(default_factory=lambda: defaultdict(list))
    """What their claims take, by cell (-1: cluster-wide) and budget."""
    kept_quotas: dict[int, list[tuple[int, int]]] = field(default_factory=lambda: defaultdict(list))
    """What they count for limits of quotas (`QuotaLimits.limits`), by limit."""
    kept_quota_nodes: dict[int, dict[int, list[int]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(list))
    )
    """Those that keep a node in use, by limit and node."""
    kept_shares: list[tuple[int, int, int]] = field(default_factory=list)
    """Shareable devices that their claims have opened: cell (-1: cluster-wide), type and variable."""

    served: dict[tuple[tuple[Part, ...], int, State], CellCapacity] = field(default_factory=dict)
    """What nodes can serve, by parts, description and state."""
    _wide: list[int] = field(init=False)
    _ledgers: dict[int, NodeLedger] = field(default_factory=dict)
    _reaches: dict[int, CellDomains] = field(default_factory=dict)
    _described: dict[int, frozenset[int]] = field(default_factory=dict)
    _meant: dict[tuple[int, int], frozenset[_All]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Take the cluster-wide budgets from the problem, for the ledgers of all cells."""
        self._wide = list(self.problem.available.wide_state)

    def by_class(self) -> dict[int, list[tuple[Cell, int]]]:
        """Return the variables that count pods of each class, with their cells."""
        found: dict[int, list[tuple[Cell, int]]] = {}
        for (pod_class, cell), variable in self.pods.items():
            found.setdefault(pod_class, []).append((self.cell(cell), variable))
        return found

    def reaches(self, domain_of: Domains) -> CellDomains:
        """Say which domains cells are in."""
        return self._reaches.setdefault(id(domain_of), CellDomains(domain_of))

    def is_meant(self, component: int, option: Option, site: Cell) -> bool:
        """Whether an option of a site leaves nothing out that a request for all devices means on one of its nodes."""
        return not _all_of(option) or bool(self.meaning(component, option, site))

    def meaning(self, component: int, option: Option, site: Cell) -> frozenset[int]:
        """Return the descriptions of a site's nodes on which requests for all devices mean what an option takes."""
        if site.index not in self._described:
            self._described[site.index] = frozenset(self.problem.layout.group_of[node] for node in site.nodes)
        wanted = _all_of(option)
        return frozenset(each for each in self._described[site.index] if wanted in self._meant_in(component, each))

    def _meant_in(self, component: int, group: int) -> frozenset[_All]:
        """Return what requests for all devices can come to on nodes of some description."""
        key = (component, group)
        if key not in self._meant:
            options = self.problem.options(component, self.problem.layout.groups[group])
            self._meant[key] = frozenset(map(_all_of, options))
        return self._meant[key]

    def cell(self, index: int) -> Cell:
        """Return a cell of either sort."""
        places = self.cells.places
        return places[index] if index < len(places) else self.cells.sites[index - len(places)]

    def type_of(self, cell: int, each: int) -> DeviceType:
        """Resolve a type reference in a cell, which does not matter (it may be -1) for a cluster-wide type."""
        return self.problem.layout.wide_types[-each - 1] if each < 0 else self.cell(cell).group.types[each]

    def ledger(self, cell: int) -> NodeLedger:
        """Return what each node of a cell has left of devices, or (cell -1) the cluster alone; nothing is taken."""
        if cell not in self._ledgers:
            self._ledgers[cell] = NodeLedger(list(self.cell(cell).state) if cell >= 0 else [], self._wide)
        return self._ledgers[cell]

    def device_key(self, cell: int, each: int) -> tuple[int, int]:
        """Return the key of a shareable device in `opened_devices`: cluster-wide ones are opened once for all cells."""
        return (cell, each) if each >= 0 else (-1, whole(self.problem.layout, each))

    def add_owner(self, owner: Owner, cell: int, most: int) -> None:
        """Count an owner in a cell, from none to `most`."""
        container = self.allocated if owner.is_shared else self.pods
        container[owner.number, cell] = self.form.variable(0, most)

    def indicate(self, variable: int, counted: Iterable[int], least: int = 1) -> None:
        """Complete hints: a 0-1 variable is 1 where the counted variables together reach `least`."""
        members = tuple(counted)

        def complete(values: list[int]) -> None:
            values[variable] = int(sum(values[each] for each in members) >= least)

        self.hint_completions.append(complete)

    def parts(self, owner: Owner) -> tuple[Part, ...]:
        """Return the components that an owner needs."""
        return (self.problem.shared if owner.is_shared else self.problem.classes)[owner.number].parts

    def count(self, owner: Owner, cell: int) -> int:
        """Return the variable that counts an owner in a cell."""
        return (self.allocated if owner.is_shared else self.pods)[owner.number, cell]


def _all_of(option: Option) -> _All:
    """Return the requests of an option that take all devices; none where none does."""
    return tuple((line.request, line.alternative, frozenset(line.types)) for line in option.lines if line.takes_each)

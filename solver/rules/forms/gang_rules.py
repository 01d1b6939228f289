"""The rule of a gang: its classes of pods, the minimum that has to be placed, and the domains of its levels."""

from collections import Counter
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from itertools import product
from typing import Final, Protocol

import numpy as np

from solver.arrays import Amounts, Mask
from solver.domain import Gang
from solver.rules.forms.domains import NO_DOMAIN, Domains

DomainTuple = tuple[int, ...]
"""A domain per level, in the order of the levels."""
_MOST_TUPLES: Final = 4096


class Scope(Protocol):
    """What the pods share at a level, and whether they have to; its text is the name in messages."""

    @property
    def is_required(self) -> bool:
        """Whether all pods have to be in one domain."""


@dataclass(slots=True, eq=False)
class TopologyLevel:
    """
    One level of a gang.

    `domain_of[class][node]` is a domain or `NO_DOMAIN`, for the classes that the level binds; `names` are per domain.
    `held` are the domains of running members. `may_name_domains` says whether messages may contain the names, which are
    values of node labels and device attributes.
    """

    level: Scope
    names: list[str] = field(default_factory=list)
    domain_of: dict[int, Domains] = field(default_factory=dict)
    held: frozenset[int] = frozenset()
    may_name_domains: bool = True
    by_domain: dict[int, set[int]] = field(init=False, default_factory=dict)
    """The classes that have nodes in each domain."""

    @property
    def is_required(self) -> bool:
        """Whether all pods have to be in one domain."""
        return self.level.is_required

    def __post_init__(self) -> None:
        arrays = {id(each): each for each in self.domain_of.values()}
        found = {key: np.unique(each).tolist() for key, each in arrays.items()}
        for index, domains in self.domain_of.items():
            for domain in found[id(domains)]:
                self.by_domain.setdefault(domain, set()).add(index)

    def classes_in(self, domain: int) -> AbstractSet[int]:
        """Return the classes that have nodes in a domain."""
        return self.by_domain.get(domain, frozenset())


@dataclass(slots=True, eq=False)
class GangRule:
    """
    Of the pods of `classes` at least `need` are placed, or none.

    They are those of one gang, or pods that share an unbound volume: then `gang` stands for them and needs none.

    `size` is how many there are, `running` how many members run. Required levels are in what the classes' verdicts
    allow: a node without a domain is out, and so is every domain but those held.
    """

    gang: Gang
    classes: tuple[int, ...]
    size: int
    running: int
    levels: tuple[TopologyLevel, ...]

    @property
    def need(self) -> int:
        """How many have to be placed together; 0 where enough run already."""
        return max(0, self.gang.min_count - self.running)

    @property
    def required(self) -> tuple[TopologyLevel, ...]:
        """Levels that have to be kept."""
        return tuple(each for each in self.levels if each.is_required)

    @property
    def preferred(self) -> tuple[TopologyLevel, ...]:
        """Levels that cost."""
        return tuple(each for each in self.levels if not each.is_required)

    def domain_tuples(self, levels: Sequence[TopologyLevel], open_nodes: Mapping[int, Mask]) -> list[DomainTuple]:
        """
        Return the domains that the gang can be in, one per level, those with the fewest open nodes first.

        `open_nodes` are per class; domains without any of them are left out.
        """
        counts: Counter[DomainTuple] = Counter()
        for index in self._bound_by_all(levels):
            columns = np.stack([each.domain_of[index] for each in levels])
            found, times = np.unique(columns[:, open_nodes[index]], axis=1, return_counts=True)
            for column, count in zip(found.T.tolist(), times.tolist(), strict=True):
                counts[tuple(column)] += count
        if not counts:
            counts = self._combined(levels, open_nodes)
        rows = [row for row in counts if NO_DOMAIN not in row and _agrees(row, levels)]
        return sorted(rows, key=lambda row: (counts[row], row))

    def inside(self, levels: Sequence[TopologyLevel], row: DomainTuple) -> dict[int, Mask | None]:
        """
        Return the classes with nodes inside the domains of a row, each with these; None where no level binds it.

        A gang that shares a value of its devices has a class for each value: one of hundreds is inside.
        """
        binding = tuple(zip(levels, row, strict=True))
        masks = {
            index: self.mask(index, levels, row)
            for index in self.classes
            if all(index not in each.domain_of or index in each.classes_in(domain) for each, domain in binding)
        }
        return {index: mask for index, mask in masks.items() if mask is None or mask.any()}

    def mask(self, pod_class: int, levels: Sequence[TopologyLevel], row: DomainTuple) -> Mask | None:
        """Nodes of a class inside of the domains of a row; None where no level binds it."""
        found: Mask | None = None
        for level, domain in zip(levels, row, strict=True):
            if pod_class in level.domain_of:
                inside: Mask = level.domain_of[pod_class] == domain
                found = inside if found is None else found & inside
        return found

    def sums(self, pod_class: int, levels: Sequence[TopologyLevel], amounts: Amounts) -> dict[DomainTuple, int] | None:
        """Sum up amounts per node over the domains of levels; None where one of these does not bind a class."""
        if not levels or any(pod_class not in level.domain_of for level in levels):
            return None
        nodes = np.flatnonzero(amounts)
        columns = np.stack([each.domain_of[pod_class][nodes] for each in levels])
        found, places = np.unique(columns, axis=1, return_inverse=True)
        totals = np.bincount(places.reshape(-1), weights=amounts[nodes], minlength=found.shape[1])
        return {tuple(column): int(total) for column, total in zip(found.T.tolist(), totals.tolist(), strict=True)}

    def _bound_by_all(self, levels: Sequence[TopologyLevel]) -> list[int]:
        """Classes that all the levels bind."""
        return [each for each in self.classes if all(each in level.domain_of for level in levels)]

    def _combined(self, levels: Sequence[TopologyLevel], open_nodes: Mapping[int, Mask]) -> Counter[DomainTuple]:
        """Combine the domains of levels that bind different classes."""
        per_level: list[Counter[int]] = []
        for level in levels:
            found = Counter[int]()
            for index, domains in level.domain_of.items():
                found.update(domains[open_nodes[index]].tolist())
            per_level.append(found)
        rows: Counter[DomainTuple] = Counter()
        for row in product(*(sorted(each) for each in per_level)):
            if len(rows) >= _MOST_TUPLES:
                break
            rows[row] = sum(each[domain] for each, domain in zip(per_level, row, strict=True))
        return rows


def _agrees(row: DomainTuple, levels: Sequence[TopologyLevel]) -> bool:
    return all(
        not (level.is_required and level.held) or domain in level.held
        for level, domain in zip(levels, row, strict=True)
    )

"""Nodes by the value of a label: the domains that topology keys make."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import numpy as np

from solver.problem.bounded import MIB, Bounded
from solver.problem.devices.inventory import Mask
from solver.problem.limits import NO_DOMAIN, Domains

_MOST_BYTES: Final = 16 * MIB


@dataclass(frozen=True, slots=True, eq=False)
class Topology:
    """The domains of one key: `domain_of` per node, `NO_DOMAIN` where the node lacks the label; how many there are."""

    domain_of: Domains
    count: int

    @property
    def has_key(self) -> Mask:
        """Nodes that have the label."""
        mask: Mask = self.domain_of != NO_DOMAIN
        return mask

    def of_nodes(self, nodes: Mask) -> Mask:
        """Domains that have at least one of some nodes."""
        found = np.zeros(self.count, dtype=np.bool_)
        found[self.domain_of[nodes & self.has_key]] = True
        return found

    def nodes_in(self, domains: Mask) -> Mask:
        """Nodes that are in one of some domains."""
        if not self.count:
            return np.zeros(len(self.domain_of), dtype=np.bool_)
        mask: Mask = domains[self.domain_of] & self.has_key
        return mask

    def summed(self, per_node: Domains) -> Domains:
        """Add up a number per node over each domain."""
        has = self.has_key
        counted = np.bincount(self.domain_of[has], weights=per_node[has], minlength=self.count)
        return counted.astype(np.int64)


@dataclass(slots=True, eq=False)
class Topologies:
    """Topologies by key, each made when it is first asked for."""

    labels: tuple[Mapping[str, str], ...]
    found: Bounded[str, Topology] = field(default_factory=partial(Bounded, _MOST_BYTES))
    keys: frozenset[str] = field(init=False)
    """Those that any node has."""

    def __post_init__(self) -> None:
        """Note the keys; of labels that no node has users may name as many as they like."""
        self.keys = frozenset[str]().union(*self.labels)

    def of(self, key: str) -> Topology:
        """Give the topology of a key."""
        known = self.found.get(key)
        if known is None:
            numbers: dict[str, int] = {}
            domain_of = np.full(len(self.labels), NO_DOMAIN, dtype=np.int64)
            for node, labels in enumerate(self.labels):
                value = labels.get(key)
                if value is not None:
                    domain_of[node] = numbers.setdefault(value, len(numbers))
            known = self.found[key] = Topology(domain_of, len(numbers))
        return known

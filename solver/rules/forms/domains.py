"""Topology domains: which nodes are one place for a rule."""

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from solver.arrays import Mask

Domains = npt.NDArray[np.int64]
"""A domain per node, or a number per domain."""
NO_DOMAIN: Final = -1
"""The domain of a node to which a rule does not apply."""


def per_node(count: int) -> Domains:
    """Make every node a domain of its own."""
    return np.arange(count, dtype=np.int64)


def one_domain(count: int) -> Domains:
    """Put all nodes into one domain."""
    return np.zeros(count, dtype=np.int64)


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
        """Mark the domains that have at least one of some nodes."""
        found = np.zeros(self.count, dtype=np.bool_)
        found[self.domain_of[nodes & self.has_key]] = True
        return found

    def nodes_in(self, domains: Mask) -> Mask:
        """Mark the nodes that are in one of some domains."""
        if not self.count:
            return np.zeros(len(self.domain_of), dtype=np.bool_)
        mask: Mask = domains[self.domain_of] & self.has_key
        return mask

    def summed(self, amounts: Domains) -> Domains:
        """Sum a number per node over each domain."""
        has = self.has_key
        counted = np.bincount(self.domain_of[has], weights=amounts[has], minlength=self.count)
        return counted.astype(np.int64)

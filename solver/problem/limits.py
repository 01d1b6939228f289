"""
Limits: so much of something per domain, whatever the devices do.

Host ports, volumes that only one pod may use, attachments, places of a claim: pods of some classes take an amount, and
a domain (a node, a zone, the cluster) has only so much left. Whoever knows such a rule makes a `Limit` of it, and the
greedy and the model keep it without knowing what it is about.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from solver.domain import Reason
from solver.problem.devices.inventory import Mask

Domains = npt.NDArray[np.int64]
NO_DOMAIN: Final = -1
"""The domain of a node to which a limit does not apply."""


@dataclass(frozen=True, slots=True, eq=False)
class Limit:
    """
    What pods of a batch take together in each domain stays within what is left there.

    `rule` names the rule in rows and messages. `domain_of` has an entry per node, `NO_DOMAIN` where the limit does not
    apply; `left` has one per domain; `takes` is the amount per pod by class index, never below one. `reason` says, for
    one node, what keeps a pod away where too little is left.
    """

    rule: str
    domain_of: Domains
    left: tuple[int, ...]
    takes: dict[int, int]
    reason: Reason | None = None

    def open_nodes(self, left: npt.NDArray[np.int64], pod_class: int) -> Mask:
        """Nodes where a pod of a class still fits, given what is left of every domain."""
        if not len(left):
            return np.ones(len(self.domain_of), dtype=np.bool_)
        fits: Mask = (self.domain_of == NO_DOMAIN) | (left[self.domain_of] >= self.takes[pod_class])
        return fits


def per_node(count: int) -> Domains:
    """Make every node a domain of its own."""
    return np.arange(count, dtype=np.int64)


def one_domain(count: int) -> Domains:
    """Put all nodes into one domain."""
    return np.zeros(count, dtype=np.int64)

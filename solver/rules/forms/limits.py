"""
Limits: an amount per topology domain that pods of some classes take from each other.

Host ports, ReadWriteOncePod claims, volume attachments, places in reservedFor: each pod takes an amount, and a domain
(a node, a zone, the cluster) has only so much left. A rule of this form becomes a `Limit`, which greedy and model keep
without knowing what it is about.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from solver.arrays import Mask
from solver.domain import Reason
from solver.rules.forms.domains import NO_DOMAIN, Domains


@dataclass(frozen=True, slots=True, eq=False)
class Limit:
    """
    In each domain, the sum of what pods of the batch take stays within what is left.

    `rule` names the rule in rows and messages. `domain_of` has an entry per node, `NO_DOMAIN` where the limit does not
    apply; `left` has one per domain; `takes` is the amount per pod by class index, at least one. `reason` is the reason
    of one node where too little is left.
    """

    rule: str
    domain_of: Domains
    left: tuple[int, ...]
    takes: dict[int, int]
    reason: Reason | None = None

    def open_nodes(self, left: npt.NDArray[np.int64], pod_class: int) -> Mask:
        """Mark the nodes where one more pod of a class fits, given what is left in every domain."""
        if not len(left):
            return np.ones(len(self.domain_of), dtype=np.bool_)
        fits: Mask = (self.domain_of == NO_DOMAIN) | (left[self.domain_of] >= self.takes[pod_class])
        return fits

"""Required pod affinity between pods of one batch."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from solver.domain import PodTerm
from solver.problem.devices.inventory import Mask
from solver.problem.neighbours.audience import of_term
from solver.problem.neighbours.stance import Stance, by_audience
from solver.problem.neighbours.surroundings import Surroundings
from solver.problem.neighbours.topology import Topology

RULE = "pod affinity"


@dataclass(frozen=True, slots=True, eq=False)
class Together:
    """
    Pods of `members` are, for each term, in a domain with a pod that all their terms are about.

    Such are running pods (`supported` marks domains that have one, by term), pods of `supporters`, and what is placed
    of `seeds`: members that are in their own audience. The first of those supports itself where `may_seed` says that no
    running pod would do anywhere; it may not do so twice.
    """

    topologies: tuple[Topology, ...]
    supported: tuple[Mask, ...]
    may_seed: bool
    members: frozenset[int]
    seeds: frozenset[int]
    supporters: frozenset[int]

    @property
    def is_settled(self) -> bool:
        """Whether no pod of the batch changes anything: running pods alone decide."""
        return not self.supporters and not (self.may_seed and self.seeds)

    def nodes(self, supported: tuple[Mask, ...]) -> Mask:
        """Nodes whose domains are all among those that are supported."""
        mask: Mask = np.ones(len(self.topologies[0].domain_of), dtype=np.bool_)
        for topology, domains in zip(self.topologies, supported, strict=True):
            mask = mask & topology.nodes_in(domains)
        return mask

    def with_keys(self) -> Mask:
        """Nodes that have the label of every term."""
        mask: Mask = np.ones(len(self.topologies[0].domain_of), dtype=np.bool_)
        for topology in self.topologies:
            mask = mask & topology.has_key
        return mask


def groups(stances: Mapping[int, Stance], around: Surroundings) -> Iterator[Together]:
    """Give one rule for all classes of the same terms, whether pods of the batch matter to it or not."""
    found = by_audience(stances)
    members: defaultdict[tuple[PodTerm, ...], set[int]] = defaultdict(set)
    for pod_class, stance in stances.items():
        if stance.affinity:
            members[stance.affinity].add(pod_class)
    for terms, those in members.items():
        wanted = tuple(dict.fromkeys(map(of_term, terms)))
        numbers = {around.audiences.number(each) for each in wanted}
        matching = frozenset.intersection(*(found.get(each, frozenset()) for each in numbers))
        places = tuple(around.topologies.of(term.topology_key) for term in terms)
        occupied = around.counts(*wanted).all > 0
        supported = tuple(each.of_nodes(occupied) for each in places)
        yield Together(
            topologies=places,
            supported=supported,
            may_seed=not any(each.any() for each in supported),
            members=frozenset(those),
            seeds=frozenset(those & matching),
            supporters=frozenset(matching - those),
        )

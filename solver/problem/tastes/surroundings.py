"""What runs where, counted by whom terms and constraints are about and by domains; worked out when it is asked for."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from solver.domain import Snapshot
from solver.problem.devices.inventory import Inventory
from solver.problem.fit import Amounts
from solver.problem.limits import NO_DOMAIN, Domains
from solver.problem.neighbours.audience import Audience, Audiences
from solver.problem.neighbours.surroundings import Memory


@dataclass(slots=True, eq=False)
class Surroundings:
    """Running pods and node labels of one snapshot; `audiences` have to be known before anybody asks who is in them."""

    memory: Memory
    snapshot: Snapshot
    audiences: Audiences = field(init=False)
    _counts: dict[tuple[str, Audience], Amounts] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.audiences = Audiences({each.name: each.labels for each in self.snapshot.namespaces})

    @property
    def stock(self) -> Inventory:
        """Nodes and devices."""
        return self.memory.stock

    def domain_of(self, topology_key: str) -> Domains:
        """Number the values of a node label: per node, `NO_DOMAIN` where it lacks the label."""
        return self.memory.topologies.of(topology_key).domain_of

    def counts(self, topology_key: str, audience: Audience) -> Amounts:
        """Count the running pods of an audience in every domain; not those being deleted."""
        key = (topology_key, audience)
        if key not in self._counts:
            staying = self.memory.residents.counts((audience,), self.audiences).staying
            self._counts[key] = self.memory.topologies.of(topology_key).summed(staying)
        return self._counts[key]

    def weighed(self, topology_key: str, weights: Mapping[str, int]) -> Amounts:
        """Add up weights, given by the names of nodes, in every domain."""
        domains = self.domain_of(topology_key)
        found = np.zeros(int(domains.max(initial=-1)) + 1, dtype=np.int64)
        for name, weight in weights.items():
            node = self.stock.node_index.get(name)
            if node is not None and domains[node] != NO_DOMAIN:
                found[domains[node]] += weight
        return found

"""What may be allocated: `devices.owned` against drivers and nodes."""

from dataclasses import dataclass

from solver.domain import Node, OwnedDevices
from solver.feasibility import affinity


@dataclass(frozen=True, slots=True)
class Ownership:
    """Answers for a driver and a node; `nodes` is None where every node is owned."""

    drivers: frozenset[str]
    nodes: frozenset[int] | None

    def includes(self, driver: str, home: int) -> bool:
        """Whether a device may be allocated; one that is not local to a node (`home` < 0) is its driver's."""
        if self.drivers and driver not in self.drivers:
            return False
        return self.nodes is None or home < 0 or home in self.nodes


def resolve(owned: OwnedDevices, nodes: tuple[Node, ...]) -> Ownership:
    """Evaluate the configuration once for all nodes."""
    if not owned.node_terms:
        return Ownership(frozenset(owned.drivers), None)
    matching = frozenset(
        index
        for index, node in enumerate(nodes)
        if any(affinity.matches_term(term, node.name, dict(node.labels)) for term in owned.node_terms)
    )
    return Ownership(frozenset(owned.drivers), matching)

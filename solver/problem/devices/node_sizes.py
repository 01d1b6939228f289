"""Which nodes are too small for what a device takes of them, with nothing else on them (KEP-5517)."""

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from solver.domain import Device, Node
from solver.feasibility import burden
from solver.problem.bounded import MIB, Bounded

_SETS_BYTES: Final = 16 * MIB
_NODE_BYTES: Final = 64


@dataclass(slots=True, eq=False)
class NodeSizes:
    """
    Looks up nodes by what they have; sets of nodes are remembered, since most devices take the same.

    `_ordered` has, by resource, what each node has of it and the node, least first.
    """

    nodes: tuple[Node, ...]
    _ordered: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = field(default_factory=dict)
    _sets: Bounded[tuple[tuple[tuple[str, int], ...], int], frozenset[int]] = field(
        default_factory=partial(Bounded, _SETS_BYTES)
    )
    """By how many nodes have too little of which resource, and by the identity of the nodes that see the device."""

    def too_small(self, device: Device, consumed: Mapping[str, int], nodes: frozenset[int] | None) -> frozenset[int]:
        """
        Give those of some nodes (None: of all) that have less than one allocation of a device takes.

        `consumed` are the nano-units of the device's capacities that the allocation consumes. No pod can have it there,
        but with admin access. Counted as one that pods could get, it would keep them from all devices of the node.
        `nodes` are those of a record, which lives as long as this.
        """
        amounts = burden.of_device(device, consumed).items()
        less = ((resource, self._with_less(resource, burden.units(resource, nano))) for resource, nano in amounts)
        counts = tuple((resource, count) for resource, count in less if count)
        key = (counts, id(nodes))
        found = self._sets.get(key) if counts else frozenset()
        if found is None:
            small = frozenset(index for resource, count in counts for index in self._ordered[resource][1][:count])
            found = small if nodes is None else small & nodes
            self._sets.put(key, found, _NODE_BYTES * len(found))
        return found

    def excess(self, device: Device, consumed: Mapping[str, int], node: int) -> Iterator[tuple[str, int, int]]:
        """Give the resources of which an allocation takes more than a node has, with both amounts."""
        there = dict(self.nodes[node].allocatable)
        for resource, nano in burden.of_device(device, consumed).items():
            amount = burden.units(resource, nano)
            if amount > there.get(resource, 0):
                yield resource, amount, there.get(resource, 0)

    def _with_less(self, resource: str, amount: int) -> int:
        """Count the nodes that have less of a resource than an amount."""
        if resource not in self._ordered:
            pairs = sorted((dict(node.allocatable).get(resource, 0), index) for index, node in enumerate(self.nodes))
            self._ordered[resource] = (tuple(size for size, _ in pairs), tuple(index for _, index in pairs))
        return bisect_left(self._ordered[resource][0], amount)

"""
Nodes that reach the same volumes of a driver, whichever of them a volume is made for (CSI topology).

A CSI driver says per node which labels decide that (CSINode, `topologyKeys`): nodes with the same values reach the
same volumes, and without any key all nodes of the driver do. Nothing is known of other provisioners: there every node
stands alone.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from solver.domain import NodeDrivers
from solver.feasibility import volumes

Segment = tuple[tuple[str, str], ...]
"""Labels with their values, by label."""
_ANYWHERE: Final[Segment] = ()


@dataclass(slots=True, eq=False)
class Access:
    """`segments[driver][node]` is what a node says of a driver; nodes that say nothing of it are left out."""

    count: int
    segments: dict[str, dict[int, Segment]] = field(default_factory=dict)

    @classmethod
    def of(
        cls, drivers: Iterable[NodeDrivers], node_index: Mapping[str, int], labels: Sequence[Mapping[str, str]]
    ) -> "Access":
        """Read what nodes say of their drivers."""
        found: defaultdict[str, dict[int, Segment]] = defaultdict(dict)
        for each in drivers:
            node = node_index.get(each.node)
            for driver, keys in each.topology_keys if node is not None else ():
                if node is not None and all(key in labels[node] for key in keys):
                    found[driver][node] = tuple((key, labels[node][key]) for key in keys)
        return cls(len(labels), dict(found))

    def around(self, provisioner: str, node: int) -> list[int]:
        """Give the nodes that reach what is made for a node, itself among them, in order."""
        segments = self._segments(provisioner)
        if node not in segments:
            return [node]
        return sorted(other for other, segment in segments.items() if segment == segments[node])

    def groups(self, provisioner: str, nodes: Iterable[int]) -> list[tuple[tuple[int, ...], str]]:
        """Divide nodes into those that reach the same volumes, each with a name of what they have in common."""
        segments = self._segments(provisioner)
        together: defaultdict[Segment, list[int]] = defaultdict(list)
        alone: list[int] = []
        for node in nodes:
            if node in segments:
                together[segments[node]].append(node)
            else:
                alone.append(node)
        joined = [(tuple(found), _name(segment)) for segment, found in sorted(together.items())]
        return [*joined, *(((node,), "") for node in alone)]

    def _segments(self, provisioner: str) -> Mapping[int, Segment]:
        return self.segments.get(volumes.driver_of(provisioner), {})


def _name(segment: Segment) -> str:
    return ", ".join(f"{key} {value}" for key, value in segment) if segment != _ANYWHERE else "any node"

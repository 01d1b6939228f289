"""Nodes that are kept for somebody who was passed over for too long."""

from typing import Final

import msgspec

from solver.domain.ids import PodId

PASSED_OVER: Final = "passed over for too long"
"""How the reason begins that a pod gets for which nodes are held; a restart knows it by that."""


class HoldBounds(msgspec.Struct, frozen=True, kw_only=True):
    """
    How many nodes may be held at once, in percent of all nodes, and for the pods of one namespace.

    Each is one node at least, unless it is 0. A gang may exceed them while nothing else is held, up to half of all.
    """

    percent: int = 10
    percent_of_namespace: int = 5

    def most(self, node_count: int) -> int:
        """Give the most nodes that are held in a cluster of so many."""
        return _share(node_count, self.percent)

    def most_of_namespace(self, node_count: int) -> int:
        """Give the most nodes that are held for one namespace."""
        return _share(node_count, min(self.percent, self.percent_of_namespace))

    def most_of_gang(self, node_count: int) -> int:
        """Give the most nodes that one gang holds by itself."""
        return max(self.most(node_count), (node_count + 1) // 2) if self.percent else 0


def _share(count: int, percent: int) -> int:
    return max(1, count * percent // 100) if percent else 0


class Hold(msgspec.Struct, frozen=True, kw_only=True):
    """
    Nodes that are kept for pods (one, or a gang's) until those can be placed there.

    Pods of a lower priority, or of the same one and not overdue for longer, take no devices of these nodes, and of
    everything else only what is left beside `requests`, which is what the pods ask of each of the nodes. `uids` are
    the pods' uids, the first of them that of `pod`.
    """

    pod: PodId
    uids: tuple[str, ...]
    priority: int
    nodes: tuple[str, ...]
    requests: tuple[tuple[str, int], ...] = ()
    takes_devices: bool = True

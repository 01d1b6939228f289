"""What pods take of nodes."""

from collections.abc import Mapping

from scheduler.cluster import amounts
from solver.domain import Pod


class Occupancy:
    """
    Used resources and the number of pods by node, over the pods that hold one.

    Amounts are as in `Pod.requests`: cpu in millicores, everything else in whole units.
    """

    __slots__ = ("_pods", "_used")

    def __init__(self) -> None:
        self._used: dict[str, dict[str, int]] = {}
        self._pods: dict[str, int] = {}

    def used(self, node: str) -> Mapping[str, int]:
        """Give the resources that pods use on a node."""
        return self._used.get(node, {})

    def pod_count(self, node: str) -> int:
        """Give the number of pods on a node."""
        return self._pods.get(node, 0)

    def replace(self, before: Pod | None, after: Pod | None) -> None:
        """Take a pod as it is now in place of what it was."""
        if before is not None and holds_node(before):
            self._add(before, -1)
        if after is not None and holds_node(after):
            self._add(after, 1)

    def _add(self, pod: Pod, sign: int) -> None:
        amounts.add(self._pods, pod.node_name, sign)
        used = self._used.setdefault(pod.node_name, {})
        for resource, amount in pod.requests:
            amounts.add(used, resource, sign * amount)
        if not used:
            del self._used[pod.node_name]


def holds_node(pod: Pod) -> bool:
    """Whether a pod takes room on a node: bound or assumed there, and not finished."""
    return bool(pod.node_name) and not pod.is_terminal

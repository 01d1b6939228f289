"""Preemptions that are under way and that no watch shows yet: who waits for which node, and who is about to leave."""

from collections.abc import Iterable

import msgspec

from solver.domain import Node, Pod, PodId, Preemption


class Nomination(msgspec.Struct, frozen=True, kw_only=True):
    """A pod with this uid counts as nominated to `node`."""

    pod: PodId
    uid: str
    node: str


class Nominations:
    """
    Nominations until the watch shows them, and victims until the watch shows them leaving.

    The durable record is status.nominatedNodeName: after a restart the pods are decided anew, with the room held.
    """

    __slots__ = ("_leaving", "_nodes")

    def __init__(self) -> None:
        self._nodes: dict[PodId, Nomination] = {}
        self._leaving: dict[PodId, str] = {}

    def export(self) -> tuple[tuple[Nomination, ...], tuple[PodId, ...]]:
        """Give everything, each tuple sorted by key."""
        return tuple(self._nodes[key] for key in sorted(self._nodes)), tuple(sorted(self._leaving))

    def replace(self, nominations: Iterable[Nomination], leaving: Iterable[PodId]) -> set[PodId]:
        """Believe exactly this from now on; give the pods that look different then."""
        nodes = {each.pod: each for each in nominations}
        touched = {key for key in nodes.keys() | self._nodes.keys() if nodes.get(key) != self._nodes.get(key)}
        self._nodes, self._leaving = nodes, dict.fromkeys(leaving, "")
        return touched

    def begin(self, preemption: Preemption) -> tuple[PodId, ...]:
        """Believe in a preemption; give the pods that look different."""
        for each in preemption.placements:
            self._nodes[each.pod] = Nomination(pod=each.pod, uid=each.pod_uid, node=each.node)
        self._leaving.update((each.pod, each.pod_uid) for each in preemption.victims)
        return tuple(each.pod for each in preemption.placements)

    def withdraw(self, preemption: Preemption) -> tuple[PodId, ...]:
        """Stop believing in what of a preemption no watch has shown; give the pods that look different."""
        for victim in preemption.victims:
            self.stays(victim.pod, victim.pod_uid)
        own = [each for each in preemption.placements if each.pod in self._nodes]
        for each in own:
            if (self._nodes[each.pod].uid, self._nodes[each.pod].node) == (each.pod_uid, each.node):
                del self._nodes[each.pod]
        return tuple(each.pod for each in own)

    def stays(self, pod: PodId, uid: str) -> None:
        """Note that a victim is not evicted after all."""
        if self._leaving.get(pod) == uid:
            del self._leaving[pod]

    def is_leaving(self, pod: PodId) -> bool:
        """Whether a pod is about to be evicted."""
        return pod in self._leaving

    def settle(self, key: PodId, pod: Pod | None) -> None:
        """Drop what the watch confirms or rules out about a pod."""
        known = self._nodes.get(key)
        if known is not None and (
            pod is None or pod.uid != known.uid or pod.node_name or pod.nominated_node_name == known.node
        ):
            del self._nodes[key]
        uid = self._leaving.get(key)
        if uid is not None and (pod is None or pod.is_deleting or (uid and pod.uid != uid)):
            del self._leaving[key]

    def lay_over(self, pod: Pod) -> Pod:
        """Give a pod as it is believed to be."""
        known = self._nodes.get(pod.id)
        if known is None or known.uid != pod.uid or pod.node_name or pod.nominated_node_name == known.node:
            return pod
        return msgspec.structs.replace(pod, nominated_node_name=known.node)


def holds_nothing(pod: Pod, node: Node | None) -> bool:
    """Whether a nomination is for a node that is not there, or too small for the pod even if it were empty."""
    if node is None:
        return True
    offered = dict(node.allocatable)
    return any(amount > offered[resource] for resource, amount in pod.requests if resource in offered)

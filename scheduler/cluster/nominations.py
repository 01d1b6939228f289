"""
Nominated pods and victims: preemptions that are under way.

`Nominations` holds what no watch shows yet. `unblocked` gives the nominated pods whose last victim has left, and
`NominationAges` finds stale nominations: status.nominatedNodeName has no time, and a nomination that is never used must
not reserve room for ever.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Final

import msgspec

from scheduler.change import Transition
from scheduler.cluster.object_store import ObjectStore
from scheduler.cluster.pod_index import holds_node
from scheduler.cluster.table import changed_keys
from solver.domain import Claim, Node, Pod, PodId, Preemption


class Nomination(msgspec.Struct, frozen=True, kw_only=True):
    """The pod with this uid is assumed to be nominated for `node`."""

    pod: PodId
    uid: str
    node: str


class Nominations:
    """
    Assumed nominations and victims, until the watch shows the nomination and the deletion.

    The durable record is status.nominatedNodeName: after a restart the pods are decided again and their room is kept.
    """

    __slots__ = ("_leaving", "_nodes")

    def __init__(self) -> None:
        self._nodes: dict[PodId, Nomination] = {}
        self._leaving: dict[PodId, str] = {}

    def export(self) -> tuple[tuple[Nomination, ...], tuple[PodId, ...]]:
        """Return nominations and victims, each sorted by key."""
        return tuple(self._nodes[key] for key in sorted(self._nodes)), tuple(sorted(self._leaving))

    def replace(self, nominations: Iterable[Nomination], leaving: Iterable[PodId]) -> set[PodId]:
        """Replace nominations and victims; return the pods that changed."""
        nodes = {each.pod: each for each in nominations}
        touched = changed_keys(self._nodes, nodes)
        self._nodes, self._leaving = nodes, dict.fromkeys(leaving, "")
        return touched

    def assume(self, preemption: Preemption) -> tuple[PodId, ...]:
        """Assume a preemption; return the pods that changed."""
        for each in preemption.placements:
            self._nodes[each.pod] = Nomination(pod=each.pod, uid=each.pod_uid, node=each.node)
        self._leaving.update((each.pod, each.pod_uid) for each in preemption.victims)
        return tuple(each.pod for each in preemption.placements)

    def forget(self, preemption: Preemption) -> tuple[PodId, ...]:
        """Forget the parts of a preemption that no watch has shown; return the pods that changed."""
        for victim in preemption.victims:
            self.keep_victim(victim.pod, victim.pod_uid)
        own = [each for each in preemption.placements if each.pod in self._nodes]
        for each in own:
            if (self._nodes[each.pod].uid, self._nodes[each.pod].node) == (each.pod_uid, each.node):
                del self._nodes[each.pod]
        return tuple(each.pod for each in own)

    def keep_victim(self, pod: PodId, uid: str) -> None:
        """Note that a victim is not evicted after all."""
        if self._leaving.get(pod) == uid:
            del self._leaving[pod]

    @property
    def leaving(self) -> Iterable[PodId]:
        """The pods that are about to be evicted."""
        return self._leaving.keys()

    def confirm(self, key: PodId, pod: Pod | None) -> None:
        """Drop assumptions about a pod that the watch confirms or contradicts."""
        known = self._nodes.get(key)
        if known is not None and (
            pod is None or pod.uid != known.uid or pod.node_name or pod.nominated_node_name == known.node
        ):
            del self._nodes[key]
        uid = self._leaving.get(key)
        if uid is not None and (pod is None or pod.is_deleting or (uid and pod.uid != uid)):
            del self._leaving[key]

    def overlay(self, pod: Pod) -> Pod:
        """Apply an assumed nomination to a pod."""
        known = self._nodes.get(pod.id)
        if known is None or known.uid != pod.uid or pod.node_name or pod.nominated_node_name == known.node:
            return pod
        return msgspec.structs.replace(pod, nominated_node_name=known.node)


def is_void(pod: Pod, node: Node | None) -> bool:
    """Whether a nomination reserves nothing: its node does not exist, or is too small for the pod even if empty."""
    if node is None:
        return True
    offered = dict(node.allocatable)
    return any(amount > offered[resource] for resource, amount in pod.requests if resource in offered)


def unblocked(store: ObjectStore, nominations: Nominations, transition: Transition) -> Iterator[PodId]:
    """
    Return the nominated pods that may fit after a transition.

    The transition is a pod that left its node or a claim that was deallocated, and no victim is left on the nominated
    node. Free of cost while no pod is nominated.
    """
    if not store.nominated or not _makes_room(transition):
        return
    left = transition.before.node_name if isinstance(transition.before, Pod) else ""
    nominated = store.nominated_to.get(left, {}).values() if left else store.nominated.values()
    is_awaiting = _awaits_victims(store, nominations) if nominated else None
    for pod in nominated:
        if is_awaiting is not None and not is_awaiting(pod):
            yield pod.id


def _makes_room(transition: Transition) -> bool:
    before, after = transition.before, transition.after
    if isinstance(before, Pod):
        stays = isinstance(after, Pod) and holds_node(after) and after.uid == before.uid
        return holds_node(before) and not stays
    if isinstance(before, Claim) and before.allocation is not None:
        return not isinstance(after, Claim) or after.allocation is None
    return False


def _awaits_victims(store: ObjectStore, nominations: Nominations) -> Callable[[Pod], bool]:
    """Return a function that says whether a pod that is leaving the nominated node has a lower priority than a pod."""
    lowest: dict[str, int] = {}
    for key in nominations.leaving:
        victim = store.assumed_pods.get(key)
        if victim is not None and holds_node(victim):
            lowest[victim.node_name] = min(victim.priority, lowest.get(victim.node_name, victim.priority))

    def is_awaiting(pod: Pod) -> bool:
        name = pod.nominated_node_name
        found = [each for each in (lowest.get(name), store.pod_index.lowest_leaving(name)) if each is not None]
        return bool(found) and min(found) < pod.priority

    return is_awaiting


STALE_SECONDS: Final = 1800.0
"""How long an unused nomination counts, from its start or from the last victim that was leaving its node."""


class NominationAges:
    """The age of each nomination, by pod, uid and node."""

    __slots__ = ("_clock", "_since")

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock: Final = clock
        self._since: dict[tuple[PodId, str, str], float] = {}

    def stale(self, store: ObjectStore, nominations: Nominations) -> tuple[PodId, ...]:
        """Return the pods with a stale nomination, sorted by key. Call it for each decision."""
        if not store.nominated and not self._since:
            return ()
        now, before, self._since = self._clock(), self._since, {}
        found, is_awaiting = [], _awaits_victims(store, nominations)
        for pod in store.nominated.values():
            key = (pod.id, pod.uid, pod.nominated_node_name)
            since = now if is_awaiting(pod) else before.get(key, now)
            self._since[key] = since
            if now - since > STALE_SECONDS:
                found.append(pod.id)
        return tuple(found)

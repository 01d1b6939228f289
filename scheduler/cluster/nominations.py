"""Preemptions that are under way and that no watch shows yet: who waits for which node, and who is about to leave.

Which pods are decided together while room is held for others: those that see the same of it.

Who waits for a node that others were leaving, once nobody does any more.

Nominations that nothing comes of: for how long a pod without a node may have the same one nominated.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from scheduler.change import Transition
from scheduler.cluster.mirror import Mirror
from scheduler.cluster.pod_index import holds_node
from solver.domain import Batch, Claim, GangId, Node, Pod, PodId, Preemption


class _Side(NamedTuple):
    """The pods for which room is held from a unit, and the unit itself where it is one of them."""

    holders: int
    own: str


def split_held(batch: Batch, nominated: Sequence[Pod]) -> Iterator[Batch]:
    """
    Split a batch so that each part may be decided with the same room held, the most important first.

    A pod with a node nominated, or its gang, comes alone and before others of its priority: it takes what is held for
    it, or goes on holding it. Gangs stay whole; without nominations the batch stays as it is.
    """
    if not nominated or not batch.pods:
        yield batch
        return
    units: defaultdict[GangId | PodId, list[Pod]] = defaultdict(list)
    for pod in batch.levelled().pods:
        units[pod.id if pod.gang is None else pod.gang].append(pod)
    waiting = {pod.id: pod.priority for pod in nominated}
    priorities = sorted(waiting.values())
    rows = [(_side(unit, waiting, priorities), unit) for unit in units.values()]
    rows.sort(key=lambda row: (-_priority(row[1]), not row[0].own))
    for _, group in groupby(rows, key=lambda row: row[0]):
        chosen = {pod.id for _, unit in group for pod in unit}
        yield replace(batch, pods=tuple(pod for pod in batch.pods if pod.id in chosen))


def _side(unit: Sequence[Pod], waiting: dict[PodId, int], priorities: Sequence[int]) -> _Side:
    """Give the side of a unit; `priorities` are those of the pods with a node nominated, sorted."""
    priority = _priority(unit)
    own = [pod.id for pod in unit if pod.id in waiting]
    holders = len(priorities) - bisect_left(priorities, priority) - sum(waiting[key] >= priority for key in own)
    return _Side(holders, str(min(own)) if own else "")


def _priority(unit: Sequence[Pod]) -> int:
    return max(pod.priority for pod in unit)


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


def awaited(mirror: Mirror, nominations: Nominations, transition: Transition) -> Iterator[PodId]:
    """
    Give the nominated pods that a transition may let in.

    A pod left its node, or a claim gave devices back, and of nobody of lower priority on the node nominated it is
    known that it is still to leave. Costs nothing while no pod has a node nominated.
    """
    if not mirror.nominated or not _makes_room(transition):
        return
    left = transition.before.node_name if isinstance(transition.before, Pod) else ""
    for pod in mirror.nominated.values():
        if left and pod.nominated_node_name != left:
            continue
        there = mirror.company.on(pod.nominated_node_name)
        if not any(_leaves(each, pod, nominations) for each in there.values()):
            yield pod.id


def _makes_room(transition: Transition) -> bool:
    before, after = transition.before, transition.after
    if isinstance(before, Pod):
        stays = isinstance(after, Pod) and holds_node(after) and after.uid == before.uid
        return holds_node(before) and not stays
    if isinstance(before, Claim) and before.allocation is not None:
        return not isinstance(after, Claim) or after.allocation is None
    return False


def _leaves(each: Pod, pod: Pod, nominations: Nominations) -> bool:
    """Whether a pod is about to leave for one of a higher priority."""
    return each.priority < pod.priority and (each.is_deleting or nominations.is_leaving(each.id))


STALE_SECONDS: Final = 1800.0
"""So long a nomination counts without being used, and after the last pod of a lower priority was seen leaving there."""


class Staleness:
    """Remembers since when nominations stand (status.nominatedNodeName has no time), by pod, uid and node."""

    __slots__ = ("_clock", "_since")

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock: Final = clock
        self._since: dict[tuple[PodId, str, str], float] = {}

    def stale(self, mirror: Mirror, nominations: Nominations) -> tuple[PodId, ...]:
        """Give the pods whose nomination does not count any more, sorted by key; to be asked with each decision."""
        if not mirror.nominated and not self._since:
            return ()
        now, before, self._since = self._clock(), self._since, {}
        found = []
        for pod in mirror.nominated.values():
            key = (pod.id, pod.uid, pod.nominated_node_name)
            since = now if _is_awaiting(mirror, nominations, pod) else before.get(key, now)
            self._since[key] = since
            if now - since > STALE_SECONDS:
                found.append(pod.id)
        return tuple(found)


def _is_awaiting(mirror: Mirror, nominations: Nominations, pod: Pod) -> bool:
    return any(_leaves(each, pod, nominations) for each in mirror.company.on(pod.nominated_node_name).values())

"""
What cluster events have freed and no pod has taken since: devices, and room on nodes.

A pod that failed can only fit if something is free now that was not free then. So an event that frees devices or room
is worth an attempt as long as a part of it is left. Of equal pods no more can be placed than it has freed for. Where a
pod takes it, only pods of a higher priority may still fit: by preemption of that pod.

A device is taken when it is allocated again itself: then its counters are taken as well. Whatever else an event may
help with (labels, taints, neighbours, volumes, slices) is no matter of amounts, and is not followed.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Final, TypeVar

from scheduler.change import Transition
from scheduler.cluster.pod_index import holds_node
from scheduler.queue.queued_pod import QueuedPod
from scheduler.queue.queueing_hints import QUEUEING_HINTS
from solver.domain import Claim, ClusterEvent, DeviceId, DeviceResult, Pod, PodId, ReasonCode

MOST_FOLLOWED: Final = 20_000
"""Devices, and nodes, that are followed at most. What is dropped counts as free for good."""
_LOWEST: Final = -(1 << 40)
"""A priority below that of every pod."""
_PODS: Final = "pods"
"""One of the pods that a node may have."""
_BY_PART: Final = frozenset({ReasonCode.DEVICES_CAPACITY, ReasonCode.DEVICES_COUNTERS, ReasonCode.DEVICES_INCOMPATIBLE})
"""What one device that is freed may remove for many others: they share its counters, or could not be used beside it."""
_HINTED_BY_DEVICES: Final = QUEUEING_HINTS[ClusterEvent.DEVICES_FREED]
_HINTED_BY_ROOM: Final = QUEUEING_HINTS[ClusterEvent.NODE_ROOM_FREED]


@dataclass(slots=True)
class _Freed:
    """What was freed and is left: `amounts` by resource of a node, none for a device. `number` is the latest hint's."""

    number: int
    amounts: Counter[str] = field(default_factory=Counter)

    def most(self, pod: Pod) -> int:
        """Return how many pods like this one it is enough for at most, if none of them had room before."""
        shares = [-(-self.amounts[name] // amount) for name, amount in pod.requests if amount > 0]
        return max(1, self.amounts[_PODS], *shares)


Key = TypeVar("Key")
Followed = dict[Key, _Freed]


class FreedResources:
    """
    Freed resources, by device and by node, each with the number of the hint that told of it; the latest one comes last.

    Devices with shares are not followed: what a share leaves of a device is not known here.
    """

    def __init__(self, pods: Mapping[PodId, QueuedPod]) -> None:
        self._pods: Final = pods
        self._devices: Final[Followed[DeviceId]] = {}
        self._nodes: Final[Followed[str]] = {}
        self._preemptible: Final[list[tuple[int, int]]] = []
        """
        Priorities, each with the newest number of what pods of it have taken; both rise.

        A priority whose number is no newer than that of a lower one is left out: who may preempt the pods of the one
        may preempt those of the other.
        """
        self._dropped = 0
        self._overlapped = 0
        """The last batch whose plan took room of a node where more had come free since the batch was taken."""

    def see(self, transition: Transition, number: int) -> ClusterEvent | None:
        """Follow a transition, with the number of its hint; return the one of its events that is followed."""
        before, after = transition.before, transition.after
        if isinstance(before, Claim | None) and isinstance(after, Claim | None):
            return self._see_claim(before, after, number)
        if isinstance(before, Pod | None) and isinstance(after, Pod | None):
            return self._see_pod(before, after, number)
        return None

    def newest(self, pod: Pod, reasons: frozenset[ReasonCode]) -> int:
        """Return the newest number of what is left, or what the pod may preempt, and may remove one of its reasons."""
        followed = self._followed(reasons)
        if not followed:
            return 0
        lasts = (next(reversed(each.values())).number for each in followed if each)
        return max(self._dropped, self._newest_preemptible(pod), *lasts)

    def has_overlapped(self, batch: int, reasons: frozenset[ReasonCode]) -> bool:
        """
        Whether pods that the last plan left out, for one of these reasons, may fit in what it seems to have taken.

        They failed beside what the plan takes, and that was free before. So what has come free since is left for them.
        """
        return batch == self._overlapped and bool(reasons & _HINTED_BY_ROOM)

    def most(self, pod: Pod, reasons: frozenset[ReasonCode], known: int, limit: int) -> int:
        """
        Return how many pods like this one fit at most by what is left of what was freed after `known`; at most `limit`.

        None of them fitted at `known`. So each takes a device that was freed since, or lacked an amount of its node.
        """
        if reasons & _BY_PART or max(self._dropped, self._newest_preemptible(pod)) > known:
            return limit
        count = 0
        for followed in self._followed(reasons):
            for each in takewhile(lambda freed: freed.number > known, reversed(followed.values())):
                count += each.most(pod)
                if count >= limit:
                    return limit
        return count

    def _followed(self, reasons: frozenset[ReasonCode]) -> list[Followed[DeviceId] | Followed[str]]:
        found: list[Followed[DeviceId] | Followed[str]] = []
        if reasons & _HINTED_BY_DEVICES:
            found.append(self._devices)
        if reasons & _HINTED_BY_ROOM:
            found.append(self._nodes)
        return found

    def _newest_preemptible(self, pod: Pod) -> int:
        """Return the newest number of what pods of a lower priority have taken."""
        if pod.preemption_policy == "Never":
            return 0
        lower = bisect_left(self._preemptible, (pod.priority, 0))
        return self._preemptible[lower - 1][1] if lower else 0

    def _see_claim(self, before: Claim | None, after: Claim | None, number: int) -> ClusterEvent | None:
        had, has = _devices(before), _devices(after)
        for device in had - has:
            self._follow(self._devices, device, _Freed(number))
        taken = [device for device in has - had if device in self._devices]
        priority = self._lowest_priority(after) if taken and after is not None else None
        if priority is not None:
            for device in taken:
                self._note_taken(self._devices.pop(device), priority)
        has_shares = any(result.share_id for result in _results(before))
        return None if has_shares else ClusterEvent.DEVICES_FREED

    def _see_pod(self, before: Pod | None, after: Pod | None, number: int) -> ClusterEvent:
        had, has = _amounts(before), _amounts(after)
        for node in had.keys() | has.keys():
            less, more = had.get(node, Counter()), has.get(node, Counter())
            left = self._nodes.get(node)
            if left is not None and after is not None and (taken := more - less):
                self._note_taken(left, _victim_priority(after))
                self._note_overlap(left, after)
                left.amounts -= taken
            if freed := less - more:
                self._follow(self._nodes, node, _Freed(number, freed + left.amounts if left is not None else freed))
            elif left is not None and not left.amounts:
                del self._nodes[node]
        return ClusterEvent.NODE_ROOM_FREED

    def _lowest_priority(self, claim: Claim) -> int | None:
        """Return the lowest priority of the pods that a claim is reserved for; None if one is not in the queue."""
        users = {each.uid: self._pods.get(PodId(claim.id.namespace, each.name)) for each in claim.reserved_for}
        known = [_victim_priority(each.pod) for uid, each in users.items() if each is not None and each.pod.uid == uid]
        return min(known) if known and len(known) == len(users) else None

    def _note_overlap(self, freed: _Freed, taker: Pod) -> None:
        queued = self._pods.get(taker.id)
        if queued is not None and queued.pod.uid == taker.uid and queued.batch < freed.number:
            self._overlapped = queued.batch

    def _note_taken(self, freed: _Freed, priority: int) -> None:
        known, at = self._preemptible, bisect_left(self._preemptible, (priority + 1, 0))
        if at and known[at - 1][1] >= freed.number:
            return
        if at and known[at - 1][0] == priority:
            at -= 1
        end = at
        while end < len(known) and known[end][1] <= freed.number:
            end += 1
        known[at:end] = [(priority, freed.number)]

    def _follow(self, followed: Followed[Key], key: Key, freed: _Freed) -> None:
        """Put what was freed last behind all others; beyond the limit, drop the oldest."""
        followed.pop(key, None)
        followed[key] = freed
        if len(followed) > MOST_FOLLOWED:
            self._dropped = max(self._dropped, followed.pop(next(iter(followed))).number)


def _victim_priority(pod: Pod) -> int:
    """Return the priority that a pod has at least as a victim: its PodGroup may have any (KEP-5710)."""
    return pod.priority if pod.gang is None else _LOWEST


def _devices(claim: Claim | None) -> frozenset[DeviceId]:
    """Return the devices that a claim holds alone."""
    return frozenset(each.device for each in _results(claim) if not each.admin_access and not each.share_id)


def _results(claim: Claim | None) -> Sequence[DeviceResult]:
    return claim.allocation.results if claim is not None and claim.allocation is not None else ()


def _amounts(pod: Pod | None) -> dict[str, Counter[str]]:
    """Return what a pod takes of its node."""
    if pod is None or not holds_node(pod):
        return {}
    return {pod.node_name: Counter({_PODS: 1, **dict(pod.requests)})}

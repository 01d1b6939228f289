"""
Pods that are made one after another, or not at all.

A StatefulSet (OrderedReady) makes a pod once the one before it runs. JobSet and LeaderWorkerSet with an exclusive
topology make the pods of a group once its leader has a node. The waiting pods are decided in waves: a pod is in the
wave after that of the pod before it, if that one is placed. A ResourceQuota keeps pods from being made.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from msgspec.structs import replace

from scheduler.simulation.workloads.exclusive_topology import GROUP_KEY, JOB_KEY
from solver.domain import Batch, Placement, Plan, Pod, PodId, Reason, ReasonCode, SearchReport, SearchStatus, Unplaced

_MOST_WAVES: Final = 200
"""Each wave is a decision: after so many, the pods that are left are decided together."""

MadeAfter = tuple[tuple[PodId, PodId], ...]
"""Pods, and for each the pod that runs before it is made."""


@dataclass
class CreationOrder:
    """The waves of a batch."""

    batch: Batch
    made_after: MadeAfter
    not_made: dict[PodId, str] = field(default_factory=dict)
    _placed: set[PodId] = field(default_factory=set)
    _decided: set[PodId] = field(default_factory=set)
    _before: dict[PodId, PodId] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Keep the pairs of which both pods wait."""
        waiting = {pod.id for pod in self.batch.pods}
        self._before = {later: former for later, former in self.made_after if {later, former} <= waiting}

    def waves(self) -> Iterator[Batch]:
        """Return the batches in turn; say `note` of the placements of each before the next is asked for."""
        left = self.batch.pods
        for number in range(_MOST_WAVES + 1):
            is_last = number == _MOST_WAVES
            wave = [pod for pod in left if self._is_made(pod) or (is_last and pod.id not in self.not_made)]
            if not wave and (number or self.batch.pods):
                return
            names = {pod.id for pod in wave}
            left = tuple(pod for pod in left if pod.id not in names)
            self._decided |= names
            yield self._with_pods(tuple(wave), left)
            if not left:
                return

    def note(self, placements: Iterable[Placement]) -> None:
        """Note what a wave has placed."""
        self._placed.update(each.pod for each in placements)

    def _is_made(self, pod: Pod) -> bool:
        is_next = pod.id not in self._before or self._before[pod.id] in self._placed
        return is_next and pod.id not in self.not_made

    def _with_pods(self, pods: tuple[Pod, ...], later: tuple[Pod, ...]) -> Batch:
        """Return the batch of some pods; gangs do not count those that do not exist yet."""
        if not later:
            return replace(self.batch, pods=pods)
        absent = Counter(pod.gang for pod in later)
        gangs = (replace(each, member_count=each.member_count - absent[each.id]) for each in self.batch.gangs)
        return replace(self.batch, pods=pods, gangs=tuple(gangs))

    def held(self) -> tuple[Batch, Plan]:
        """Return the pods that are not made, and the plan that says why."""
        held = tuple(pod for pod in self.batch.pods if pod.id not in self._decided)
        unplaced = (Unplaced(pod=pod.id, pod_uid=pod.uid, reasons=(self._reason(pod),)) for pod in held)
        report = SearchReport(status=SearchStatus.OPTIMAL)
        return replace(self.batch, pods=held), Plan(unplaced=tuple(unplaced), report=report)

    def _reason(self, pod: Pod) -> Reason:
        if pod.id in self.not_made:
            return Reason(code=ReasonCode.POD_NOT_CREATED, message=f"is not created: {self.not_made[pod.id]}")
        former, labels = self._before[pod.id].name, dict(pod.labels)
        message = f"its StatefulSet makes it once {former} runs (podManagementPolicy: OrderedReady)"
        if JOB_KEY in labels:
            message = f"its JobSet makes it once {former}, which leads its Job, has a node (exclusive-topology)"
        elif GROUP_KEY in labels:
            message = f"its LeaderWorkerSet makes it once its leader {former} has a node (exclusive-topology)"
        return Reason(code=ReasonCode.POD_NOT_CREATED, message=message)

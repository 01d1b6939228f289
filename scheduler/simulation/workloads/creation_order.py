"""
Pods that are made one after another: a StatefulSet (OrderedReady) makes a pod once the one before it runs.

The waiting pods are decided in waves. A pod is in the wave after that of the pod before it, if that one is placed.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from msgspec.structs import replace

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
    _placed: set[PodId] = field(default_factory=set)
    _before: dict[PodId, PodId] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Keep the pairs of which both pods wait."""
        waiting = {pod.id for pod in self.batch.pods}
        self._before = {later: former for later, former in self.made_after if {later, former} <= waiting}

    def waves(self) -> Iterator[Batch]:
        """Return the batches in turn; say `note` of the placements of each before the next is asked for."""
        left = self.batch.pods
        for number in range(_MOST_WAVES + 1):
            wave = [pod for pod in left if number == _MOST_WAVES or self._is_made(pod)]
            if not wave and (number or self.batch.pods):
                return
            names = {pod.id for pod in wave}
            left = tuple(pod for pod in left if pod.id not in names)
            yield self._with_pods(tuple(wave), left)
            if not left:
                return

    def note(self, placements: Iterable[Placement]) -> None:
        """Note what a wave has placed."""
        self._placed.update(each.pod for each in placements)

    def _is_made(self, pod: Pod) -> bool:
        return pod.id not in self._before or self._before[pod.id] in self._placed

    def _with_pods(self, pods: tuple[Pod, ...], later: tuple[Pod, ...]) -> Batch:
        """Return the batch of some pods; gangs do not count those that do not exist yet."""
        if not later:
            return replace(self.batch, pods=pods)
        absent = Counter(pod.gang for pod in later)
        gangs = (replace(each, member_count=each.member_count - absent[each.id]) for each in self.batch.gangs)
        return replace(self.batch, pods=pods, gangs=tuple(gangs))

    def held(self) -> tuple[Batch, Plan]:
        """Return the pods that are not made, because the one before them is not placed, and the plan that says so."""
        held = tuple(pod for pod in self.batch.pods if not self._is_made(pod))
        unplaced = (Unplaced(pod=pod.id, pod_uid=pod.uid, reasons=(self._reason(pod),)) for pod in held)
        report = SearchReport(status=SearchStatus.OPTIMAL)
        return replace(self.batch, pods=held), Plan(unplaced=tuple(unplaced), report=report)

    def _reason(self, pod: Pod) -> Reason:
        former = self._before[pod.id].name
        message = f"its StatefulSet makes it once {former} runs (podManagementPolicy: OrderedReady)"
        return Reason(code=ReasonCode.POD_NOT_CREATED, message=message)

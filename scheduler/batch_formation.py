"""
How a batch is formed: each step between the scheduling queue and the solver, in order.

`BatchFormation.form` chooses the pods of each batch, `prepare` adds what the solver has to know of them and under
which policy it decides. Every step either removes pods, which go back to the queue or to the costly loop, or splits
the batch, or adds to it; gangs stay whole in all of them.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby, islice
from typing import Final, NamedTuple, TypeVar

import msgspec

from scheduler.cluster import split_by_held_room
from scheduler.components import Components
from scheduler.isolated_lane import PutBackAll
from scheduler.observe.metrics import Subsystem
from scheduler.observe.unexpected_errors import Confined
from solver import missing_claims
from solver.domain import Batch, ClaimId, GangId, Pod, PodId, Policy, PreemptionRules, Reason, ReasonCode

T = TypeVar("T")

INTERNAL_ERROR: Final = (
    Reason(code=ReasonCode.SOLVER_FAILED, message="an unexpected error ended the decision; the scheduler tries again"),
)


class FormedBatches(NamedTuple):
    """Batches to decide one after the other: of pods without a nominated node, and of pods with one."""

    others: Sequence[Batch]
    nominated: Sequence[Batch]


class BatchFormation:
    """Forms batches from the queue. `put_back` takes pods that cannot be decided."""

    def __init__(
        self,
        parts: Components,
        policies: Mapping[str, Policy],
        clock: Callable[[], float],
        put_back: PutBackAll,
    ) -> None:
        self._parts: Final = parts
        self._policies: Final = dict(policies)
        self._clock: Final = clock
        self._put_back: Final = put_back

    def form(self, max_pods: int) -> Iterator[FormedBatches]:
        """Take pods from the queue and form batches of them, each when the one before it was decided."""
        taken = self._parts.queue.take_batch(self._clock(), max_pods)
        for batch in self._isolated(taken, self._ready):
            yield from self._isolated(batch, lambda part: (self._by_nomination(self._with_gangs(part)),))

    def _ready(self, batch: Batch) -> Iterator[Batch]:
        """Give the batches of what can be decided now, by profile."""
        batch = self._without_missing_claims(batch)
        batch = self._parts.isolated_lane.divert(batch, self._put_back)
        for of_profile in _by_profile(batch):
            yield from self._parts.starvation.split_restored(of_profile, self._clock())

    def _isolated(self, batch: Batch, step: Callable[[Batch], Iterable[T]]) -> list[T]:
        """Take a step; where it raises, with each half of the batch, so that only pods that raise alone go back."""
        with Confined(self._parts.metrics, Subsystem.DECISION, pods=[str(pod.id) for pod in batch.pods]):
            return list(step(batch))
        units: dict[GangId | PodId, list[Pod]] = {}
        for pod in batch.pods:
            if self._parts.queue.in_flight(pod.id, pod.uid) is not None:  # else the step has put it elsewhere
                units.setdefault(pod.gang or pod.id, []).append(pod)
        every = list(units.values())
        if len(every) <= 1:
            self._put_back((pod for unit in every for pod in unit), INTERNAL_ERROR)
            return []
        halves = every[: len(every) // 2], every[len(every) // 2 :]
        parts = (msgspec.structs.replace(batch, pods=tuple(pod for unit in half for pod in unit)) for half in halves)
        return [found for part in parts for found in self._isolated(part, step)]

    def example(self) -> tuple[Batch, Policy]:
        """Return a batch of one waiting pod whose claims exist, or of none, and a policy that evicts no pod for it."""
        waiting = (each.pod for each in self._parts.queue.pods() if each.pod.claims and each.pod.gang is None)
        pods = tuple(islice((pod for pod in waiting if not missing_claims(pod, self._has_claim)), 1))
        profile = pods[0].scheduler_name if pods else next(iter(self._policies))
        policy = self._policies[profile]
        return Batch(pods=pods), msgspec.structs.replace(policy, preemption=PreemptionRules(is_enabled=False))

    def prepare(self, batch: Batch) -> tuple[Batch, Policy]:
        """Add to a batch of one profile what is known of its pods when its decision begins; return its policy too."""
        parts, profile = self._parts, batch.pods[0].scheduler_name
        batch = self._with_gangs(batch)
        batch = parts.starvation.marked(batch, self._clock())
        batch = parts.preemption_delays.marked(batch, self._clock())
        batch = parts.preemption_backoff.apply(batch)
        return batch, parts.evictions.allowed(profile, self._policies[profile])

    def _without_missing_claims(self, batch: Batch) -> Batch:
        """Put back pods whose claims do not exist yet, as at first nearly every pod's: the solver could say no more."""
        late = set[PodId]()
        for pod in batch.pods:
            if reasons := missing_claims(pod, self._has_claim):
                late.add(pod.id)
                self._put_back((pod,), reasons)
                if self._parts.starvation.release(pod.uid):
                    self._parts.waker.reserved(self._parts.starvation.reservations, is_released=True)
        return batch.without(late)

    def _has_claim(self, claim: ClaimId) -> bool:
        return self._parts.cluster.claim(claim) is not None

    def _with_gangs(self, batch: Batch) -> Batch:
        return self._parts.cluster.with_gangs(batch)

    def _by_nomination(self, batch: Batch) -> FormedBatches:
        """
        Split a batch into parts each of which sees one set of room that is kept for nominated pods and by holds.

        Pods that have a node nominated come by themselves: for the others their room is kept, for them it is free.
        """
        nominated = self._parts.cluster.nominated()
        names = {pod.id for pod in nominated}
        parts = tuple(split_by_held_room(batch, nominated, self._parts.cluster.holds.values()))
        return FormedBatches(
            others=[part for part in parts if names.isdisjoint(pod.id for pod in part.pods)],
            nominated=[part for part in parts if not names.isdisjoint(pod.id for pod in part.pods)],
        )


def _by_profile(batch: Batch) -> Iterator[Batch]:
    """Split a batch by schedulerName, each of which has its policy; the order of the queue stays."""
    pods = sorted(batch.pods, key=lambda pod: pod.scheduler_name)
    for _, of_profile in groupby(pods, key=lambda pod: pod.scheduler_name):
        yield Batch(pods=tuple(of_profile))

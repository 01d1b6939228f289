"""
The binding cycle: each unit of a plan is written, and then confirmed or forgotten.

A unit stays assumed until its outcome is known. Where a defect ends the write or what follows it, live reads of the API
server decide: nothing that may have been written is given to another pod before that.
"""

import itertools
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple, assert_never

import msgspec

from scheduler.backoff import doubled, jittered
from scheduler.cluster import Unit
from scheduler.cluster.unit import Aborted, Bound, LostRace, Outcome, PartlyBound, Refused, Undone
from scheduler.components import Components
from scheduler.history.records import device_names
from scheduler.observe import logs
from scheduler.observe.metrics import Subsystem
from scheduler.observe.unexpected_errors import Confined
from solver.domain import ClaimId, Placement, Pod, PodId, Reason, ReasonCode

_FIRST_RECOVERY_SECONDS, _LONGEST_RECOVERY_SECONDS = 1.0, 300.0
"""Between live reads after a defect; the unit stays assumed, and its pods stay in flight."""

_log: Final = logs.logger()


PutBack = Callable[[Pod, Sequence[Reason], float], None]
"""Puts a pod back into the queue: with the reasons why it was not bound, and the time when its decision began."""


class DecisionStart(NamedTuple):
    """The decision that placed some pods: its number (as in the history), and when it began."""

    decision: int
    started: float


class BindingCycle:
    """Commits units. `put_back` gets the pods that were not bound."""

    def __init__(
        self,
        parts: Components,
        put_back: PutBack,
        *,
        clock: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]],
    ) -> None:
        self._parts: Final = parts
        self._put_back: Final = put_back
        self._clock: Final = clock
        self._sleep: Final = sleep
        self._confined: Final = partial(Confined, parts.metrics)

    async def commit(self, unit: Unit, pods: Mapping[PodId, Pod], attempt: DecisionStart) -> None:
        """Write a unit, and confirm or forget it. Where a defect ends either, live reads decide."""
        outcome: Outcome | None = None
        with self._confined(Subsystem.COMMIT, pods=names(unit.placements)):
            outcome = await self._written(unit)
        for count in itertools.count():
            if not unit.placements:
                return
            with self._confined(Subsystem.SETTLEMENT, pods=names(unit.placements)):
                if outcome is None:
                    outcome = await self._parts.commit.recover(unit)
                self._settle(outcome, pods, attempt)
                await self._until_shown(outcome)
                return
            outcome, unit = None, self._unsettled(unit)
            await self._sleep(jittered(doubled(_FIRST_RECOVERY_SECONDS, _LONGEST_RECOVERY_SECONDS, count)))

    async def _written(self, unit: Unit) -> Outcome:
        try:
            await self._parts.status.suppress(placement.pod_uid for placement in unit.placements)
            async with self._parts.stale_allocations.excluding(unit.claims):
                return await self._parts.commit.commit(unit)
        finally:
            self._parts.commit.end(unit)

    def _unsettled(self, unit: Unit) -> Unit:
        """Return the part of a unit that was neither bound nor put back: its pods are still in flight."""
        pending = self._parts.queue
        left = [each for each in unit.placements if pending.in_flight(each.pod, each.pod_uid) is not None]
        return msgspec.structs.replace(unit, placements=tuple(left))

    def _settle(self, outcome: Outcome, pods: Mapping[PodId, Pod], attempt: DecisionStart) -> None:
        """Confirm or forget what was assumed, and put back the pods that were not bound."""
        metrics = self._parts.metrics
        with self._confined(Subsystem.SETTLEMENT, pods=names(outcome.unit.placements)):
            self._parts.pod_groups.settled(outcome, pods)
            if isinstance(outcome, Bound | PartlyBound):
                self._parts.gang_replacements.placed(
                    (pods[each.pod] for each in outcome.unit.placements), self._clock()
                )
        match outcome:
            case Bound(unit=unit, seconds=seconds):
                if seconds is not None:
                    metrics.commit_seconds.observe(seconds)
                self._bound(unit, unit.placements, pods, attempt)
            case Refused(unit=unit, reasons=reasons) | Undone(unit=unit, reasons=reasons):
                metrics.commit_conflicts.inc()
                event = logs.UNIT_CONFLICT if isinstance(outcome, Refused) else logs.UNIT_FAILED
                log = _log.warning if any(each.code is ReasonCode.API_ERROR for each in reasons) else _log.info
                log(event, pods=names(unit.placements), reasons=[each.message for each in reasons])
                uncertain = () if isinstance(outcome, Refused) else outcome.unreleased
                self._parts.stale_allocations.note_refused(unit)
                self.give_up(unit, reasons, pods, attempt, uncertain=uncertain)
            case LostRace(unit=unit, devices=devices, reasons=reasons, unreleased=unreleased):
                metrics.commit_conflicts.inc()
                self._parts.stale_allocations.note_lost_race(devices)
                _log.warning(logs.DEVICE_HELD_TWICE, pods=names(unit.placements), devices=[str(d) for d in devices])
                for placement in unit.placements:
                    with self._confined(Subsystem.SETTLEMENT, pod=str(placement.pod)):
                        self._parts.status.record_lost_race(pods[placement.pod], devices)
                self._parts.stale_allocations.note_refused(unit)
                self.give_up(unit, reasons, pods, attempt, uncertain=unreleased)
            case PartlyBound(unit=unit, bound=bound, unbound=unbound):
                metrics.commit_conflicts.inc()
                self._bound(unit, bound, pods, attempt)
                for placement, reason in unbound:
                    _log.info(logs.UNIT_FAILED, pods=[str(placement.pod)], reasons=[reason.message])
                    own = tuple(each for each in unit.allocations if each.claim in placement.claims)
                    part = Unit(placements=(placement,), allocations=own)
                    self.give_up(part, (reason,), pods, attempt, uncertain=placement.claims)
            case Aborted(unit=unit):
                _log.debug(logs.UNIT_FAILED, pods=names(unit.placements), reasons=["no write may start any more"])
            case _:
                assert_never(outcome)

    def _bound(
        self, unit: Unit, placements: Sequence[Placement], pods: Mapping[PodId, Pod], attempt: DecisionStart
    ) -> None:
        for placement in placements:
            pod = pods[placement.pod]
            with self._confined(Subsystem.SETTLEMENT, pod=str(pod.id)):
                seconds = self._parts.attempt_metrics.bound(pod, attempt.started)
                self._parts.status.record_scheduled(pod, placement.node)
                devices = device_names(placement, unit.allocations, self._parts.cluster.claim)
                self._parts.history.bound(attempt.decision, placement, devices, seconds)
                _log.info(
                    logs.POD_PLACED,
                    pod=str(pod.id),
                    node=placement.node,
                    devices=devices,
                    decision=attempt.decision,
                    seconds=round(seconds, 3),
                )
        _log.debug(logs.UNIT_COMMITTED, pods=names(placements))

    async def _until_shown(self, outcome: Outcome) -> None:
        """Keep what was assumed of claims for extended resources of bound pods until the watch shows the claims."""
        match outcome:
            case Bound(unit=unit):
                bound = unit.placements
            case PartlyBound(unit=unit, bound=placements):
                bound = placements
            case _:
                return
        special = [each for each in bound if each.extended_resource_claim is not None]
        try:
            if special:
                await self._parts.commit.until_shown(unit, special)
        finally:
            for each in special:
                self._parts.waker.wake(self._parts.cluster.settled(each))

    def give_up(
        self,
        unit: Unit,
        reasons: Sequence[Reason],
        pods: Mapping[PodId, Pod],
        attempt: DecisionStart,
        *,
        uncertain: Collection[ClaimId] = (),
    ) -> None:
        """Forget what was assumed of a unit, except allocations of `uncertain` claims, and put its pods back."""
        self._parts.waker.wake(self._parts.cluster.forget(unit, uncertain))
        for placement in unit.placements:
            self._parts.history.not_bound(attempt.decision, placement, self._parts.status.shown(reasons))
            self._put_back(pods[placement.pod], reasons, attempt.started)


def names(placements: Sequence[Placement]) -> list[str]:
    """Name the pods of some placements, for the log."""
    return [str(placement.pod) for placement in placements]

"""
What is to be done about a Workload next. Pure: the Workload as the watch shows it, what is remembered, and the time.

    quota, Pending     its pods wait in the queue; placed: hold their room, then Ready; not placed: say why
    not placed long    parked: marked by an annotation, then Rejected, so that Kueue deactivates it and frees its quota
    parked             its pods wait in the queue; placed: their room is given back, and the Workload is active again
    Ready              its room stays held until its pods are there, or it has no quota any more
    everything else    nothing is waited for and nothing held

What a person deactivates is never activated: Kueue gives another reason for it. A parked Workload that a person
activates loses its mark, and what keeps it out of Kueue's queue.
"""

from enum import StrEnum
from typing import Final

import msgspec

from scheduler.placement_check.kueue_objects import PENDING, READY, REJECTED, REJECTED_BY_CHECK, KueueWorkload

MESSAGE_SECONDS: Final = 60.0
"""A reason that changes is written again after this time at the earliest."""
LONGEST_MESSAGE: Final = 1024


class Duty(StrEnum):
    """What a Workload needs of the check."""

    NONE = "none"
    PLACE = "place"
    """It holds quota and waits for the answer."""
    WATCH = "watch"
    """It is parked: a decision that places it makes it active again."""
    HOLD = "hold"
    """It is let in: its room is held for its pods."""


class CheckMemory(msgspec.Struct, frozen=True, kw_only=True):
    """
    What is remembered of a Workload while its duty stays.

    `reason` is the last answer that its pods have no room, "" before one; `refused_at` the time of the first of them.
    `is_placed` says that a decision has placed all of them, `is_held` that this room is stored, or none is
    needed, as `answer` says. `written_at` is the time of the last message.
    """

    reason: str = ""
    refused_at: float | None = None
    is_placed: bool = False
    is_held: bool = False
    answer: str = "its room is held"
    written_at: float | None = None

    def refused(self, reason: str, now: float) -> "CheckMemory":
        """Note that a decision did not place the pods."""
        since = now if self.refused_at is None else self.refused_at
        return msgspec.structs.replace(self, reason=reason, refused_at=since, is_placed=False, is_held=False)


class Say(msgspec.Struct, frozen=True, tag=True):
    """Write the state of the check."""

    state: str
    message: str


class Park(msgspec.Struct, frozen=True, tag=True):
    """Mark the Workload as parked, then reject it."""

    message: str


class Activate(msgspec.Struct, frozen=True, tag=True):
    """Make a parked Workload active, and take its mark away."""


class Unmark(msgspec.Struct, frozen=True, tag=True):
    """Take away the mark of a Workload that is active again."""


class Wait(msgspec.Struct, frozen=True, tag=True):
    """Nothing is to be done before `seconds`, or before something changes where it is None."""

    seconds: float | None = None


Step = Say | Park | Activate | Unmark | Wait


def duty(workload: KueueWorkload, checks: frozenset[str]) -> Duty:
    """Return what a Workload needs; `checks` are the names of the AdmissionChecks that are ours."""
    check = workload.check(checks)
    if workload.is_deleting or workload.is_finished or check is None:
        return Duty.NONE
    if not workload.is_active:
        is_ours = bool(workload.parked) and workload.evicted == REJECTED_BY_CHECK and not workload.has_quota
        return Duty.WATCH if is_ours else Duty.NONE
    if not workload.has_quota or workload.evicted:
        return Duty.NONE
    if check.state == PENDING:
        return Duty.PLACE
    return Duty.HOLD if check.state == READY else Duty.NONE


def next_step(
    workload: KueueWorkload, checks: frozenset[str], memory: CheckMemory, now: float, *, park_after_seconds: float
) -> Step:
    """Return what is to be done now."""
    match duty(workload, checks):
        case Duty.WATCH:
            return Activate() if memory.is_placed else Wait()
        case Duty.PLACE:
            return _answer(workload, checks, memory, now, park_after_seconds=park_after_seconds)
        case _:
            check = workload.check(checks)
            is_rejected = check is not None and check.state == REJECTED  # Kueue deactivates it soon
            return Unmark() if workload.parked and workload.is_active and not is_rejected else Wait()


def _answer(
    workload: KueueWorkload, checks: frozenset[str], memory: CheckMemory, now: float, *, park_after_seconds: float
) -> Step:
    check = workload.check(checks)
    if memory.is_held:
        return Say(READY, memory.answer)
    if workload.parked:  # a rejection that was not written, or that a person took back: the time begins anew
        return Unmark()
    if memory.is_placed or memory.refused_at is None or check is None:
        return Wait()
    parks_in = memory.refused_at + park_after_seconds - now
    if parks_in <= 0:
        return Park(memory.reason[:LONGEST_MESSAGE])
    message = memory.reason[:LONGEST_MESSAGE]
    if message == check.message:
        return Wait(parks_in)
    writes_in = 0.0 if memory.written_at is None else memory.written_at + MESSAGE_SECONDS - now
    return Say(PENDING, message) if writes_in <= 0 else Wait(min(writes_in, parks_in))

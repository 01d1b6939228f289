"""One claim's writes: finalizer, then allocation and reservation in one, retried as long as they make sense.

Claims whose newest version this process has written: no release is under way that could still undo them.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final

from scheduler.commit.operations import Allocate, ClaimWrite, Done, Reserve, Retry, judge
from scheduler.kube import writes
from scheduler.kube.client import Client
from scheduler.kube.encode import FINALIZER
from scheduler.kube.errors import Conflict, Forbidden, KubeError, NotFound
from scheduler.kube.writer import Writer
from solver.domain import Claim, ClaimId, Reason, ReasonCode

_MOST: Final = 20_000
"""Of more, those that were written longest ago are forgotten: it costs a request each to write them again."""


class OwnWrites:
    """
    Claims, by uid, that were written here after any release of them that was sent before.

    A release rests on the version that it has read. One that no answer came to may act long afterwards, of this process
    or of a former leader, unless somebody has written the claim since.
    """

    def __init__(self) -> None:
        self._uids: Final[dict[str, None]] = {}

    def add(self, claim: Claim) -> None:
        """Note that a write of the claim was answered."""
        self._uids.pop(claim.uid, None)
        self._uids[claim.uid] = None
        if len(self._uids) > _MOST:
            del self._uids[next(iter(self._uids))]

    def discard(self, claim: Claim) -> None:
        """Note that a release of the claim is sent."""
        self._uids.pop(claim.uid, None)

    def __contains__(self, claim: Claim) -> bool:
        return claim.uid in self._uids


_TRIES: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """The claim is as the unit wants it; `claim` is the server's answer, `write` what it answers."""

    write: ClaimWrite
    claim: Claim


@dataclass(frozen=True, slots=True, kw_only=True)
class NotWritten:
    """The claim was not written as the unit wants it; with `may_have_acted` a write may still have got through."""

    write: ClaimWrite
    reason: Reason
    may_have_acted: bool = False


@dataclass(slots=True)
class _Turn:
    """Whose turn it is at one claim, and what the last one left."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    users: int = 0
    latest: Claim | None = None


class ClaimWriter:
    """
    Writes claims. `on_answer` is given every claim as the server answered it.

    Units that share a claim take turns at it, each starting from the answer to the one before: otherwise all but
    one of them would meet a conflict.

    What is as it should be already is written nevertheless, where it was not this process that made it so (`own`):
    the release that a former leader has under way, however late it comes, must be for a version of the past.
    """

    def __init__(self, client: Client, writer: Writer, own: OwnWrites, on_answer: Callable[[Claim], None]) -> None:
        self._client: Final = client
        self._writer: Final = writer
        self._own: Final = own
        self._on_answer: Final = on_answer
        self._turns: Final[dict[ClaimId, _Turn]] = {}

    async def write(self, write: ClaimWrite) -> Written | NotWritten:
        """
        Make a claim as the unit wants it.

        After a conflict, and where the answer was lost, a live read decides (`operations.judge`); up to five tries.
        Raise `FencedError` when writing is not allowed any more.
        """
        turn = self._turns.setdefault(write.claim.id, _Turn())
        turn.users += 1
        try:
            async with turn.lock:
                start = await self._start(write, turn)
                answer = start if isinstance(start, Written | NotWritten) else await self._insist(start)
                turn.latest = answer.claim if isinstance(answer, Written) else None
                return answer
        finally:
            turn.users -= 1
            if not turn.users:
                self._turns.pop(write.claim.id, None)

    async def _start(self, write: ClaimWrite, turn: _Turn) -> Written | NotWritten | ClaimWrite:
        """
        Start from the newest state that is known.

        It is read where the watch has not even shown the allocation yet, or where nothing seems left to write.
        """
        if turn.latest is not None:
            return self._after(write, turn.latest)
        is_open = write.claim.allocation is not None and not _is_reserved(write.claim, write)
        if isinstance(write, Allocate) or is_open:
            return write
        try:
            return self._after(write, await self._read(write.claim.id))
        except KubeError as error:
            return NotWritten(write=write, reason=api_reason(error))

    async def _insist(self, write: ClaimWrite) -> Written | NotWritten:
        was_lost, last = False, api_reason(KubeError("the claim was not written"))
        for attempt in range(_TRIES):
            try:
                return self._written(write, await self._send(write))
            except KubeError as error:
                was_lost, last = was_lost or error.may_have_acted, self._failure(write, error)
                if not (error.may_have_acted or isinstance(error, Conflict | NotFound)):
                    return NotWritten(write=write, reason=api_reason(error), may_have_acted=was_lost)
            await self._writer.pause(attempt)
            try:
                live = await self._read(write.claim.id)
            except KubeError as error:
                return NotWritten(write=write, reason=api_reason(error), may_have_acted=was_lost)
            outcome = self._after(write, live)
            if isinstance(outcome, Written | NotWritten):
                return outcome
            write = outcome
        return NotWritten(write=write, reason=last, may_have_acted=was_lost)

    @staticmethod
    def _failure(write: ClaimWrite, error: KubeError) -> Reason:
        """Say what the last of several attempts failed at: the claim changes all the time, or no answer comes."""
        if isinstance(error, Conflict | NotFound):
            message = f"claim {write.claim.id} changed under each of {_TRIES} attempts to write it"
            return Reason(code=ReasonCode.CONFLICT, message=message)
        message = f"claim {write.claim.id} could not be written in {_TRIES} attempts: {error}"
        return Reason(code=ReasonCode.API_ERROR, message=message)

    def _after(self, write: ClaimWrite, live: Claim | None) -> Written | NotWritten | ClaimWrite:
        """Say what a newer state of the claim makes of the write: done, not to be done, or to be done on it."""
        match judge(write, live):
            case Done(claim=claim) if claim in self._own:
                return self._written(write, claim)
            case Done(claim=claim):
                return Reserve(claim=claim, consumers=write.consumers)
            case Retry(claim=claim):
                return replace(write, claim=claim)
            case Reason() as reason:
                return NotWritten(write=write, reason=reason)

    async def _read(self, claim: ClaimId) -> Claim | None:
        return await self._writer.read(lambda seconds: writes.read_claim(self._client, claim, timeout_seconds=seconds))

    def _written(self, write: ClaimWrite, claim: Claim) -> Written:
        self._own.add(claim)
        self._on_answer(claim)
        return Written(write=write, claim=claim)

    async def _send(self, write: ClaimWrite) -> Claim:
        client, claim = self._client, write.claim
        if FINALIZER not in claim.finalizers:
            bare = claim
            claim = await self._writer.write(
                lambda seconds: writes.add_finalizer(client, bare, timeout_seconds=seconds)
            )
        if isinstance(write, Allocate):
            return await self._writer.write(
                lambda seconds: writes.allocate(
                    client, claim, write.allocation, write.consumers, timeout_seconds=seconds
                )
            )
        if _is_reserved(claim, write):
            return await self._writer.write(lambda seconds: writes.adopt(client, claim, timeout_seconds=seconds))
        return await self._writer.write(
            lambda seconds: writes.reserve(client, claim, write.consumers, timeout_seconds=seconds)
        )


def _is_reserved(claim: Claim, write: ClaimWrite) -> bool:
    """Whether a claim has all consumers that are wanted."""
    reserved = {each.uid for each in claim.reserved_for}
    return all(each.uid in reserved for each in write.consumers)


def api_reason(error: Exception) -> Reason:
    """Give the reason that a pod goes back with when the API server refuses, or cannot be asked."""
    is_right = isinstance(error, Forbidden) and " cannot " in str(error)  # RBAC's words; admission forbids in others
    hint = "; hint: the role of the scheduler's account lacks this right, deploy/base grants it" if is_right else ""
    return Reason(code=ReasonCode.API_ERROR, message=f"what was decided could not be written: {error}{hint}")

"""
Claim writes of a unit: which there are, how one is sent, and what a live read says about one that failed.

A claim that the plan allocates gets its finalizer, then allocation and reservedFor in one status write. A claim that
was allocated before gets the unit's consumers added. The claims of a unit are written in any order. After a conflict or
a lost answer a live read decides (`judge`) whether the write has acted, is to be retried, or is refused.

A release (the rollback of an earlier attempt, also of a former leader) may act long after its answer was lost. It is
guarded by the resourceVersion that it has read, so any later write of the claim makes it fail. `OwnWrites` knows the
claims that this process has written since; any other claim is written once more (`writes.adopt`) before a pod is bound
to it, even where it has the right allocation and reservation already.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

from scheduler.change import is_older
from scheduler.cluster import Unit
from scheduler.cluster.assume_cache import is_same
from scheduler.cluster.object_store import missing_consumers
from scheduler.commit.own_writes import OwnWrites
from scheduler.features import granted_by
from scheduler.kube import writes
from scheduler.kube.client import Client
from scheduler.kube.errors import Conflict, Forbidden, KubeError, NotFound
from scheduler.kube.writer import FencedError, Writer
from solver.domain import (
    FINALIZER,
    MAX_RESERVED_FOR,
    Allocation,
    Claim,
    ClaimId,
    ConsumerReference,
    Placement,
    PodId,
    Reason,
    ReasonCode,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocate:
    """Allocate and reserve a claim in one status write, after its finalizer."""

    claim: Claim
    allocation: Allocation
    consumers: tuple[ConsumerReference, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reserve:
    """
    Add consumers to a claim that is allocated already.

    `assumed` is the allocation that was decided on, where the watch has not shown it yet.
    """

    claim: Claim
    consumers: tuple[ConsumerReference, ...]
    assumed: Allocation | None = None


ClaimWrite = Allocate | Reserve


@dataclass(frozen=True, slots=True, kw_only=True)
class Operations:
    """The writes of a unit: all claims before any binding."""

    claims: tuple[ClaimWrite, ...]
    bindings: tuple[Placement, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """The claim is as the write wants it: the write whose answer was lost has acted."""

    claim: Claim


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """The write has not acted and is still valid on this newer version of the claim."""

    claim: Claim


Judgement = Done | Retry | Reason


def operations(
    unit: Unit,
    find_claim: Callable[[ClaimId], Claim | None],
    group_uid: Callable[[PodId, str], str],
    find_assumed: Callable[[ClaimId], Claim | None],
) -> Operations | Reason:
    """
    Return a unit's writes, or the reason where one of its claims no longer exists, also where another has its name.

    Claims are looked up as the watch last showed them and with assumptions. `group_uid` gives the uid of a pod's
    PodGroup, by key and uid of the pod.
    """
    allocations, uids = {each.claim: each for each in unit.allocations}, unit.claim_uids
    writes: list[ClaimWrite] = []
    for key, consumers in unit.reservations().items():
        claim, new = find_claim(key), allocations.get(key)
        if claim is None:
            return Reason(code=ReasonCode.CLAIM_MISSING, message=f"claim {key} was deleted meanwhile")
        if claim.uid != uids.get(key, claim.uid):
            return _conflict(f"claim {key} was deleted and created again meanwhile")
        if new is not None:
            writes.append(Allocate(claim=claim, allocation=new.allocation, consumers=consumers))
        else:
            assumed = find_assumed(key)
            writes.append(
                Reserve(
                    claim=claim,
                    consumers=missing_consumers(claim, consumers, group_uid),
                    assumed=assumed.allocation if assumed is not None else None,
                )
            )
    return Operations(claims=tuple(writes), bindings=unit.placements)


def judge(write: ClaimWrite, live: Claim | None) -> Judgement:
    """
    Decide by a live read about a write that met a conflict or lost its answer.

    The claim must be the same object (uid), not being deleted, and not allocated otherwise. The API server checks the
    resourceVersion only: a retry on a newer version needs this check.
    """
    key = write.claim.id
    if live is None:
        return Reason(code=ReasonCode.CLAIM_MISSING, message=f"claim {key} was deleted meanwhile")
    if live.uid != write.claim.uid:
        return _conflict(f"claim {key} was deleted and created again meanwhile")
    if live.is_deleting:
        return Reason(code=ReasonCode.CLAIM_DELETING, message=f"claim {key} is being deleted")
    return _judge_allocate(write, live) if isinstance(write, Allocate) else _judge_reserve(write, live)


def _judge_allocate(write: Allocate, live: Claim) -> Judgement:
    if live.allocation is None:
        return Retry(claim=live)
    if is_same(write.allocation, live.allocation) and _uids(write) <= _reserved(live):
        return Done(claim=live)
    return _conflict(f"claim {live.id} was allocated by another client meanwhile")


def _judge_reserve(write: Reserve, live: Claim) -> Judgement:
    if live.allocation is None:
        return _conflict(f"claim {live.id} was deallocated meanwhile")
    expected = write.claim.allocation or write.assumed
    if expected is not None and not is_same(expected, live.allocation):
        return _conflict(f"claim {live.id} was allocated again meanwhile")
    reserved, wanted = _reserved(live), _uids(write)
    if wanted <= reserved:
        return Done(claim=live)
    if len(reserved | wanted) > MAX_RESERVED_FOR:
        message = f"claim {live.id} has {len(reserved)} consumers, and the API allows {MAX_RESERVED_FOR}"
        return Reason(code=ReasonCode.CLAIM_FULL, message=message)
    return Retry(claim=live)


def _reserved(claim: Claim) -> set[str]:
    return {each.uid for each in claim.reserved_for}


def _uids(write: ClaimWrite) -> set[str]:
    return {each.uid for each in write.consumers}


def _conflict(message: str) -> Reason:
    return Reason(code=ReasonCode.CONFLICT, message=message)


_MOST_ANSWERS: Final = 64
"""Answers to finalizers that no allocation has used yet; without its answer an allocation meets a conflict at most."""
_TRIES: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """The claim is as the unit wants it; `claim` is the server's answer to `write`."""

    write: ClaimWrite
    claim: Claim


@dataclass(frozen=True, slots=True, kw_only=True)
class NotWritten:
    """The claim is not as the unit wants it; with `may_have_acted` a write without an answer may still act."""

    write: ClaimWrite
    reason: Reason
    may_have_acted: bool = False


@dataclass(slots=True)
class _SharedClaim:
    """A claim that units write one after the other, and the answer to the last write."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    users: int = 0
    latest: Claim | None = None


class ClaimWriter:
    """
    Writes claims; `on_answer` gets every claim as the server answered it.

    Units that share a claim write it one after the other, each from the answer to the one before: otherwise all but
    one of them would meet a conflict.
    """

    def __init__(self, client: Client, writer: Writer, own: OwnWrites, on_answer: Callable[[Claim], object]) -> None:
        self._client: Final = client
        self._writer: Final = writer
        self._own: Final = own
        self._on_answer: Final = on_answer
        self._shared: Final[dict[ClaimId, _SharedClaim]] = {}
        self._with_finalizer: Final[dict[str, Claim]] = {}
        """Answers to `add_finalizer`, by uid."""

    async def write(self, write: ClaimWrite) -> Written | NotWritten:
        """
        Write a claim as the unit wants it, in up to five tries.

        Raise `FencedError` where no write may start any more.
        """
        async with self._turn(write.claim) as shared:
            answered = self._with_finalizer.pop(write.claim.uid, None)
            if answered is not None and FINALIZER not in write.claim.finalizers:  # the watch is behind the answer
                shared.latest = shared.latest or answered
            start = await self._start(write, shared.latest)
            answer = start if isinstance(start, Written | NotWritten) else await self._send_until_known(start)
            shared.latest = answer.claim if isinstance(answer, Written) else None
            return answer

    async def add_finalizer(self, claim: Claim) -> None:
        """
        Add the finalizer before the decision that may allocate the claim: `write` goes on from the server's answer.

        Where that fails, `write` adds it, and has the reason if that fails as well. Where the watch is behind an
        earlier answer, nothing is sent: it would be a conflict, and an allocation would wait for it.
        """
        async with self._turn(claim) as shared:
            known = shared.latest or self._with_finalizer.get(claim.uid)
            if known is not None and is_older(claim.resource_version, known.resource_version):
                return
            with contextlib.suppress(KubeError, FencedError):
                answer = await self._writer.write(partial(writes.add_finalizer, self._client, claim))
                self._with_finalizer[claim.uid] = answer
                if len(self._with_finalizer) > _MOST_ANSWERS:
                    del self._with_finalizer[next(iter(self._with_finalizer))]

    @contextlib.asynccontextmanager
    async def _turn(self, claim: Claim) -> AsyncIterator[_SharedClaim]:
        """Wait for those that write the claim before, and have others wait until the end of the block."""
        shared = self._shared.setdefault(claim.id, _SharedClaim())
        shared.users += 1
        try:
            async with shared.lock:
                yield shared
        finally:
            shared.users -= 1
            if not shared.users:
                self._shared.pop(claim.id, None)

    async def fence(self, claim: Claim) -> bool:
        """
        Write a new version of a claim, in up to five tries; return whether that was done, or the claim is gone.

        What another process has sent for an older version is refused from then on. Raise `FencedError`.
        """
        live: Claim | None = claim
        for attempt in range(_TRIES):
            if live is None or live.uid != claim.uid:
                return True
            try:
                answer = await self._writer.write(partial(writes.adopt, self._client, live))
            except KubeError as error:
                if not (error.may_have_acted or isinstance(error, Conflict | NotFound)):
                    return False
            else:
                self._own.add(answer)
                self._on_answer(answer)
                return True
            await self._writer.pause(attempt)
            with contextlib.suppress(KubeError):
                live = await self._read(claim.id)
        return False

    async def look(self, claim: Claim) -> None:
        """Take a claim as a live read shows it. Raise KubeError."""
        live = await self._read(claim.id)
        if live is not None and live.uid == claim.uid:
            self._on_answer(live)

    async def _start(self, write: ClaimWrite, latest: Claim | None) -> Written | NotWritten | ClaimWrite:
        """
        Start from the newest version that is known.

        A live read is needed where the watch has not shown the allocation yet, or where nothing seems left to write.
        """
        if latest is not None:
            return self._after(write, latest)
        if isinstance(write, Allocate) and write.claim.allocation is not None:
            return self._after(write, write.claim)  # a late write of the leader before has done it
        is_open = write.claim.allocation is not None and not _is_reserved(write.claim, write)
        if isinstance(write, Allocate) or is_open:
            return write
        try:
            return self._after(write, await self._read(write.claim.id))
        except KubeError as error:
            return NotWritten(write=write, reason=api_reason(error))

    async def _send_until_known(self, write: ClaimWrite) -> Written | NotWritten:
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
            if isinstance(write, Allocate) and isinstance(outcome, Reserve):
                was_lost = True  # it is allocated, though nothing says by which write
            write = outcome
        return NotWritten(write=write, reason=last, may_have_acted=was_lost)

    @staticmethod
    def _failure(write: ClaimWrite, error: KubeError) -> Reason:
        """Return the reason for giving up after the last attempt: repeated conflicts, or no answer."""
        if isinstance(error, Conflict | NotFound):
            message = f"claim {write.claim.id} changed under each of {_TRIES} attempts to write it"
            return Reason(code=ReasonCode.CONFLICT, message=message)
        message = f"claim {write.claim.id} could not be written in {_TRIES} attempts: {error}"
        return Reason(code=ReasonCode.API_ERROR, message=message)

    def _after(self, write: ClaimWrite, live: Claim | None) -> Written | NotWritten | ClaimWrite:
        """Apply the judgement of a newer version; a claim that is done but not our own write is written once more."""
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
        return await self._writer.read(partial(writes.read_claim, self._client, claim))

    def _written(self, write: ClaimWrite, claim: Claim) -> Written:
        self._own.add(claim)
        self._on_answer(claim)
        return Written(write=write, claim=claim)

    async def _send(self, write: ClaimWrite) -> Claim:
        client, claim = self._client, write.claim
        if FINALIZER not in claim.finalizers:
            claim = await self._writer.write(partial(writes.add_finalizer, client, claim))
        if isinstance(write, Allocate):
            return await self._writer.write(partial(writes.allocate, client, claim, write.allocation, write.consumers))
        if _is_reserved(claim, write):
            return await self._writer.write(partial(writes.adopt, client, claim))
        return await self._writer.write(partial(writes.reserve, client, claim, write.consumers))


def _is_reserved(claim: Claim, write: ClaimWrite) -> bool:
    """Whether reservedFor has all consumers of a write."""
    reserved = {each.uid for each in claim.reserved_for}
    return all(each.uid in reserved for each in write.consumers)


def api_reason(error: Exception) -> Reason:
    """Return the reason of a pod whose write the API server refused, or that could not be sent."""
    manifests = granted_by(str(error)) if isinstance(error, Forbidden) else ""
    hint = f"; hint: the role of the scheduler's account lacks this right, {manifests} grants it" if manifests else ""
    return Reason(code=ReasonCode.API_ERROR, message=f"the decision could not be written: {error}{hint}")

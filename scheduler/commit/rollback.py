"""
Taking back what was written for pods that are not bound: reservations, and allocations that nobody else reserved.

Each step rests on live reads: of the pods (the same uid, still unbound, or gone), then of the claim, whose
resourceVersion guards the write. Where that cannot be had the claim stays as it is: a pod that comes again finds its
allocation and goes on with it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from scheduler.commit.bindings import PodBinder
from scheduler.commit.claims import OwnWrites
from scheduler.kube import writes
from scheduler.kube.client import Client
from scheduler.kube.errors import Conflict, KubeError
from scheduler.kube.writer import Writer
from scheduler.observe import logs
from solver.domain import Claim, ClaimId, PodId

_TRIES: Final = 5

_log: Final = logs.logger()

Pods = Iterable[tuple[PodId, str]]
"""Pods by key and uid."""
NO_GROUPS: Final[Mapping[str, Pods]] = MappingProxyType({})


class _Share(NamedTuple):
    """What is taken back of a claim: consumers by uid, and with them the allocation."""

    uids: tuple[str, ...]
    deallocate: bool


class Rollback:
    """Takes back; `on_answer` is given every claim as the server answered it."""

    def __init__(
        self, client: Client, writer: Writer, binder: PodBinder, own: OwnWrites, on_answer: Callable[[Claim], None]
    ) -> None:
        self._client: Final = client
        self._writer: Final = writer
        self._binder: Final = binder
        self._own: Final = own
        self._on_answer: Final = on_answer

    async def take_back(
        self,
        claims: Collection[ClaimId],
        pods: Pods,
        deallocatable: Collection[ClaimId],
        *,
        groups: frozenset[str] = frozenset(),
    ) -> tuple[ClaimId, ...]:
        """
        Remove the pods from the claims, and the allocation of a `deallocatable` claim that has no other consumer.

        With all of the pods, the PodGroups go too whose uids are among `groups`. Give the claims that stay reserved for
        one of the pods, because it is bound after all or because the API server could not be asked. Raise
        `FencedError` when writing is not allowed any more.
        """
        if not claims:
            return ()
        pods = tuple(pods)
        try:
            free = await asyncio.gather(*(self._is_unbound(pod, uid) for pod, uid in pods))
        except KubeError as error:
            _log.warning(logs.UNIT_FAILED, error=str(error), kept=[str(claim) for claim in claims])
            return tuple(claims)
        uids = {uid for (_, uid), is_free in zip(pods, free, strict=True) if is_free}
        if all(free):
            uids |= groups
        done = await asyncio.gather(
            *(self._release(claim, uids, may_deallocate=claim in deallocatable) for claim in claims)
        )
        return tuple(claim for claim, is_done in zip(claims, done, strict=True) if not (is_done and all(free)))

    async def reclaim(
        self, key: ClaimId, is_wanted: Callable[[Claim], bool], groups: Mapping[str, Pods] = NO_GROUPS
    ) -> bool:
        """
        Take back an allocation that no pod is bound to, whoever left it behind; give whether that was done.

        `is_wanted` judges the claim as a live read shows it. Consumers other than pods keep their claim, unless they
        are PodGroups whose pods `groups` gives by their uids, and none of those is bound.
        """

        async def whole(claim: Claim) -> _Share | bool:
            if claim.is_deleting or not is_wanted(claim) or not await self._has_no_bound_consumer(claim, groups):
                return False
            return _Share(tuple(each.uid for each in claim.reserved_for), deallocate=True)

        return await self._settle(key, whole, otherwise=False)

    async def _has_no_bound_consumer(self, claim: Claim, groups: Mapping[str, Pods]) -> bool:
        for each in claim.reserved_for:
            is_pod = (each.api_group, each.resource) == ("", "pods")
            if not is_pod and each.uid not in groups:
                return False
            pods = ((PodId(claim.id.namespace, each.name), each.uid),) if is_pod else groups[each.uid]
            for pod, uid in pods:
                if not await self._is_unbound(pod, uid):
                    return False
        return True

    async def _is_unbound(self, pod: PodId, uid: str) -> bool:
        live = await self._binder.read(pod)
        return live is None or live.uid != uid or not live.node_name

    async def _release(self, key: ClaimId, uids: set[str], *, may_deallocate: bool) -> bool:
        """Give whether the claim is known to hold nothing for these pods any more."""

        async def own(claim: Claim) -> _Share | bool:
            found = tuple(each.uid for each in claim.reserved_for if each.uid in uids)
            return _Share(found, deallocate=may_deallocate and len(found) == len(claim.reserved_for)) if found else True

        return await self._settle(key, own, otherwise=True)

    async def _settle(
        self, key: ClaimId, judge: Callable[[Claim], Awaitable[_Share | bool]], *, otherwise: bool
    ) -> bool:
        """
        Take back what `judge` says of a live read, until the answer is known; give whether it is done.

        `judge` gives what there is to take back, or that there is nothing and whether that counts as done, which
        `otherwise` says of a claim that is gone or not allocated.
        """
        for attempt in range(_TRIES):
            try:
                claim = await self._read(key)
                if claim is None or claim.allocation is None:
                    return otherwise
                share = await judge(claim)
                if isinstance(share, bool):
                    return share
                await self._send(claim, share)
            except KubeError as error:
                if not (isinstance(error, Conflict) or error.may_have_acted):
                    _log.warning(logs.UNIT_FAILED, claim=str(key), error=str(error))
                    return False
            else:
                return True
            await self._writer.pause(attempt)
        return False

    async def _read(self, key: ClaimId) -> Claim | None:
        return await self._writer.read(lambda seconds: writes.read_claim(self._client, key, timeout_seconds=seconds))

    async def _send(self, claim: Claim, share: _Share) -> None:
        uids, deallocate = share
        self._own.discard(claim)
        answer = await self._writer.write(
            lambda seconds: writes.release(self._client, claim, uids, deallocate=deallocate, timeout_seconds=seconds)
        )
        self._on_answer(answer)
        _log.info(logs.TAKEN_BACK, claim=str(claim.id), deallocated=deallocate, consumers=len(uids))

"""
Removes reservations of pods that are not bound, and allocations that no other consumer has reserved.

Every release rests on live reads: first of the pods (deleted, another uid, or still unbound), then of the claim, whose
resourceVersion guards the write. Where the API server cannot be asked the claim stays as it is, and its allocation
assumed until its fate is known (`uncertain_allocations`). Then the next attempt finds the allocation and continues with
it, and `stale_allocations` frees it where no attempt can.
"""

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Final, NamedTuple

from scheduler.commit.bindings import PodBinder
from scheduler.commit.own_writes import OwnWrites
from scheduler.kube import writes
from scheduler.kube.client import Client
from scheduler.kube.errors import Conflict, KubeError
from scheduler.kube.writer import Writer
from scheduler.observe import logs
from scheduler.observe.unexpected_errors import together
from solver.domain import Claim, ClaimId, PodId

_TRIES: Final = 5

_log: Final = logs.logger()

Pods = Iterable[tuple[PodId, str]]
"""Pods by key and uid."""
NO_GROUPS: Final[Mapping[str, Pods]] = MappingProxyType({})


class _Release(NamedTuple):
    """What is removed from a claim: consumers by uid, and the allocation with them."""

    uids: tuple[str, ...]
    deallocate: bool


class Rollback:
    """Releases claims; `on_answer` gets every claim as the server answered it."""

    def __init__(
        self, client: Client, writer: Writer, binder: PodBinder, own: OwnWrites, on_answer: Callable[[Claim], object]
    ) -> None:
        self._client: Final = client
        self._writer: Final = writer
        self._binder: Final = binder
        self._own: Final = own
        self._on_answer: Final = on_answer

    async def release(
        self,
        claims: Collection[ClaimId],
        pods: Pods,
        *,
        groups: frozenset[str] = frozenset(),
        uncertain: Collection[ClaimId] = (),
    ) -> tuple[ClaimId, ...]:
        """
        Remove the pods from the claims, and the allocation of a claim that has no other consumer.

        The claim controller removes an allocation only when it removes the last consumer itself.

        If none of the pods is bound, PodGroups are removed too whose uids are among `groups`. Writes of `uncertain`
        claims that have not arrived yet are made to fail. Give the claims that stay reserved for one of the pods, or of
        which this is not known: a pod is bound after all, or the API server could not be asked. Raise `FencedError`
        where no write may start any more.
        """
        if not claims:
            return ()
        pods = tuple(pods)
        try:
            is_unbound = await together(self._is_unbound(pod, uid) for pod, uid in pods)
        except KubeError as error:
            _log.warning(logs.UNIT_FAILED, error=str(error), unreleased=[str(claim) for claim in claims])
            return tuple(claims)
        uids = {uid for (_, uid), is_released in zip(pods, is_unbound, strict=True) if is_released}
        if all(is_unbound):
            uids |= groups
        late = frozenset(uncertain)
        done = await together(self._release_pods(claim, uids, is_uncertain=claim in late) for claim in claims)
        return tuple(claim for claim, is_done in zip(claims, done, strict=True) if not (is_done and all(is_unbound)))

    async def deallocate(
        self, key: ClaimId, is_wanted: Callable[[Claim], bool], groups: Mapping[str, Pods] = NO_GROUPS
    ) -> bool:
        """
        Remove an allocation and all its reservations if no consumer is bound; return whether that was done.

        `is_wanted` judges the claim as a live read shows it. A consumer that is no pod keeps the claim. The exception
        is a PodGroup whose pods `groups` gives by its uid, while none of them is bound.
        """

        async def whole(claim: Claim) -> _Release | bool:
            if claim.is_deleting or not is_wanted(claim) or not await self._has_no_bound_consumer(claim, groups):
                return False
            return _Release(tuple(each.uid for each in claim.reserved_for), deallocate=True)

        return await self._send_until_known(key, whole, otherwise=False)

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

    async def _release_pods(self, key: ClaimId, uids: set[str], *, is_uncertain: bool) -> bool:
        """Remove consumers from a claim; return whether it is known to be reserved for none of them any more."""

        async def of_pods(claim: Claim) -> _Release | bool:
            found = tuple(each.uid for each in claim.reserved_for if each.uid in uids)
            return _Release(found, deallocate=len(found) == len(claim.reserved_for)) if found else True

        return await self._send_until_known(key, of_pods, otherwise=True, is_uncertain=is_uncertain)

    async def _send_until_known(
        self,
        key: ClaimId,
        judge: Callable[[Claim], Awaitable[_Release | bool]],
        *,
        otherwise: bool,
        is_uncertain: bool = False,
    ) -> bool:
        """
        Release what `judge` says of a live read, until an answer is known; return whether it is done.

        `judge` gives the release, or a bool where nothing is to be released: whether that counts as done. `otherwise`
        is that bool for a claim that is deleted or not allocated. An allocation may still arrive for a claim that is
        not allocated and `is_uncertain`: a newer version of the claim makes it fail.
        """
        for attempt in range(_TRIES):
            try:
                claim = await self._writer.read(partial(writes.read_claim, self._client, key))
                if is_uncertain and claim is not None and claim.allocation is None:
                    self._on_answer(await self._writer.write(partial(writes.adopt, self._client, claim)))
                if claim is None or claim.allocation is None:
                    return otherwise
                release = await judge(claim)
                if isinstance(release, bool):
                    return release
                await self._send(claim, release)
            except KubeError as error:
                if not (isinstance(error, Conflict) or error.may_have_acted):
                    _log.warning(logs.UNIT_FAILED, claim=str(key), error=str(error))
                    return False
            else:
                return True
            await self._writer.pause(attempt)
        return False

    async def _send(self, claim: Claim, release: _Release) -> None:
        uids, deallocate = release
        self._own.discard(claim)
        send = partial(writes.release, self._client, claim, uids, deallocate=deallocate)
        answer = await self._writer.write(send)
        self._on_answer(answer)
        _log.info(logs.ROLLED_BACK, claim=str(claim.id), deallocated=deallocate, consumers=len(uids))

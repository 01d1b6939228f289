"""
The last writes of a pod: node-allocatable resources of its claims (KEP-5517), then the binding.

A binding is irrevocable. Where its answer is lost it counts as made until a live read of the pod says otherwise,
however long that takes. It is retried while the pod is unbound. It is given up where the pod is bound to another node
or deleted, or where the API server refuses it.
"""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Final

from scheduler.commit.claims import api_reason
from scheduler.kube import pod_writes, writes
from scheduler.kube.client import Client
from scheduler.kube.errors import Conflict, KubeError, NotFound
from scheduler.kube.writer import LATE_SECONDS, Writer
from scheduler.observe import logs
from scheduler.observe.unexpected_errors import together
from solver.domain import NodeAllocatableClaimStatus, Placement, Pod, PodId, Reason, ReasonCode

_TRIES: Final = 5
"""Conflicts (409) of a binding that a live read does not explain, before it is given up."""

_ENDED: Final = Reason(
    code=ReasonCode.API_ERROR, message="an unexpected error ended the writes for the pod; the scheduler tries again"
)

_log: Final = logs.logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class NotBound:
    """A live read or the API server's refusal says that the pod is not bound to the planned node."""

    placement: Placement
    reason: Reason


class PodBinder:
    """Binds pods and reads them; `clock` gives monotonic seconds."""

    def __init__(self, client: Client, writer: Writer, clock: Callable[[], float] = time.monotonic) -> None:
        self._client: Final = client
        self._writer: Final = writer
        self._clock: Final = clock

    async def bind(self, placement: Placement) -> Placement | NotBound:
        """
        Bind a pod, and return when it is known to be bound or not.

        Where the answer to one try is lost, no refusal of a later try says so before the first one cannot arrive any
        more. Raise `FencedError` where no write may start any more.
        """
        send = partial(
            writes.bind, self._client, placement.pod, placement.pod_uid, placement.node, place=placement.place
        )
        refusals = attempt = 0
        arrives_until = float("-inf")
        while True:
            try:
                await self._writer.write(send)
            except KubeError as error:
                is_refused = not (error.may_have_acted or isinstance(error, Conflict | NotFound))
                refusals += not error.may_have_acted
                if error.may_have_acted:
                    arrives_until = self._clock() + LATE_SECONDS
                    _log.warning(logs.ANSWER_LOST, pod=str(placement.pod), node=placement.node, error=str(error))
                last = error
            else:
                return placement
            is_certain = self._clock() > arrives_until
            if is_refused and is_certain:
                return NotBound(placement=placement, reason=api_reason(last))
            verdict = judge_pod(placement, await self._certainly_read(placement.pod))
            if verdict is not None:
                return verdict
            if refusals >= _TRIES and is_certain:
                return NotBound(placement=placement, reason=api_reason(last))
            await self._writer.pause(attempt)
            attempt += 1

    async def find(self, placement: Placement) -> Placement | NotBound:
        """
        Find out by live reads whether a pod is bound as planned, after an exception ended its commit.

        A binding that was sent before may arrive yet: a pod is not bound when it is not bound later either.
        """
        arrives_until, attempt = self._clock() + LATE_SECONDS, 0
        while True:
            verdict = judge_pod(placement, await self._certainly_read(placement.pod))
            if verdict is not None:
                return verdict
            if self._clock() > arrives_until:
                return NotBound(placement=placement, reason=_ENDED)
            self._writer.require_open()
            await self._writer.pause(attempt)
            attempt += 1

    async def read(self, pod: PodId) -> Pod | None:
        """Read a pod live."""
        return await self._writer.read(partial(writes.read_pod, self._client, pod))

    async def _certainly_read(self, pod: PodId) -> Pod | None:
        """Read a pod live, and retry until the API server answers or the fence closes (`FencedError`)."""
        attempt = 0
        while True:
            try:
                return await self.read(pod)
            except KubeError as error:
                _log.warning(logs.ANSWER_LOST, pod=str(pod), error=str(error))
            self._writer.require_open()
            await self._writer.pause(attempt)
            attempt += 1


def judge_pod(placement: Placement, live: Pod | None) -> Placement | NotBound | None:
    """Decide by a live read about a binding: bound as planned, not to be bound any more, or None: try again."""
    key = placement.pod
    if live is None:
        message = f"pod {key} was deleted meanwhile"
    elif live.uid != placement.pod_uid:
        message = f"pod {key} was deleted and created again meanwhile"
    elif live.node_name == placement.node:
        return placement
    elif live.node_name:
        message = f"pod {key} was bound to node {live.node_name} by another client meanwhile"
    elif live.is_deleting:
        message = f"pod {key} is being deleted"
    else:
        return None
    return NotBound(placement=placement, reason=Reason(code=ReasonCode.CONFLICT, message=message))


class NodeAllocatableWriter:
    """Writes status.nodeAllocatableResourceClaimStatuses, before the binding; no request where claims take nothing."""

    def __init__(self, client: Client, writer: Writer) -> None:
        self._client: Final = client
        self._writer: Final = writer

    async def write(self, placements: Iterable[Placement]) -> Reason | None:
        """Write it for some placements; return the reason of the first that cannot be written."""
        results = await together(
            self._write(each, each.node_allocatable) for each in placements if each.node_allocatable
        )
        return next((each for each in results if each is not None), None)

    async def remove(self, placements: Iterable[Placement]) -> None:
        """Remove it from pods that are not bound; where that fails the next attempt overwrites it."""
        for each in placements:
            if each.node_allocatable and (reason := await self._write(each, ())) is not None:
                _log.warning(logs.UNIT_FAILED, pod=str(each.pod), error=reason.message)

    async def _write(self, placement: Placement, statuses: tuple[NodeAllocatableClaimStatus, ...]) -> Reason | None:
        pod, uid = placement.pod, placement.pod_uid
        try:
            await self._writer.insist(partial(pod_writes.write_node_allocatable, self._client, pod, uid, statuses))
        except KubeError as error:
            return api_reason(error)
        return None

"""One pod's binding: irrevocable, so it is retried until it is known, and never undone.

Says in pods' statuses what their claims take of their nodes, before they are bound, and takes it back.
"""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Final

from scheduler.commit.claims import api_reason
from scheduler.kube import pod_writes, writes
from scheduler.kube.client import Client
from scheduler.kube.errors import Conflict, KubeError, NotFound
from scheduler.kube.writer import Writer
from scheduler.observe import logs
from solver.domain import ClaimBurden, Placement, Pod, PodId, Reason, ReasonCode

_TRIES: Final = 5
"""Refusals (409) of a binding that a live read does not explain, until it is given up."""

_ENDED: Final = Reason(
    code=ReasonCode.API_ERROR, message="an unexpected error ended the writes for the pod; they are tried again"
)

_log: Final = logs.logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class NotBound:
    """A live read, or the server's own word, says that the pod is not bound to the node that was planned."""

    placement: Placement
    reason: Reason


class PodBinder:
    """Binds pods and reads them."""

    def __init__(self, client: Client, writer: Writer) -> None:
        self._client: Final = client
        self._writer: Final = writer

    async def bind(self, placement: Placement) -> Placement | NotBound:
        """
        Bind a pod; give the placement once it is known to be bound.

        A binding whose answer was lost counts as bound until a live read says otherwise: this waits for one as long
        as it takes. Raise `GateClosedError` when writing is not allowed any more.
        """
        refusals = attempt = 0
        while True:
            try:
                await self._writer.write(partial(self._send, placement))
            except KubeError as error:
                if not (error.may_have_acted or isinstance(error, Conflict | NotFound)):
                    return NotBound(placement=placement, reason=api_reason(error))
                refusals += not error.may_have_acted
                if error.may_have_acted:
                    _log.warning(logs.ANSWER_LOST, pod=str(placement.pod), node=placement.node, error=str(error))
                last = error
            else:
                return placement
            verdict = judge_pod(placement, await self._certainly_read(placement.pod))
            if verdict is not None:
                return verdict
            if refusals >= _TRIES:
                return NotBound(placement=placement, reason=api_reason(last))
            await self._writer.pause(attempt)
            attempt += 1

    async def find(self, placement: Placement) -> Placement | NotBound:
        """Say by a live read whether a pod is bound as planned, after a defect ended its commit."""
        verdict = judge_pod(placement, await self._certainly_read(placement.pod))
        return verdict if verdict is not None else NotBound(placement=placement, reason=_ENDED)

    async def read(self, pod: PodId) -> Pod | None:
        """Read a pod live."""
        return await self._writer.read(lambda seconds: writes.read_pod(self._client, pod, timeout_seconds=seconds))

    async def _send(self, placement: Placement, seconds: float) -> None:
        await writes.bind(self._client, placement.pod, placement.pod_uid, placement.node, timeout_seconds=seconds)

    async def _certainly_read(self, pod: PodId) -> Pod | None:
        """Read a pod live, however long the API server does not answer; `GateClosedError` ends the wait."""
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
    """Say what a live read means for a binding: bound as planned, not to be bound any more, or None: try again."""
    key = placement.pod
    if live is None:
        message = f"pod {key} was deleted meanwhile"
    elif live.uid != placement.pod_uid:
        message = f"pod {key} was deleted and made anew meanwhile"
    elif live.node_name == placement.node:
        return placement
    elif live.node_name:
        message = f"pod {key} was bound to node {live.node_name} by another client meanwhile"
    elif live.is_deleting:
        message = f"pod {key} is being deleted"
    else:
        return None
    return NotBound(placement=placement, reason=Reason(code=ReasonCode.CONFLICT, message=message))


class BurdenWriter:
    """Writes the field, which costs nothing for pods whose claims take nothing."""

    def __init__(self, client: Client, writer: Writer) -> None:
        self._client: Final = client
        self._writer: Final = writer

    async def announce(self, placements: Iterable[Placement]) -> Reason | None:
        """Write it for some placements; give the reason where one cannot be written."""
        wanted = [each for each in placements if each.burdens]
        results = await asyncio.gather(*(self._write(each, each.burdens) for each in wanted), return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result
        return next((each for each in results if isinstance(each, Reason)), None)

    async def withdraw(self, placements: Iterable[Placement]) -> None:
        """Take it away from pods that are not bound; where that fails the next attempt writes over it."""
        for each in placements:
            if each.burdens and (reason := await self._write(each, ())) is not None:
                _log.warning(logs.UNIT_FAILED, pod=str(each.pod), error=reason.message)

    async def _write(self, placement: Placement, burdens: tuple[ClaimBurden, ...]) -> Reason | None:
        try:
            await self._writer.insist(partial(self._send, placement, burdens))
        except KubeError as error:
            return api_reason(error)
        return None

    async def _send(self, placement: Placement, burdens: tuple[ClaimBurden, ...], seconds: float) -> None:
        await pod_writes.write_burdens(self._client, placement.pod, placement.pod_uid, burdens, timeout_seconds=seconds)

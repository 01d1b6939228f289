"""Says in pods' statuses what their claims take of their nodes, before they are bound, and takes it back."""

import asyncio
from collections.abc import Iterable
from functools import partial
from typing import Final

from scheduler.commit.steps.claims import api_reason
from scheduler.commit.writer import Writer
from scheduler.kube import burden_writes
from scheduler.kube.client import Client
from scheduler.kube.errors import KubeError
from scheduler.observe import logs
from solver.domain import ClaimBurden, Placement, Reason

_log: Final = logs.logger()


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
        await burden_writes.write_burdens(
            self._client, placement.pod, placement.pod_uid, burdens, timeout_seconds=seconds
        )

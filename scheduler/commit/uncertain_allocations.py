"""
Finds out about allocations whose write was not answered, and that could not be rolled back either.

Such an allocation may be stored, or may arrive yet. So its devices stay assumed (`AssumeCache.forget`) until

    the watch shows     the claim allocated, by us or otherwise, or gone
    an answer shows     a newer version of the claim: with the allocation, or without it, and then a late write fails
    a live read shows   no allocation, where the claim cannot be written, when a late write cannot arrive any more

A restarted worker gets what is assumed with every question. After a restart of the scheduler the next leader writes
these claims once more before it decides (`take_over`).
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final

from scheduler.cluster import Cluster
from scheduler.commit.claims import ClaimWriter
from scheduler.kube.errors import KubeError
from scheduler.kube.leader_election.boot_clock import boot_time
from scheduler.kube.writer import LATE_SECONDS, FencedError
from scheduler.observe import logs
from scheduler.observe.metrics import Metrics, Subsystem
from scheduler.observe.unexpected_errors import Confined
from solver.domain import Claim

_PERIOD_SECONDS: Final = 1.0

_log: Final = logs.logger()


class UncertainAllocations:
    """Writes a new version of such claims, one after the other, in the background."""

    def __init__(
        self, cluster: Cluster, claims: ClaimWriter, metrics: Metrics, *, clock: Callable[[], float] = boot_time
    ) -> None:
        self._cluster: Final = cluster
        self._claims: Final = claims
        self._clock: Final = clock
        self._confined: Final = partial(Confined, metrics, Subsystem.STALE_ALLOCATIONS, passing=(FencedError,))
        self._since: dict[str, float] = {}

    async def run(self) -> None:
        """Find out every second; end when no write may start any more."""
        while True:
            await asyncio.sleep(_PERIOD_SECONDS)
            try:
                with self._confined():
                    await self.find_out()
            except FencedError:
                return

    async def find_out(self) -> None:
        """Try each claim once."""
        uncertain, now = self._cluster.uncertain_claims(), self._clock()
        self._since = {each.uid: self._since.get(each.uid, now) for each in uncertain}
        for claim in uncertain:
            with self._confined(claim=str(claim.id)):
                await self._find_out(claim, is_late=now - self._since[claim.uid] > LATE_SECONDS)

    async def _find_out(self, claim: Claim, *, is_late: bool) -> None:
        if await self._claims.fence(claim) or not is_late:
            return
        try:
            await self._claims.look(claim)
        except KubeError as error:
            _log.warning(logs.UNIT_FAILED, claim=str(claim.id), error=str(error))

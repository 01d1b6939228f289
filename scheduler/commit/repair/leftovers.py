"""
Claims for extended resources that a former attempt left behind: a crash, or an answer that was lost.

Their pods wait in our queue and nothing is under way for them; while such a claim stands it may hold the very devices
that its pod waits for. It is deallocated and deleted after a live read.
"""

import asyncio
import time
from collections.abc import Callable
from functools import partial
from typing import Final

from scheduler.cluster import Cluster
from scheduler.commit.steps.special_claims import SpecialClaims
from scheduler.commit.writer import GateClosedError
from scheduler.observe import logs
from scheduler.observe.defects import Confined
from scheduler.observe.metrics import Metrics, Part
from scheduler.queue import Pending

_PERIOD_SECONDS: Final = 1.0
_AGAIN_SECONDS: Final = 10.0
"""A claim that could not be removed is looked at again after this time."""

_log: Final = logs.logger()


class Leftovers:
    """Looks for such claims all the time, behind everything else."""

    def __init__(
        self,
        cluster: Cluster,
        pending: Pending,
        specials: SpecialClaims,
        metrics: Metrics,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._cluster: Final = cluster
        self._pending: Final = pending
        self._specials: Final = specials
        self._clock: Final = clock
        self._confined: Final = partial(Confined, metrics, Part.LEFTOVERS, passing=(GateClosedError,))
        self._looked_at: Final[dict[str, float]] = {}

    async def run(self) -> None:
        """Remove for ever; end when no write may start any more."""
        while True:
            await asyncio.sleep(_PERIOD_SECONDS)
            try:
                with self._confined():
                    await self.remove()
            except GateClosedError:
                return

    async def remove(self) -> None:
        """Remove what is there now."""
        now = self._clock()
        for uid in [uid for uid, at in self._looked_at.items() if now - at >= _AGAIN_SECONDS]:
            del self._looked_at[uid]
        for claim, pod in self._cluster.left_behind():
            if self._pending.state(pod.id) is None or self._looked_at.setdefault(claim.uid, now) != now:
                continue
            _log.info(logs.TAKEN_BACK, claim=str(claim.id), pod=str(pod.id))
            with self._confined(claim=str(claim.id)):
                await self._specials.remove(claim)

"""
Writes the status of DeviceQuotas, and sets their series, while this replica leads.

A look every few seconds compares what is to be said with what was said last, and writes what differs: at most one write
a quota for each look, and at most `MOST_WRITES` in all. The others are written by later looks, those that have waited
longest first. So decisions cost no write, however many there are. The first look of a leader lists the statuses, so
that it writes only what has changed since the last leader's.
"""

import asyncio
import datetime as dt
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Final, NamedTuple

from scheduler.backoff import LongerWaits
from scheduler.cluster import Cluster
from scheduler.kube.client import Client
from scheduler.kube.errors import (
    ApiError,
    Conflict,
    Forbidden,
    KubeError,
    NotFound,
    ServerError,
    TooManyRequests,
    Unauthorized,
)
from scheduler.kube.writer import FencedError, Writer
from scheduler.loop_turns import LoopTurns
from scheduler.observe import logs
from scheduler.observe.metrics import Metrics, Subsystem
from scheduler.observe.unexpected_errors import Confined
from scheduler.queue import SchedulingQueue
from scheduler.status import quota_conditions
from scheduler.status.quota_conditions import QuotaStatus
from solver import waiting_pods
from solver.domain import QuotaFleet, QuotaState, quota_states

LOOK_SECONDS: Final = 5.0
"""Seconds between the end of one look and the next."""
MOST_WRITES: Final = 50
"""Writes of one look."""
_LOOKS_WITHOUT_FLEET: Final = 12
"""So many looks wait for the first count of the fleet: else what contradicts it would seem mended."""
_LOOKS_OF_A_LIST: Final = 60
"""After so many looks the statuses are listed again: somebody else, or a former leader late, may have written one."""
_FEWEST_LOOKS_APART: Final = 2
_MOST_LOOKS_APART: Final = 120
"""Looks between two tries to write a status that the API server has refused: at most ten minutes."""
_PODS_AT_ONCE: Final = 500

_log: Final = logs.logger()


class QuotaParts(NamedTuple):
    """What is read of the scheduler; `fleet` gives what was counted last, None before the first time."""

    cluster: Cluster
    queue: SchedulingQueue
    fleet: Callable[[], QuotaFleet | None]


class QuotaStatusWriter:
    """
    Says of each quota what is held, lent and waiting, and what is wrong with it.

    `collection` is the path of DeviceQuotas on the API server, empty where it has none: nothing is said.
    """

    def __init__(
        self,
        client: Client,
        writer: Writer,
        parts: QuotaParts,
        metrics: Metrics,
        *,
        collection: str,
        may_reclaim: bool,
        now: Callable[[], dt.datetime] = lambda: dt.datetime.now(dt.UTC),
    ) -> None:
        self._client: Final = client
        self._writer: Final = writer
        self._parts: Final = parts
        self._metrics: Final = metrics
        self._collection: Final = collection
        self._may_reclaim: Final = may_reclaim
        self._now: Final = now
        self._written: dict[str, QuotaStatus] | None = None
        """What was said last, by uid; None where that has to be listed."""
        self._looks = 0
        self._turn = 0
        self._order: Final[dict[str, int]] = {}
        """The turn in which each quota was written last, by uid."""
        self._refused: Final = LongerWaits[str](_FEWEST_LOOKS_APART, _MOST_LOOKS_APART, lambda: self._looks)
        """Quotas whose status was refused, by uid: a webhook may refuse one and admit all others."""
        self._last_error = ""

    async def run(self) -> None:
        """Look again and again until no write may start any more."""
        while self._collection:
            await asyncio.sleep(LOOK_SECONDS)
            try:
                with Confined(self._metrics, Subsystem.QUOTAS, passing=(FencedError,)):
                    await self.look()
            except FencedError:
                return

    async def look(self) -> None:
        """Set the series, and write the statuses that differ."""
        usage = self._parts.cluster.quota_usage()
        fleet = self._parts.fleet()
        self._looks += 1
        if not usage.tree.quotas:
            self._metrics.quotas.show(())
            return
        if fleet is None and self._looks < _LOOKS_WITHOUT_FLEET:
            return
        waiting = await self._waiting()
        usage = self._parts.cluster.quota_usage()  # it may be another one by now
        states = quota_states(usage.tree, usage.held, waiting, fleet)
        self._metrics.quotas.show(states)
        try:
            refusal = await self._write(states)
        except KubeError as error:
            self._written = None
            self._report(error)
        else:
            self._report(refusal)

    async def _waiting(self) -> Mapping[tuple[str, frozenset[str]], int]:
        """Count the pods that wait, in turns: they change meanwhile, and each is counted as it is."""
        cluster, turns = self._parts.cluster, LoopTurns()
        usage = cluster.quota_usage()
        namespaces, classes = usage.tree.leaf_of, usage.classes
        counts: dict[tuple[str, frozenset[str]], int] = {}
        pods = [queued.pod for queued in self._parts.queue.pods()]
        async for first in turns.each(range(0, len(pods), _PODS_AT_ONCE)):
            # Pods of Workloads that are not let in yet are decided about and do not exist.
            part = [pod for pod in pods[first : first + _PODS_AT_ONCE] if cluster.observed_pod(pod.id) is not None]
            for key, count in waiting_pods(part, namespaces, cluster.claim, classes).items():
                counts[key] = counts.get(key, 0) + count
        return counts

    async def _write(self, states: tuple[QuotaState, ...]) -> ApiError | None:
        """Write what differs from what was said last; return the last refusal of a quota's own."""
        if self._written is None or self._looks % _LOOKS_OF_A_LIST == 0:
            read = partial(quota_conditions.list_statuses, self._client, self._collection)
            self._written = dict(await self._writer.read(read))
        written = self._written
        present = {state.uid: state for state in states}
        self._refused.keep(present)
        for uid in (written.keys() | self._order.keys()) - present.keys():
            written.pop(uid, None)
            self._order.pop(uid, None)
        due, refusal = list(self._due(states, written)), None
        due.sort(key=lambda each: self._order.get(each[0].uid, -1))
        for state, status in due[:MOST_WRITES]:
            try:
                await self._send(state, status)
            except (NotFound, Conflict):  # it was deleted meanwhile, or made anew
                continue
            except (ServerError, Unauthorized, TooManyRequests):
                raise
            except ApiError as error:
                refusal = error
                self._refused.failed(state.uid)
                continue
            self._refused.succeeded(state.uid)
            written[state.uid] = status
        return refusal

    def _due(
        self, states: tuple[QuotaState, ...], written: Mapping[str, QuotaStatus]
    ) -> Iterator[tuple[QuotaState, QuotaStatus]]:
        """Return the statuses that differ from what was said last, without those that were refused a while ago."""
        now = self._now()
        for state in states:
            before = written.get(state.uid)
            status = quota_conditions.status_of(state, may_reclaim=self._may_reclaim, before=before, now=now)
            if status != before and state.uid not in self._refused:
                yield state, status

    async def _send(self, state: QuotaState, status: QuotaStatus) -> None:
        self._turn += 1
        self._order[state.uid] = self._turn
        path = f"{self._collection}/{state.quota}"
        send = partial(quota_conditions.write_status, self._client, path, state.uid, status)
        await self._writer.write(send, is_status=True)

    def _report(self, error: KubeError | None) -> None:
        """Log an error once while it stays the same; a look at which nothing was due ends none."""
        if error is None and self._refused:
            return
        text = str(error) if error is not None else ""
        if isinstance(error, Forbidden):
            text = f"{text}: deploy/components/device-quotas grants it; quotas are kept all the same"
        if text == self._last_error:
            return
        self._last_error = text
        if text:
            _log.warning(logs.QUOTA_STATUS_FAILED, error=text)

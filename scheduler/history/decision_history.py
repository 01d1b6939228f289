"""
The newest decisions, bindings and evictions, within bounds of number and bytes.

The scheduling cycle appends frozen values (`decided`, `bound`, `not_bound`, `evicted`). `run` encodes them in a thread;
what waits for that is bounded too. Readers get the encoded records, newest first, and decode them in a thread as well.
"""

import asyncio
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Final, NamedTuple

import msgspec

from scheduler.history.recent_work import RecentWork, WorkCounts
from scheduler.history.records import (
    DecisionRecord,
    FindClaim,
    HistoryRecord,
    PodRecord,
    PodResult,
    joined,
    pods_of,
    with_plan,
)
from scheduler.settings import HistorySettings
from solver.domain import Placement, Plan, PodId, Reason, Victim

_MOST_PENDING: Final = 10_000
"""Records that wait to be encoded."""
_MOST_NAMESPACES: Final = 1_000
"""Namespaces that are known without reading the records."""
_OVERHEAD_BYTES: Final = 120
"""What a record takes in memory besides its encoded bytes, about."""
_ENCODE_SECONDS: Final = 0.2
"""The time between two runs of the encoder: a history that is asked for is at most so old."""

_decoder: Final = msgspec.msgpack.Decoder(HistoryRecord)
_encoder: Final = msgspec.msgpack.Encoder()

_Make = Callable[[], HistoryRecord]
InThread = Callable[..., Awaitable[object]]
"""Runs a function with its arguments in a thread."""


class _Encoded(NamedTuple):
    """A record as MessagePack, and its time in seconds since the epoch."""

    seconds: float
    content: bytes


class DecisionHistory:
    """
    A ring of encoded records; with `max_records` 0 none is kept. `now` gives the present time.

    `recent` counts what happened in the last minutes, whether records are kept or not.
    """

    def __init__(
        self,
        settings: HistorySettings,
        *,
        is_kept: bool = True,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._most_records: Final = settings.max_records if is_kept else 0
        self._most_bytes: Final = settings.max_mib * 1024 * 1024
        self._now: Final = now
        self.recent: Final = RecentWork(time.monotonic)
        self._pending: Final[deque[_Make]] = deque(maxlen=min(_MOST_PENDING, self._most_records))
        self._lock: Final = threading.Lock()
        self._records: Final[deque[_Encoded]] = deque()
        self._bytes = 0
        self._namespaces: Final[dict[str, None]] = {}
        self._number = 0
        self._dropped = 0
        self._dropped_pending = 0

    def begin(self) -> int:
        """Return the number of the next decision, from 1."""
        self._number += 1
        return self._number

    def decided(
        self,
        number: int,
        plan: Plan,
        find: FindClaim,
        *,
        profile: str,
        pods: int,
        seconds: float,
        is_isolated: bool,
        file: str = "",
    ) -> None:
        """Append a decision; `pods` counts its pods, `find` gives the claims that were allocated before it."""
        self.recent.add(WorkCounts(decisions=1, slowest_seconds=round(seconds, 4)))
        record = DecisionRecord(
            decision=number,
            time=self._now(),
            profile=profile,
            pods=pods,
            seconds=round(seconds, 4),
            status=plan.report.status,
            levels=plan.report.levels,
            isolated=is_isolated,
            file=file,
        )
        self._append(partial(with_plan, record, plan, find))

    def bound(self, number: int, placement: Placement, devices: tuple[str, ...], seconds: float) -> None:
        """Append that a pod was bound."""
        self.recent.add(WorkCounts(bound=1))
        record = self._pod(PodResult.BOUND, placement.pod)
        self._append(
            lambda: msgspec.structs.replace(
                record, decision=number, node=placement.node, devices=devices, seconds=round(seconds, 3)
            )
        )

    def not_bound(self, number: int, placement: Placement, reasons: Sequence[Reason]) -> None:
        """Append that a pod that was placed could not be bound."""
        self.recent.add(WorkCounts(not_bound=1))
        record = self._pod(PodResult.NOT_BOUND, placement.pod)
        self._append(
            lambda: msgspec.structs.replace(record, decision=number, node=placement.node, message=joined(reasons))
        )

    def evicted(self, victim: Victim, preemptor: PodId) -> None:
        """Append that a pod was evicted, and for which pod."""
        self.recent.add(WorkCounts(evicted=1))
        record = self._pod(PodResult.EVICTED, victim.pod)
        found = msgspec.structs.replace(record, node=victim.node, message=victim.message, preemptor=str(preemptor))
        self._append(lambda: found)

    def newest(self, since: float) -> Iterator[HistoryRecord]:
        """Iterate over the records since then (seconds since the epoch), the newest first. Runs in a thread."""
        self.encode()
        with self._lock:
            records = tuple(self._records)
        for each in reversed(records):
            if each.seconds < since:
                return
            yield _decoder.decode(each.content)

    @property
    def dropped(self) -> int:
        """How many records were dropped because of the bounds."""
        return self._dropped + self._dropped_pending

    def oldest(self) -> datetime | None:
        """Return the time of the oldest record; None where there is none. Runs in a thread."""
        with self._lock:
            return datetime.fromtimestamp(self._records[0].seconds, UTC) if self._records else None

    def namespaces(self) -> tuple[str, ...]:
        """Return namespaces of the pods in the newest records, the newest first. Runs in a thread."""
        self.encode()
        with self._lock:
            return tuple(reversed(self._namespaces))

    @property
    def size(self) -> tuple[int, int]:
        """The number of records and their bytes."""
        return len(self._records), self._bytes

    async def run(self, in_thread: InThread = asyncio.to_thread) -> None:
        """Encode what is appended, for ever."""
        while True:
            await asyncio.sleep(_ENCODE_SECONDS)
            if self._pending:
                await in_thread(self.encode)

    def encode(self) -> None:
        """Encode what waits, and drop the oldest records that are too many."""
        with self._lock:
            while self._pending:
                record = self._pending.popleft()()
                self._name(each.namespace for each in pods_of(record))
                self._keep(_Encoded(record.time.timestamp(), _encoder.encode(record)))

    def _keep(self, encoded: _Encoded) -> None:
        self._records.append(encoded)
        self._bytes += len(encoded.content) + _OVERHEAD_BYTES
        while self._records and (len(self._records) > self._most_records or self._bytes > self._most_bytes):
            self._bytes -= len(self._records.popleft().content) + _OVERHEAD_BYTES
            self._dropped += 1

    def _name(self, namespaces: Iterable[str]) -> None:
        for each in dict.fromkeys(namespaces):
            self._namespaces.pop(each, None)
            self._namespaces[each] = None
            if len(self._namespaces) > _MOST_NAMESPACES:
                del self._namespaces[next(iter(self._namespaces))]

    def _append(self, make: _Make) -> None:
        if self._pending.maxlen:
            self._dropped_pending += len(self._pending) == self._pending.maxlen
            self._pending.append(make)

    def _pod(self, result: PodResult, pod: PodId) -> PodRecord:
        return PodRecord(time=self._now(), result=result, namespace=pod.namespace, name=pod.name)

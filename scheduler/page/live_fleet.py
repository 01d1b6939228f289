"""
The fleet as it was last read. It is read again while callers ask for it, and never for more than a part of the time.

An open page watches the fleet, so a page that no one looks at costs the API server nothing.
"""

import asyncio
import contextlib
import datetime as dt
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final, TypeVar

import msgspec

from scheduler.api.answer_threads import in_thread
from scheduler.page import fleet_rows, visible_part
from scheduler.page.visible_part import FleetReading, VisiblePart
from scheduler.page.watched_document import DocumentVersion, WatchedDocument

_LEAST_SECONDS: Final = 2.0
_MOST_SHARE: Final = 0.1
"""The most of the time that reading may take, as with `--watch`."""
_PATIENCE_SECONDS: Final = 5.0
"""How long a caller waits for the first reading; then it hears that there is none yet."""
_MOST_PICTURES: Final = 8
"""Pictures that are kept of a reading: callers with the same rights share one."""
_MOST_VERSIONS: Final = 32
"""Versions of pictures that are kept for callers that come again: half a megabyte each of 40,000 devices."""

K = TypeVar("K")
V = TypeVar("V")


class ReadingFailure(msgspec.Struct, frozen=True):
    """Since when the fleet cannot be read (RFC 3339), and why."""

    since: str
    message: str


class LiveFleet:
    """Reads the fleet in a thread when it is asked for, and keeps the last reading and what went wrong since."""

    def __init__(self, read: Callable[[], FleetReading], clock: Callable[[], float] = time.monotonic) -> None:
        """`read` raises what says why the fleet cannot be read; `read_at` is when the last reading began."""
        self._read: Final = read
        self._clock: Final = clock
        self._last: FleetReading | None = None
        self.read_at = 0.0
        self._due = 0.0
        self._running: asyncio.Task[None] | None = None
        self._ended = asyncio.Event()
        self._pictures: Final[OrderedDict[VisiblePart, WatchedDocument]] = OrderedDict()
        self._versions: Final[OrderedDict[str, DocumentVersion]] = OrderedDict()
        self._making: Final = asyncio.Lock()
        self.failure: ReadingFailure | None = None

    async def last(self) -> FleetReading | None:
        """Return the last reading, and begin another where it is due; None where none has succeeded yet, or in time."""
        if self._running is None and self._clock() >= self._due:
            self._running = asyncio.create_task(self._read_again())
        if self._last is None and self._running is not None:
            await asyncio.wait((self._running,), timeout=_PATIENCE_SECONDS)
        return self._last

    def seconds_since(self, read_at: float) -> float:
        """How long ago a reading began."""
        return self._clock() - read_at

    async def news(self, most_seconds: float) -> None:
        """Return when a reading has ended, when another is due, or after some seconds."""
        seconds = most_seconds if self._running else min(most_seconds, max(0.0, self._due - self._clock()))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._ended.wait()

    async def picture(self, reading: FleetReading, part: VisiblePart) -> WatchedDocument:
        """Return the map of the part of a reading that a caller sees; one is made at a time."""
        async with self._making:
            known = self._pictures.get(part) if reading is self._last else None
            if known is None:
                known = await in_thread(_picture, reading, part)
                if reading is self._last:
                    _keep(self._pictures, part, known, _MOST_PICTURES)
                _keep(self._versions, known.version.tag, known.version, _MOST_VERSIONS)
            return known

    def version(self, tag: str) -> DocumentVersion | None:
        """Return the version with a tag, where it is one of the last that callers had."""
        return self._versions.get(tag)

    async def _read_again(self) -> None:
        began, is_first = self._clock(), self._last is None
        try:
            reading = await in_thread(self._read)
        except Exception as error:  # noqa: BLE001 - the page says whatever it is, and the last picture stays
            since = self.failure.since if self.failure else _now()
            self.failure = ReadingFailure(since, str(error) or type(error).__name__)
        else:
            self._last, self.read_at, self.failure = reading, began, None
            self._pictures.clear()
        finally:
            seconds = 0.0 if is_first else self._clock() - began  # the first one also loads what reading needs
            self._due = self._clock() + max(_LEAST_SECONDS, seconds / _MOST_SHARE)
            self._running = None
            self._ended.set()
            self._ended = asyncio.Event()


def _picture(reading: FleetReading, part: VisiblePart) -> WatchedDocument:
    return fleet_rows.watched(visible_part.map_for(reading, part))


def _keep(kept: OrderedDict[K, V], key: K, value: V, most: int) -> None:
    """Keep a value as the newest, and at most so many."""
    kept[key] = value
    kept.move_to_end(key)
    if len(kept) > most:
        kept.popitem(last=False)


def _now() -> str:
    return dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

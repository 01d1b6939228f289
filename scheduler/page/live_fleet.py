"""
The fleet as it was last read. It is read again while callers ask for it, and never for more than a part of the time.

A page that is open asks every few seconds, so a page that no one looks at costs the API server nothing.
"""

import asyncio
import datetime as dt
import time
from collections import OrderedDict
from collections.abc import Callable
from hashlib import sha256
from typing import Final, NamedTuple

import msgspec

from scheduler.api.answer_threads import in_thread
from scheduler.page import map_page, visible_part
from scheduler.page.fleet_map import FleetMap
from scheduler.page.visible_part import FleetReading, VisiblePart

_LEAST_SECONDS: Final = 2.0
_MOST_SHARE: Final = 0.1
"""The most of the time that reading may take, as with `--watch`."""
_PATIENCE_SECONDS: Final = 5.0
"""How long a caller waits for the first reading; then it hears that there is none yet."""
_MOST_PICTURES: Final = 8
"""Pictures that are kept of a reading: callers with the same rights share one."""


class ReadingFailure(msgspec.Struct, frozen=True):
    """Since when the fleet cannot be read (RFC 3339), and why."""

    since: str
    message: str


class Picture(NamedTuple):
    """An encoded map. Pictures of the same content have the same `tag`, whenever they were read."""

    document: bytes
    tag: str


class LiveFleet:
    """Reads the fleet in a thread when it is asked for, and keeps the last reading and what went wrong since."""

    def __init__(self, read: Callable[[], FleetReading], clock: Callable[[], float] = time.monotonic) -> None:
        """`read` raises what says why the fleet cannot be read."""
        self._read: Final = read
        self._clock: Final = clock
        self._last: FleetReading | None = None
        self._read_at = 0.0
        self._due = 0.0
        self._running: asyncio.Task[None] | None = None
        self._pictures: Final[OrderedDict[VisiblePart, Picture]] = OrderedDict()
        self._making: Final = asyncio.Lock()
        self.failure: ReadingFailure | None = None

    async def last(self) -> FleetReading | None:
        """Return the last reading, and begin another where it is due; None where none has succeeded yet, or in time."""
        if self._running is None and self._clock() >= self._due:
            self._running = asyncio.create_task(self._read_again())
        if self._last is None and self._running is not None:
            await asyncio.wait((self._running,), timeout=_PATIENCE_SECONDS)
        return self._last

    @property
    def age_seconds(self) -> float:
        """How long ago the last reading began."""
        return self._clock() - self._read_at

    async def picture(self, reading: FleetReading, part: VisiblePart) -> Picture:
        """Return the map of the part of a reading that a caller sees; one is made at a time."""
        async with self._making:
            known = self._pictures.get(part) if reading is self._last else None
            if known is None:
                known = await in_thread(_picture, reading, part)
                if reading is self._last:
                    self._keep(part, known)
            return known

    def _keep(self, part: VisiblePart, made: Picture) -> None:
        self._pictures[part] = made
        if len(self._pictures) > _MOST_PICTURES:
            self._pictures.popitem(last=False)

    async def _read_again(self) -> None:
        began, is_first = self._clock(), self._last is None
        try:
            reading = await in_thread(self._read)
        except Exception as error:  # noqa: BLE001 - the page says whatever it is, and the last picture stays
            since = self.failure.since if self.failure else _now()
            self.failure = ReadingFailure(since, str(error) or type(error).__name__)
        else:
            self._last, self._read_at, self.failure = reading, began, None
            self._pictures.clear()
        finally:
            seconds = 0.0 if is_first else self._clock() - began  # the first one also loads what reading needs
            self._due = self._clock() + max(_LEAST_SECONDS, seconds / _MOST_SHARE)
            self._running = None


def _picture(reading: FleetReading, part: VisiblePart) -> Picture:
    found = visible_part.map_for(reading, part)
    return Picture(map_page.encoded(found), _tag(found))


def _tag(found: FleetMap) -> str:
    """Return a hash of everything but the time."""
    return sha256(msgspec.json.encode(msgspec.structs.replace(found, read_at=""))).hexdigest()[:32]


def _now() -> str:
    return dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

"""
The fleet as it was last read. It is read again while callers ask for it, and never for more than a part of the time.

A page that is open asks every few seconds, so a page that no one looks at costs the API server nothing.
"""

import asyncio
import datetime as dt
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from typing import Final, NamedTuple

import msgspec

from scheduler.api.answer_threads import in_thread
from scheduler.page import fleet_map, map_page
from scheduler.page.fleet_map import FleetMap, MapOrigin
from scheduler.simulation.devices_output import FleetAnswer
from scheduler.status.waiting_pods import WaitingPod

_LEAST_SECONDS: Final = 2.0
_MOST_SHARE: Final = 0.1
"""The most of the time that reading may take, as with `--watch`."""
_MOST_PICTURES: Final = 8
"""Pictures that are kept of a reading: callers with the same rights share one."""


@dataclass(frozen=True, slots=True)
class FleetReading:
    """A fleet, the pods that wait (None: they may not be listed), and when and from what it was read."""

    found: FleetAnswer
    queue: tuple[WaitingPod, ...] | None
    origin: MapOrigin


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
        self._pictures: Final[OrderedDict[object, Picture]] = OrderedDict()
        self.failure: ReadingFailure | None = None

    async def last(self) -> FleetReading | None:
        """Return the last reading, and begin another where it is due; None where none has succeeded yet."""
        if self._running is None and self._clock() >= self._due:
            self._running = asyncio.create_task(self._read_again())
        if self._last is None and self._running is not None:
            await asyncio.shield(self._running)
        return self._last

    @property
    def age_seconds(self) -> float:
        """How long ago the last reading began."""
        return self._clock() - self._read_at

    async def picture(self, reading: FleetReading, key: object = None) -> Picture:
        """Return the map of a reading; `key` stands for the part of it that a caller sees."""
        known = self._pictures.get(key) if reading is self._last else None
        if known is None:
            known = await in_thread(_picture, reading)
            if reading is self._last:
                self._pictures[key] = known
                if len(self._pictures) > _MOST_PICTURES:
                    self._pictures.popitem(last=False)
        return known

    async def _read_again(self) -> None:
        began = self._clock()
        try:
            reading = await in_thread(self._read)
        except Exception as error:  # noqa: BLE001 - the page says whatever it is, and the last picture stays
            since = self.failure.since if self.failure else _now()
            self.failure = ReadingFailure(since, str(error) or type(error).__name__)
        else:
            self._last, self._read_at, self.failure = reading, began, None
            self._pictures.clear()
        finally:
            self._due = self._clock() + max(_LEAST_SECONDS, (self._clock() - began) / _MOST_SHARE)
            self._running = None


def _picture(reading: FleetReading) -> Picture:
    found = fleet_map.map_of(reading.found, reading.queue, reading.origin)
    return Picture(map_page.encoded(found), _tag(found))


def _tag(found: FleetMap) -> str:
    """Return a hash of everything but the time."""
    return sha256(msgspec.json.encode(msgspec.structs.replace(found, read_at=""))).hexdigest()[:32]


def _now() -> str:
    return dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

"""The live fleet: how often it is read, what stays when it cannot be read, and which pictures are the same."""

import asyncio
import threading

import pytest

from scheduler.page import fleet_map, live_fleet, map_page
from scheduler.page.fleet_map import MapOrigin
from scheduler.page.live_fleet import LiveFleet
from scheduler.page.visible_part import FleetReading, VisiblePart
from scheduler.simulation.devices_output import FleetAnswer
from solver import fleet_of
from solver.domain import Snapshot
from tests.support import builders as b
from tests.support.shell_clock import VirtualClock


class Source:
    """What is read: a cluster that changes, takes time, or cannot be read."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.world: Snapshot = b.snapshot(b.node("n1"), b.gpu_slice("n1", count=2), b.gpu_class())
        self.readings = 0
        self.seconds = 0.0
        self.problem = ""
        self.gate: threading.Event | None = None
        self.live = LiveFleet(self.read, self.clock)

    def read(self) -> FleetReading:
        self.readings += 1
        if self.gate is not None:
            self.gate.wait(10)
        self.clock.advance(self.seconds)
        if self.problem:
            raise RuntimeError(self.problem)
        origin = MapOrigin(read_at=f"2026-01-01T00:00:{self.readings:02}Z", source="a test", version="0")
        return FleetReading(FleetAnswer(fleet=fleet_of(self.world)), (), origin)

    async def settled(self) -> FleetReading | None:
        """Ask, and return what is known when the reading that this began has ended."""
        await self.live.last()
        await asyncio.gather(*(asyncio.all_tasks() - {asyncio.current_task()}))
        return await self.live.last()

    async def tag(self) -> str:
        reading = await self.settled()
        assert reading is not None
        return (await self.live.picture(reading, VisiblePart())).version.tag


async def test_it_is_read_when_asked_for_and_not_more_often_than_every_two_seconds() -> None:
    source = Source()
    assert source.readings == 0
    for _ in range(5):
        await source.settled()
    assert source.readings == 1
    source.clock.advance(2.0)
    await source.settled()
    assert source.readings == 2


async def test_reading_takes_a_tenth_of_the_time_at_most_after_the_first() -> None:
    source = Source()
    source.seconds = 3.0
    for seconds, readings in ((0.0, 1), (2.0, 2), (29.0, 2), (1.0, 3)):
        source.clock.advance(seconds)
        await source.settled()
        assert source.readings == readings


async def test_callers_share_one_reading_and_only_the_first_is_waited_for() -> None:
    source = Source()
    assert all(await asyncio.gather(*(source.live.last() for _ in range(4))))
    assert source.readings == 1
    source.clock.advance(60.0)
    source.gate = threading.Event()
    before = await source.live.last()
    assert before is not None
    assert before.origin.read_at.endswith("01Z")
    source.gate.set()
    after = await source.settled()
    assert after is not None
    assert after.origin.read_at.endswith("02Z")


async def test_a_caller_does_not_wait_for_a_long_first_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_fleet, "_PATIENCE_SECONDS", 0.05)
    source = Source()
    source.gate = threading.Event()
    assert await source.live.last() is None
    assert source.live.failure is None
    source.gate.set()
    assert await source.settled() is not None
    assert source.readings == 1


async def test_the_age_is_that_of_the_last_reading_when_it_began() -> None:
    source = Source()
    source.seconds = 1.0
    await source.settled()
    source.clock.advance(4.0)
    assert source.live.seconds_since(source.live.read_at) == 5.0


async def test_what_cannot_be_read_is_said_since_it_began_and_the_last_picture_stays() -> None:
    source = Source()
    tag = await source.tag()
    source.problem = "the API server does not answer"
    failures = []
    for _ in range(2):
        source.clock.advance(60.0)
        assert await source.tag() == tag
        failures.append(source.live.failure)
    assert failures[0] is not None
    assert failures[0].message == "the API server does not answer"
    assert failures[1] == failures[0]
    assert source.live.seconds_since(source.live.read_at) == 120.0
    source.problem = ""
    source.clock.advance(60.0)
    await source.settled()
    assert source.live.failure is None


async def test_nothing_is_known_where_nothing_was_ever_read() -> None:
    source = Source()
    source.problem = "no such file"
    assert await source.live.last() is None
    assert source.live.failure is not None
    assert await source.live.last() is None
    assert source.readings == 1


async def test_the_same_cluster_is_the_same_picture_and_another_one_is_not() -> None:
    source = Source()
    first = await source.tag()
    source.clock.advance(60.0)
    assert await source.tag() == first
    assert source.readings == 2
    source.world = b.snapshot(b.node("n1"), b.gpu_slice("n1", count=3), b.gpu_class())
    source.clock.advance(60.0)
    assert await source.tag() != first


async def test_the_picture_is_the_document_of_the_map() -> None:
    source = Source()
    reading = await source.settled()
    assert reading is not None
    made = map_page.encoded(fleet_map.map_of(reading.found, reading.queue, reading.origin))
    assert (await source.live.picture(reading, VisiblePart())).document == made

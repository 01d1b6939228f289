"""Events to callers that lag or take nothing: nothing is queued for them."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import msgspec
import pytest
from aiohttp import web

from scheduler.api import event_stream, http_server
from scheduler.api.caller_api import AnswerRule, CallerApi
from scheduler.api.caller_rights import CallerRights, Listed
from scheduler.api.event_stream import StreamEvent
from scheduler.api.http_server import Certificate
from scheduler.api.queries import Parameters, Query
from scheduler.observe.metrics import Metrics
from scheduler.page.page_server import OwnUser
from scheduler.settings import Address

SIZE = 1_000_000


class Counting:
    """Has a new large event each time it is looked at."""

    def __init__(self) -> None:
        self.looks = 0

    async def look(self, rights: CallerRights) -> Sequence[StreamEvent]:
        del rights
        self.looks += 1
        return [StreamEvent("whole", b"x" * SIZE, str(self.looks))]

    async def news(self) -> None:
        await asyncio.sleep(0)

    async def has_settled(self) -> int:
        """Wait until it is not looked at any more: in many turns, for one may take any time."""
        before, quiet = -1, 0
        while quiet < 30:
            await asyncio.sleep(0.01)
            quiet = quiet + 1 if before == self.looks else 0
            before = self.looks
        return self.looks


async def _unwatched(_: Counting, __: Query, ___: CallerRights) -> msgspec.Raw:
    raise NotImplementedError


@asynccontextmanager
async def watched() -> AsyncIterator[tuple[Counting, asyncio.StreamReader]]:
    """A caller that reads when the test reads."""
    counting = Counting()
    rule = AnswerRule(_unwatched, Parameters(("watch",)), Listed.PODS, watch=lambda about, _, __: about)
    api = CallerApi[Counting]({"all": rule}, OwnUser(), Metrics())
    api.lead(counting)
    routes = [web.get("/v1alpha1/{name}", api.handle)]
    async with http_server.serving(routes, Address("127.0.0.1", 0), Certificate()) as bound:
        reader, writer = await asyncio.open_connection("127.0.0.1", bound.port, limit=2 * SIZE)
        writer.write(b"GET /v1alpha1/all?watch=true HTTP/1.1\r\nHost: localhost\r\n\r\n")
        try:
            async with asyncio.timeout(60):
                yield counting, reader
        finally:
            writer.close()


async def test_nothing_is_made_for_a_caller_that_has_not_taken_the_last_events() -> None:
    async with watched() as (counting, reader):
        first = await counting.has_settled()
        assert first < 40  # what the buffers of the kernel take
        await asyncio.sleep(0.5)
        assert counting.looks == first
        tags: list[int] = []
        while not tags or tags[-1] <= first:
            line = await reader.readline()
            if line.startswith(b"id: "):
                tags.append(int(line[4:]))
        assert tags == list(range(1, first + 2))


async def test_a_caller_that_takes_nothing_for_long_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_stream, "_PIECE_SECONDS", 0.2)
    async with watched() as (counting, reader):
        await counting.has_settled()
        await asyncio.sleep(0.5)
        looks = counting.looks
        while await reader.read(SIZE):  # what the kernel has, then the end
            pass
        assert counting.looks == looks


def test_an_event_is_written_as_the_standard_has_it() -> None:
    assert StreamEvent("whole", b"text", "7").encoded == b"event: whole\nid: 7\ndata: text\n\n"
    assert StreamEvent("state", b"{}").encoded == b"event: state\ndata: {}\n\n"


def test_callers_of_the_same_event_share_its_bytes() -> None:
    event = StreamEvent("whole", b"text", "7")
    assert event.encoded is event.encoded

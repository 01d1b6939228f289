"""What the page is sent while it is open: the picture, changes, how old it is, and an end where a right ends."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import msgspec
import pytest

from scheduler.api import caller_api, event_stream
from scheduler.api.queries import CALLER_HEADER
from scheduler.page import page_server, page_watches
from scheduler.page.page_watches import PageSubjects
from scheduler.page.visible_part import VisiblePart
from scheduler.settings import Address
from tests.scheduler.page.test_decision_answers import HISTORY, Scheduler
from tests.scheduler.page.test_live_fleet import Source
from tests.scheduler.page.test_page_server import served
from tests.scheduler.page.test_visible_part import Door, entered
from tests.support import builders as b
from tests.support.event_reader import EventReader, changed


@pytest.fixture
async def door() -> AsyncIterator[Door]:
    async with entered() as made:
        yield made


@pytest.fixture(autouse=True)
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let looks come at once. How long one may take is left as it is: a right that is lost meanwhile ends the watch."""
    monkeypatch.setattr(page_watches, "HEARTBEAT_SECONDS", 0.05)


@asynccontextmanager
async def watching(
    source: Source, path: str = "map", scheduler: Scheduler | None = None, **headers: str
) -> AsyncIterator[EventReader]:
    async with (
        served(source, scheduler) as (session, url),
        session.get(f"{url}/v1alpha1/{path}?watch=true", headers=headers) as response,
    ):
        assert response.status == 200
        yield EventReader(response)


async def tag_of(source: Source) -> str:
    """The tag of the picture now, without waiting for tasks: a watch is one that does not end."""
    reading = await source.live.last()
    assert reading is not None
    return (await source.live.picture(reading, VisiblePart())).version.tag


async def read_again(source: Source) -> None:
    """Have the fleet be read again."""
    readings = source.readings
    source.clock.advance(60.0)
    await source.live.last()
    await source.live.news(10.0)
    assert source.readings == readings + 1


async def test_the_picture_comes_first_then_its_age_again_and_again() -> None:
    source = Source()
    async with watching(source) as reader:
        whole = await reader.next()
        assert (whole.name, whole.data["kind"], whole.data["total"]["total"]) == ("whole", "FleetMap", 2)
        assert whole.tag == await tag_of(source)
        first = await reader.next()
        assert (first.name, first.tag) == ("state", "")
        assert first.data == {
            "apiVersion": "api.dovetail.dev/v1alpha1",
            "kind": "PageState",
            "ageSeconds": 0.0,
            "failure": None,
            "hasDecisions": False,
            "hasFit": False,
            "namespace": "",
        }
        source.clock.advance(1.5)
        while (await reader.next()).data["ageSeconds"] != 1.5:
            pass
        assert source.readings == 1


async def test_the_stream_is_made_for_proxies_and_is_not_kept() -> None:
    async with watching(Source()) as reader:
        headers = reader.response.headers
        assert headers["Content-Type"] == "text/event-stream"
        assert (headers["Cache-Control"], headers["X-Accel-Buffering"]) == ("no-store", "no")
        assert "Content-Encoding" not in headers
        assert "Content-Length" not in headers


async def test_what_changes_follows_and_is_small() -> None:
    source = Source()
    source.world = b.snapshot(*(each for at in range(50) for each in _node(at)), b.gpu_class())
    async with watching(source) as reader:
        whole = await reader.until("whole")
        source.world = b.snapshot(*(each for at in range(49) for each in _node(at)), b.gpu_class())
        source.clock.advance(60.0)
        change = await reader.until("whole", "change")
        assert change.name == "change"
        assert change.data["tables"] == {"nodes": [49, -1], "devices": [98, -2]} | {
            name: each for name, each in change.data["tables"].items() if name not in {"nodes", "devices"}
        }
        assert change.data["fields"]["readAt"] > whole.data["readAt"]
        assert change.data["fields"]["total"]["total"] == 98
        assert len(json.dumps(change.data)) < len(json.dumps(whole.data)) / 5
        assert change.tag == await tag_of(source)


def _node(at: int) -> tuple[Any, ...]:
    return b.node(f"n{at:02}"), b.gpu_slice(f"n{at:02}", count=2)


async def test_a_picture_that_stays_is_not_sent_again() -> None:
    source = Source()
    async with watching(source) as reader:
        await reader.until("whole")
        for _ in range(3):
            source.clock.advance(60.0)
            while (await reader.until("state", "whole", "change")).name != "state":
                pytest.fail("the same picture was sent again")
    assert source.readings > 1


async def test_a_caller_that_comes_again_is_sent_what_it_missed() -> None:
    source = Source()
    async with served(source) as (session, url):
        address = f"{url}/v1alpha1/map?watch=true"
        async with session.get(address) as response:
            tag = (await EventReader(response).until("whole")).tag
        async with session.get(address, headers={"Last-Event-ID": tag}) as response:
            assert (await EventReader(response).next()).name == "state"
        source.world = b.snapshot(b.node("n1"), b.gpu_slice("n1", count=3), b.gpu_class())
        await read_again(source)
        async with session.get(address, headers={"Last-Event-ID": tag}) as response:
            assert (await EventReader(response).next()).name in {"change", "whole"}
        async with session.get(address, headers={"Last-Event-ID": "another"}) as response:
            assert (await EventReader(response).next()).name == "whole"


async def test_a_fleet_that_cannot_be_read_is_said_and_the_picture_stays() -> None:
    source = Source()
    source.problem = "pods may not be read"
    async with watching(source) as reader:
        state = (await reader.next()).data
        assert (state["ageSeconds"], state["failure"]["message"]) == (None, "pods may not be read")
        source.problem = ""
        source.clock.advance(60.0)
        await reader.until("whole")
        source.problem = "the API server does not answer"
        source.clock.advance(60.0)
        while (state := (await reader.until("state")).data)["failure"] is None:
            pass
        assert state["failure"]["message"] == "the API server does not answer"
        assert state["ageSeconds"] == 60.0


async def test_a_page_that_no_one_watches_is_not_read() -> None:
    source = Source()
    async with served(source) as (session, url):
        before = asyncio.all_tasks()
        async with session.get(f"{url}/v1alpha1/map?watch=true") as response:
            await EventReader(response).until("state")
        async with asyncio.timeout(60):
            while asyncio.all_tasks() - before:  # noqa: ASYNC110 - the server notices in its own time that no one reads
                await asyncio.sleep(0.01)
        readings = source.readings
        source.clock.advance(600.0)
        await asyncio.sleep(0.2)
        assert source.readings == readings == 1


async def test_the_same_documents_are_there_for_callers_that_do_not_watch() -> None:
    async with served(Source(), Scheduler()) as (session, url):
        for name, kind in (("map", "FleetMap"), ("decisions", "Decisions")):
            async with session.get(f"{url}/v1alpha1/{name}?watch=false") as response:
                assert (await response.json())["kind"] == kind


@pytest.mark.parametrize("query", ["watch=1", "watch=yes", "watch=", "follow=true"])
async def test_a_wrong_parameter_of_a_watch_is_named(query: str) -> None:
    async with served(Source()) as (session, url), session.get(f"{url}/v1alpha1/map?{query}") as response:
        assert response.status == 400
        assert (await response.json())["message"].startswith(query.partition("=")[0])


async def test_a_head_is_no_watch() -> None:
    async with served(Source()) as (session, url), session.head(f"{url}/v1alpha1/map?watch=true") as response:
        assert response.status == 405


async def test_decisions_are_followed() -> None:
    scheduler = Scheduler()
    async with watching(Source(), "decisions", scheduler) as reader:
        whole = await reader.next()
        assert [each["what"] for each in whole.data["events"]] == ["Bound", "Nominated", "Waits"]
        assert (await reader.next()).name == "state"
        scheduler.answer = msgspec.json.encode(msgspec.structs.replace(HISTORY, items=HISTORY.items[1:]))
        change = await reader.until("whole", "change")
        assert change.name == "change"
        after = changed(whole.data, change.data)
        assert [each["decision"] for each in after["decisions"]] == [3, 2, 1]
        assert "Bound" not in {each["what"] for each in after["events"]}


async def test_a_page_without_a_scheduler_refuses_to_follow_decisions() -> None:
    async with served(Source()) as (session, url), session.get(f"{url}/v1alpha1/decisions?watch=true") as response:
        assert response.status == 404


async def test_a_scheduler_that_ends_ends_the_watch_with_the_reason() -> None:
    scheduler = Scheduler()
    async with watching(Source(), "decisions", scheduler) as reader:
        await reader.until("state")
        scheduler.problem = "the scheduler does not answer"
        refusal = (await reader.until("refused")).data
        assert (refusal["code"], refusal["message"]) == (503, "the scheduler does not answer")
        assert await reader.response.content.read() == b""


@asynccontextmanager
async def watched(at: Door, token: str) -> AsyncIterator[EventReader]:
    headers = {CALLER_HEADER: f"Bearer {token}"}
    async with at.session.get(f"{at.url}/v1alpha1/map?watch=true", headers=headers) as response:
        yield EventReader(response)


@pytest.mark.parametrize(("token", "status"), [("", 401), ("wrong", 401), ("token-stranger", 403), ("token-team", 403)])
async def test_a_watch_without_a_token_or_a_right_is_refused_with_the_status(
    door: Door, token: str, status: int
) -> None:
    async with watched(door, token) as reader:
        assert reader.response.status == status
        assert (await reader.response.json())["kind"] == "Status"


async def test_a_right_that_is_taken_away_ends_the_watch(door: Door) -> None:
    async with watched(door, "token-ops") as reader:
        await reader.until("state")
        door.reviewing.rights.remove(("ops", "resourceslices", ""))
        door.clock.advance(10.0)
        refusal = (await reader.until("refused")).data
        assert (refusal["code"], refusal["reason"]) == (403, "Forbidden")
        assert "cannot list resourceslices" in refusal["message"]
        assert await reader.response.content.read() == b""


async def test_a_namespace_that_may_not_be_listed_any_more_leaves_the_picture(door: Door) -> None:
    door.reviewing.rights |= {("viewer", each, "blue") for each in ("pods", "resourceclaims")}
    async with watched(door, "token-viewer") as reader:
        whole = (await reader.until("whole")).data
        assert {pod["namespace"] for pod in whole["queue"]} == {"red", "blue"}
        door.reviewing.rights -= {("viewer", each, "blue") for each in ("pods", "resourceclaims")}
        door.clock.advance(10.0)
        change = await reader.until("whole", "change")
        assert "late-blue" not in json.dumps(change.data)
        assert "blue" not in json.dumps(change.data)
        if change.name == "change":
            assert change.data["fields"]["hidden"] == {"pods": 1, "devices": 1, "namespaces": 1}
        else:
            assert change.data["hidden"] == {"pods": 1, "devices": 1, "namespaces": 1}


async def test_a_token_that_ends_ends_the_watch(door: Door) -> None:
    async with watched(door, "token-ops") as reader:
        await reader.until("state")
        del door.reviewing.users["token-ops"]
        door.clock.advance(10.0)
        assert (await reader.until("refused")).data["code"] == 401


async def test_where_rights_cannot_be_checked_any_more_nothing_follows(door: Door) -> None:
    async with watched(door, "token-ops") as reader:
        await reader.until("state")
        door.reviewing.is_down = True
        door.clock.advance(10.0)
        refusal = (await reader.until("refused")).data
        assert refusal["code"] == 503
        assert "cannot be checked" in refusal["message"]


async def test_rights_are_asked_no_more_often_than_their_answers_expire(door: Door) -> None:
    async with watched(door, "token-ops") as reader:
        await reader.until("state")
        asked = door.reviewing.asked.copy()
        for _ in range(5):
            await reader.until("state")
        assert door.reviewing.asked == asked


async def test_watches_of_one_caller_are_bounded_and_leave_room_for_others(door: Door) -> None:
    opened = []
    try:
        for _ in range(16):
            manager = watched(door, "token-ops")
            reader = await manager.__aenter__()
            opened.append(manager)
            assert reader.response.status == 200
            door.clock.advance(1.0)
        async with watched(door, "token-ops") as reader:
            assert (reader.response.status, reader.response.headers["Retry-After"]) == (429, "1")
            assert (await reader.response.json())["message"] == "too many watches of ops at once"
        assert (await door.get("map", "token-ops"))[0] == 200
        async with watched(door, "token-viewer") as reader:
            assert reader.response.status == 200
    finally:
        for each in opened:
            await each.__aexit__(None, None, None)
    for _ in range(200):
        door.clock.advance(1.0)
        async with watched(door, "token-ops") as reader:
            if reader.response.status == 200:
                return
        await asyncio.sleep(0.05)
    pytest.fail("watches that ended are still counted")


async def test_watches_are_bounded_in_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(caller_api, "_WATCHES", 1)
    async with served(Source()) as (session, url):
        address = f"{url}/v1alpha1/map?watch=true"
        async with session.get(address) as first:
            assert first.status == 200
            async with session.get(address) as response:
                assert response.status == 429
                assert (await response.json())["message"] == "too many watches at once"
            async with session.get(f"{url}/v1alpha1/map") as response:
                assert response.status == 200


async def test_a_limit_of_the_one_user_of_a_page_names_no_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(caller_api, "_WATCHES_OF_ONE_CALLER", 0)
    async with served(Source()) as (session, url), session.get(f"{url}/v1alpha1/map?watch=true") as response:
        assert (await response.json())["message"] == "too many watches at once"


async def test_a_server_that_stops_ends_its_watches() -> None:
    source = Source()
    async with aiohttp.ClientSession() as session, contextlib.AsyncExitStack() as ends:
        async with page_server.serving(PageSubjects(source.live), Address("127.0.0.1", 0)) as bound:
            response = await ends.enter_async_context(session.get(f"http://{bound}/v1alpha1/map?watch=true"))
            reader = EventReader(response)
            await reader.until("state")
        with pytest.raises((asyncio.IncompleteReadError, aiohttp.ClientError)):
            await reader.until("refused")
        readings = source.readings
        source.clock.advance(60.0)
        await asyncio.sleep(0.2)
        assert source.readings == readings


async def test_a_caller_hears_of_the_server_while_its_rights_are_looked_up(
    door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_stream, "HEARTBEAT_SECONDS", 0.05)
    gate = asyncio.Event()
    answer = door.reviewing.request

    async def slow(*words: Any, **more: Any) -> bytes:
        await gate.wait()
        return await answer(*words, **more)

    async with watched(door, "token-ops") as reader:
        await reader.until("state")
        monkeypatch.setattr(door.reviewing, "request", slow)
        door.clock.advance(10.0)
        await reader.until("heartbeat")
        gate.set()
        await reader.until("state")


async def test_a_defect_ends_the_watch_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    source = Source()
    subjects = PageSubjects(source.live)
    async with (
        page_server.serving(subjects, Address("127.0.0.1", 0)) as bound,
        aiohttp.ClientSession() as session,
        session.get(f"http://{bound}/v1alpha1/map?watch=true") as response,
    ):
        reader = EventReader(response)
        await reader.until("state")

        async def broken(*_: Any) -> Any:
            raise ZeroDivisionError

        monkeypatch.setattr(source.live, "picture", broken)
        refusal = (await reader.until("refused")).data
        assert (refusal["code"], refusal["message"]) == (500, "an unexpected error; the log has it")

"""The server of the page over HTTP: what it answers, to which hosts, and with which headers."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest

from scheduler.page import map_page, page_server
from scheduler.page.page_server import PageSubjects
from scheduler.settings import Address
from tests.scheduler.page.test_decision_answers import Scheduler
from tests.scheduler.page.test_live_fleet import Source

NO_DECISIONS = "this page has no decisions: it is not connected to the API of a running scheduler (docs/page.md)"


@asynccontextmanager
async def served(
    source: Source, scheduler: Scheduler | None = None
) -> AsyncIterator[tuple[aiohttp.ClientSession, str]]:
    subjects = PageSubjects(source.live, scheduler.ask if scheduler else None)
    async with page_server.serving(subjects, Address("127.0.0.1", 0)) as bound, aiohttp.ClientSession() as session:
        yield session, f"http://{bound}"


async def get(source: Source, path: str, **headers: str) -> tuple[int, Any, Any]:
    async with served(source) as (session, url), session.get(f"{url}{path}", headers=headers) as response:
        is_json = response.content_type == "application/json"
        return response.status, await (response.json() if is_json else response.text()), response.headers


async def test_the_state_names_the_picture_and_its_age() -> None:
    source = Source()
    status, state, _ = await get(source, "/v1alpha1/state")
    assert status == 200
    assert state == {
        "apiVersion": "api.dovetail.dev/v1alpha1",
        "kind": "PageState",
        "picture": await source.tag(),
        "ageSeconds": 0.0,
        "failure": None,
        "hasDecisions": False,
        "hasFit": False,
        "namespace": "",
    }


async def test_the_map_is_the_document_of_dovetail_map_and_is_compressed() -> None:
    source = Source()
    status, found, headers = await get(source, "/v1alpha1/map")
    assert status == 200
    assert (found["kind"], found["total"]["total"]) == ("FleetMap", 2)
    assert headers["Content-Encoding"] in {"gzip", "deflate"}


async def test_a_fleet_that_cannot_be_read_is_a_state_and_no_map() -> None:
    source = Source()
    source.problem = "pods may not be read"
    _, state, _ = await get(source, "/v1alpha1/state")
    assert (state["picture"], state["ageSeconds"], state["failure"]["message"]) == (None, None, "pods may not be read")
    status, refusal, _ = await get(source, "/v1alpha1/map")
    assert (status, refusal["kind"]) == (503, "Status")
    assert refusal["message"] == "the fleet cannot be read: pods may not be read"


async def test_the_page_loads_nothing_from_elsewhere_and_stands_in_no_frame() -> None:
    status, text, headers = await get(Source(), "/")
    assert status == 200
    policy = dict(part.strip().partition(" ")[::2] for part in headers["Content-Security-Policy"].split(";"))
    assert (policy["default-src"], policy["connect-src"], policy["frame-ancestors"]) == ("'none'", "'self'", "'none'")
    assert policy["script-src"].startswith("'sha256-")
    assert not re.search(r"""(src|href)=["'](?!data:)""", text)
    assert text == map_page.served()[0]
    assert headers["Cache-Control"] == "no-store"
    assert headers["Cross-Origin-Resource-Policy"] == "same-origin"


@pytest.mark.parametrize(
    ("host", "status"),
    [("127.0.0.1:1", 200), ("localhost:8765", 200), ("[::1]:8765", 200), ("evil.example", 403), ("[", 403), ("", 403)],
)
@pytest.mark.parametrize("path", ["/", "/v1alpha1/state", "/v1alpha1/map"])
async def test_only_requests_that_name_this_machine_are_answered(host: str, status: int, path: str) -> None:
    assert (await get(Source(), path, Host=host))[0] == status


@pytest.mark.parametrize("path", ["/v1alpha1/secrets", "/v1alpha1/state?namespace=a", "/other"])
async def test_other_paths_and_parameters_are_refused(path: str) -> None:
    assert (await get(Source(), path))[0] in {400, 404}


async def test_a_page_without_a_scheduler_has_no_decisions() -> None:
    status, refusal, _ = await get(Source(), "/v1alpha1/decisions")
    assert (status, refusal["message"]) == (404, NO_DECISIONS)


async def test_a_page_with_a_scheduler_has_its_decisions() -> None:
    source, scheduler = Source(), Scheduler()
    async with served(source, scheduler) as (session, url):
        async with session.get(f"{url}/v1alpha1/state") as response:
            assert (await response.json())["hasDecisions"] is True
        async with session.get(f"{url}/v1alpha1/decisions?namespace=team&pod=a") as response:
            assert [each["what"] for each in (await response.json())["events"]] == ["Bound", "Nominated", "Waits"]
    assert scheduler.asked[0][1]["pod"] == "a"


async def test_nothing_can_be_written() -> None:
    async with served(Source()) as (session, url):
        for method in ("POST", "PUT", "DELETE", "PATCH"):
            async with session.request(method, f"{url}/v1alpha1/map") as response:
                assert response.status == 405

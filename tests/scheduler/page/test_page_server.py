"""The server of the page over HTTP: what it answers, to which hosts, and with which headers."""

import io
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import msgspec
import pytest

from scheduler.page import fit_questions, map_page, page_server
from scheduler.page.fit_questions import FitQuestion, FitQuestions, FitSource
from scheduler.page.page_watches import PageSubjects
from scheduler.settings import Address
from tests.scheduler.page.test_decision_answers import Scheduler
from tests.scheduler.page.test_live_fleet import Source
from tests.support.event_reader import EventReader

NO_DECISIONS = "this page has no decisions: it is not connected to the API of a running scheduler (docs/page.md)"


@asynccontextmanager
async def served(
    source: Source, scheduler: Scheduler | None = None, fit: FitQuestions | None = None
) -> AsyncIterator[tuple[aiohttp.ClientSession, str]]:
    subjects = PageSubjects(source.live, scheduler.ask if scheduler else None, fit)
    async with page_server.serving(subjects, Address("127.0.0.1", 0)) as bound, aiohttp.ClientSession() as session:
        yield session, f"http://{bound}"


async def get(source: Source, path: str, **headers: str) -> tuple[int, Any, Any]:
    async with served(source) as (session, url), session.get(f"{url}{path}", headers=headers) as response:
        if response.content_type == "text/event-stream":  # it does not end
            return response.status, None, response.headers
        is_json = response.content_type == "application/json"
        return response.status, await (response.json() if is_json else response.text()), response.headers


async def test_the_map_is_the_document_of_dovetail_map_and_is_compressed() -> None:
    source = Source()
    status, found, headers = await get(source, "/v1alpha1/map")
    assert status == 200
    assert (found["kind"], found["total"]["total"]) == ("FleetMap", 2)
    assert headers["Content-Encoding"] in {"gzip", "deflate"}


async def test_a_fleet_that_cannot_be_read_is_no_map() -> None:
    source = Source()
    source.problem = "pods may not be read"
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
@pytest.mark.parametrize("path", ["/", "/v1alpha1/map", "/v1alpha1/map?watch=true"])
async def test_only_requests_that_name_this_machine_are_answered(host: str, status: int, path: str) -> None:
    assert (await get(Source(), path, Host=host))[0] == status


@pytest.mark.parametrize("path", ["/v1alpha1/secrets", "/v1alpha1/map?namespace=a", "/other"])
async def test_other_paths_and_parameters_are_refused(path: str) -> None:
    assert (await get(Source(), path))[0] in {400, 404}


async def test_a_page_without_a_scheduler_has_no_decisions() -> None:
    status, refusal, _ = await get(Source(), "/v1alpha1/decisions")
    assert (status, refusal["message"]) == (404, NO_DECISIONS)


async def test_a_page_with_a_scheduler_has_its_decisions() -> None:
    source, scheduler = Source(), Scheduler()
    async with served(source, scheduler) as (session, url):
        async with session.get(f"{url}/v1alpha1/map?watch=true") as response:
            assert (await EventReader(response).until("state")).data["hasDecisions"] is True
        async with session.get(f"{url}/v1alpha1/decisions?namespace=team&pod=a") as response:
            assert [each["what"] for each in (await response.json())["events"]] == ["Bound", "Nominated", "Waits"]
    assert scheduler.asked[0][1]["pod"] == "a"


async def test_nothing_can_be_written() -> None:
    async with served(Source()) as (session, url):
        for method in ("POST", "PUT", "DELETE", "PATCH"):
            async with session.request(method, f"{url}/v1alpha1/map") as response:
                assert response.status == 405


class Answering(FitQuestions):
    """Answers each question with what was asked."""

    def __init__(self) -> None:
        super().__init__(FitSource(namespace="own"))
        self.asked: list[tuple[str, FitQuestion]] = []

    async def ask(self, caller: str, question: FitQuestion) -> msgspec.Raw:
        self.asked.append((caller, question))
        return msgspec.Raw(b'{"kind": "Fit", "fits": true}')


YAML = {"Content-Type": "application/yaml"}


async def posted(
    content: bytes, query: str = "", fit: FitQuestions | None = None, kind: str = "application/yaml"
) -> tuple[int, Any]:
    headers = {"Content-Type": kind}
    async with (
        served(Source(), fit=fit or Answering()) as (session, url),
        session.post(f"{url}/v1alpha1/fit{query}", data=io.BytesIO(content), headers=headers) as response,
    ):
        return response.status, await response.json()


async def test_a_manifest_that_is_posted_is_a_question() -> None:
    fit = Answering()
    status, found = await posted(b"kind: Pod", "?namespace=team&count=max", fit)
    assert (status, found) == (200, {"kind": "Fit", "fits": True})
    ((caller, question),) = fit.asked
    assert (caller, question.content, question.namespace, question.wanted) == ("", b"kind: Pod", "team", 0)
    assert (question.namespaces.everything, question.sees_nodes) == (True, True)
    assert not question.adds_nodes
    await posted(b"", "?addNodes=true", fit)
    assert fit.asked.pop()[1].adds_nodes
    assert (await posted(b"", "?addNodes=true&count=1", fit))[0] == 400
    await posted(b"kind: Pod", "", fit, "application/json; charset=utf-8")
    assert (fit.asked[1][1].namespace, fit.asked[1][1].wanted) == ("own", None)


@pytest.mark.parametrize("query", ["?count=0", "?count=x", "?count=1000000", "?pod=a", "?namespace=A_B"])
async def test_a_wrong_parameter_of_a_question_is_named(query: str) -> None:
    status, refusal = await posted(b"kind: Pod", query)
    assert status == 400
    assert refusal["message"].startswith(query[1:].partition("=")[0])


async def test_the_largest_manifest() -> None:
    assert (await posted(b" " * fit_questions.MOST_BYTES))[0] == 200
    status, refusal = await posted(b" " * (fit_questions.MOST_BYTES + 1))
    assert (status, refusal["reason"]) == (413, "RequestEntityTooLarge")
    assert "larger than 1024 KiB" in refusal["message"]


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"])
async def test_what_a_foreign_form_can_send_is_no_manifest(kind: str) -> None:
    status, refusal = await posted(b"kind: Pod", kind=kind)
    assert (status, refusal["reason"]) == (415, "UnsupportedMediaType")


@pytest.mark.parametrize(
    ("origin", "status"),
    [("http://{host}", 200), ("http://evil.example", 403), ("http://127.0.0.1:1", 403), ("null", 403), ("", 403)],
)
async def test_a_question_of_another_site_is_refused(origin: str, status: int) -> None:
    async with served(Source(), fit=Answering()) as (session, url):
        headers = {**YAML, "Origin": origin.format(host=url.removeprefix("http://"))}
        async with session.post(f"{url}/v1alpha1/fit", data=b"kind: Pod", headers=headers) as response:
            assert response.status == status
            assert "Access-Control-Allow-Origin" not in response.headers


async def test_a_question_is_only_posted() -> None:
    async with served(Source(), fit=Answering()) as (session, url):
        for method in ("GET", "HEAD", "PUT", "OPTIONS"):
            async with session.request(method, f"{url}/v1alpha1/fit") as response:
                assert response.status == 405


async def test_a_page_about_a_saved_decision_answers_no_such_question() -> None:
    async with served(Source()) as (session, url), session.post(f"{url}/v1alpha1/fit", data=b"", headers=YAML) as found:
        assert found.status == 404
        assert "ask with `dovetail fit`" in (await found.json())["message"]

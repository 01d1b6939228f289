"""Callers with a token: without a right they get no slot and no watch, and accounts of a namespace share limits."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import cast

import aiohttp
import msgspec
import pytest
from aiohttp import web

from scheduler.api import caller_api, event_stream, http_server
from scheduler.api.access_reviews import AuthenticatedUser
from scheduler.api.caller_api import AnswerRule, CallerApi, TokenCallers
from scheduler.api.caller_rights import CallerRights, Listed
from scheduler.api.event_stream import StreamEvent
from scheduler.api.http_server import Certificate
from scheduler.api.queries import Parameters, Query
from scheduler.kube.client import Client
from scheduler.observe.metrics import Metrics
from scheduler.settings import Address, ApiSettings
from tests.scheduler.api.test_api_server import Reviewing
from tests.support.event_reader import EventReader
from tests.support.shell_clock import VirtualClock

TEAM = [f"system:serviceaccount:team:a{number}" for number in range(4)]
NAMESPACES = ("team", "others")


class Subject:
    """What is asked about; a watch sees nothing new, and takes until `may_go_on`."""

    def __init__(self) -> None:
        self.may_go_on = asyncio.Event()
        self.may_go_on.set()
        self.looks = self.answers = 0
        self.is_looking = asyncio.Event()


class Watch:
    """Shows which of two namespaces the caller sees."""

    def __init__(self, about: Subject, _: Query, __: str) -> None:
        self._about = about

    async def look(self, rights: CallerRights) -> list[StreamEvent]:
        seen = await rights.namespaces(Listed.PODS, NAMESPACES)
        self._about.looks += 1
        self._about.is_looking.set()
        await self._about.may_go_on.wait()
        return [StreamEvent("state", b'"%s"' % " ".join(sorted(seen.names)).encode())]

    async def news(self) -> None:
        await asyncio.sleep(0.01)


async def _answer(about: Subject, _: Query, __: CallerRights) -> msgspec.Raw:
    about.answers += 1
    return msgspec.Raw(b"{}")


async def _among(_: Subject) -> tuple[str, ...]:
    return NAMESPACES


class Served:
    """A served question that can be watched, and its callers."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self.session, self.clock, self.reviewing, self.subject = session, VirtualClock(), Reviewing(), Subject()
        self.reviewing.users |= {f"token-{name}": name for name in TEAM}
        rule = AnswerRule(_answer, Parameters(("namespace", "watch")), Listed.PODS, among=_among, watch=Watch)
        callers = TokenCallers(ApiSettings(requests_per_second=10.0), cast("Client", self.reviewing), self.clock)
        self.api = CallerApi[Subject]({"asked": rule}, callers, Metrics())
        self.api.lead(self.subject)
        self.url = ""

    def get(self, user: str, *, watch: bool = False) -> "aiohttp.client._RequestContextManager":
        query = "?watch=true" if watch else ""
        return self.session.get(f"{self.url}/v1alpha1/asked{query}", headers={"Authorization": f"Bearer token-{user}"})

    async def status(self, user: str) -> int:
        async with self.get(user) as response:
            return response.status


@asynccontextmanager
async def served() -> AsyncIterator[Served]:
    async with asyncio.timeout(30), aiohttp.ClientSession() as session:
        at = Served(session)
        routes = (web.get("/v1alpha1/{name}", at.api.handle),)
        async with http_server.serving(routes, Address("127.0.0.1", 0), Certificate()) as address:
            at.url = f"http://{address}"
            yield at


@pytest.mark.parametrize(
    ("user", "namespace", "budget"),
    [
        ("system:serviceaccount:team:a", "team", "system:serviceaccount:team"),
        ("system:serviceaccount:team", "", "system:serviceaccount:team"),
        ("system:serviceaccount:team:a:b", "", "system:serviceaccount:team:a:b"),
        ("system:node:n1", "", "system:node:n1"),
        ("ops", "", "ops"),
    ],
)
def test_accounts_of_a_namespace_have_one_budget(user: str, namespace: str, budget: str) -> None:
    found = AuthenticatedUser(user)
    assert (found.namespace, found.budget) == (namespace, budget)


async def test_accounts_of_a_namespace_share_their_rate() -> None:
    async with served() as at:
        at.reviewing.rights |= {(each, "pods", "team") for each in TEAM}
        found = Counter([await at.status(TEAM[number % 4]) for number in range(60)])
        other = await at.status("team")

    assert (found, other) == ({200: 40, 429: 20}, 200)


async def test_accounts_of_a_namespace_share_their_watches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(caller_api, "_WATCHES_OF_ONE_CALLER", 3)
    async with served() as at, AsyncExitStack() as ends:
        at.reviewing.rights |= {(each, "pods", "team") for each in TEAM}
        statuses = [(await ends.enter_async_context(at.get(each, watch=True))).status for each in TEAM]
        other = (await ends.enter_async_context(at.get("team", watch=True))).status

    assert (statuses, other) == ([200, 200, 200, 429], 200)


@pytest.mark.parametrize("watch", [True, False])
async def test_without_a_right_there_is_neither_look_nor_answer(*, watch: bool) -> None:
    async with served() as at:
        for user in (*TEAM, "stranger"):
            async with at.get(user, watch=watch) as response:
                assert response.status == 403

        assert (at.subject.looks, at.subject.answers) == (0, 0)


async def test_callers_whose_rights_are_checked_hold_no_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(caller_api, "_AT_ONCE", 1)
    monkeypatch.setattr(caller_api, "_WAITING", 0)
    monkeypatch.setattr(caller_api, "_WATCHES", 1)
    async with served() as at:
        assert await at.status("team") == 200  # its rights are known now
        waiting, may_go_on, answer = asyncio.Event(), asyncio.Event(), at.reviewing.request

        async def slow(method: str, path: str, *, body: bytes, **options: object) -> bytes:
            if path.endswith("subjectaccessreviews"):
                waiting.set()
                await may_go_on.wait()
            return await answer(method, path, body=body, **options)

        at.reviewing.request = slow  # type: ignore[assignment,method-assign]
        checked = [asyncio.create_task(at.status(each)) for each in TEAM]
        await waiting.wait()
        async with at.get("team", watch=True) as watched:
            statuses = await at.status("team"), watched.status
        may_go_on.set()

        assert (statuses, {await each for each in checked}) == ((200, 200), {403})


@pytest.fixture
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let rights be asked at once while an answer takes long."""
    monkeypatch.setattr(event_stream, "HEARTBEAT_SECONDS", 0.01)


LOST = {
    "the token": lambda at: at.reviewing.users.pop("token-team"),
    "a right": lambda at: at.reviewing.rights.discard(("team", "pods", "team")),
}


@pytest.mark.usefixtures("fast")
@pytest.mark.parametrize("lost", LOST)
async def test_a_right_that_ends_during_a_long_answer_ends_the_watch(lost: str) -> None:
    async with served() as at, at.get("team", watch=True) as response:
        reader = EventReader(response)
        assert (await reader.until("state")).data == "team"
        at.subject.may_go_on.clear()
        at.subject.is_looking.clear()
        await at.subject.is_looking.wait()
        LOST[lost](at)
        at.clock.advance(11)
        refusal = (await reader.until("refused")).data

        assert refusal["code"] == (401 if lost == "the token" else 403)
        assert not at.subject.may_go_on.is_set()  # it is not waited for


@pytest.mark.usefixtures("fast")
async def test_a_right_in_one_of_two_namespaces_ends_what_it_has_shown() -> None:
    async with served() as at:
        at.reviewing.rights.add(("team", "pods", "others"))
        async with at.get("team", watch=True) as response:
            reader = EventReader(response)
            assert (await reader.until("state")).data == "others team"
            at.subject.may_go_on.clear()
            at.subject.is_looking.clear()
            await at.subject.is_looking.wait()
            at.reviewing.rights.discard(("team", "pods", "others"))
            at.clock.advance(11)

            assert (await reader.until("refused")).data["code"] == 403


@pytest.mark.usefixtures("fast")
async def test_an_answer_that_takes_long_is_sent_while_the_rights_hold() -> None:
    async with served() as at, at.get("team", watch=True) as response:
        reader = EventReader(response)
        await reader.until("state")
        at.subject.may_go_on.clear()
        await reader.until("heartbeat")
        at.clock.advance(11)
        await reader.until("heartbeat")
        at.subject.may_go_on.set()

        assert (await reader.until("state")).data == "team"

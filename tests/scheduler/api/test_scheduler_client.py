"""How a command reaches a running scheduler through the API server, and what it says where it does not."""

import contextlib
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest
from aiohttp import web

from scheduler.api import http_server, scheduler_client
from scheduler.api.http_server import Certificate
from scheduler.api.queries import NOT_LEADING
from scheduler.api.refusals import Refusal
from scheduler.api.scheduler_client import SchedulerAddress
from scheduler.kube.access import ClusterAccess
from scheduler.kube.errors import ApiError, ConfigurationError, NotFound
from scheduler.settings import Address

_ABSENT = 'no endpoints available for service "dovetail-api"'


class _Refusing:
    """An API server that refuses every request."""

    def __init__(self, error: ApiError) -> None:
        self._error = error

    @contextlib.asynccontextmanager
    async def connect(self) -> AsyncIterator[Any]:
        yield self

    async def bearer_token(self) -> str:
        return "token"

    async def request(self, *_: Any, **__: Any) -> bytes:
        raise self._error


async def _ask(error: ApiError) -> None:
    access = cast("ClusterAccess", _Refusing(error))
    await scheduler_client.ask(access, SchedulerAddress(service="ns/api"), "history", {})


@pytest.mark.parametrize(
    "error", [NotFound(404, "NotFound", 'services "api" not found'), ApiError(503, "ServiceUnavailable", _ABSENT)]
)
async def test_where_no_scheduler_is_behind_the_service_it_says_what_to_do(error: ApiError) -> None:
    with pytest.raises(ConfigurationError, match=r"behind the Service ns/api.*switched on.*--service.*--server"):
        await _ask(error)


async def test_other_refusals_are_told_as_they_are() -> None:
    with pytest.raises(ApiError, match="the solver decides"):
        await _ask(ApiError(503, "ServiceUnavailable", "the solver decides about pods and has no time now"))


async def _asked_of_replicas(leads: str) -> tuple[bytes, list[str]]:
    """Ask behind a URL that leads each try to the next replica, `-` or `+`; return the answer and the tokens."""
    tokens, left = list[str](), list(leads)

    async def answer(request: web.Request) -> web.Response:
        tokens.append(request.headers["Authorization"])
        connections.add(request.transport)
        if left.pop(0) == "+":
            return web.Response(text="the history")
        return http_server.refused(Refusal(503, "this replica stands by", reason=NOT_LEADING))

    connections = set[object]()
    routes = (web.get("/v1alpha1/history", answer),)
    async with http_server.serving(routes, Address("127.0.0.1", 0), Certificate()) as bound:
        address = SchedulerAddress(server=f"http://{bound}")
        found = await scheduler_client.ask_as(address, "own-token", "history", {})
    assert len(connections) == len(tokens)
    return found, tokens


async def test_behind_a_url_each_try_is_a_connection_of_its_own_until_the_leader_answers() -> None:
    found, tokens = await _asked_of_replicas("--+")
    assert (found, tokens) == (b"the history", ["Bearer own-token"] * 3)


async def test_where_no_replica_behind_a_url_leads_it_says_so() -> None:
    with pytest.raises(ConfigurationError, match=r"no replica behind http://.* leads"):
        await _asked_of_replicas("-" * 24)


@pytest.mark.parametrize(
    "server",
    ["", "x", "http://[", "https://h:port", "https://h:99999", "https://h:0", "http://example.com", "https://:1"],
)
async def test_a_url_that_leads_nowhere_is_named(server: str) -> None:
    with pytest.raises(ConfigurationError, match=r"--server: .* is not valid: write https://HOST:PORT"):
        await scheduler_client.ask_as(SchedulerAddress(server=server), "own-token", "history", {})

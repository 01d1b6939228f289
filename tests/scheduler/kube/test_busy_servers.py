"""A server that is busy puts requests off (429 and Retry-After): a command's reads wait for it, nothing else does."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from scheduler.kube.client import Client
from scheduler.kube.credentials import ClientConfig
from scheduler.kube.errors import TooManyRequests


class Busy:
    """A server that puts off its first requests, each by a second."""

    def __init__(self, times: int) -> None:
        self.times = times
        self.asked: list[str] = []

    async def answer(self, request: web.Request) -> web.Response:
        self.asked.append(request.method)
        if len(self.asked) <= self.times:
            return web.Response(status=429, headers={"Retry-After": "1"}, text="Too many requests.")
        return web.json_response({})

    @asynccontextmanager
    async def client(self, *, is_patient: bool) -> AsyncIterator[Client]:
        application = web.Application()
        application.router.add_route("*", "/{path:.*}", self.answer)
        async with TestServer(application) as server:
            config = ClientConfig(f"http://127.0.0.1:{server.port}", "", None, ("", "", ""))
            async with Client.with_credentials(lambda: config, is_patient=is_patient) as client:
                yield client


async def test_a_commands_read_waits_for_the_server() -> None:
    busy = Busy(2)
    async with busy.client(is_patient=True) as client:
        assert await client.request("GET", "/api/v1/nodes") == b"{}"
    assert busy.asked == ["GET"] * 3


async def test_a_commands_read_waits_no_longer_than_its_time() -> None:
    busy = Busy(9)
    async with busy.client(is_patient=True) as client:
        with pytest.raises(TooManyRequests):
            await client.request("GET", "/api/v1/nodes", timeout_seconds=1.5)
    assert busy.asked == ["GET"] * 2


@pytest.mark.parametrize(("method", "is_patient"), [("POST", True), ("GET", False)])
async def test_a_write_and_the_reads_of_a_loop_are_their_callers_to_send_again(
    method: str, *, is_patient: bool
) -> None:
    busy = Busy(1)
    async with busy.client(is_patient=is_patient) as client:
        with pytest.raises(TooManyRequests):
            await client.request(method, "/api/v1/nodes")
    assert busy.asked == [method]

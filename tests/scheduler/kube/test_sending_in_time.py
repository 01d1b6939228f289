"""A write is sent within its time, by a clock that goes on while the machine sleeps, or not at all."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from scheduler.kube import client as client_module
from scheduler.kube.client import Client, sent_before
from scheduler.kube.credentials import ClientConfig
from scheduler.kube.errors import Unreachable
from scheduler.kube.http import call as call_module
from scheduler.kube.http.connection_pool import ConnectionPool
from scheduler.kube.leader_election.boot_clock import boot_time


class Sleep:
    """A machine that sleeps while a request has its connection made."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seconds = 0.0
        self.asked: list[str] = []
        for module in (client_module, call_module):
            monkeypatch.setattr(module, "boot_time", lambda: boot_time() + self.seconds)

    async def answer(self, request: web.Request) -> web.Response:
        self.asked.append(f"{request.method} {request.query.get('timeout', '')}")
        return web.json_response({})

    def during_connect(self, monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
        acquire = ConnectionPool.acquire

        async def connect(*arguments: Any, **fields: Any) -> Any:
            self.seconds += seconds
            return await acquire(*arguments, **fields)

        monkeypatch.setattr(ConnectionPool, "acquire", connect)

    @asynccontextmanager
    async def client(self) -> AsyncIterator[Client]:
        application = web.Application()
        application.router.add_route("*", "/{path:.*}", self.answer)
        async with TestServer(application) as server:
            config = ClientConfig(f"http://127.0.0.1:{server.port}", "", None, ("", "", ""))
            async with Client.with_credentials(lambda: config) as client:
                yield client


@pytest.fixture
def sleep(monkeypatch: pytest.MonkeyPatch) -> Sleep:
    return Sleep(monkeypatch)


async def test_a_write_is_not_sent_after_a_sleep(sleep: Sleep, monkeypatch: pytest.MonkeyPatch) -> None:
    sleep.during_connect(monkeypatch, 3600.0)
    async with sleep.client() as client:
        with pytest.raises(Unreachable, match="suspended"):
            await client.request("PATCH", "/x", body=b"{}", timeout_seconds=60.0)
        assert (await client.request("GET", "/x"), sleep.asked) == (b"{}", ["GET "])


async def test_a_second_write_is_not_sent_after_the_time_of_the_first(sleep: Sleep) -> None:
    async with sleep.client() as client:
        with sent_before(boot_time() + 60.0):
            await client.request("POST", "/x", body=b"{}", timeout_seconds=60.0)
            sleep.seconds = 61.0
            with pytest.raises(Unreachable):
                await client.request("POST", "/x", body=b"{}", timeout_seconds=60.0)
    assert sleep.asked == ["POST 60000ms"]

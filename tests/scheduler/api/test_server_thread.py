"""The API beside an event loop that schedules: in a thread of its own, with deadlines for what it asks there."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

import aiohttp
import pytest

from scheduler.api import api_server
from scheduler.api.refusals import Refusal
from scheduler.api.server_thread import SchedulingLoop, in_thread_of_its_own
from scheduler.observe.metrics import Metrics
from scheduler.settings import ApiSettings
from tests.scheduler.api.test_api_server import hall

T = TypeVar("T")

KUBECONFIG = (
    "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}]\n"
    "contexts: [{name: c, context: {cluster: c, user: u}}]\nusers: [{name: u, user: {token: t}}]\n"
)


def beside(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine in another thread, while this one waits and its event loop stands still."""
    found: list[T] = []
    running = threading.Thread(target=lambda: found.append(asyncio.run(work())))
    running.start()
    running.join(30)
    return found[0]


async def test_callers_are_answered_while_the_scheduler_stands_still(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(KUBECONFIG)
    settings = ApiSettings(bind_address="127.0.0.1:0")
    async with api_server.listening(settings, kubeconfig, Metrics()) as (_, address):

        async def asked() -> int:
            async with aiohttp.ClientSession() as session, session.get(f"http://{address}/v1alpha1/queue") as response:
                return response.status

        assert "api" in {each.name for each in threading.enumerate()}
        assert beside(asked) == 401
    assert "api" not in {each.name for each in threading.enumerate()}


async def test_an_error_of_the_thread_is_that_of_the_caller() -> None:
    class Failing:
        async def __aenter__(self) -> None:
            raise OSError("in use")

        async def __aexit__(self, *_: object) -> None:
            """Not reached."""

    with pytest.raises(OSError, match="in use"):
        async with in_thread_of_its_own("failing", Failing):
            pass


async def test_what_is_read_is_read_by_the_event_loop_that_schedules() -> None:
    loop, here = SchedulingLoop(), threading.current_thread()

    async def reading() -> threading.Thread:
        return await loop.read(threading.current_thread)

    assert await asyncio.to_thread(asyncio.run, reading()) is here


async def test_a_scheduler_without_time_is_not_waited_for() -> None:
    loop, read = SchedulingLoop(0.01), list[str]()

    async def reading() -> int:
        try:
            await loop.read(lambda: read.append("too late"))
        except Refusal as refusal:
            return refusal.status
        return 200

    assert beside(reading) == 503
    await asyncio.sleep(0)
    assert read == []


async def test_callers_share_a_reading_of_the_queue() -> None:
    async with hall() as at:
        reading, queue = list[int](), at.subjects.queue
        pods = queue.queue.pods

        def read() -> Any:
            reading.append(1)
            return pods()

        queue.queue.pods = read  # type: ignore[method-assign]
        found = await asyncio.gather(*(queue.pods() for _ in range(100)))

    assert len(reading) == 1
    assert all(each is found[0] for each in found)

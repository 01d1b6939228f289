"""Renewals beside a scheduler's event loop that is busy or dead: the answers are a script's."""

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, TypeVar, cast

import pytest

from scheduler.kube.client import Client
from scheduler.kube.errors import ConfigurationError, LeadershipLost
from scheduler.kube.leader_election.boot_clock import boot_time
from scheduler.kube.leader_election.elector import LeaderElector
from scheduler.kube.leader_election.lease import Timing
from scheduler.kube.leader_election.lease_thread import LeaseLoop, LeaseThread, SameLoop
from tests.support.kube_objects import encoded
from tests.support.shell_clock import VirtualClock

T = TypeVar("T")
TIMING = Timing(lease_duration=61.0, renew_deadline=60.0, retry_period=0.01)


class Server:
    """In the place of a client: the Lease is free, and every write of it is stored."""

    def __init__(self, *, drained: bool = False) -> None:
        self.writes = 0
        self.threads: set[str] = set()
        self.wrote = threading.Condition()
        self._annotations = {"dovetail.dev/drained": "now"} if drained else {}

    async def request(self, method: str, _path: str, **_: Any) -> bytes:
        self.threads.add(threading.current_thread().name)
        if method == "PATCH":
            with self.wrote:
                self.writes += 1
                self.wrote.notify_all()
        spec = {"holderIdentity": "us" if self.writes else "", "leaseDurationSeconds": 61}
        metadata = {"uid": "u", "resourceVersion": "9", "annotations": self._annotations}
        return encoded({"metadata": metadata, "spec": spec})

    @contextlib.asynccontextmanager
    async def connected(self) -> AsyncIterator[Client]:
        yield cast("Client", self)


class SilentLoop(SameLoop):
    """The loop of a scheduler that gave its last sign of life so long ago."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def silent_seconds(self) -> float:
        return self.seconds


def elector(
    server: Server,
    loop: LeaseLoop,
    *,
    timing: Timing = TIMING,
    clock: Callable[[], float] = boot_time,
    on_error: Callable[[Exception], None] = lambda _: None,
) -> LeaderElector:
    return LeaderElector(
        cast("Client", server),
        namespace="n",
        name="dovetail",
        identity="us",
        timing=timing,
        on_error=on_error,
        clock=clock,
        loop=loop,
    )


async def test_the_lease_is_renewed_while_the_event_loop_of_the_scheduler_is_busy() -> None:
    server = Server()
    async with LeaseThread.started(server.connected) as thread:
        leader = elector(server, thread)
        await leader.acquire(was_led=lambda: False)
        holding = asyncio.create_task(leader.hold())
        await asyncio.sleep(0)
        with server.wrote:  # the event loop stands still until five more renewals were sent
            wanted = server.writes + 5
            assert server.wrote.wait_for(lambda: server.writes >= wanted, 60)
        assert leader.may_write()
        holding.cancel()
        await leader.release()
    assert server.threads == {"lease"}


async def test_a_dead_loop_loses_the_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    server, loop, clock, errors = Server(), SilentLoop(0.0), VirtualClock(), list[Exception]()
    leader = elector(server, loop, clock=clock, on_error=errors.append, timing=Timing())
    await leader.acquire()
    monkeypatch.setattr(asyncio, "sleep", clock.sleep)
    loop.seconds = Timing().renew_deadline / 2 + 0.1
    writes = server.writes
    async with asyncio.timeout(60):
        with pytest.raises(LeadershipLost, match="the event loop that schedules has not run for"):
            await leader.hold()
    assert server.writes == writes
    assert errors
    assert not leader.may_write()


async def test_a_dead_loop_takes_no_lease() -> None:
    server, looks = Server(), asyncio.Event()
    leader = elector(server, SilentLoop(TIMING.renew_deadline), on_error=lambda _: looks.set())
    taking = asyncio.create_task(leader.acquire())
    await looks.wait()
    taking.cancel()
    assert (server.writes, leader.may_write()) == (0, False)


class Frozen(LeaseThread):
    """A thread whose scheduler's event loop answers no more."""

    def ask_for_sign(self) -> None:
        pass


async def test_only_an_answer_of_the_event_loop_is_a_sign_of_life() -> None:
    clock = VirtualClock()
    for kind, silent in ((LeaseThread, 0.0), (Frozen, 7.0)):
        thread = kind(asyncio.get_running_loop(), cast("Client", Server()), clock)
        clock.advance(7.0)
        thread.ask_for_sign()
        assert thread.silent_seconds() == 7.0
        await asyncio.sleep(0)
        assert thread.silent_seconds() == silent


async def test_what_the_scheduler_shows_is_read_and_set_in_its_own_loop() -> None:
    server, asked_in = Server(drained=True), set[str]()

    def was_led() -> bool:
        asked_in.add(threading.current_thread().name)
        return False

    async with LeaseThread.started(server.connected) as thread:
        await thread.run(_ask(thread, was_led))
        leader = elector(server, thread)
        taking = asyncio.create_task(leader.acquire(was_led=was_led))
        await leader.drained.wait()
        taking.cancel()
    assert asked_in == {threading.main_thread().name}
    assert server.writes == 0


async def _ask(thread: LeaseThread, question: Callable[[], bool]) -> None:
    assert not thread.is_so(question)


async def test_an_error_of_connecting_is_raised_to_who_starts_the_thread() -> None:
    def failing() -> contextlib.AbstractAsyncContextManager[Client]:
        raise ConfigurationError("no kubeconfig")

    with pytest.raises(ConfigurationError, match="no kubeconfig"):
        async with LeaseThread.started(failing):
            pass


async def test_errors_and_cancellations_pass_between_the_threads() -> None:
    begun, ended = threading.Event(), threading.Event()

    async def fail() -> None:
        raise LeadershipLost("gone")

    async def wait() -> None:
        try:
            begun.set()
            await asyncio.Event().wait()
        finally:
            ended.set()

    async with LeaseThread.started(Server().connected) as thread:
        with pytest.raises(LeadershipLost, match="gone"):
            await thread.run(fail())
        waiting: asyncio.Task[None] = asyncio.create_task(_run(thread, wait()))
        assert await asyncio.to_thread(begun.wait, 60)
        waiting.cancel()
    assert ended.is_set()


async def _run(thread: LeaseThread, work: Coroutine[Any, Any, T]) -> T:
    return await thread.run(work)

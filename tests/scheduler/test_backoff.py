"""How long is waited after failures, however many there were."""

import asyncio
import subprocess
from datetime import timedelta
from typing import cast

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from scheduler.backoff import Cooldown, LongerWaits, doubled, jittered
from scheduler.commit.bindings import PodBinder
from scheduler.kube import writes
from scheduler.kube.client import Client
from scheduler.kube.concurrency_limit import ConcurrencyLimit, RequestSlots
from scheduler.kube.errors import AnswerLost, Unreachable
from scheduler.kube.watching.reflector import RequestBackoff as WatchBackoff
from scheduler.kube.writer import Writer
from scheduler.queue import Backoff as QueueBackoff
from scheduler.worker.decision_limits import Limits
from scheduler.worker.supervisor import WorkerSupervisor
from solver.domain import Placement, Pod, PodId
from tests.support.builders import pod
from tests.support.shell_clock import VirtualClock

ATTEMPTS = st.integers(0, 10**6)
SECONDS = st.floats(0.001, 1000.0)


class Open:
    """A gate that is never closed: there is no leader election."""

    def write_seconds(self) -> float:
        return float("inf")


def writer(clock: VirtualClock) -> Writer:
    return Writer(RequestSlots(ConcurrencyLimit(), clock, clock.sleep), Open(), 10.0, clock, clock.sleep)


@given(ATTEMPTS, SECONDS, SECONDS)
@example(10**6, 0.1, 5.0)
@example(1024, 0.1, 5.0)
def test_a_wait_never_shrinks_with_failures_and_never_exceeds_its_ceiling(
    failures: int, first: float, longest: float
) -> None:
    seconds = doubled(first, longest, failures)

    assert min(first, longest) <= seconds <= longest
    assert seconds <= doubled(first, longest, failures + 1)
    assert seconds / 2 <= jittered(seconds) <= seconds


@pytest.mark.parametrize(("failures", "seconds"), [(0, 0.5), (1, 1.0), (3, 4.0), (4, 5.0), (10**6, 5.0)])
def test_a_wait_doubles_with_each_failure(failures: int, seconds: float) -> None:
    assert doubled(0.5, 5.0, failures) == seconds


def test_no_wait_stays_no_wait() -> None:
    assert doubled(0.0, 5.0, 10**6) == 0.0


@given(st.sampled_from([1, 1023, 1024, 1025, 10**6]))
def test_a_pause_between_writes_is_bounded_after_any_number_of_attempts(attempt: int) -> None:
    clock = VirtualClock()
    start = clock.now

    asyncio.run(writer(clock).pause(attempt))

    assert 0.0 < clock.now - start <= 5.0


@given(st.integers(1, 10**6))
@example(10**6)
def test_a_pod_rests_no_longer_than_configured(attempts: int) -> None:
    assert 1.0 <= QueueBackoff().seconds(attempts) <= 10.0


def test_a_watch_waits_no_longer_than_its_ceiling_after_many_failures() -> None:
    backoff = WatchBackoff(first=1.0, longest=4.0)

    assert max(backoff.seconds() for _ in range(3000)) <= 4.0


async def test_a_process_that_never_starts_is_tried_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A doubling wait overflows at 1,024 attempts, about 8.5 h: the scheduler's group of tasks would end with it."""
    waits = list[float]()

    async def sleep(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) >= 1100:
            raise asyncio.CancelledError

    def refuse(*_: object, **__: object) -> None:
        raise OSError("no process is left")

    monkeypatch.setattr(subprocess, "Popen", refuse)
    monkeypatch.setattr(asyncio, "sleep", sleep)
    worker = WorkerSupervisor(Limits(seconds=1.0, deterministic_seconds=1.0, workers=1, memory_limit_mib=512))

    with pytest.raises(asyncio.CancelledError):
        await worker.run()

    assert max(waits) <= 30.0
    assert min(waits[100:]) >= 15.0


async def test_a_binding_of_unknown_fate_waits_for_a_live_read_however_long_the_server_is_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without leader election nothing else ends the wait; after 1,024 attempts it ended as not bound."""
    clock, reads = VirtualClock(), list[float]()

    async def lost(*_: object, **__: object) -> None:
        raise AnswerLost("no answer")

    async def read(_: Client, key: PodId, **__: object) -> Pod:
        reads.append(clock.now)
        if len(reads) <= 6 * 1100:  # every live read is six attempts
            raise Unreachable("no server there")
        return pod(key.name, node_name="n1")

    monkeypatch.setattr(writes, "bind", lost)
    monkeypatch.setattr(writes, "read_pod", read)
    wanted = Placement(pod=pod("p").id, pod_uid=pod("p").uid, node="n1")

    found = await PodBinder(cast("Client", None), writer(clock)).bind(wanted)

    assert found == wanted
    assert reads[-1] - reads[0] > timedelta(hours=1).total_seconds()


def test_a_cooldown_ends_after_its_seconds_and_starts_again_with_each_start() -> None:
    now = 0.0
    cooldown = Cooldown[str](10.0, lambda: now)
    assert cooldown.try_start("a")
    now = 6.0
    assert not cooldown.try_start("a")
    cooldown.start("b")
    assert ("a" in cooldown, "b" in cooldown, len(cooldown)) == (True, True, 2)

    now = 10.0
    assert ("a" in cooldown, "b" in cooldown, len(cooldown)) == (False, True, 1)
    cooldown.start("b")
    now = 19.0
    assert len(cooldown) == 1
    now = 20.0
    assert len(cooldown) == 0


@pytest.mark.parametrize(("attempts", "seconds"), [(1, 1), (2, 2), (3, 4), (4, 8), (5, 10), (6, 10), (10_000, 10)])
def test_the_backoff_of_pods_doubles_up_to_a_ceiling(attempts: int, seconds: float) -> None:
    assert QueueBackoff().seconds(attempts) == seconds


def test_a_ceiling_below_the_first_backoff_wins() -> None:
    assert QueueBackoff(initial_seconds=5, ceiling_seconds=3).seconds(1) == 3


def test_a_cooldown_counts_its_keys_by_group_once_each_and_until_they_end() -> None:
    now = 0.0
    cooldown = Cooldown[str](10.0, lambda: now, group_of=lambda key: key[0])
    cooldown.start("a1")
    now = 5.0
    cooldown.start("a2")
    cooldown.start("a2")
    cooldown.start("b1")
    assert [cooldown.count(group) for group in "abc"] == [2, 1, 0]

    now = 10.0
    assert [cooldown.count(group) for group in "abc"] == [1, 1, 0]
    now = 15.0
    assert [cooldown.count(group) for group in "abc"] == [0, 0, 0]


def test_a_key_that_fails_waits_ever_longer_and_no_other_does() -> None:
    now = [0.0]
    waits = LongerWaits[str](2, 10, lambda: now[0])
    lengths = []
    for _ in range(5):
        waits.failed("bad")
        started = now[0]
        while "bad" in waits:
            now[0] += 1
        lengths.append(now[0] - started)
    assert lengths == [2, 4, 8, 10, 10]
    assert ("good" in waits, len(waits)) == (False, 1)

    waits.succeeded("bad")
    assert not waits
    waits.failed("bad")
    now[0] += 2
    assert "bad" not in waits  # a success begins anew


def test_nothing_is_left_of_keys_that_are_gone() -> None:
    waits = LongerWaits[str](2, 10, lambda: 0.0)
    for key in ("here", "gone"):
        waits.failed(key)
    waits.keep({"here"})
    assert ("here" in waits, "gone" in waits, len(waits)) == (True, False, 1)

"""What no code expects is noted, counted, and confined."""

import asyncio

import pytest
from structlog.testing import capture_logs

from scheduler.observe.metrics import Metrics, Subsystem
from scheduler.observe.unexpected_errors import Confined, Tasks, kept_running, together
from tests.support.idle_loop import until_idle


def count(metrics: Metrics, part: Subsystem) -> float | None:
    return metrics.registry.get_sample_value("dovetail_defects_total", {"part": part})


def test_what_a_block_raises_is_logged_once_with_its_traceback_and_counted() -> None:
    metrics = Metrics()
    with capture_logs() as lines, Confined(metrics, Subsystem.STALE_ALLOCATIONS, claim="ns/c"):
        raise RuntimeError("a defect")

    (line,) = lines
    assert (line["event"], line["part"], line["claim"]) == ("defect", "stale_allocations", "ns/c")
    assert "test_unexpected_errors.py" in line["error"]
    assert line["error"].rstrip().endswith("RuntimeError: a defect")
    assert count(metrics, Subsystem.STALE_ALLOCATIONS) == 1


def test_what_is_expected_passes_and_is_not_counted() -> None:
    metrics = Metrics()
    with pytest.raises(KeyError), Confined(metrics, Subsystem.STALE_ALLOCATIONS, passing=(KeyError,)):
        raise KeyError("expected")

    assert count(metrics, Subsystem.STALE_ALLOCATIONS) == 0


def test_a_cancellation_passes() -> None:
    with pytest.raises(asyncio.CancelledError), Confined(Metrics(), Subsystem.STALE_ALLOCATIONS):
        raise asyncio.CancelledError


async def test_the_exception_of_a_task_that_is_never_awaited_is_noted() -> None:
    metrics, ends = Metrics(), list[int]()
    tasks = Tasks(metrics, Subsystem.COMMIT, lambda: ends.append(len(tasks)))

    async def fail() -> None:
        raise RuntimeError("a defect")

    with capture_logs() as lines:
        tasks.begin(fail())
        await until_idle()

    assert [line["event"] for line in lines] == ["defect"]
    assert (count(metrics, Subsystem.COMMIT), ends) == (1, [0])


async def test_what_does_not_end_in_time_is_cancelled() -> None:
    metrics = Metrics()
    tasks = Tasks(metrics, Subsystem.COMMIT)
    tasks.begin(asyncio.sleep(0.0))
    tasks.begin(asyncio.sleep(3600.0))

    assert not await tasks.finish(0.01)

    assert (len(tasks), count(metrics, Subsystem.COMMIT)) == (0, 0)
    assert await tasks.finish()


async def test_an_error_is_raised_when_all_that_run_together_have_ended() -> None:
    ended = list[str]()

    async def slow() -> None:
        await asyncio.sleep(0)
        ended.append("slow")

    async def fail() -> None:
        raise RuntimeError("a defect")

    with pytest.raises(RuntimeError):
        await together([fail(), slow()])

    assert ended == ["slow"]


async def test_a_loop_that_raises_begins_again_until_it_returns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scheduler.observe.unexpected_errors._PAUSE_SECONDS", 0.0)
    metrics, runs = Metrics(), list[int]()

    async def loop() -> None:
        runs.append(len(runs))
        if len(runs) < 3:
            raise RuntimeError("a defect")

    await kept_running(loop, metrics, Subsystem.STATUS)

    assert runs == [0, 1, 2]
    assert count(metrics, Subsystem.STATUS) == 2


async def test_a_loop_that_is_cancelled_does_not_begin_again() -> None:
    task = asyncio.create_task(kept_running(asyncio.Event().wait, Metrics(), Subsystem.STATUS))  # type: ignore[arg-type]  # what it gives is not used
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

"""The lease is given up when the API server can act on no write any more."""

import asyncio
import contextlib

import pytest

from scheduler.kube.errors import AnswerLost, Conflict, KubeError
from scheduler.kube.writer import WritesUnderWay
from tests.support.idle_loop import until_idle
from tests.support.shell_clock import VirtualClock


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def writes(clock: VirtualClock) -> WritesUnderWay:
    return WritesUnderWay(clock, clock.sleep)


def lose(writes: WritesUnderWay, error: BaseException) -> None:
    with writes.counted(4.0):
        raise error


async def test_a_write_without_an_answer_is_waited_for(writes: WritesUnderWay) -> None:
    answered = asyncio.Event()

    async def write() -> None:
        with writes.counted(4.0):
            await answered.wait()

    writing, ending = asyncio.create_task(write()), asyncio.create_task(writes.ended())
    await until_idle()
    assert not ending.done()
    answered.set()
    await asyncio.wait_for(ending, 60)
    await writing


@pytest.mark.parametrize("error", [AnswerLost("no answer"), asyncio.CancelledError()])
async def test_a_write_whose_answer_is_lost_counts_for_the_time_that_the_server_has(
    writes: WritesUnderWay, clock: VirtualClock, error: BaseException
) -> None:
    with pytest.raises(type(error)):
        lose(writes, error)
    clock.advance(3.0)
    await writes.ended()
    assert clock.slept == [1.0]


@pytest.mark.parametrize("error", [None, Conflict(409)])
async def test_an_answer_ends_a_write(writes: WritesUnderWay, clock: VirtualClock, error: KubeError | None) -> None:
    with contextlib.suppress(Conflict), writes.counted(4.0):
        if error is not None:
            raise error
    await writes.ended()
    assert clock.slept == [0.0]

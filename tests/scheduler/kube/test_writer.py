"""One request: through the gate, bounded by it, and again only where it certainly did not act."""

import asyncio

import pytest

from scheduler.change import Kind
from scheduler.kube.concurrency_limit import ConcurrencyLimit, RequestSlots
from scheduler.kube.errors import AnswerLost, Conflict, KubeError, TooManyRequests, Unreachable
from scheduler.kube.watching.watch_ages import WatchAges
from scheduler.kube.writer import FencedError, Writer
from tests.support.shell_clock import VirtualClock


class Door:
    """A gate that allows so many seconds."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def write_seconds(self) -> float:
        return self.seconds


class Server:
    """Answers with what it was given, one after the other, and notes the time it was allowed."""

    def __init__(self, *answers: KubeError | str) -> None:
        self.answers = list(answers)
        self.allowed: list[float] = []

    async def __call__(self, *, timeout_seconds: float) -> str:
        self.allowed.append(timeout_seconds)
        answer = self.answers.pop(0)
        if isinstance(answer, KubeError):
            raise answer
        return answer


def writer(gate: Door, clock: VirtualClock, ages: WatchAges | None = None) -> Writer:
    slots, ages = RequestSlots(ConcurrencyLimit(), clock, clock.sleep), ages or WatchAges(180.0, clock)
    return Writer(slots, gate, 10.0, clock, clock.sleep, until_fresh=ages.until_fresh)


async def test_no_write_starts_when_the_gate_is_closed() -> None:
    server = Server("written")

    with pytest.raises(FencedError):
        await writer(Door(0.0), VirtualClock()).write(server)

    assert server.allowed == []


async def test_a_write_has_to_end_before_the_gate_closes() -> None:
    server = Server("written")

    await writer(Door(4.0), VirtualClock()).write(server)

    assert server.allowed == [4.0]


async def test_a_write_has_to_end_within_the_configured_time() -> None:
    server = Server("written")

    await writer(Door(60.0), VirtualClock()).write(server)

    assert server.allowed == [10.0]


async def test_the_gate_is_asked_again_before_every_try() -> None:
    gate = Door(60.0)

    class Closing(Server):
        async def __call__(self, *, timeout_seconds: float) -> str:
            gate.seconds = 0.0
            return await super().__call__(timeout_seconds=timeout_seconds)

    server = Closing(TooManyRequests(429), "written")

    with pytest.raises(FencedError):
        await writer(gate, VirtualClock()).write(server)

    assert len(server.allowed) == 1


@pytest.mark.parametrize("error", [TooManyRequests(429, retry_after_seconds=3.0), Unreachable("no server there")])
async def test_what_certainly_did_not_act_is_tried_again(error: KubeError) -> None:
    server = Server(error, error, "written")

    assert await writer(Door(60.0), VirtualClock()).write(server) == "written"


async def test_the_pause_that_the_server_asks_for_is_kept() -> None:
    clock = VirtualClock()

    await writer(Door(60.0), clock).write(Server(TooManyRequests(429, retry_after_seconds=3.0), "written"))

    assert clock.now >= 1003.0


@pytest.mark.parametrize("error", [AnswerLost("no answer"), Conflict(409)])
async def test_what_may_have_acted_or_was_refused_is_for_the_caller_to_judge(error: KubeError) -> None:
    server = Server(error, "written")

    with pytest.raises(type(error)):
        await writer(Door(60.0), VirtualClock()).write(server)

    assert len(server.allowed) == 1


async def test_patience_ends() -> None:
    server = Server(*(Unreachable("no server there") for _ in range(20)))

    with pytest.raises(Unreachable):
        await writer(Door(60.0), VirtualClock()).write(server)

    assert len(server.allowed) == 6


async def test_a_live_read_does_not_need_the_gate() -> None:
    assert await writer(Door(0.0), VirtualClock()).read(Server("read")) == "read"


async def test_a_write_that_may_act_twice_is_made_until_its_answer_is_known() -> None:
    server = Server(AnswerLost("no answer"), AnswerLost("no answer"), "written")

    assert await writer(Door(60.0), VirtualClock()).insist(server) == "written"


async def test_what_certainly_did_not_act_is_not_insisted_on() -> None:
    server = Server(Conflict(409), "written")

    with pytest.raises(Conflict):
        await writer(Door(60.0), VirtualClock()).insist(server)

    assert server.answers == ["written"]


async def test_insisting_ends_with_the_last_error() -> None:
    server = Server(*(AnswerLost(f"try {number}") for number in range(6)))

    with pytest.raises(AnswerLost, match="try 4"):
        await writer(Door(60.0), VirtualClock()).insist(server)


async def test_subscribers_are_told_of_every_write_that_is_sent_and_of_nothing_else() -> None:
    gate, server = Door(60.0), Server(Conflict(409), "written", "read")
    made, told, counted = writer(gate, VirtualClock()), list[bool](), list[bool]()
    made.subscribers.extend((told.append, counted.append))

    with pytest.raises(Conflict):
        await made.write(server)
    await made.write(server, is_status=True)
    await made.read(server)
    gate.seconds = 0.0
    with pytest.raises(FencedError):
        await made.write(server)

    assert told == counted == [False, True]


async def test_no_write_starts_while_a_watch_is_stale_and_reads_do() -> None:
    clock, server = VirtualClock(), Server("read", "written")
    ages = WatchAges(180.0, clock)
    made = writer(Door(60.0), clock, ages)
    ages.heard(Kind.PODS)
    ages.heard(Kind.CLAIMS)
    clock.advance(181.0)

    write = asyncio.create_task(made.write(server))
    await asyncio.sleep(0)
    assert await made.read(server) == "read"
    ages.heard(Kind.PODS)
    await asyncio.sleep(0)
    assert not write.done()
    ages.heard(Kind.CLAIMS)

    assert await write == "written"


async def test_a_write_that_waited_for_a_watch_still_needs_the_gate() -> None:
    clock, gate, server = VirtualClock(), Door(60.0), Server("written")
    ages = WatchAges(180.0, clock)
    made = writer(gate, clock, ages)
    ages.heard(Kind.PODS)
    clock.advance(181.0)
    write = asyncio.create_task(made.write(server))
    await asyncio.sleep(0)
    gate.seconds = 0.0
    ages.heard(Kind.PODS)

    with pytest.raises(FencedError):
        await write

    assert server.allowed == []

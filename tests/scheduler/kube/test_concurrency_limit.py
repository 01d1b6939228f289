"""The limit follows the server's answers, and the slots follow the limit."""

import asyncio
from collections import deque

from scheduler.kube.concurrency_limit import ConcurrencyLimit, RequestSlots, ResizableSemaphore
from tests.support.shell_clock import VirtualClock


def answer(limit: ConcurrencyLimit, seconds: float, *, windows: int = 1, used: int | None = None) -> None:
    for _ in range(windows):
        size = max(limit.value, 16)
        for _ in range(size):
            limit.answered(seconds, limit.value if used is None else used, 0.0)


def test_the_limit_grows_by_one_a_window_while_latency_is_flat() -> None:
    limit = ConcurrencyLimit(start=16, most=64)

    answer(limit, 0.01, windows=5)

    assert limit.value == 21


def test_the_limit_never_exceeds_what_is_configured() -> None:
    limit = ConcurrencyLimit(start=16, most=18)

    answer(limit, 0.01, windows=10)

    assert limit.value == 18


def test_a_configured_limit_below_the_start_is_kept_from_the_first_request() -> None:
    assert ConcurrencyLimit(start=16, most=2).value == 2


def test_the_limit_stays_while_latency_is_raised_a_little() -> None:
    limit = ConcurrencyLimit(start=16, most=64)
    answer(limit, 0.01)

    answer(limit, 0.025, windows=5)

    assert limit.value == 17


def test_the_limit_halves_when_latency_is_inflated() -> None:
    limit = ConcurrencyLimit(start=16, most=64)
    answer(limit, 0.01)

    answer(limit, 0.06)

    assert limit.value == 8


def test_the_latency_of_an_idle_server_does_not_count() -> None:
    limit = ConcurrencyLimit(start=16, most=64)

    answer(limit, 0.001, windows=3, used=1)
    answer(limit, 0.02, windows=3)

    assert limit.value == 19


def test_a_server_that_stays_slower_becomes_the_new_normal() -> None:
    limit = ConcurrencyLimit(start=16, most=64)
    answer(limit, 0.01, windows=2)
    slower = limit.value

    answer(limit, 0.02, windows=60)

    assert limit.value > slower


def served(limit: ConcurrencyLimit, *, others_seconds: float, own_seconds: float, answers: int) -> list[int]:
    """
    Keep all slots in use at a server where a request waits for others' work, and for those of our own before it.

    Return the limit after each answer.
    """
    found: list[int] = []
    under_way: deque[float] = deque()
    now = 0.0
    for _ in range(answers):
        while len(under_way) < limit.value:
            under_way.append(others_seconds + own_seconds * (len(under_way) + 1))
        seconds, used = under_way.popleft(), len(under_way) + 1
        now += seconds / used
        limit.answered(seconds, used, now)
        found.append(limit.value)
    return found


def test_where_others_keep_the_server_busy_the_limit_stays() -> None:
    limit = ConcurrencyLimit(start=32, most=64)
    served(limit, others_seconds=0.01, own_seconds=0.0005, answers=300)

    found = served(limit, others_seconds=1.5, own_seconds=0.0005, answers=2000)

    assert sum(each < 32 for each in found) < len(found) / 20
    assert found[-1] >= 32


def test_where_our_own_requests_queue_the_limit_falls() -> None:
    limit = ConcurrencyLimit(start=32, most=64)
    served(limit, others_seconds=0.01, own_seconds=0.0001, answers=200)

    found = served(limit, others_seconds=0.01, own_seconds=0.01, answers=1000)

    assert min(found[:200]) <= 9
    assert max(found[150:400]) <= 24  # and grows slowly, as a server that stays slower is the new reference


def inflated(start: int) -> ConcurrencyLimit:
    """A limit that was just halved for latency, if it can be."""
    limit = ConcurrencyLimit(start=start, most=64)
    answer(limit, 0.01)
    answer(limit, 0.06)
    return limit


def test_a_halving_that_does_not_help_is_taken_back_to_what_was_before() -> None:
    limit = inflated(start=40)
    assert limit.value == 20

    answer(limit, 0.06, windows=4)  # those of before the halving, and a window

    assert limit.value == 41


def test_at_the_least_limit_nothing_is_taken_back() -> None:
    limit = inflated(start=8)
    assert limit.value == 8

    answer(limit, 0.06)

    assert limit.value == 8


def test_a_refusal_after_a_halving_keeps_it() -> None:
    limit = inflated(start=31)
    limit.refused(0.0, now=0.0)

    answer(limit, 0.06, windows=4)

    assert limit.value == 16


def test_a_halving_is_judged_by_the_next_window_only() -> None:
    limit = inflated(start=31)
    answer(limit, 0.06, windows=3, used=1)  # an idle server

    answer(limit, 0.06)

    assert limit.value == 16


def test_a_refusal_for_load_halves_the_limit() -> None:
    limit = ConcurrencyLimit(start=16, most=64)

    limit.refused(1.0, now=0.0)

    assert limit.value == 8


def test_refusals_of_requests_that_were_under_way_together_count_once() -> None:
    limit = ConcurrencyLimit(start=16, most=64)

    for _ in range(16):
        limit.refused(1.0, now=0.0)

    assert limit.value == 8


def test_the_limit_keeps_a_few_slots_however_often_it_is_refused() -> None:
    limit = ConcurrencyLimit(start=16, most=64)

    for second in range(0, 100, 10):
        limit.refused(1.0, now=float(second))

    assert limit.value == 8


def test_nothing_starts_before_the_server_allows_it_again() -> None:
    limit = ConcurrencyLimit()

    limit.refused(3.0, now=10.0)

    assert (limit.pause_seconds(11.0), limit.pause_seconds(13.5)) == (2.0, 0.0)


async def test_no_more_slots_are_held_than_the_limit_allows() -> None:
    pace, most, held = RequestSlots(ConcurrencyLimit(start=4, most=4, least=4)), 0, 0

    async def request() -> None:
        nonlocal most, held
        async with pace.slot():
            held += 1
            most = max(most, held)
            await asyncio.sleep(0)
            held -= 1

    await asyncio.gather(*(request() for _ in range(40)))

    assert (most, held) == (4, 0)


async def test_status_traffic_holds_a_small_share_of_the_slots() -> None:
    pace, most, held = RequestSlots(ConcurrencyLimit(start=20, most=20)), 0, 0

    async def request() -> None:
        nonlocal most, held
        async with pace.slot(is_status=True):
            held += 1
            most = max(most, held)
            await asyncio.sleep(0)
            held -= 1

    await asyncio.gather(*(request() for _ in range(40)))

    assert most == 2


async def test_status_traffic_gets_its_share_while_writes_wait() -> None:
    pace = RequestSlots(ConcurrencyLimit(start=4, most=4, least=4))
    order: list[str] = []

    async def request(name: str, *, is_status: bool) -> None:
        async with pace.slot(is_status=is_status):
            order.append(name)
            await asyncio.sleep(0)

    writes = [request("write", is_status=False) for _ in range(20)]
    await asyncio.gather(*writes, request("status", is_status=True))

    assert order.index("status") < 12


async def test_a_request_waits_out_the_pause_that_the_server_asked_for() -> None:
    clock = VirtualClock()
    pace = RequestSlots(ConcurrencyLimit(), clock, clock.sleep)
    pace.refused(2.0)

    async with pace.slot():
        pass

    assert clock.slept == [2.0]


async def test_a_request_that_is_cancelled_while_it_waits_takes_no_slot_along() -> None:
    pace = RequestSlots(ConcurrencyLimit(start=1, most=1, least=1))
    async with pace.slot():
        waiting = asyncio.create_task(pace.slot().__aenter__())
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)

    async with asyncio.timeout(1), pace.slot():
        pass


async def test_a_request_that_is_cancelled_as_it_gets_its_slot_gives_it_back() -> None:
    pace = RequestSlots(ConcurrencyLimit(start=1, most=1, least=1))
    async with pace.slot():
        waiting = asyncio.create_task(pace.slot().__aenter__())
        await asyncio.sleep(0)
    waiting.cancel()  # its turn has come, and it has not run since
    await asyncio.gather(waiting, return_exceptions=True)

    async with asyncio.timeout(1), pace.slot():
        pass


async def test_units_take_turns_and_those_that_have_begun_are_finished_first() -> None:
    semaphore, order = ResizableSemaphore(lambda: 2), list[str]()

    async def unit(name: str) -> None:
        async with semaphore:
            for step in ("allocate", "bind"):
                order.append(f"{name} {step}")
                await asyncio.sleep(0)

    await asyncio.gather(*(unit(name) for name in "abc"))

    assert order.index("a bind") < order.index("c allocate")


async def test_more_turns_are_given_as_soon_as_the_capacity_grows() -> None:
    capacity, running = 1, 0
    semaphore = ResizableSemaphore(lambda: capacity)

    async def unit() -> None:
        nonlocal running
        async with semaphore:
            running += 1
            await asyncio.sleep(0.01)

    first = asyncio.create_task(unit())
    rest = [asyncio.create_task(unit()) for _ in range(3)]
    await asyncio.sleep(0)
    capacity = 3
    await first
    await asyncio.sleep(0)

    assert running == 4
    await asyncio.gather(*rest)


async def test_a_unit_that_is_cancelled_in_its_turn_lets_the_next_begin() -> None:
    semaphore = ResizableSemaphore(lambda: 1)
    async with semaphore:
        waiting = asyncio.create_task(semaphore.__aenter__())
        await asyncio.sleep(0)
    waiting.cancel()  # its turn has come, and it has not run since
    await asyncio.gather(waiting, return_exceptions=True)

    async with asyncio.timeout(1), semaphore:
        pass

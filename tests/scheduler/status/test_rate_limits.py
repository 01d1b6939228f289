"""Status writes are a share of all writes, and the bytes of a namespace have a rate."""

import pytest

from scheduler.status.rate_limits import ByteRateLimit, StatusTokenBucket


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def written_while_placing(share: float, writes: int) -> int:
    """Spend whatever may be spent, after each of so many writes that place pods, ten a second."""
    clock = Clock()
    bucket, written = StatusTokenBucket(share, clock), 0
    for _ in range(writes):
        clock.now += 0.1
        bucket.earn()
        while bucket.wait_seconds() <= 0:
            bucket.take(1)
            written += 1
    return written


@pytest.mark.parametrize("share", [0.1, 0.25, 0.5, 0.9])
def test_the_share_holds(share: float) -> None:
    written = written_while_placing(share, 10_000)

    assert (written - 20) / (written - 20 + 10_000) <= share
    assert written / (written + 10_000) >= share * 0.99


def test_without_tokens_nothing_is_written_while_pods_are_placed() -> None:
    clock = Clock()
    bucket = StatusTokenBucket(0.1, clock)
    bucket.take(1000)
    bucket.earn()
    clock.now += 5

    assert bucket.wait_seconds() == 5


def test_while_nothing_is_placed_one_a_second_is_written() -> None:
    clock = Clock()
    bucket, written = StatusTokenBucket(0.1, clock), 0
    bucket.take(1000)
    for _ in range(100):
        clock.now += 0.25
        if bucket.wait_seconds() <= 0:
            bucket.take(1)
            written += 1

    assert written == 16  # 25 seconds, of which the first ten are not idle yet


def test_tokens_are_kept_for_events_that_wait() -> None:
    bucket = StatusTokenBucket(0.5, Clock())
    for _ in range(1000):
        bucket.earn(backlog=300)

    assert bucket.tokens == 500


def test_tokens_that_were_kept_do_not_vanish_with_the_backlog() -> None:
    bucket = StatusTokenBucket(0.5, Clock())
    for _ in range(1000):
        bucket.earn(backlog=300)
    bucket.earn(backlog=0)

    assert bucket.tokens == 500


def test_status_writes_that_were_not_earned_do_not_pile_up_as_debt() -> None:
    bucket = StatusTokenBucket(0.5, Clock())
    bucket.take(1000)
    bucket.earn()
    bucket.earn()

    assert bucket.wait_seconds() == 0


def test_a_namespace_that_is_within_its_rate_is_forgotten() -> None:
    rate = ByteRateLimit()
    for number in range(1000):
        rate.spend(f"n{number}", 1024, float(number))
    assert rate.in_debt(1000.0) == frozenset()
    assert len(vars(rate)["_arrivals"]) < 100

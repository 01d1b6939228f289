"""What may be told is a share of what is done."""

import pytest

from scheduler.status.status_writer import StatusTokenBucket


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def told_while_placing(share: float, writes: int) -> int:
    """Spend whatever may be spent, after each of so many writes that place pods, ten a second."""
    clock = Clock()
    allowance, told = StatusTokenBucket(share, clock), 0
    for _ in range(writes):
        clock.now += 0.1
        allowance.earn()
        while allowance.wait_seconds() <= 0:
            allowance.spend(1)
            told += 1
    return told


@pytest.mark.parametrize("share", [0.1, 0.25, 0.5, 0.9])
def test_the_share_holds(share: float) -> None:
    told = told_while_placing(share, 10_000)

    assert (told - 20) / (told - 20 + 10_000) <= share
    assert told / (told + 10_000) >= share * 0.99


def test_without_credit_nothing_is_told_while_pods_are_placed() -> None:
    clock = Clock()
    allowance = StatusTokenBucket(0.1, clock)
    allowance.spend(1000)
    allowance.earn()
    clock.now += 5

    assert allowance.wait_seconds() == 5


def test_while_nothing_is_placed_one_a_second_is_told() -> None:
    clock = Clock()
    allowance, told = StatusTokenBucket(0.1, clock), 0
    allowance.spend(1000)
    for _ in range(100):
        clock.now += 0.25
        if allowance.wait_seconds() <= 0:
            allowance.spend(1)
            told += 1

    assert told == 16  # 25 seconds, of which the first ten are not idle yet


def test_credit_is_kept_for_events_that_wait() -> None:
    allowance = StatusTokenBucket(0.5, Clock())
    for _ in range(1000):
        allowance.earn(backlog=300)

    assert allowance.credit == 500


def test_credit_that_was_kept_does_not_vanish_with_the_backlog() -> None:
    allowance = StatusTokenBucket(0.5, Clock())
    for _ in range(1000):
        allowance.earn(backlog=300)
    allowance.earn(backlog=0)

    assert allowance.credit == 500


def test_status_writes_that_were_not_earned_do_not_pile_up_as_debt() -> None:
    allowance = StatusTokenBucket(0.5, Clock())
    allowance.spend(1000)
    allowance.earn()
    allowance.earn()

    assert allowance.wait_seconds() == 0

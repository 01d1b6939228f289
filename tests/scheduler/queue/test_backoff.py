import pytest

from scheduler.queue import Backoff


@pytest.mark.parametrize(("attempts", "seconds"), [(1, 1), (2, 2), (3, 4), (4, 8), (5, 10), (6, 10), (10_000, 10)])
def test_the_rest_doubles_up_to_a_ceiling(attempts: int, seconds: float) -> None:
    assert Backoff().seconds(attempts) == seconds


def test_a_ceiling_below_the_first_rest_wins() -> None:
    assert Backoff(initial_seconds=5, ceiling_seconds=3).seconds(1) == 3

"""Kin that rest because a decision about them broke a limit."""

import pytest

from scheduler.queue import Backoff, CostKey, CostlyBackoff
from solver.domain import Reason, ReasonCode

KEY = CostKey("default", 1)
REASONS = (Reason(code=ReasonCode.TOO_COSTLY, message="too costly"),)


@pytest.fixture
def backoff() -> CostlyBackoff:
    return CostlyBackoff(Backoff(initial_seconds=30.0, ceiling_seconds=600.0))


def test_a_kin_that_broke_a_limit_rests_twice_as_long_every_time(backoff: CostlyBackoff) -> None:
    rests, now = [], 0.0
    for _ in range(7):
        backoff.failed(KEY, REASONS, now)
        until = backoff.until(KEY, now)
        assert until is not None
        rests.append(round(until - now))
        now = until

    assert rests == [30, 60, 120, 240, 480, 600, 600]


def test_when_its_rest_is_over_it_is_still_known(backoff: CostlyBackoff) -> None:
    backoff.failed(KEY, REASONS, 0.0)

    assert backoff.until(KEY, 30.0) is None
    assert backoff.has_failed(KEY)
    assert backoff.reasons(KEY) == REASONS


def test_a_kin_whose_decision_kept_the_limits_is_forgotten_and_proven(backoff: CostlyBackoff) -> None:
    backoff.failed(KEY, REASONS, 0.0)
    backoff.succeeded(KEY)

    assert not backoff.has_failed(KEY)
    assert backoff.is_proven(KEY)
    assert backoff.failures(KEY) == 0


def test_what_breaks_a_limit_again_is_proven_no_more(backoff: CostlyBackoff) -> None:
    backoff.succeeded(KEY)
    backoff.failed(KEY, REASONS, 0.0)

    assert not backoff.is_proven(KEY)


def test_a_kin_of_which_nothing_is_heard_is_forgotten(backoff: CostlyBackoff) -> None:
    backoff.failed(KEY, REASONS, 0.0)
    backoff.failed(CostKey("default", 2), REASONS, 631.0)

    assert not backoff.has_failed(KEY)


def test_no_more_than_so_many_are_remembered(backoff: CostlyBackoff) -> None:
    for number in range(5000):
        backoff.failed(CostKey("default", number), REASONS, 0.0)
        backoff.succeeded(CostKey("other", number))

    assert len(backoff) == 4096
    assert not backoff.has_failed(CostKey("default", 0))
    assert backoff.has_failed(CostKey("default", 4999))
    assert not backoff.is_proven(CostKey("other", 0))

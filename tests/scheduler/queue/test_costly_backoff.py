"""Kin that rest because a decision about them broke a limit."""

import pytest

from scheduler.queue import Backoff, CostKey, CostlyBackoff
from solver.domain import Reason, ReasonCode

KIN = CostKey("default", 1)
WHY = (Reason(code=ReasonCode.TOO_COSTLY, message="too costly"),)


@pytest.fixture
def parking() -> CostlyBackoff:
    return CostlyBackoff(Backoff(initial_seconds=30.0, ceiling_seconds=600.0))


def test_a_kin_that_broke_a_limit_rests_twice_as_long_every_time(parking: CostlyBackoff) -> None:
    rests, now = [], 0.0
    for _ in range(7):
        parking.broke(KIN, WHY, now)
        until = parking.until(KIN, now)
        assert until is not None
        rests.append(round(until - now))
        now = until

    assert rests == [30, 60, 120, 240, 480, 600, 600]


def test_when_its_rest_is_over_it_is_still_known(parking: CostlyBackoff) -> None:
    parking.broke(KIN, WHY, 0.0)

    assert parking.until(KIN, 30.0) is None
    assert parking.is_known(KIN)
    assert parking.why(KIN) == WHY


def test_a_kin_whose_decision_kept_the_limits_is_forgotten_and_proven(parking: CostlyBackoff) -> None:
    parking.broke(KIN, WHY, 0.0)
    parking.survived(KIN)

    assert not parking.is_known(KIN)
    assert parking.is_proven(KIN)
    assert parking.breaks(KIN) == 0


def test_what_breaks_a_limit_again_is_proven_no_more(parking: CostlyBackoff) -> None:
    parking.survived(KIN)
    parking.broke(KIN, WHY, 0.0)

    assert not parking.is_proven(KIN)


def test_a_kin_of_which_nothing_is_heard_is_forgotten(parking: CostlyBackoff) -> None:
    parking.broke(KIN, WHY, 0.0)
    parking.broke(CostKey("default", 2), WHY, 631.0)

    assert not parking.is_known(KIN)


def test_no_more_than_so_many_are_remembered(parking: CostlyBackoff) -> None:
    for number in range(5000):
        parking.broke(CostKey("default", number), WHY, 0.0)
        parking.survived(CostKey("other", number))

    assert len(parking) == 4096
    assert not parking.is_known(CostKey("default", 0))
    assert parking.is_known(CostKey("default", 4999))
    assert not parking.is_proven(CostKey("other", 0))

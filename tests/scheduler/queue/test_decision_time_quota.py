"""What namespaces may use of the time for costly decisions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.queue import DecisionTimeQuota


def test_a_namespace_of_which_nothing_is_known_may_begin() -> None:
    quota = DecisionTimeQuota(0.1)

    assert not quota.is_exhausted("a", 0.0)
    assert quota.free_at("a", 5.0) == 5.0


def test_what_was_used_has_to_be_earned_first() -> None:
    quota = DecisionTimeQuota(0.1)
    quota.spend("a", 26.0, 100.0)

    assert quota.is_exhausted("a", 299.0)
    assert quota.free_at("a", 100.0) == pytest.approx(300.0)
    assert not quota.is_exhausted("a", 300.1)


def test_one_namespace_owes_nothing_for_another() -> None:
    quota = DecisionTimeQuota(0.1)
    quota.spend("a", 100.0, 0.0)

    assert not quota.is_exhausted("b", 0.0)


def test_what_is_not_used_is_not_kept_for_later() -> None:
    quota = DecisionTimeQuota(0.1)
    quota.spend("a", 1.0, 0.0)

    assert quota.left("a", 1e6) == pytest.approx(6.0)


def test_an_account_that_is_full_is_not_kept() -> None:
    quota = DecisionTimeQuota(0.1)
    for number in range(100):
        quota.spend(f"team-{number}", 1.0, number * 60.0)

    assert len(quota) == 1


@given(st.lists(st.tuples(st.floats(0.0, 30.0), st.floats(0.0, 60.0)), min_size=1, max_size=50), st.floats(0.01, 1.0))
def test_over_any_time_a_namespace_uses_its_share_a_minutes_worth_and_one_decision(
    decisions: list[tuple[float, float]], share: float
) -> None:
    quota, now, used = DecisionTimeQuota(share), 0.0, 0.0
    for seconds, pause in decisions:
        now = quota.free_at("a", now + pause)
        used += seconds
        now += seconds
        quota.spend("a", seconds, now)

    assert used <= share * (now + 60.0) + 30.0 + 1e-6


def test_when_a_namespace_was_served_is_known_when_its_account_is_full_again() -> None:
    """Else of many that always want something the first one always comes first, and one that came late never."""
    quota = DecisionTimeQuota(0.1)
    quota.spend("old", 2.0, 0.0)
    quota.spend("other", 2.0, 10_000.0)
    assert quota.last_used("new") < quota.last_used("old") < quota.last_used("other")


def test_of_how_many_namespaces_is_known_when_they_were_served_is_bounded() -> None:
    quota = DecisionTimeQuota(0.1)
    for number in range(5000):
        quota.spend(f"n{number}", 1.0, float(number))
    assert quota.last_used("n0") == float("-inf")
    assert quota.last_used("n4999") == 4999.0

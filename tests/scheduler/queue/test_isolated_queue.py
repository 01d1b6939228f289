"""Cost keys, the backoff of costly ones, the share of time of each namespace, and suspects in halves."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from scheduler.queue import Backoff, CostlyBackoff, DecisionCostKey, DecisionTimeQuota, IsolatedQueue, cost_key
from solver.domain import Claim, ClaimId, Pod, PodClaim, Reason, ReasonCode
from tests.support.builders import allocation, claim, member, pod, request, result

ONE, TWO = claim("one"), claim("two")
LARGE = claim("large", request(count=2))
HELD = claim("one", allocation=allocation(result("gpu", "gpu-0", "n1")))


def key_of(each: Pod, *claims: Claim) -> object:
    known: dict[ClaimId, Claim] = {found.id: found for found in claims}
    return cost_key(each, known.get)


def test_the_next_pod_of_a_controller_has_the_same_cost_key() -> None:
    assert key_of(pod("a", "one", uid="1"), ONE) == key_of(pod("b", "two", uid="2"), TWO)


@pytest.mark.parametrize(
    "other",
    [
        (pod("b", "large"), LARGE),
        (pod("b", "one"), HELD),
        (pod("b", "one", cpu=1), ONE),
        (pod("b", "one", node_selector={"a": "b"}), ONE),
        (pod("b", "one", "two"), ONE, TWO),
        (replace(pod("b", "one"), scheduler_name="other"), ONE),
    ],
    ids=["claim", "allocation", "requests", "nodes", "claims", "profile"],
)
def test_what_a_decision_looks_at_makes_another_cost_key(other: tuple[Pod, ...]) -> None:
    each, *claims = other
    assert key_of(pod("a", "one"), ONE) != key_of(each, *claims)  # type: ignore[arg-type]  # claims behind the pod


def test_another_namespace_has_another_cost_key() -> None:
    assert key_of(pod("a", namespace="x")) != key_of(pod("a", namespace="y"))


def test_pods_whose_claim_does_not_exist_yet_are_told_apart_by_its_template() -> None:
    first, second = (PodClaim(entry="gpu", template=name) for name in ("t", "u"))

    assert key_of(pod("a", first)) == key_of(pod("b", first))
    assert key_of(pod("a", first)) != key_of(pod("b", second))


def test_the_pods_of_a_gang_have_one_cost_key_whatever_they_ask_for() -> None:
    assert key_of(member(pod("a", cpu=1), "g")) == key_of(member(pod("b", cpu=2), "g"))
    assert key_of(member(pod("a"), "g")) != key_of(member(pod("a"), "h"))


KEY = DecisionCostKey("default", 1)
REASONS = (Reason(code=ReasonCode.TOO_COSTLY, message="too costly"),)


@pytest.fixture
def backoff() -> CostlyBackoff:
    return CostlyBackoff(Backoff(initial_seconds=30.0, ceiling_seconds=600.0))


def test_a_key_that_exceeds_a_limit_backs_off_twice_as_long_every_time(backoff: CostlyBackoff) -> None:
    backoffs, now = [], 0.0
    for _ in range(7):
        backoff.failed(KEY, REASONS, now)
        until = backoff.until(KEY, now)
        assert until is not None
        backoffs.append(round(until - now))
        now = until

    assert backoffs == [30, 60, 120, 240, 480, 600, 600]


def test_after_its_backoff_it_is_still_known(backoff: CostlyBackoff) -> None:
    backoff.failed(KEY, REASONS, 0.0)

    assert backoff.until(KEY, 30.0) is None
    assert backoff.has_failed(KEY)
    assert backoff.reasons(KEY) == REASONS


def test_a_key_whose_decision_kept_the_limits_is_forgotten_and_proven(backoff: CostlyBackoff) -> None:
    backoff.failed(KEY, REASONS, 0.0)
    backoff.succeeded(KEY)

    assert not backoff.has_failed(KEY)
    assert backoff.is_proven(KEY)
    assert backoff.failures(KEY) == 0


def test_a_key_that_exceeds_a_limit_again_is_proven_no_more(backoff: CostlyBackoff) -> None:
    backoff.succeeded(KEY)
    backoff.failed(KEY, REASONS, 0.0)

    assert not backoff.is_proven(KEY)


def test_a_key_of_which_nothing_is_heard_is_forgotten(backoff: CostlyBackoff) -> None:
    backoff.failed(KEY, REASONS, 0.0)
    backoff.failed(DecisionCostKey("default", 2), REASONS, 631.0)

    assert not backoff.has_failed(KEY)


def test_no_more_than_so_many_are_remembered(backoff: CostlyBackoff) -> None:
    for number in range(5000):
        backoff.failed(DecisionCostKey("default", number), REASONS, 0.0)
        backoff.succeeded(DecisionCostKey("other", number))

    assert len(backoff) == 4096
    assert not backoff.has_failed(DecisionCostKey("default", 0))
    assert backoff.has_failed(DecisionCostKey("default", 4999))
    assert not backoff.is_proven(DecisionCostKey("other", 0))


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


# Suspects


@given(st.lists(st.sampled_from(["g", "h", ""]), min_size=1, max_size=12), st.data())
def test_suspects_are_halved_until_the_guilty_one_or_its_gang_is_alone(gangs: list[str], data: st.DataObject) -> None:
    """Gangs stay whole, no pod is lost, and all others are in a job without the guilty one."""
    pods = [
        member(pod(f"p{number}", cpu=number + 1), gang) if gang else pod(f"p{number}", cpu=number + 1)
        for number, gang in enumerate(gangs)
    ]
    guilty = data.draw(st.sampled_from(pods))
    queue = IsolatedQueue(DecisionTimeQuota(0.1), lambda each: cost_key(each, dict[ClaimId, Claim]().get))
    queue.suspect(pods)
    acquitted, alone = list[Pod](), list[Pod]()
    while len(queue):
        job = queue.take(0.0)
        assert job is not None
        assert all({each for each in pods if each.gang == one.gang} <= {*job.pods} for one in job.pods if one.gang)
        if guilty not in job.pods:
            acquitted += job.pods
        elif job.key is None:
            queue.suspect(job.pods)
        else:
            alone = list(job.pods)

    assert alone == [each for each in pods if each == guilty or (guilty.gang and each.gang == guilty.gang)]
    assert sorted(each.id.name for each in (*acquitted, *alone)) == sorted(each.id.name for each in pods)

"""Limits of quotas against brute force: none is exceeded, and no pod is kept back that could be placed."""

from collections import Counter

from hypothesis import HealthCheck, given, settings

from solver import SolverCache, solve, solve_greedily
from solver.domain import Batch, Budget, Plan, Policy
from solver.verify import check
from tests.support.bruteforce import best
from tests.support.quota_oracle import with_quotas
from tests.support.strategies import ALL_FEATURES, Feature, Situation, situations

POLICY = Policy()
PROPERTY = settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large], max_examples=150)
USUAL = frozenset(
    {
        Feature.ALTERNATIVES,
        Feature.ALL,
        Feature.CAPACITY,
        Feature.COUNTERS,
        Feature.SHARED_CLAIMS,
        Feature.SELECTORS,
        Feature.PRIORITIES,
        Feature.USAGE,
        Feature.ADMIN,
    }
)


def budget() -> Budget:
    """Bounded by work, not by the clock of a busy machine."""
    return Budget(seconds=60.0, deterministic_seconds=10.0)


def counts(plan: Plan, batch: Batch) -> tuple[int, ...]:
    """Pods placed by priority, the highest first."""
    priority = {pod.id: pod.priority for pod in batch.pods}
    placed = Counter(priority[placement.pod] for placement in plan.placements)
    return tuple(placed[each] for each in sorted(set(priority.values()), reverse=True))


@PROPERTY
@given(situation=with_quotas(situations(USUAL)))
def test_as_many_pods_are_placed_as_quotas_allow(situation: Situation) -> None:
    plan = solve(situation.snapshot, situation.batch, POLICY, budget())
    assert check(situation.snapshot, situation.batch, plan) == ()
    assert counts(plan, situation.batch) == best(situation.snapshot, situation.batch).counts


@PROPERTY
@given(situation=with_quotas(situations(ALL_FEATURES)))
def test_the_same_with_every_feature(situation: Situation) -> None:
    plan = solve(situation.snapshot, situation.batch, POLICY, budget())
    assert check(situation.snapshot, situation.batch, plan) == ()
    assert counts(plan, situation.batch) == best(situation.snapshot, situation.batch).counts


@PROPERTY
@given(situation=with_quotas(situations(USUAL)))
def test_the_fall_back_keeps_limits(situation: Situation) -> None:
    plan = solve_greedily(situation.snapshot, situation.batch, POLICY, budget())
    assert check(situation.snapshot, situation.batch, plan) == ()
    assert counts(plan, situation.batch) <= best(situation.snapshot, situation.batch).counts


@PROPERTY
@given(situation=with_quotas(situations(USUAL, most_pods=1)))
def test_a_pod_alone_is_placed_exactly_where_quotas_allow_it(situation: Situation) -> None:
    plan = solve(situation.snapshot, situation.batch, POLICY, budget())
    assert counts(plan, situation.batch) == best(situation.snapshot, situation.batch).counts


@PROPERTY
@given(first=with_quotas(situations(USUAL)), second=with_quotas(situations(USUAL)))
def test_what_was_solved_before_means_nothing(first: Situation, second: Situation) -> None:
    engine = SolverCache()
    solve(first.snapshot, first.batch, POLICY, budget(), engine)
    warm = solve(second.snapshot, second.batch, POLICY, budget(), engine)
    assert warm == solve(second.snapshot, second.batch, POLICY, budget())

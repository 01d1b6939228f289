"""What holds for every plan that `solve` gives, on generated clusters."""

import random
from collections import Counter
from itertools import combinations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from solver import SolverCache, solve, solve_greedily
from solver.domain import Batch, Budget, ConsumerReference, Plan, Policy, SearchStatus, Snapshot
from solver.problem.requests import options, remaining_options
from solver.verify import check
from tests.support.bruteforce import best
from tests.support.strategies import ALL_FEATURES, Feature, Situation, situations

POLICY = Policy()
PROPERTY = settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large], max_examples=100)
PAIR = settings(PROPERTY, max_examples=8)


def budget() -> Budget:
    """Bounded by work, not by the clock of a busy machine."""
    return Budget(seconds=60.0, deterministic_seconds=10.0)


def decided(situation: Situation, engine: SolverCache | None = None) -> Plan:
    return solve(situation.snapshot, situation.batch, POLICY, budget(), engine)


def counts(plan: Plan, batch: Batch) -> tuple[int, ...]:
    """Pods placed by priority, the highest first."""
    priority = {pod.id: pod.priority for pod in batch.pods}
    placed = Counter(priority[placement.pod] for placement in plan.placements)
    return tuple(placed[each] for each in sorted(set(priority.values()), reverse=True))


def rank(plan: Plan, snapshot: Snapshot) -> int:
    """The sum of the positions of the alternatives that were chosen, every claim once."""
    claims = {claim.id: claim for claim in snapshot.claims}
    positions = {
        (claim.id, str(request.result_name(position))): position
        for claim in claims.values()
        for request in claim.requests
        for position in range(len(request.alternatives))
    }
    chosen = {(each.claim, result.request) for each in plan.allocations for result in each.allocation.results}
    return sum(positions[each] for each in chosen)


@PROPERTY
@given(situation=situations())
def test_every_plan_verifies(situation: Situation) -> None:
    assert check(situation.snapshot, situation.batch, decided(situation)) == ()


@PROPERTY
@given(situation=situations())
def test_every_plan_of_the_fall_back_verifies(situation: Situation) -> None:
    plan = solve_greedily(situation.snapshot, situation.batch, POLICY, budget())
    assert check(situation.snapshot, situation.batch, plan) == ()


@PROPERTY
@given(situation=situations())
def test_as_many_pods_are_placed_as_can_be(situation: Situation) -> None:
    assert counts(decided(situation), situation.batch) == best(situation.snapshot, situation.batch).counts


@settings(PROPERTY, max_examples=200)
@given(situation=situations(frozenset({Feature.ALTERNATIVES, Feature.CONSTRAINTS, Feature.USAGE})))
def test_as_many_pods_are_placed_where_one_option_is_kept(situation: Situation) -> None:
    with pytest.MonkeyPatch.context() as patch:
        for module in (options, remaining_options):
            patch.setattr(module, "MOST_OPTIONS", 1)
        assert counts(decided(situation), situation.batch) == best(situation.snapshot, situation.batch).counts


@PROPERTY
@given(situation=situations())
def test_a_proven_plan_takes_the_alternatives_that_are_liked_best(situation: Situation) -> None:
    plan, found = decided(situation), best(situation.snapshot, situation.batch)
    if plan.report.status is SearchStatus.OPTIMAL:
        assert rank(plan, situation.snapshot) == found.rank


@PROPERTY
@given(situation=situations(ALL_FEATURES - {Feature.SHARED_CLAIMS}, most_pods=1))
def test_a_pod_alone_is_placed_exactly_where_an_allocation_exists(situation: Situation) -> None:
    assert counts(decided(situation), situation.batch) == best(situation.snapshot, situation.batch).counts


@pytest.mark.parametrize(
    "pair", list(combinations(sorted(ALL_FEATURES), 2)), ids=lambda pair: " and ".join(pair).replace(" ", "-")
)
@PAIR
@given(data=st.data())
def test_two_features_together_are_solved_to_the_optimum(pair: tuple[Feature, Feature], data: st.DataObject) -> None:
    situation = data.draw(situations(frozenset(pair)))
    plan = decided(situation)
    assert check(situation.snapshot, situation.batch, plan) == ()
    assert counts(plan, situation.batch) == best(situation.snapshot, situation.batch).counts


@PROPERTY
@given(situation=situations())
def test_the_fall_back_is_never_better(situation: Situation) -> None:
    plan = solve_greedily(situation.snapshot, situation.batch, POLICY, budget())
    assert counts(plan, situation.batch) <= counts(decided(situation), situation.batch)


@PROPERTY
@given(situation=situations(), seed=st.integers(0, 2**16))
def test_the_order_of_the_cluster_means_nothing(situation: Situation, seed: int) -> None:
    assert decided(Situation(_shuffled(situation.snapshot, seed), situation.batch)) == decided(situation)


@PROPERTY
@given(situation=situations())
def test_the_same_input_gives_the_same_plan(situation: Situation) -> None:
    assert decided(situation) == decided(situation)


@PROPERTY
@given(first=situations(), second=situations())
def test_what_was_solved_before_means_nothing(first: Situation, second: Situation) -> None:
    engine = SolverCache()
    decided(first, engine)
    assert decided(second, engine) == decided(second)


@PROPERTY
@given(situation=situations())
def test_what_was_placed_stays_placed_when_it_has_happened(situation: Situation) -> None:
    """Applying a plan and solving again for the rest places no more pods."""
    plan = decided(situation)
    after = _applied(situation, plan)
    assert decided(after).placements == ()


def _shuffled(snapshot: Snapshot, seed: int) -> Snapshot:
    """The same objects in another order (a snapshot promises sorted ones; the plan may not depend on it)."""
    order = random.Random(seed)  # noqa: S311 -- no secret

    def shuffled(objects: tuple[object, ...]) -> tuple[object, ...]:
        return tuple(order.sample(objects, len(objects)))

    fields = ("nodes", "slices", "classes", "taint_rules", "claims", "pods")
    return replace(snapshot, **{field: shuffled(getattr(snapshot, field)) for field in fields})


def _applied(situation: Situation, plan: Plan) -> Situation:
    """The cluster after the plan was written and bound, and the pods that wait on."""
    homes = {placement.pod: placement.node for placement in plan.placements}
    allocations = {each.claim: each.allocation for each in plan.allocations}
    claims = tuple(
        replace(claim, allocation=allocations.get(claim.id, claim.allocation)) for claim in situation.snapshot.claims
    )
    bound = tuple(replace(pod, node_name=homes[pod.id]) for pod in situation.batch.pods if pod.id in homes)
    waiting = tuple(pod for pod in situation.batch.pods if pod.id not in homes)
    pods = tuple(sorted((*situation.snapshot.pods, *bound), key=lambda pod: pod.id))
    reserved = tuple(
        replace(
            claim,
            reserved_for=(
                *claim.reserved_for,
                *(
                    ConsumerReference(resource="pods", name=each.pod.name, uid=each.pod_uid)
                    for each in plan.placements
                    if claim.id in each.claims and each.pod_uid not in {one.uid for one in claim.reserved_for}
                ),
            ),
        )
        for claim in claims
    )
    return Situation(replace(situation.snapshot, claims=reserved, pods=pods), Batch(pods=waiting))

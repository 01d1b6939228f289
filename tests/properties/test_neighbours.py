"""Rules between pods against an exhaustive search, on small generated clusters."""

from collections import Counter

from hypothesis import HealthCheck, given, settings
from msgspec.structs import replace

from solver import SolverCache, solve, solve_greedily
from solver.domain import Batch, Budget, Plan, Policy
from solver.verify import check
from tests.support.bruteforce import best
from tests.support.neighbour_situations import Neighbourhood, neighbourhoods

POLICY = Policy()
PROPERTY = settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large], max_examples=60)


def budget() -> Budget:
    return Budget(seconds=60.0, deterministic_seconds=10.0)


def counts(plan: Plan, batch: Batch) -> tuple[int, ...]:
    priority = {pod.id: pod.priority for pod in batch.pods}
    placed = Counter(priority[placement.pod] for placement in plan.placements)
    return tuple(placed[each] for each in sorted(set(priority.values()), reverse=True))


@PROPERTY
@given(case=neighbourhoods())
def test_every_plan_verifies_and_places_as_many_as_can_be(case: Neighbourhood) -> None:
    plan = solve(case.snapshot, case.batch, POLICY, budget())

    assert check(case.snapshot, case.batch, plan) == ()
    assert counts(plan, case.batch) == best(case.snapshot, case.batch).counts


@PROPERTY
@given(case=neighbourhoods(with_devices=True, most_pods=4))
def test_with_devices_too(case: Neighbourhood) -> None:
    plan = solve(case.snapshot, case.batch, POLICY, budget())

    assert check(case.snapshot, case.batch, plan) == ()
    assert counts(plan, case.batch) == best(case.snapshot, case.batch).counts


@PROPERTY
@given(case=neighbourhoods(with_devices=True))
def test_every_plan_of_the_fall_back_verifies(case: Neighbourhood) -> None:
    plan = solve_greedily(case.snapshot, case.batch, POLICY, budget())

    assert check(case.snapshot, case.batch, plan) == ()


@PROPERTY
@given(case=neighbourhoods(most_pods=1))
def test_a_pod_alone_says_of_every_node_what_keeps_it_away(case: Neighbourhood) -> None:
    plan = solve(case.snapshot, case.batch, POLICY, budget())

    for unplaced in plan.unplaced:
        assert sum(reason.node_count for reason in unplaced.reasons) == len(case.snapshot.nodes)


@PROPERTY
@given(case=neighbourhoods())
def test_what_is_remembered_of_running_pods_changes_nothing(case: Neighbourhood) -> None:
    engine = SolverCache()
    before = replace(case.snapshot, pods=case.snapshot.pods[1:])
    solve(before, case.batch, POLICY, budget(), engine)

    warm = solve(case.snapshot, case.batch, POLICY, budget(), engine)

    assert warm == solve(case.snapshot, case.batch, POLICY, budget())

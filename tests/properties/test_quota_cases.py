"""
Quotas against brute force, case by case: limits, guarantees and shares.

`QUOTA_CASES=10000` decides as many as the published figure; a test run has some hundred of each.
"""

import os
from collections import Counter

import pytest

from solver import solve
from solver.domain import Batch, Budget, Plan, Policy
from solver.verify import check
from tests.support import quota_cases, share_oracle
from tests.support.bruteforce import best

CASES = int(os.environ.get("QUOTA_CASES", "240"))
AT_ONCE = 60


def budget() -> Budget:
    """Bounded by work, not by the clock of a busy machine."""
    return Budget(seconds=60.0, deterministic_seconds=10.0)


def counts(plan: Plan, batch: Batch) -> tuple[int, ...]:
    """Pods placed by priority, the highest first."""
    priority = {pod.id: pod.priority for pod in batch.pods}
    placed = Counter(priority[placement.pod] for placement in plan.placements)
    return tuple(placed[each] for each in sorted(set(priority.values()), reverse=True))


@pytest.mark.parametrize("first", range(0, CASES, AT_ONCE))
def test_no_limit_is_exceeded_and_no_pod_is_kept_back_that_could_be_placed(first: int) -> None:
    for seed in range(first, first + AT_ONCE):
        snapshot, batch = quota_cases.generated(seed)
        plan = solve(snapshot, batch, Policy(), budget())
        assert check(snapshot, batch, plan) == (), seed
        assert counts(plan, batch) == best(snapshot, batch).counts, seed


@pytest.mark.parametrize("first", range(0, CASES, AT_ONCE))
def test_guarantees_go_first_and_no_plan_is_nearer_to_the_shares(first: int) -> None:
    for seed in range(first, first + AT_ONCE):
        fleet = share_oracle.generated(seed)
        plan = solve(fleet.situation.snapshot, fleet.situation.batch, Policy(), budget())
        assert check(fleet.situation.snapshot, fleet.situation.batch, plan) == (), seed
        assert share_oracle.worth(fleet, share_oracle.placed_by(plan)) == share_oracle.best(fleet), seed

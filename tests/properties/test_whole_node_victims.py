"""
Victims under limits and guarantees of whole nodes, against every set of pods that may go.

`WHOLE_NODE_CASES=1000` decides as many of each; a test run has some dozen.
"""

import os

import pytest

from solver import solve
from solver.domain import Budget, Plan, Policy
from solver.verify import check
from tests.support.preemption_cases import Harm
from tests.support.whole_node_cases import RULES, Case, best_by_all_sets, generated, harm, is_above_a_limit, served

CASES = int(os.environ.get("WHOLE_NODE_CASES", "40"))
AT_ONCE = 20
POLICY = Policy(preemption=RULES)


def decide(case: Case) -> Plan:
    """Decide, and check limits and guarantees by the independent checker."""
    plan = solve(case.snapshot, case.batch, POLICY, Budget(seconds=60.0, deterministic_seconds=10.0))
    assert check(case.snapshot, case.batch, plan, POLICY) == ()
    return plan


def harm_of(case: Case, plan: Plan) -> Harm:
    by_id = {pod.id: pod for pod in case.snapshot.pods}
    return harm(case.snapshot, [by_id[each.pod] for preemption in plan.preemptions for each in preemption.victims])


@pytest.mark.parametrize("first", range(0, CASES, AT_ONCE))
def test_one_pod_evicts_the_least_that_limits_and_guarantees_allow(first: int) -> None:
    for seed in range(first, first + AT_ONCE):
        case = generated(seed, pods=1)
        plan = decide(case)
        assert (served(plan), harm_of(case, plan)) == best_by_all_sets(case), seed


@pytest.mark.parametrize("first", range(0, CASES, AT_ONCE))
def test_of_two_pods_as_many_are_served_as_limits_and_guarantees_allow(first: int) -> None:
    """
    A pod that is placed at once is not moved to where victims leave, so that another one gets its room.

    Above its limit a team may get more than any set of victims gives at one time: a pod comes to a node in use, and
    then another one goes.
    """
    for seed in range(first, first + AT_ONCE):
        case = generated(seed, pods=2)
        plan = decide(case)
        if not is_above_a_limit(case.snapshot):
            most = best_by_all_sets(case)[0]
            assert served(plan) == most or (plan.placements and served(plan) < most), seed

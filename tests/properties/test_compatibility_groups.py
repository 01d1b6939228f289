"""Compatibility groups: their counters allow exactly the sets that the API allows, and plans are as good as can be."""

from collections import Counter
from itertools import chain, combinations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from solver import solve
from solver.domain import Budget, CounterId, Policy
from solver.feasibility import pools
from solver.problem.devices.compatibility import exclusions_of, gate_of, is_exclusion
from solver.verify import check
from tests.support import builders as b
from tests.support.bruteforce import best
from tests.support.strategies import GROUPS, Feature, Situation, situations

PROPERTY = settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large], max_examples=150)


def may_be_together(groups: list[frozenset[str]]) -> bool:
    """All have one group in common, or none has any."""
    return not any(groups) or bool(frozenset.intersection(*groups))


@PROPERTY
@given(declared=st.lists(st.sampled_from(GROUPS), min_size=1, max_size=8))
def test_the_counters_allow_exactly_the_devices_that_may_be_used_together(declared: list[tuple[str, ...]]) -> None:
    devices = [
        b.device(f"d{index}", consumes={"card": {"slices": 0}}, groups=groups) for index, groups in enumerate(declared)
    ]
    published = (
        b.resource_slice("n0", *devices, slice_count=2),
        b.resource_slice("n0", slice_count=2, counter_sets={"card": {"slices": 1}}),
    )
    (pool,) = pools.resolve(published).values()
    found = exclusions_of(pool)
    every_device = range(len(declared))
    for chosen in chain.from_iterable(combinations(every_device, size) for size in range(1, len(declared) + 1)):
        drawn: Counter[CounterId] = Counter()
        for index in chosen:
            drawn.update(dict(found.draws.get(b.device_id(f"d{index}", "n0"), ())))
        fits = all(amount <= found.budgets[counter] for counter, amount in drawn.items())
        assert fits == may_be_together([frozenset(declared[index]) for index in chosen]), chosen
    assert all(is_exclusion(each) and gate_of(each) in found.budgets for each in found.budgets)


FEATURES = frozenset({Feature.COUNTERS, Feature.GROUPS, Feature.USAGE, Feature.CAPACITY, Feature.ALL, Feature.WIDE})


@PROPERTY
@given(situation=situations(FEATURES))
def test_plans_with_partitions_of_groups_are_as_good_as_can_be(situation: Situation) -> None:
    snapshot, batch = situation
    plan = solve(snapshot, batch, Policy(), Budget(seconds=60.0, deterministic_seconds=10.0))
    assert check(snapshot, batch, plan) == ()
    assert (len(plan.placements),) == best(snapshot, batch).counts or not batch.pods

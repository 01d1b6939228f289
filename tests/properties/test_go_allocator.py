"""
One pod on one node, put to the allocator of Kubernetes and to ours.

Where it gives an allocation that our checker accepts, we place the pod too, with no worse alternatives; where the two
differ otherwise, the reason is on the closed list of `tests.support.allocation_differences`. Its search is
exponential: what it gives up decides nothing.
"""

from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from e2e.controlplane import build
from tests.support.allocation_cases import Case, case, partitioned_case
from tests.support.allocation_differences import Difference, of_allocation, of_refusal
from tests.support.allocation_oracle import Allocator, judged, ours, question_of, ranks_given, ranks_of_plan

pytestmark = [pytest.mark.controlplane, pytest.mark.kubernetes(since="1.37")]

CASES_PER_TEST = 500

SHOWN = {
    Difference.SELECTOR_ERROR: 78,
    Difference.ALL_IN_FLUX: 1996,
    Difference.ALL_CONSTRAINT: 1344,
    Difference.SELECTOR_TERMS: 38,
    Difference.ADMIN_CHARGED: 112,
    Difference.CAPACITY_NAMES: 116,
    Difference.CLAIM_ORDER: 1253,
    Difference.NEWER_ELSEWHERE: 561,
    Difference.NAME_TWICE_ELSEWHERE: 16994,
    Difference.SHARE_OVERLAPS: 1561,
}
"""A case that shows each difference, so that one that upstream has mended, or we have, leaves the list."""


@pytest.fixture(scope="module")
def allocator() -> Iterator[Allocator]:
    asked = Allocator(build.controlplane_binary())
    yield asked
    asked.close()


def differences(allocator: Allocator, seed: int, made: Callable[[int], Case] = case) -> frozenset[Difference]:
    """Compare the two sides on a case; fails on a difference that is not on the list."""
    asked = made(seed)
    question = question_of(asked)
    plan = ours(question)
    is_placed = bool(plan.placements)
    answer = allocator.ask(asked)
    if answer.timed_out:
        return frozenset()
    if answer.allocations is None:
        found = of_refusal(allocator, asked, answer) if is_placed else frozenset()
        assert found or not is_placed, f"case {seed}: placed, where the real allocator says {answer.reason or 'no'}"
        return found
    violations = judged(asked, question, answer.allocations)
    assert violations or is_placed, f"case {seed}: not placed, where the real allocator gives {answer.allocations}"
    if not violations:
        chosen, given = ranks_of_plan(asked, plan), ranks_given(asked, answer.allocations)
        assert chosen <= given, f"case {seed}: alternatives of rank {chosen}, where the real allocator has {given}"
    explained = of_allocation(allocator, asked, violations)
    assert explained is not None, f"case {seed}: what the real allocator gives is refused: {violations}"
    return explained


@pytest.mark.parametrize("first_seed", range(0, 5000, CASES_PER_TEST))
def test_random_pods_are_placed_as_the_real_allocator_places_them(allocator: Allocator, first_seed: int) -> None:
    found = Counter(
        difference
        for seed in range(first_seed, first_seed + CASES_PER_TEST)
        for difference in differences(allocator, seed)
    )
    assert found.total() < CASES_PER_TEST // 10, found


@pytest.mark.kubernetes(since="1.37")
@pytest.mark.parametrize("first_seed", range(0, 2000, CASES_PER_TEST))
def test_partitions_of_groups_and_fractional_shares_are_given_as_the_real_allocator_gives_them(
    allocator: Allocator, first_seed: int
) -> None:
    seeds = range(first_seed, first_seed + CASES_PER_TEST)
    found = Counter(difference for seed in seeds for difference in differences(allocator, seed, partitioned_case))
    assert found.total() < CASES_PER_TEST // 10, found


@pytest.mark.parametrize(("difference", "seed"), SHOWN.items(), ids=lambda each: str(each).replace(" ", "-"))
def test_a_listed_difference_is_there(allocator: Allocator, difference: Difference, seed: int) -> None:
    assert difference in differences(allocator, seed)


def test_every_difference_on_the_list_is_shown() -> None:
    assert set(SHOWN) == set(Difference)

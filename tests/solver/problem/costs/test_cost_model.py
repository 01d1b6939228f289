"""The cheapest places of a spread cost, and the state of a cost tracker."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from solver.problem.costs.cost_model import CostModel, CostTracker, SpreadCost

bases = st.lists(st.integers(0, 6), min_size=1, max_size=5)


def crowd(base: list[int], step: list[int], classes: frozenset[int] = frozenset({0})) -> SpreadCost:
    domains = np.arange(len(base), dtype=np.int64)
    return SpreadCost("test", domains, np.array(base, np.int64), np.array(step, np.int64), classes)


@given(base=bases, steps=st.lists(st.integers(0, 3), min_size=5, max_size=5), most=st.integers(0, 12), data=st.data())
def test_no_place_that_is_left_out_is_cheaper(
    base: list[int], steps: list[int], most: int, data: st.DataObject
) -> None:
    each = crowd(base, steps[: len(base)])
    domains = data.draw(st.lists(st.sampled_from(range(len(base))), unique=True))
    expected = sorted(base[domain] + rank * steps[domain] for domain in domains for rank in range(most))[:most]
    found = sorted(each.cheapest(np.array(domains, dtype=np.int64), most).items())
    assert [price for price, count in found for _ in range(count)][:most] == expected


def test_a_copy_of_a_tally_goes_its_own_way() -> None:
    tally = CostTracker(CostModel(spread_costs=(crowd([0, 0], [5, 5]), crowd([1, 1], [7, 7], frozenset({1})))))
    tally.take(0, 0)
    other = tally.copy()
    other.take(0, 0)
    other.take(1, 1)
    assert _costs(tally) == {0: [5, 0], 1: [1, 1]}
    assert _costs(other) == {0: [10, 0], 1: [1, 8]}


def test_what_is_noted_does_not_change_the_crowd() -> None:
    each = crowd([0, 0], [5, 5])
    CostTracker(CostModel(spread_costs=(each,))).take(0, 0)
    assert each.base.tolist() == [0, 0]


def _costs(tally: CostTracker) -> dict[int, list[int]]:
    return {index: costs.tolist() for index in (0, 1) if (costs := tally.marginal(index)) is not None}

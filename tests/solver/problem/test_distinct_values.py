"""Devices that have to differ: what a node cannot serve, whatever is chosen, has no option and no variable."""

from itertools import combinations, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from solver.greedy.device_fit import Attempt, Singly
from solver.model.build import most_served
from solver.problem.devices.node_ledger import NodeLedger
from solver.problem.requests.distinct_values import can_differ
from tests.solver.problem.test_options import ROOT, cards, ways
from tests.support import builders as b
from tests.support import solver_problems as s

VALUES = st.sets(st.sampled_from("pqrst"))
WANTED = st.lists(st.tuples(st.integers(1, 2), VALUES), min_size=1, max_size=3)


@given(WANTED)
def test_a_matching_is_found_where_there_is_one(wanted: list[tuple[int, set[str]]]) -> None:
    slots = [sorted(values) for count, values in wanted for _ in range(count)]
    possible = any(len(set(chosen)) == len(slots) for chosen in product(*slots))
    assert can_differ(wanted) == possible


def test_a_request_for_all_of_thousands_of_devices_is_no_deep_recursion() -> None:
    assert can_differ([(3_000, range(3_000))])
    assert can_differ([(1_500, range(1_500)), (1_500, range(3_000))])
    assert not can_differ([(1_500, range(2_000)), (1_500, range(2_000))])


@given(st.lists(st.sets(st.sampled_from("pqr"), min_size=1, max_size=2).map(sorted), min_size=1, max_size=4), st.data())
def test_there_is_an_option_where_devices_can_differ(attributes: list[list[str]], data: st.DataObject) -> None:
    count = data.draw(st.integers(1, len(attributes)))
    claim = b.claim("c", b.request(count=count), constraints=(b.distinct(ROOT),))
    found = ways(claim, cards(*(tuple(each) for each in attributes)))
    differ = any(
        all(not set(one) & set(other) for one, other in combinations(chosen, 2))
        for chosen in combinations(attributes, count)
    )
    assert found or not differ
    if all(len(each) == 1 for each in attributes):
        assert bool(found) == differ


def test_a_match_may_leave_too_few_values_to_differ_in() -> None:
    devices = (b.device(f"d{at}", attributes={ROOT: f"r{at}", "x.io/numa": at // 2}) for at in range(4))
    requests = [b.request(name) for name in "abc"]
    node = b.resource_slice("n1", *devices)
    apart = b.claim("c", *requests, constraints=(b.distinct(ROOT), b.match("x.io/numa", "a", "b")))
    assert len(ways(apart, node)) == 2
    together = b.claim("c", *requests, constraints=(b.distinct(ROOT), b.match("x.io/numa")))
    assert ways(together, node) == ()


def test_requests_for_one_value_find_enough_devices_together() -> None:
    claim = b.claim("c", b.request("a"), b.request("b"), constraints=(b.match(ROOT),))
    assert ways(claim, cards("p", "q", "r")) == ()
    assert len(ways(claim, cards("p", "q", "q"))) == 1


@pytest.mark.parametrize(("used", "most"), [((), 1), (("d0",), 1), (("d0", "d1"), 0), (("d2",), 0)])
def test_what_is_left_of_a_node_may_not_differ(used: tuple[str, ...], most: int) -> None:
    """Roots p, p and q: with both of p, or with q, in use the others cannot differ."""
    wanted = b.claim("c", b.request(count=2), constraints=(b.distinct(ROOT),))
    others = [b.held(f"used-{each}", b.result("r", each, "n1"), node_name="n1") for each in used]
    problem = s.problem(b.node("n1"), cards("p", "p", "q"), b.gpu_class(), wanted, others, pods=[b.pod("p", "c")])
    (part,) = problem.classes[0].parts
    (option,) = problem.options(part.component, problem.group(0))
    attempt = Attempt(problem, problem.group(0), NodeLedger.of(problem.available.states[0]), steps=100, work=100)

    found = next(Singly(attempt, problem.requests.components[part.component], option).picks(), None)

    assert (found is not None) == bool(most)
    assert most or attempt.steps == 100
    assert most_served(problem, problem.classes[0], 0) == most

"""Devices that have to differ: what a node cannot serve, whatever is chosen, has no option and no variable."""

from itertools import combinations, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from solver.domain import SearchParams
from solver.greedy.device_fit import Attempt, Condition, Singly, serve
from solver.model.build import most_served
from solver.problem.devices.node_ledger import NodeLedger
from solver.problem.requests.distinct_values import can_differ
from tests.solver.problem.test_options import ROOT, cards, ways
from tests.support import builders as b
from tests.support import solver_problems as s
from tests.support.calls import counted

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


def test_options_have_lines_in_common_and_no_search_looks_at_more_types_than_it_may(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Thousands of ways to take three pairs, each of one value, of devices that have too few roots left."""
    pairs = [b.match("x.io/numa", f"r{pair}", f"r{pair + 1}") for pair in (0, 2, 4)]
    wanted = b.claim("c", *(b.request(f"r{at}") for at in range(6)), constraints=(b.distinct(ROOT), *pairs))
    values: list[dict[str, b.Attribute]] = [{ROOT: f"p{at // 2}", "x.io/numa": at % 16} for at in range(128)]
    cards = b.resource_slice("n1", *(b.device(f"d{at}", attributes=each) for at, each in enumerate(values)))
    others = [b.held(f"used-{at}", b.result("r", f"d{at}", "n1"), node_name="n1") for at in range(10, 128)]
    problem = s.problem(b.node("n1"), cards, b.gpu_class(), wanted, others, pods=[b.pod("p", "c")])
    (part,) = problem.classes[0].parts
    options = problem.options(part.component, problem.group(0))
    of_lines = {id(line): len(line.types) for option in options for line in option.lines}
    assert len(options) > 1_000

    looks = counted(monkeypatch, NodeLedger, "times")
    assert not most_served(problem, problem.classes[0], 0)
    assert len(looks) <= 2 * sum(of_lines.values())

    lazy, looks = (
        s.with_params(problem, SearchParams(greedy_device_types=500)),
        counted(monkeypatch, NodeLedger, "most"),
    )
    assert serve(lazy, (part,), Condition(0, problem.available.states[0], (), is_unused=False)) is None
    assert len(looks) <= 600


def test_of_thousands_of_options_some_are_compared_and_one_is_taken() -> None:
    pairs = [b.match("x.io/numa", f"r{pair}", f"r{pair + 1}") for pair in (0, 2, 4)]
    wanted = b.claim("c", *(b.request(f"r{at}") for at in range(6)), constraints=(b.distinct(ROOT), *pairs))
    values: list[dict[str, b.Attribute]] = [{ROOT: f"p{at}", "x.io/numa": at % 16} for at in range(128)]
    cards = b.resource_slice("n1", *(b.device(f"d{at}", attributes=each) for at, each in enumerate(values)))
    problem = s.problem(b.node("n1"), cards, b.gpu_class(), wanted, pods=[b.pod("p", "c")])
    lazy = s.with_params(problem, SearchParams(greedy_device_types=2_000))
    assert serve(lazy, problem.classes[0].parts, Condition(0, problem.available.states[0], (), is_unused=True))

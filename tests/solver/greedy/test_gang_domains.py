"""A gang that may be in many domains: what each try costs, and that the tries end with time."""

from collections.abc import Callable

import pytest

from solver.domain import Batch, Budget, ReasonCode, Request
from solver.explain.gangs import GangReasons
from solver.explain.unplaced_reasons import Explanation
from solver.greedy import Greedy, Order, units
from solver.greedy.device_fit import FitCache
from solver.greedy.placement_state import trackers
from solver.problem import gang_domains
from solver.problem.problem import Problem
from solver.solution import Solution
from tests.support import builders as b
from tests.support.calls import counted
from tests.support.gangs import RACK, problem_of

NODES, SIZE = 10, 5
ROOTS = 2 * NODES
"""A node has eight GPUs, four at each PCIe root: a gang of five fits at none."""


def gang_at_one_root() -> Problem:
    level = b.by_device("resource.kubernetes.io/pcieRoot")
    claims = [b.claim(f"g-{i}") for i in range(SIZE)]
    members = tuple(b.member(b.pod(f"g-{i}", f"g-{i}"), "g") for i in range(SIZE))
    nodes, slices = ([make(f"n{i}") for i in range(NODES)] for make in (b.node, b.gpu_slice))
    return problem_of([*nodes, *slices, b.gpu_class(), *claims], Batch(pods=members, gangs=(b.gang("g", SIZE, level),)))


def after(looks: int) -> Callable[[], bool]:
    """Say that time has ended from this look on."""
    left = iter(range(looks))
    return lambda: next(left, None) is None


def test_in_a_domain_only_the_classes_are_tried_that_have_nodes_there(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = gang_at_one_root()
    assert len(problem.classes) > ROOTS
    calls = counted(monkeypatch, Greedy, "_choose")
    assert not Greedy(problem, FitCache(problem), Order.QUEUE_BEST_FIT).run().choices
    assert len(calls) <= ROOTS * SIZE


def test_classes_inside_of_a_domain_are_those_whose_mask_is_not_empty() -> None:
    problem = gang_at_one_root()
    (rule,) = problem.rules.gangs
    for row in ((domain,) for domain in range(ROOTS)):
        inside = rule.inside(rule.levels, row)
        masks = {index: rule.mask(index, rule.levels, row) for index in rule.classes}
        assert inside.keys() == {index for index, mask in masks.items() if mask is None or mask.any()}
        assert len(inside) == 1


def test_no_other_domain_is_tried_when_time_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = gang_at_one_root()
    tries = counted(monkeypatch, units, "_place_in")
    solution = Greedy(problem, FitCache(problem), Order.QUEUE_BEST_FIT).run(after(3))
    assert not solution.choices
    assert len(tries) <= 5  # four in their order, and the domain with most room


def racked_gang() -> Problem:
    """A gang of four that fits only in the last of ten racks, which has the most nodes."""
    nodes = [b.node(f"r{rack}-n{i}", cpu=2, labels={RACK: f"r{rack}"}) for rack in range(9) for i in range(3)]
    nodes += [b.node(f"r9-n{i}", cpu=2, labels={RACK: "r9"}) for i in range(8)]
    members = tuple(b.member(b.pod(f"g-{i}", cpu=2), "g") for i in range(4))
    low = [b.pod(f"low-{i}", cpu=1, node_name=f"r{i}-n0") for i in range(9)]
    return problem_of([*nodes, *low], Batch(pods=members, gangs=(b.gang("g", 4, b.by_label(RACK, is_required=False)),)))


def test_when_time_has_ended_the_domain_with_most_room_is_the_last_try(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = racked_gang()
    monkeypatch.setattr(units, "_tries", lambda *_: iter([(problem.rules.gangs[0].levels, (0,))] * 5))
    solution = Greedy(problem, FitCache(problem), Order.QUEUE_BEST_FIT).run(after(0))
    assert len(solution.choices) == 4


def test_a_gang_is_not_told_that_it_fits_nowhere_where_time_ended_before_all_was_tried() -> None:
    problem = gang_at_one_root()
    told = [
        GangReasons.of(problem, Solution(), Explanation(problem, trackers(problem), budget)).added(
            problem.families[0], ()
        )
        for budget in (None, Budget(seconds=0.0))
    ]
    assert [[each.code for each in found] for found in told] == [[ReasonCode.GANG_UNPLACED], []]


def test_where_most_pods_fit_is_looked_for_until_time_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = gang_at_one_root()
    (unit,) = units.units(problem, Greedy(problem, FitCache(problem), Order.QUEUE_BEST_FIT).sequence())
    tries = counted(monkeypatch, units, "_place_in")
    placer = Greedy(problem, FitCache(problem), Order.QUEUE_BEST_FIT, stop=after(3)).start()
    assert unit.rule is not None
    assert units.most(placer, unit, unit.rule).pods == SIZE - 1
    assert len(tries) <= 4


def test_devices_are_looked_at_once_for_each_demand_of_a_gang(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its pods may ask for the same few demands in very many ways."""
    nodes = [b.node(f"n{number}") for number in range(4)]
    slices = [b.gpu_slice(node.name, count=8) for node in nodes]

    def request(row: int, place: int) -> Request:
        tolerated = ([b.toleration(f"k{which}")] for which in range(3))
        ways = (b.alternative(f"s{which}", tolerations=each) for which, each in enumerate(tolerated))
        return b.first_available(f"r{place}-{row}", *ways)

    claims = [b.claim(f"g{row}", *(request(row, place) for place in range(1 + row))) for row in range(6)]
    members = [b.member(b.pod(f"g{row}", f"g{row}"), "g") for row in range(6)]
    level = b.by_device("gpu.example.com/model", is_required=False)
    looked = counted(monkeypatch, gang_domains, "value_of")

    problem_of([*nodes, *slices, b.gpu_class(), *claims], Batch(pods=tuple(members), gangs=(b.gang("g", 6, level),)))

    assert 0 < len(looked) <= 3 * 4 * 8

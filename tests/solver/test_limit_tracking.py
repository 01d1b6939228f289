"""The greedy tracks equal limits at the cost of those that pods use."""

import pytest

from solver.greedy.placement_state import LimitTracker
from solver.rules.forms.domains import per_node
from solver.rules.forms.limits import Limit
from tests.support import builders as b
from tests.support import solver_problems as s
from tests.support.calls import counted
from tests.support.neighbour_builders import neighbour, port, zoned


def test_of_many_ports_only_those_are_looked_at_that_others_have_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    pods = [neighbour(f"p{i}", cpu=1 + i) for i in range(4)]
    problem = s.problem([zoned("n1"), zoned("n2")], pods=pods)
    nodes, left = per_node(2), (1, 1)
    limits = tuple(Limit("port", nodes, left, {0: 1, 1 + i % 3: 1}) for i in range(300))
    looked = counted(monkeypatch, Limit, "open_nodes")
    tracker = LimitTracker.of(limits)
    assert [each.tolist() for each in (tracker.mask(problem.classes[i]) for i in range(4)) if each is not None] == [
        [True, True]
    ] * 4
    assert len(looked) == 1

    copied = tracker.copy()
    copied.take(problem.classes[1], 0)
    looked.clear()
    masks = [copied.mask(problem.classes[i]) for i in (0, 1, 2)]
    assert [each.tolist() for each in masks if each is not None] == [[False, True], [False, True], [True, True]]
    assert len(looked) == 200
    untouched = tracker.mask(problem.classes[0])
    assert untouched is not None
    assert untouched.all()


def test_ports_of_equal_pods_are_one_limit() -> None:
    pods = [neighbour(f"p{i}", ports=[port(each) for each in range(1, 200)]) for i in range(3)]
    assert len(s.problem([zoned("n1")], pods=pods).rules.limits) == 1
    assert len(s.problem([b.node("n1")], pods=pods[:1]).rules.limits) == 0

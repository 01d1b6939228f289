"""What an empty node takes of pods is looked at once, as far as it cannot change with what runs elsewhere."""

import pytest

from solver.diagnosis.added_nodes import nodes_to_add
from solver.diagnosis.shape_outlook import ShapeCache
from solver.domain import Batch, Budget, NodeShape, Pod, Policy
from tests.support import builders as b
from tests.support import neighbour_builders as n

SHAPE = NodeShape(name="s", node=b.node("of-s", cpu=8, labels={"zone": "a"}), slices=())


def asked(*pods: Pod) -> ShapeCache:
    shared, budget = ShapeCache(), Budget(seconds=60.0, deterministic_seconds=4.0)
    nodes_to_add(b.snapshot(), Batch(pods=pods), Policy(), (SHAPE,), budget, shared=shared)
    return shared


def test_the_outlook_holds_for_a_part_of_the_pods() -> None:
    one, other = b.pod("one", cpu=2), b.pod("other", cpu=2)
    shared = asked(one, other)
    assert shared.outlook is not None
    assert shared.outlook_of(Batch(pods=(other,))) is shared.outlook


def test_it_says_nothing_of_other_pods_and_of_those_that_no_node_helps() -> None:
    one, large = b.pod("one", cpu=2), b.pod("large", cpu=9)
    shared = asked(one, large)
    assert shared.outlook_of(Batch(pods=(large,))) is None
    assert shared.outlook_of(Batch(pods=(one, b.pod("new", cpu=2)))) is None


TIED = (
    n.neighbour("tied", cpu=2, app="x", affinity=[n.term(n.ZONE, app="x")]),
    n.neighbour("tied", cpu=2, app="x", anti_affinity=[n.term(n.ZONE, app="x")]),
    n.neighbour("tied", cpu=2, app="x", spread=[n.spread(app="x")]),
)


@pytest.mark.parametrize("tied", TIED)
def test_it_does_not_hold_where_pods_depend_on_others(tied: Pod) -> None:
    assert asked(b.pod("first", cpu=2), tied).outlook_of(Batch(pods=(tied,))) is None

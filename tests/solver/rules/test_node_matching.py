"""Filters on all nodes at once give the same as on one node after the other."""

from collections import Counter
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from solver.domain import Node, NodeSelector, NodeSelectorOperator, NodeSelectorTerm, Taint, label_selectors
from solver.rules.node_fit import values as node_fit
from solver.rules.node_fit.nodes import NodeMatcher
from tests.support import builders as b

KEYS, VALUES = ("zone", "slot", "absent"), ("a", "b", "7", "12", "x7")
OPERATORS = tuple(NodeSelectorOperator)
TAINTS: tuple[Taint, ...] = (b.taint("dedicated"), b.taint("soft", effect="PreferNoSchedule"), b.taint("hot", "1"))

labels = st.dictionaries(st.sampled_from(KEYS[:2]), st.sampled_from(VALUES))
requirements = st.builds(
    lambda key, operator, values: b.requirement(key, operator, *values),
    st.sampled_from(KEYS),
    st.sampled_from(OPERATORS),
    st.lists(st.sampled_from((*VALUES, "nowhere")), max_size=2),
)
fields = st.builds(
    lambda operator, names: b.requirement("metadata.name", operator, *names),
    st.sampled_from(("In", "NotIn")),
    st.lists(st.sampled_from(("n0", "n1", "n9")), max_size=2),
)
terms = st.builds(
    lambda expressions, names: NodeSelectorTerm(match_expressions=tuple(expressions), match_fields=tuple(names)),
    st.lists(requirements, max_size=2),
    st.lists(fields, max_size=1),
)
selectors = st.builds(lambda found: NodeSelector(terms=tuple(found)), st.lists(terms, max_size=2))
tolerations = st.lists(
    st.sampled_from((b.toleration(), b.toleration("dedicated"), b.toleration("hot", "Equal", "1"))), max_size=1
)
demands = st.builds(
    node_fit.NodeDemand,
    st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES), max_size=1).map(lambda each: tuple(each.items())),
    st.none() | selectors,
    tolerations.map(tuple),
    st.lists(selectors, max_size=2).map(tuple),
)


@st.composite
def clusters(draw: st.DrawFn) -> tuple[Node, ...]:
    return tuple(
        b.node(
            f"n{index}",
            labels=draw(labels),
            taints=draw(st.lists(st.sampled_from(TAINTS), max_size=2, unique=True)),
            is_unschedulable=draw(st.booleans()),
        )
        for index in range(draw(st.integers(0, 5)))
    )


@given(nodes=clusters(), demand=demands, other=demands)
def test_all_nodes_at_once_are_judged_as_one_by_one(
    nodes: tuple[Node, ...], demand: node_fit.NodeDemand, other: node_fit.NodeDemand
) -> None:
    judge = NodeMatcher(nodes, tuple(dict(node.labels) for node in nodes))
    judge.verdicts(other)  # what is remembered of one demand is no other's answer
    found = judge.verdicts(demand)
    objections = [node_fit.objection(demand, node, dict(node.labels)) for node in nodes]
    assert found.allowed.tolist() == [each is None for each in objections]
    expected = Counter((each.code, each.counted_as) for each in objections if each is not None)
    assert {(each.code, each.counted_as): each.node_count for each in found.reasons} == expected


def test_untolerated_taints_are_one_reason_that_names_the_most_frequent_ones() -> None:
    nodes = [b.node(f"n{index}", taints=(b.taint(key),)) for index, key in enumerate("aabcdef")]
    found = NodeMatcher(tuple(nodes), tuple(dict(node.labels) for node in nodes)).verdicts(
        node_fit.NodeDemand((), None, (), ())
    )
    message = "node(s) had untolerated taints: 2 {a: }, 1 {b: }, 1 {c: }, 1 {d: } and 2 more"
    assert [(each.message, each.counted_as, each.node_count) for each in found.reasons] == [
        (message, "node(s) had untolerated taint(s)", 7)
    ]


@pytest.mark.parametrize("key", ["metadata.name", "metadata.uid"])
def test_only_the_name_is_a_field(key: str) -> None:
    nodes = (b.node("n0"), b.node("n1"))
    term = NodeSelectorTerm(match_fields=(b.requirement(key, "In", "n1"),))
    judge = NodeMatcher(nodes, tuple(dict(node.labels) for node in nodes))
    assert judge.matching_term(term).tolist() == [False, key == "metadata.name"]


def test_terms_that_compare_read_each_value_once() -> None:
    nodes = tuple(b.node(f"n{number}", labels={"slot": str(number)}) for number in range(50))
    terms = (b.expressions(b.requirement("slot", "Gt", str(1000 + number))) for number in range(100))
    judge = NodeMatcher(nodes, tuple(dict(node.labels) for node in nodes))
    with mock.patch.object(label_selectors, "integer", side_effect=label_selectors.integer) as read:
        found = judge.matching(NodeSelector(terms=tuple(terms)))
    assert not found.any()
    assert read.call_count == 50 + 100

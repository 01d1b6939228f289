"""The label index selects the same objects as a test of each object."""

from collections.abc import Iterator, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from solver.domain import LabelRequirement, LabelSelector, NodeSelector, NodeSelectorOperator, NodeSelectorTerm
from solver.rules.node_fit import values as node_fit
from solver.rules.node_fit.label_index import LabelIndex, bits_of, bits_of_mask, mask_of, positions_of
from tests.support import builders as b

KEYS, VALUES = ("zone", "slot", "absent"), ("a", "b", "7", "+12", "x7", "-3", "9" * 19, "9" * 18)
OPERATORS = (*NodeSelectorOperator, "Near")

labels = st.dictionaries(st.sampled_from(KEYS[:2]), st.sampled_from(VALUES))
things = st.lists(labels, max_size=6) | st.lists(labels, min_size=40, max_size=60)
operators, values = st.sampled_from(OPERATORS), st.lists(st.sampled_from((*VALUES, "nowhere")), max_size=3)
requirements = st.builds(
    lambda key, how, what: b.requirement(key, how, *what), st.sampled_from(KEYS), operators, values
)
fields = st.builds(
    lambda key, how, what: b.requirement(key, how, *what),
    st.sampled_from(("metadata.name", "metadata.uid")),
    operators,
    st.lists(st.sampled_from(("n0", "n1", "n9")), max_size=2),
)
terms = st.builds(
    lambda expressions, names: NodeSelectorTerm(match_expressions=tuple(expressions), match_fields=tuple(names)),
    st.lists(requirements, max_size=3),
    st.lists(fields, max_size=1),
)


@given(things=things, found=st.lists(terms, max_size=3))
def test_nodes_are_matched_as_one_by_one(things: list[dict[str, str]], found: list[NodeSelectorTerm]) -> None:
    names = [f"n{number}" for number in range(len(things))]
    selector, index = NodeSelector(terms=tuple(found)), LabelIndex(things, names)
    expected = [n for n, each in enumerate(things) if node_fit.matches_node_selector(selector, names[n], each)]
    assert positions_of(index.matching(selector), len(things)) == expected


@given(
    things=things, found=st.lists(st.builds(lambda *each: each, st.sampled_from(KEYS), operators, values), max_size=3)
)
def test_things_are_selected_as_one_by_one(
    things: list[dict[str, str]], found: list[tuple[str, str, list[str]]]
) -> None:
    rows = tuple(LabelRequirement(key=key, operator=how, values=tuple(what)) for key, how, what in found)
    selector, index = LabelSelector(requirements=rows), LabelIndex(things)
    expected = [n for n, each in enumerate(things) if selector.matches(each)]
    assert positions_of(index.selected(selector), len(things)) == expected


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 40])
def test_sets_are_numbers(count: int) -> None:
    positions = list(range(0, count, 2))
    bits = bits_of(positions, count)
    assert bits == sum(1 << each for each in positions) == bits_of_mask(mask_of(bits, count))
    assert positions_of(bits, count) == positions


class _Counted(dict[str, str]):
    """Labels that count how often they are looked at."""

    looks = 0

    def __contains__(self, key: object) -> bool:
        _Counted.looks += 1
        return super().__contains__(key)

    def get(self, key: str, default: str | None = None) -> str | None:  # type: ignore[override]
        _Counted.looks += 1
        return super().get(key, default)


def _selectors(count: int) -> Iterator[LabelSelector]:
    for number in range(count):
        rows = (LabelRequirement(key=key, operator="DoesNotExist") for key in ("app", f"none-{number}"))
        yield LabelSelector(requirements=(*rows, LabelRequirement(key="app", operator="NotIn", values=(f"x{number}",))))


def test_a_selector_costs_no_look_at_every_thing() -> None:
    things: list[Mapping[str, str]] = [_Counted(app="web") for _ in range(50)]
    index = LabelIndex(things)
    _Counted.looks = 0
    for selector in _selectors(100):
        index.selected(selector)
    assert _Counted.looks == len(things)

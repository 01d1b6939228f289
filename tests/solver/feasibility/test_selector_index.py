"""The terms that select a pod: the same as by trying each, at the cost of those whose anchor the pod has."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from solver.domain import LabelRequirement, LabelSelector, PodAffinityTerm
from solver.feasibility.selector_index import LabelMatcher, SelectorIndex, matched_labels
from tests.support.calls import counted
from tests.support.neighbour_builders import requirement, selector, term

KEYS, VALUES = st.sampled_from("abc"), st.sampled_from("xyz")
LABELS = st.dictionaries(KEYS, VALUES)
OPERATORS = st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist", "Gt"])
REQUIREMENTS = st.builds(
    lambda key, operator, values: LabelRequirement(key=key, operator=operator, values=tuple(values)),
    KEYS,
    OPERATORS,
    st.lists(VALUES, max_size=3),
)
SELECTORS = st.lists(REQUIREMENTS, max_size=4).map(lambda each: LabelSelector(requirements=tuple(each)))
TERMS = st.builds(
    lambda own, of, names: PodAffinityTerm(
        topology_key="k", selector=own, namespace_selector=of, namespaces=tuple(names)
    ),
    st.none() | SELECTORS,
    st.none() | SELECTORS,
    st.lists(st.sampled_from(["ml", "lab"]), max_size=2),
)


@given(SELECTORS, LABELS)
def test_requirements_hold_as_a_selector_selects(found: LabelSelector, labels: dict[str, str]) -> None:
    assert LabelMatcher(found.requirements).holds(labels) == found.matches(labels)


def is_about(each: PodAffinityTerm, namespace: str, of_namespace: dict[str, str], labels: dict[str, str]) -> bool:
    of = each.namespace_selector
    is_meant = namespace in each.namespaces or (of is not None and of.matches(of_namespace))
    return is_meant and each.selector is not None and each.selector.matches(labels)


def filed(*terms: PodAffinityTerm) -> SelectorIndex[int]:
    found = SelectorIndex[int]()
    for number, each in enumerate(terms):
        found.add(number, each.namespaces, each.namespace_selector, each.selector)
    return found


@given(st.lists(TERMS, max_size=6), st.sampled_from(["ml", "lab", "x"]), LABELS, LABELS, st.sets(st.integers(0, 5)))
def test_terms_are_found_that_are_about_a_pod(
    terms: list[PodAffinityTerm], namespace: str, of_namespace: dict[str, str], labels: dict[str, str], gone: set[int]
) -> None:
    found = filed(*terms)
    for each in gone:
        found.discard(each)

    said = set(found.about(matched_labels(namespace, of_namespace.items(), labels.items())))
    asked = {number for number, each in enumerate(terms) if is_about(each, namespace, of_namespace, labels)}
    assert said == asked - gone


EVERY = LabelSelector()
WEB = requirement("app", "In", "web")


@pytest.mark.parametrize(
    "demand",
    [
        pytest.param(
            lambda i: [requirement("app", "In", "web"), requirement(f"none-{i}", "Exists")], id="a rare label"
        ),
        pytest.param(lambda i: [requirement("app", "In", "web"), requirement("own", "In", f"{i}")], id="a rare value"),
        pytest.param(lambda i: [requirement("app", "Exists"), requirement(f"{i}", "Never")], id="what nothing meets"),
    ],
)
def test_terms_that_demand_what_a_pod_lacks_are_not_looked_at(demand: object, monkeypatch: pytest.MonkeyPatch) -> None:
    terms = [term("k", *demand(i), namespaces=[], of=EVERY) for i in range(100)]  # type: ignore[operator]
    looked = counted(monkeypatch, LabelMatcher, "holds")

    pod = matched_labels("ml", (), {"app": "web", "own": "me"}.items())
    assert list(filed(*terms).about(pod)) == []
    assert len(looked) <= 1  # the first of all went where there was nothing yet


def test_a_term_is_looked_at_once_however_many_requirements_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    many = [requirement(f"none-{i}", "DoesNotExist") for i in range(500)]
    looked = counted(monkeypatch, LabelRequirement, "holds")

    found = filed(term("k", *many, requirement("app", "NotIn", "web")))
    assert list(found.about(matched_labels("default", (), [("app", "web")]))) == []
    assert list(found.about(matched_labels("default", (), [("app", "db")]))) == [0]
    assert looked == []
    assert selector(*many).matches({})

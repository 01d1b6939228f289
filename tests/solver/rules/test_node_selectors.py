"""Node selectors: every operator, and what is not a number."""

import pytest

from solver.domain import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from solver.rules.node_fit import values as node_fit
from tests.support import builders as b

LABELS = {"zone": "a", "cards": "8", "junk": "eight", "thousand": "1_000", "empty": ""}

HOLDS: tuple[tuple[str, NodeSelectorRequirement], ...] = (
    ("In lists the value", b.requirement("zone", "In", "b", "a")),
    ("NotIn lists other values", b.requirement("zone", "NotIn", "b")),
    ("NotIn holds without the label", b.requirement("absent", "NotIn", "b")),
    ("Exists with the label", b.requirement("zone", "Exists")),
    ("Exists with an empty value", b.requirement("empty", "Exists")),
    ("DoesNotExist without the label", b.requirement("absent", "DoesNotExist")),
    ("Gt a smaller number", b.requirement("cards", "Gt", "7")),
    ("Lt a larger number", b.requirement("cards", "Lt", "10")),
    ("Gt a negative number", b.requirement("cards", "Gt", "-1")),
    ("Lt a number with a sign", b.requirement("cards", "Lt", "+9")),
    ("Gt a number behind many zeros", b.requirement("cards", "Gt", "-" + "0" * 5000 + "1")),
)

FAILS: tuple[tuple[str, NodeSelectorRequirement], ...] = (
    ("In lists other values", b.requirement("zone", "In", "b")),
    ("In without the label", b.requirement("absent", "In", "b", "")),
    ("In without values", b.requirement("zone", "In")),
    ("NotIn lists the value", b.requirement("zone", "NotIn", "a")),
    ("Exists without the label", b.requirement("absent", "Exists")),
    ("DoesNotExist with the label", b.requirement("zone", "DoesNotExist")),
    ("Gt the same number", b.requirement("cards", "Gt", "8")),
    ("Lt the same number", b.requirement("cards", "Lt", "8")),
    ("Gt without the label", b.requirement("absent", "Gt", "1")),
    ("Gt of a label that is not a number", b.requirement("junk", "Gt", "1")),
    ("Gt a value that is not a number", b.requirement("cards", "Gt", "few")),
    ("Gt a value with a point", b.requirement("cards", "Gt", "1.5")),
    ("Gt a value with blanks", b.requirement("cards", "Gt", " 1 ")),
    ("Gt of digits with underscores", b.requirement("thousand", "Gt", "5")),
    ("Gt a number beyond 64 bits", b.requirement("cards", "Gt", "-99999999999999999999")),
    ("Gt a number of many digits", b.requirement("cards", "Gt", "-" + "9" * 5000)),
    ("Gt with two values", b.requirement("cards", "Gt", "1", "2")),
    ("Lt without a value", b.requirement("cards", "Lt")),
    ("an operator that is not known", b.requirement("zone", "Like", "a")),
)


@pytest.mark.parametrize("requirement", [row[1] for row in HOLDS], ids=[row[0] for row in HOLDS])
def test_a_requirement_holds(requirement: NodeSelectorRequirement) -> None:
    assert node_fit.matches_term(b.expressions(requirement), "n1", LABELS)


@pytest.mark.parametrize("requirement", [row[1] for row in FAILS], ids=[row[0] for row in FAILS])
def test_a_requirement_fails(requirement: NodeSelectorRequirement) -> None:
    assert not node_fit.matches_term(b.expressions(requirement), "n1", LABELS)


def test_a_term_without_requirements_matches_nothing() -> None:
    assert not node_fit.matches_term(NodeSelectorTerm(), "n1", LABELS)


def test_a_selector_without_terms_matches_nothing() -> None:
    assert not node_fit.matches_node_selector(NodeSelector(), "n1", LABELS)


def test_an_empty_term_beside_one_that_holds_changes_nothing() -> None:
    selector = b.node_selector(NodeSelectorTerm(), b.expressions(b.requirement("zone", "In", "a")))
    assert node_fit.matches_node_selector(selector, "n1", LABELS)


def test_terms_are_alternatives() -> None:
    terms = (b.expressions(b.requirement("zone", "In", value)) for value in ("b", "a"))
    assert node_fit.matches_node_selector(b.node_selector(*terms), "n1", LABELS)


def test_requirements_of_a_term_hold_together() -> None:
    term = b.expressions(b.requirement("zone", "In", "a"), b.requirement("cards", "Gt", "8"))
    assert not node_fit.matches_term(term, "n1", LABELS)


def test_a_field_is_the_name_of_the_node() -> None:
    assert node_fit.matches_node_selector(b.on_node("n1"), "n1", {})


def test_a_label_does_not_stand_for_a_field() -> None:
    assert not node_fit.matches_node_selector(b.on_node("n1"), "n2", {"metadata.name": "n1"})


def test_fields_and_expressions_of_a_term_hold_together() -> None:
    term = NodeSelectorTerm(
        match_fields=(b.requirement("metadata.name", "In", "n1"),),
        match_expressions=(b.requirement("zone", "In", "b"),),
    )
    assert not node_fit.matches_term(term, "n1", LABELS)

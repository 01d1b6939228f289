"""Node selectors by operator, as core/v1 defines them."""

import pytest

from solver.domain import BINDING_FAILED_TAINT
from solver.rules.taints.values import tolerates
from solver.verify.matching import selects, untolerated
from tests.support import builders as b

NODE = b.node("n1", labels={"zone": "a", "size": "8", "odd": "1_0"})

ROWS: tuple[tuple[str, tuple[str, ...], bool], ...] = (
    ("zone In", ("a", "b"), True),
    ("zone In", ("b",), False),
    ("other In", ("a",), False),
    ("zone NotIn", ("b",), True),
    ("zone NotIn", ("a",), False),
    ("other NotIn", ("a",), True),
    ("zone Exists", (), True),
    ("other Exists", (), False),
    ("zone DoesNotExist", (), False),
    ("other DoesNotExist", (), True),
    ("size Gt", ("7",), True),
    ("size Gt", ("8",), False),
    ("size Lt", ("9",), True),
    ("size Lt", ("8",), False),
    ("size Gt", ("x",), False),
    ("size Gt", ("1", "2"), False),
    ("zone Gt", ("1",), False),
    ("other Lt", ("1",), False),
    ("odd Gt", ("1",), False),
    ("size Lt", (str(2**63),), False),
    ("size Gt", ("+" + "0" * 5000 + "7",), True),
    ("size Gt", ("-" + "9" * 5000,), False),
    ("size Lt", ("9" * 5000,), False),
    ("zone Like", ("a",), False),
)


@pytest.mark.parametrize(
    ("requirement", "values", "holds"), ROWS, ids=[f"{row[0]} {','.join(row[1])[:20]}" for row in ROWS]
)
def test_a_requirement_holds(requirement: str, values: tuple[str, ...], *, holds: bool) -> None:
    key, operator = requirement.split()
    assert selects(b.node_selector(b.expressions(b.requirement(key, operator, *values))), NODE) is holds


def test_a_field_is_the_nodes_name() -> None:
    assert selects(b.on_node("n1"), NODE)
    assert not selects(b.on_node("n2"), NODE)


def test_all_requirements_of_a_term_have_to_hold() -> None:
    both = b.expressions(b.requirement("zone", "In", "a"), b.requirement("size", "In", "9"))
    assert not selects(b.node_selector(both), NODE)


def test_a_selector_without_terms_matches_nothing() -> None:
    assert not selects(b.node_selector(), NODE)


@pytest.mark.parametrize(("key", "is_tolerated"), [("", False), ("other", False), (BINDING_FAILED_TAINT, True)])
def test_a_device_that_did_not_get_ready_is_tolerated_by_name_alone(key: str, *, is_tolerated: bool) -> None:
    assert (not list(untolerated([b.taint(BINDING_FAILED_TAINT)], (b.toleration(key),)))) is is_tolerated


@pytest.mark.parametrize(
    ("operator", "toleration", "taint", "is_tolerated"),
    [
        ("Gt", "900", "950", True),
        ("Gt", "900", "900", False),
        ("Gt", "-2", "-1", True),
        ("Lt", "10", "9", True),
        ("Lt", "10", "15", False),
        ("Lt", "10", "09", False),
        ("Lt", "10", "+9", False),
        ("Gt", "0", "9223372036854775808", False),
        ("Gt", "few", "950", False),
        ("Other", "1", "1", False),
    ],
)
def test_a_toleration_compares_whole_numbers(operator: str, toleration: str, taint: str, *, is_tolerated: bool) -> None:
    tainted, tolerating = b.taint("level", taint), b.toleration("level", operator, toleration)
    assert (not list(untolerated([tainted], (tolerating,)))) is is_tolerated
    assert tolerates(tolerating, tainted) is is_tolerated

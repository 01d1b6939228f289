"""The integer form: expressions, rows, and which values break them."""

import pytest

from solver.model.form import UNBOUNDED, Expression, IntegerForm


def form() -> IntegerForm:
    """Two variables from 0 to 5 with 2 <= x + 2 y <= 8."""
    made = IntegerForm()
    x, y = made.variable(0, 5), made.variable(0, 5)
    made.require(Expression({x: 1, y: 2}), "sum", low=2, high=8)
    return made


BROKEN: tuple[tuple[str, list[int], tuple[str, ...]], ...] = (
    ("nothing", [2, 3], ()),
    ("nothing at the lower end", [2, 0], ()),
    ("the row from below", [1, 0], ("sum",)),
    ("the row from above", [5, 2], ("sum",)),
    ("an upper bound", [6, 1], ("bounds",)),
    ("a lower bound", [4, -1], ("bounds",)),
    ("bounds and row", [9, 0], ("bounds", "sum")),
)


@pytest.mark.parametrize(("values", "broken"), [row[1:] for row in BROKEN], ids=[row[0] for row in BROKEN])
def test_an_assignment_breaks(values: list[int], broken: tuple[str, ...]) -> None:
    assert form().broken_by(values) == broken


def test_a_rule_that_is_broken_twice_is_named_once() -> None:
    made = form()
    made.require(Expression({0: 1}), "sum", low=3)
    assert made.broken_by([0, 0]) == ("sum",)


def test_the_constant_of_a_row_moves_into_its_bounds() -> None:
    made = IntegerForm()
    x = made.variable(0, 9)
    made.require(Expression({x: 1}, offset=3), "row", low=5, high=7)
    assert [made.broken_by([value]) for value in (1, 2, 4, 5)] == [("row",), (), (), ("row",)]


def test_an_open_end_stays_open_whatever_the_constant() -> None:
    made = IntegerForm()
    made.require(Expression({made.variable(0, 9): 1}, offset=3), "row", low=5)
    assert made.rows[0].high == UNBOUNDED


def test_terms_of_one_variable_are_summed() -> None:
    expression = Expression()
    expression.add(0, 2)
    expression.add(0, 3)
    assert expression.terms == {0: 5}


def test_an_expression_has_a_value() -> None:
    assert Expression({0: 2, 1: -1}, offset=10).value([3, 4]) == 12


def test_terms_of_rows_are_counted() -> None:
    assert form().term_count == 2

"""The stored tables of the parser are those of the grammar."""

from typing import Any

import lark
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lark import Lark
from lark.exceptions import UnexpectedInput

from solver.cel import grammar
from tests.support.cel_random import ExpressionSource

BUILT = grammar.built(grammar.text())
LOADED = grammar.parser()


def outcome(parser: Lark, text: str) -> Any:
    """Return the tree, with the places of its tokens, or where the parser stopped."""
    try:
        found = parser.parse(text)
    except UnexpectedInput as error:
        return type(error), error.line, error.column
    return found, [(each.line, each.column) for each in found.scan_values(lambda _: True)]


def test_the_stored_tables_are_those_of_the_grammar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grammar, "built", lambda _: pytest.fail("old: run python -m solver.cel.grammar"))
    assert grammar.parser().options.start == ["expr"]


@given(st.integers(min_value=0, max_value=10**6))
def test_stored_tables_parse_as_the_grammar_does(seed: int) -> None:
    text = ExpressionSource(seed).expression()
    assert outcome(LOADED, text) == outcome(BUILT, text)


@pytest.mark.parametrize("text", ["", "a = 3", "true &&", 'a["b"].?c', "{?'a': 1}[?2]", "-9223372036854775808", "!!a"])
def test_stored_tables_stop_where_the_grammar_does(text: str) -> None:
    assert outcome(LOADED, text) == outcome(BUILT, text)


def test_tables_of_another_version_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lark, "__version__", "0.0.1")
    monkeypatch.setattr(grammar, "built", lambda _: BUILT)
    assert grammar.parser() is BUILT

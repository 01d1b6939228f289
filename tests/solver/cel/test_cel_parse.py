"""Invalid expressions, and expressions that try to exhaust the parser."""

import sys
import time
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from solver.cel import tree
from solver.cel.errors import ExpressionError, Position
from solver.cel.parse import MAX_LENGTH, parse
from tests.support.cel_random import ExpressionSource


@pytest.mark.parametrize(
    ("text", "position", "message"),
    [
        pytest.param("", (1, 1), "the expression is empty", id="empty"),
        pytest.param("true &&", (1, 8), "ends too early", id="half"),
        pytest.param("a = 3", (1, 3), "write == to compare", id="one equals sign"),
        pytest.param("a and b", (1, 3), "write && for and", id="and"),
        pytest.param("a or b", (1, 3), "write || for or", id="or"),
        pytest.param("not a", (1, 5), "write ! for not", id="not"),
        pytest.param("a & b", (1, 3), "write && for and", id="one ampersand"),
        pytest.param('true &&\n  "abc', (2, 3), "a string is not closed", id="open string on the second line"),
        pytest.param(r'"\d"', (1, 1), r"write \\d, or a raw string", id="pattern in a plain string"),
        pytest.param("9223372036854775808", (1, 1), "does not fit into int64", id="too large"),
        pytest.param("package", (1, 1), "reserved word", id="reserved word"),
        pytest.param("a.in", (1, 3), 'write ["in"]', id="keyword as field"),
        pytest.param("Foo{a: 1}", (1, 1), "messages cannot be made", id="message"),
        pytest.param('has({"a": 1}["a"])', (1, 5), 'write "key" in map', id="has of an index"),
        pytest.param("[1].all(1, true)", (1, 9), "the name of its variable", id="macro without variable"),
        pytest.param("`a`.b", (1, 1), 'write x["name"]', id="quoted variable"),
        pytest.param("a.`b`(1)", (1, 6), "syntax error", id="quoted function"),
        pytest.param("a.`b", (1, 3), "only a field after a dot can be quoted", id="quote not closed"),
        pytest.param("a.`é`", (1, 3), 'write x["name"]', id="letter that cannot be quoted"),
    ],
)
def test_a_syntax_error_names_its_place_and_what_to_write(text: str, position: tuple[int, int], message: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        parse(text)
    assert caught.value.position == Position(*position)
    assert message in caught.value.message


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("(" * 10_000, id="open parentheses"),
        pytest.param("(" * 5000 + "1" + ")" * 5000, id="parentheses"),
        pytest.param("[" * 5000 + "]" * 5000, id="lists"),
        pytest.param("{" * 5000, id="maps"),
        pytest.param("a[" * 3000, id="indexes"),
        pytest.param("a." * 5000 + "a", id="selects"),
        pytest.param("1+" * 5000 + "1", id="sums"),
        pytest.param("a?b:" * 2500 + "c", id="conditionals"),
        pytest.param("a<" * 5000 + "a", id="relations"),
        pytest.param("f(" * 4000, id="calls"),
        pytest.param("-(" * 4000, id="negations"),
        pytest.param('"' * 10_000, id="quotes"),
        pytest.param("r'''" + "a" * 10_000, id="open raw string"),
        pytest.param("r'''" + "\r" * 10_000, id="open raw string with carriage returns"),
        pytest.param("a" * (MAX_LENGTH + 1), id="too long"),
        pytest.param("é" * (MAX_LENGTH // 2 + 1), id="too long in bytes"),
    ],
)
def test_ten_kilobytes_of_malice_are_an_error_and_no_crash(text: str) -> None:
    started = time.process_time()
    with pytest.raises(ExpressionError):
        parse(text)
    assert time.process_time() - started < 5


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("true" + " || true" * 1100, id="or"),
        pytest.param("true" + " && true" * 1100, id="and"),
        pytest.param("!" * 10_000 + "true", id="not"),
        pytest.param("[" + "1," * 5000 + "1]", id="a list"),
    ],
)
def test_long_is_not_deep(text: str) -> None:
    assert parse(text).depth <= 3


def test_a_chain_of_ors_is_one_node_however_it_is_bracketed() -> None:
    node = parse("a || (b || c) || d")
    assert isinstance(node, tree.Logic)
    assert len(node.terms) == 3 + (not isinstance(node.terms[1], tree.Logic))


@given(st.text(max_size=200))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    with suppress(ExpressionError):
        parse(text)


@given(st.integers(min_value=0, max_value=10**6), st.data())
def test_a_damaged_expression_is_parsed_or_refused(seed: int, data: st.DataObject) -> None:
    text = ExpressionSource(seed).expression()
    start = data.draw(st.integers(min_value=0, max_value=len(text)))
    damaged = text[:start] + data.draw(st.text(max_size=3)) + text[start + 1 :]
    with suppress(ExpressionError):
        parse(damaged)


def test_the_package_of_the_grammar_is_never_imported() -> None:
    parse("true")
    assert "celpy" not in sys.modules

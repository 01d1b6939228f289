"""Sentences on a terminal: the fewest lines, and of those the breaks that read best."""

import textwrap

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from scheduler.observe.wrapping import spans, wrapped


@pytest.mark.parametrize(
    ("width", "text", "lines"),
    [
        pytest.param(
            40,
            "It is bound to n1. Without it, 2 of 9 nodes could take it.",
            ["It is bound to n1.", "Without it, 2 of 9 nodes could take it."],
            id="sentences",
        ),
        pytest.param(
            40,
            "a b c d, e f g; h i j k, l m n o p q r s t u",
            ["a b c d, e f g;", "h i j k, l m n o p q r s t u"],
            id="parts",
        ),
        pytest.param(
            36,
            "the largest memory is less than 80Gi (pool/gpu-0): write 79Gi",
            ["the largest memory is less than 80Gi", "(pool/gpu-0): write 79Gi"],
            id="a parenthesis",
        ),
        pytest.param(24, "nodes: h100-1-00 … h100-1-49", ["nodes:", "h100-1-00 … h100-1-49"], id="a run"),
        pytest.param(
            22, "pods that wait are 16 devices short", ["pods that wait are", "16 devices short"], id="a count"
        ),
        pytest.param(
            30,
            "without the attribute: in a new claim,  (n0)",
            ["without the attribute:", "in a new claim,  (n0)"],
            id="no word alone",
        ),
        pytest.param(
            60,
            "Of these, 32 are on nodes with taints: a pod that does not tolerate them cannot be there.",
            ["Of these, 32 are on nodes with taints:", "a pod that does not tolerate them cannot be there."],
            id="no short line",
        ),
        pytest.param(8, "a gpu.example.com/n1 b", ["a", "gpu.example.com/n1", "b"], id="a long name"),
        pytest.param(10, "北京北京 ab cd", ["北京北京", "ab cd"], id="wide characters"),
        pytest.param(0, "no terminal is this narrow", ["no terminal is this narrow"], id="no width"),
        pytest.param(9, "", [""], id="nothing"),
    ],
)
def test_a_line_ends_where_a_reader_pauses(width: int, text: str, lines: list[str]) -> None:
    assert wrapped(text, width) == lines


def test_lines_that_go_on_stand_further_in_and_are_as_much_shorter() -> None:
    assert wrapped("  one two three four", 12, 4) == ["  one two", "    three", "    four"]


words = st.lists(st.text("ab.,;:()3…", min_size=1, max_size=9), min_size=1, max_size=30)


@given(words, st.integers(1, 40), st.integers(0, 6))
def test_no_line_is_too_wide_and_no_text_is_lost(parts: list[str], width: int, hang: int) -> None:
    text = " ".join(parts)
    lines = wrapped(text, width, hang)
    assert " ".join(each.strip() for each in lines) == text
    for each in lines:
        assert cell_len(each) <= width or " " not in each.strip() or "…" in each


@given(st.lists(st.text("ab.,;:()3", min_size=1, max_size=9), min_size=1, max_size=30), st.integers(1, 40))
def test_breaks_that_read_better_cost_no_line(parts: list[str], width: int) -> None:
    text = " ".join(parts)
    fewest = textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False)
    assert len(spans(text, width)) == len(fewest)

"""The table of expressions against the recorded answers of the Go implementation."""

import pytest

from tests.support import cel_oracle

_DEVICES = cel_oracle.devices()
_DIVERGENCES = cel_oracle.divergences()
_RECORDED = cel_oracle.recorded()
_ROWS = [
    pytest.param(text, id=f"{topic}: {text}"[:100])
    for topic, texts in cel_oracle.expressions().items()
    for text in texts
]


@pytest.mark.parametrize("expression", _ROWS)
def test_an_expression_is_answered_as_the_real_environment_answers_it(expression: str) -> None:
    listed = _DIVERGENCES.get(expression)
    expected = _RECORDED[expression] if listed is None else listed["ours"]
    assert cel_oracle.ours(expression, _DEVICES) == expected


@pytest.mark.parametrize("expression", _DIVERGENCES)
def test_a_listed_divergence_is_one_and_has_a_reason(expression: str) -> None:
    listed = _DIVERGENCES[expression]
    assert listed["ours"] != _RECORDED[expression]
    assert listed["why"]


def test_the_table_holds_at_least_three_hundred_expressions_and_no_stale_answer() -> None:
    texts = {text for texts in cel_oracle.expressions().values() for text in texts}
    assert len(texts) >= 300
    assert texts == set(_RECORDED)

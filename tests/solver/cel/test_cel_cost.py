"""No expression takes long."""

import time

import pytest

from solver.feasibility.selectors import SelectorFailure, compile_selector
from tests.support import cel_oracle

_MISSING = 'device.attributes["gpu.example.com"].zz'
_SECONDS = 1.0  # of this thread's own time; 0.05 is what it takes, the rest is for slow machines


def _doubled(levels: int) -> str:
    """A value of few lists that is 2^levels items large when it is gone through."""
    text = "v == w"
    for name in ("v", "w"):
        for level in range(levels, 0, -1):
            inner = name + str(level - 1)
            outer = name if level == levels else name + str(level)
            text = f"cel.bind({outer}, [{inner}, {inner}], {text})"
        text = f"cel.bind({name}0, [1], {text})"
    return text


@pytest.mark.parametrize(
    "expression",
    [
        pytest.param(
            "lists.range(1000).all(x, lists.range(1000).all(y, x + y >= 0))", id="a million steps in two loops"
        ),
        pytest.param("lists.range(1000000000).size() == 0", id="a long range"),
        pytest.param("lists.range(100000).all(x, [x].exists(y, y < 0) || true)", id="many small loops"),
        pytest.param(
            '"aaaaaaaaaa"' + '.replace("a", "aaaaaaaaaa")' * 100 + ".size() > 0",
            id="a text that grows tenfold each time",
        ),
        pytest.param(_doubled(60), id="lists that share their parts"),
        pytest.param("lists.range(2000).distinct().size() > 0", id="each with each"),
    ],
)
def test_an_expensive_evaluation_ends_as_a_failure(expression: str) -> None:
    selector = compile_selector(expression)
    device = cel_oracle.device_of({"driver": "d"})
    started = time.thread_time()
    result = selector.evaluate("d", device)
    assert time.thread_time() - started < _SECONDS
    assert isinstance(result, SelectorFailure)
    assert "costs more than 1000000 units" in result.message


@pytest.mark.parametrize(
    "expression",
    [
        pytest.param(" || ".join(f"{_MISSING} == {at}" for at in range(40)), id="40 ors over a missing attribute"),
        pytest.param(" && ".join(f"{_MISSING} == {at}" for at in range(200)), id="200 ands over a missing attribute"),
        pytest.param("!(" * 100 + f"{_MISSING} || {_MISSING}" + ")" * 100, id="a failure passed through 100 levels"),
        pytest.param('"' + "a" * 5000 + '".matches("(a*)*b")', id="a pattern that backtracking engines die of"),
        pytest.param(
            "cel.bind(a, 1 / 0 == 1, " + "".join(f"cel.bind(b{at}, a || a, " for at in range(99)) + "a" + ")" * 100,
            id="names for failures",
        ),
        pytest.param(
            "lists.range(48).exists(a, lists.range(48).exists(b, " + _MISSING + " == a + b))", id="failures in loops"
        ),
    ],
)
def test_a_failing_evaluation_is_quick(expression: str) -> None:
    selector = compile_selector(expression)
    device = cel_oracle.device_of({"driver": "d"})
    started = time.thread_time()
    selector.evaluate("d", device)
    assert time.thread_time() - started < _SECONDS


def test_passing_the_cost_limit_is_absorbed_by_nothing() -> None:
    expression = "true || lists.range(1000).all(x, lists.range(1000).all(y, true))"
    device = cel_oracle.device_of({"driver": "d"})
    assert compile_selector(expression).evaluate("d", device) is True
    swapped = "lists.range(1000).all(x, lists.range(1000).all(y, true)) || true"
    assert isinstance(compile_selector(swapped).evaluate("d", device), SelectorFailure)


def test_a_triple_loop_over_the_most_attributes_a_device_can_have_is_affordable() -> None:
    device = cel_oracle.device_of({"driver": "d", "attributes": {f"a{at}": {"int": at} for at in range(32)}})
    own = "device.attributes[device.driver]"
    expression = f"{own}.all(a, {own}.all(b, {own}.all(c, a != b || b != c || a == c)))"
    assert compile_selector(expression).evaluate("d", device) is True

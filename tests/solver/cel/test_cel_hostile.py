"""No tenant's expression can end or delay a solve: everything is bounded and paid for before it runs."""

import sys
import tracemalloc
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from solver.cel.library import strings
from solver.cel.meter import COST_PER_UNIT, LIMIT, MOST_AT_ONCE, Meter
from solver.cel.values import MAX_UINT, digits_of, parse_semver
from solver.domain import Allowance, AllowanceSpentError, Device
from solver.feasibility.selectors import Selector, SelectorError, SelectorFailure, compile_selector
from tests.support import cel_oracle
from tests.support.cel_hostile import HostileSource
from tests.support.cel_random import ExpressionSource

_DRIVER = "gpu.example.com"
_READ = f'device.attributes["{_DRIVER}"].n'
_ENDLESS = 10**9
_DIGITS = "9" * 5000
_FIVES = f"lists.range(dyn({_READ}))"
_LONG = f'(dyn({_READ}) == 5 ? "{"a" * 100}" : "").replace("a", "{"a" * 100}")'  # 10,000 characters, when it runs


def _device(n: int = 5, **attributes: Any) -> Device:
    return cel_oracle.device_of({"attributes": {"n": {"int": n}} | attributes})


def _evaluated(expression: str, allowance: Allowance, device: Device | None = None) -> bool | SelectorFailure:
    return Selector(expression).evaluate(_DRIVER, device or _device(), allowance=allowance)


def _compiled(expression: str) -> Selector | SelectorError:
    try:
        return Selector(expression)
    except SelectorError as error:
        return error


def _units_of(expression: str, device: Device | None = None) -> int:
    allowance = Allowance(_ENDLESS)
    _evaluated(expression, allowance, device)
    return allowance.spent


@pytest.mark.parametrize(
    "expression",
    [
        pytest.param(f'isSemver("1.2.{_DIGITS}")', id="a version"),
        pytest.param(f'isSemver("1.2.3-{_DIGITS}")', id="a pre-release"),
        pytest.param(f'isSemver("{_DIGITS}", true)', id="a loose version"),
        pytest.param(f"{_DIGITS} > 1", id="an int literal"),
        pytest.param(f"{_DIGITS}u > 1u", id="a uint literal"),
        pytest.param(f'int("{_DIGITS}") > 1', id="int"),
        pytest.param(f'uint("{_DIGITS}") > 1u', id="uint"),
        pytest.param(f'duration("{_DIGITS}s") > duration("1s")', id="a duration"),
        pytest.param(f'"%.{_DIGITS}f".format([1.0]) == ""', id="a format"),
        pytest.param(f'timestamp("2026-01-01T00:00:00Z").getHours("{_DIGITS}:00") == 1', id="a time zone"),
        pytest.param(f'quantity("e{_DIGITS}").isInteger()', id="a quantity"),
        pytest.param('"a".matches("\ud800")', id="half of a surrogate pair"),
        pytest.param('"a".matches("' + r"\\pL" * 500 + '")', id="Unicode classes"),
        pytest.param('"a".matches("' + "a{0,1000}" * 1000 + '")', id="repetitions"),
        pytest.param('"a".matches("((a{100}){100}){100}")', id="repetitions of repetitions"),
    ],
)
def test_what_cannot_be_computed_is_an_error_with_a_position_or_a_value(expression: str) -> None:
    selector = _compiled(expression)
    if isinstance(selector, SelectorError):
        assert selector.position.line == 1
        assert len(selector.message) < 1000
        assert "internal error" not in selector.message
        return
    result = selector.evaluate(_DRIVER, _device())
    assert not isinstance(result, SelectorFailure) or "internal error" not in result.message


def test_whatever_compiling_raises_is_a_selector_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> None:
        raise KeyError("x" * 5000)

    monkeypatch.setattr("solver.cel.compile.check", broken)
    with pytest.raises(SelectorError, match="internal error: KeyError") as caught:
        Selector("1 == 1")
    assert len(caught.value.message) < 1000


def test_running_out_of_memory_is_nobodys_result(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> None:
        raise MemoryError

    selector = Selector(f"{_READ} == 5")
    monkeypatch.setattr("solver.feasibility.selectors.published_value", broken)
    with pytest.raises(MemoryError):
        selector.evaluate(_DRIVER, _device())
    monkeypatch.undo()
    assert selector.evaluate(_DRIVER, _device()) is True
    monkeypatch.setattr("solver.cel.compile.check", broken)
    with pytest.raises(MemoryError):
        Selector("1 == 2")


def _at_depth(depth: int, run: Callable[[], Any]) -> Any:
    return run() if depth == 0 else _at_depth(depth - 1, run)


@pytest.mark.parametrize(
    "expression",
    [
        pytest.param("!(" * 80 + f"{_READ} == 5" + ")" * 80, id="negations"),
        pytest.param(f"[{_READ}]" + ".map(x, x)" * 200 + " == [5]", id="loops over loops"),
        pytest.param("[1].exists_one(x, " * 80 + f"{_READ} == 5" + ")" * 80, id="loops in loops"),
        pytest.param("+".join([_READ] * 120) + " == 600", id="a sum"),
    ],
)
def test_a_deep_expression_means_the_same_however_deep_its_caller_stands(expression: str) -> None:
    allowances = Allowance(_ENDLESS), Allowance(_ENDLESS)
    flat = Selector(expression).evaluate(_DRIVER, _device(), allowance=allowances[0])
    depth = sys.getrecursionlimit() - 200
    deep = _at_depth(depth, lambda: Selector(expression).evaluate(_DRIVER, _device(), allowance=allowances[1]))
    assert flat is True
    assert deep is True
    assert allowances[0].left == allowances[1].left


def _nested_by_names(levels: int, text: str = "v == w") -> str:
    """Two values of 40 times as many levels; each level is made before the next, so that making them is not deep."""
    for name in ("v", "w"):
        for level in range(levels, 0, -1):
            inner, outer = name + str(level - 1), name if level == levels else name + str(level)
            text = f"cel.bind({outer}, dyn({'[' * 40}{inner}{']' * 40}), type({outer}) == list && {text})"
        text = f"cel.bind({name}0, [{_READ}], {text})"
    return text


def test_values_deeper_than_any_stack_are_compared() -> None:
    assert Selector(_nested_by_names(40)).evaluate(_DRIVER, _device()) is True


@pytest.mark.parametrize(
    "use",
    [
        pytest.param('"%s".format([VALUE]) == ""', id="format"),
        pytest.param("{}[VALUE] == 1", id="the key of a message"),
    ],
)
def test_values_deeper_than_any_stack_fail_where_they_cannot_be_written(use: str) -> None:
    result = Selector(_nested_by_names(40, use.replace("VALUE", "v"))).evaluate(_DRIVER, _device())
    assert isinstance(result, SelectorFailure)
    assert "internal error" not in result.message
    assert len(result.message) < 1000


def test_a_failure_message_is_short_whatever_it_speaks_of() -> None:
    result = Selector(f'{{"a": 1}}[{_LONG}] == 1').evaluate(_DRIVER, _device())
    assert isinstance(result, SelectorFailure)
    assert "no such key" in result.message
    assert len(result.message) < 400


# Work


def test_an_allowance_without_units_stops_before_work() -> None:
    allowance = Allowance(0)
    with pytest.raises(AllowanceSpentError):
        _evaluated(f"{_READ} == 5", allowance)
    assert allowance.left == 0


def test_every_evaluation_costs_at_least_its_size_and_a_known_result_nothing() -> None:
    selector = Selector(" && ".join(f"{_READ} != {at}" for at in range(10, 60)))
    allowance = Allowance(_ENDLESS)
    selector.evaluate(_DRIVER, _device(), allowance=allowance)
    spent = allowance.spent
    assert spent >= 150  # 50 comparisons with a side each
    selector.evaluate(_DRIVER, _device(), allowance=allowance)
    assert allowance.spent == spent


def test_a_loop_looks_at_the_clock_at_a_fixed_rhythm() -> None:
    expression = f"lists.range(40000 + {_READ}).all(x, x >= 0)"
    looks: list[int] = []
    allowance = Allowance(_ENDLESS)

    def look() -> bool:
        looks.append(allowance.left)
        return False

    allowance.is_over = look
    assert _evaluated(expression, allowance) is True
    spent = allowance.spent
    steps = [before - after for before, after in pairwise(looks)]
    assert len(looks) >= spent // 4000
    assert max(steps) <= MOST_AT_ONCE // COST_PER_UNIT


@pytest.mark.parametrize("most", [1, 2, 5])
def test_what_the_clock_stops_is_not_remembered_and_ends_the_same_when_it_may(most: int) -> None:
    selector = Selector(f"lists.range(40000 + {_READ}).all(x, x >= 0)")
    looks: list[bool] = []

    def should_stop() -> bool:
        looks.append(len(looks) >= most)
        return looks[-1]

    with pytest.raises(AllowanceSpentError):
        selector.evaluate(_DRIVER, _device(), allowance=Allowance(_ENDLESS, should_stop))
    assert len(looks) == most + 1
    assert selector.evaluate(_DRIVER, _device(), allowance=Allowance(_ENDLESS)) is True


def test_a_stopped_evaluation_never_spends_more_than_it_was_given() -> None:
    expression = f"lists.range(40000 + {_READ}).all(x, x >= 0)"
    needed = _units_of(expression)
    for units in range(0, needed, needed // 13):
        allowance = Allowance(units)
        with pytest.raises(AllowanceSpentError):
            _evaluated(expression, allowance)
        assert 0 <= allowance.left <= units
    assert _evaluated(expression, Allowance(needed + 1)) is True


def test_the_limit_of_the_api_is_a_failure_with_an_allowance_too() -> None:
    expression = f"lists.range(100000).all(x, lists.range({_READ} + 100).all(y, x + y >= 0))"
    result = _evaluated(expression, Allowance(_ENDLESS))
    assert isinstance(result, SelectorFailure)
    assert f"costs more than {LIMIT} units" in result.message
    assert _units_of(expression) <= LIMIT // COST_PER_UNIT + 100


def test_what_is_refused_is_not_paid_for() -> None:
    assert _units_of(f"lists.range(1000000000 + {_READ}).size() == 0") < 100


def test_a_pattern_of_hundreds_of_groups_costs_what_one_costs() -> None:
    """Groups do not capture: a captured group would make RE2 follow each of them over the whole text."""
    few, many = (strings.compile_pattern("(.*)" * count + "b", Meter()) for count in (2, 600))
    assert many.size <= few.size
    assert _evaluated(f'{_LONG}.matches("{"(.*)" * 600}b") == false', Allowance(_ENDLESS)) is True


@pytest.mark.parametrize(
    ("expression", "advice"),
    [
        pytest.param(f'{_LONG}.matches("[ab]*a[ab]{{1000}}c")', "a smaller regular expression", id="matches"),
        pytest.param(f'{_LONG}.find("[ab]*a[ab]{{1000}}c") == ""', "a smaller regular expression", id="find"),
        pytest.param(f'{_LONG}.findAll("[ab]*a[ab]{{1000}}c") == []', "a smaller regular expression", id="findAll"),
        pytest.param(f'isURL("/" + {_LONG}.replace("a", "%41%41"))', "a shorter URL", id="a URL"),
        pytest.param(
            f'format.uri().validate({_LONG}.replace("a", "aaaaaaaaaa")).hasValue()', "a shorter text", id="uri"
        ),
    ],
)
def test_what_would_take_long_at_once_is_refused_before_it_runs(expression: str, advice: str) -> None:
    result = _evaluated(expression, Allowance(_ENDLESS))
    assert isinstance(result, SelectorFailure)
    assert advice in result.message
    assert _units_of(expression) < 50_000


@pytest.mark.parametrize(
    "pattern",
    [
        pytest.param("a{0,1000}" * 1000, id="repetitions"),
        pytest.param("\\pL" * 40, id="Unicode classes"),
        pytest.param("(?i)" + "[\u0100-\uf600]" * 900, id="classes without case"),
        pytest.param("a" * 1_000_000, id="length"),
    ],
)
def test_a_pattern_that_takes_long_to_compile_is_not_compiled(pattern: str) -> None:
    assert strings.units_of(pattern) > MOST_AT_ONCE // COST_PER_UNIT


@pytest.mark.parametrize("pattern", ["^A[0-9]+$", "(?i)a100.*80gb", "GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"])
def test_a_usual_pattern_is_cheap(pattern: str) -> None:
    assert (
        _units_of(f'device.attributes["{_DRIVER}"].model.matches("{pattern}")', _device(model={"string": "A100"})) < 200
    )


def test_refused_patterns_are_charged_though_their_failures_are_absorbed() -> None:
    expression = f'lists.range(2000 + {_READ}).all(x, "a".matches("a{{1000}}" + string(x) + "(") || true)'
    result = _evaluated(expression, Allowance(_ENDLESS))
    assert isinstance(result, SelectorFailure)
    assert "costs more" in result.message


def test_comparing_long_texts_in_a_loop_is_charged() -> None:
    expression = f"cel.bind(a, {_LONG}, cel.bind(b, {_LONG}, lists.range(5000).all(x, a == b && !(a < b))))"
    assert isinstance(_evaluated(expression, Allowance(_ENDLESS)), SelectorFailure)


def test_folding_constants_costs_no_more_than_constants_may() -> None:
    """What would take long is left to the evaluation, which is paid for."""
    expression = " || ".join(["lists.range(499990).sort().size() < 0"] * 50)
    tracemalloc.start()
    selector = Selector(expression)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 64 << 20
    assert isinstance(selector.evaluate(_DRIVER, _device()), SelectorFailure)


@pytest.mark.parametrize(
    "expression",
    [
        pytest.param(f"lists.range(490000 + {_READ}).size() > 0", id="a range"),
        pytest.param(f"cel.bind(l, lists.range(100000 + {_READ}), [l + l, l + l, l + l, l + l]).size() > 0", id="sums"),
        pytest.param(f"lists.range(490000 + {_READ}).map(x, {{x: [x]}}).size() > 0", id="maps"),
        pytest.param(f'{_LONG}.replace("a", "\U0001f600").split("").size() > 0', id="characters"),
        pytest.param(
            f"cel.bind(t0, [{_READ}], " + "".join(f"cel.bind(t{at + 1}, t{at} + t{at}, " for at in range(40))
            + "t40.size() > 0" + ")" * 41, id="a doubling list",
        ),
        pytest.param(
            f"cel.bind(t0, string({_READ}), " + "".join(f"cel.bind(t{at + 1}, t{at} + t{at}, " for at in range(40))
            + "t40.size() > 0" + ")" * 41, id="a doubling text",
        ),
    ],
)  # fmt: skip
def test_values_are_bounded_in_bytes(expression: str) -> None:
    selector = Selector(expression)
    tracemalloc.start()
    selector.evaluate(_DRIVER, _device())
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 40 << 20


# Whatever is written


@settings(max_examples=150)
@given(st.integers(0, 10**9), st.integers(0, 60_000), st.booleans())
def test_hostile_expressions_give_a_decision_or_stop(seed: int, units: int, is_hostile: bool) -> None:  # noqa: FBT001 - hypothesis gives it
    source = HostileSource(seed) if is_hostile else ExpressionSource(seed)
    expression = source.expression()
    selector = _compiled(expression)
    if isinstance(selector, SelectorError):
        assert "internal error" not in selector.message
        return
    allowance = Allowance(units)
    try:
        stopped = selector.evaluate(_DRIVER, _device(), allowance=allowance)
    except AllowanceSpentError:
        assert 0 <= allowance.left <= units
    else:
        assert stopped == Selector(expression).evaluate(_DRIVER, _device())
    result = selector.evaluate(_DRIVER, _device(), allowance=Allowance(_ENDLESS))
    assert not isinstance(result, SelectorFailure) or "internal error" not in result.message


@given(st.text("0123456789", min_size=1, max_size=30))
def test_digits_are_the_number_they_write_up_to_the_most(text: str) -> None:
    assert digits_of(text, MAX_UINT) == (int(text) if int(text) <= MAX_UINT else None)


_PART = st.one_of(st.integers(0, MAX_UINT).map(str), st.from_regex(r"[a-z-][0-9a-z-]{0,3}", fullmatch=True))
_VERSION = st.tuples(st.tuples(*[st.integers(0, 12) | st.integers(0, MAX_UINT)] * 3), st.lists(_PART, max_size=3))


def _precedence(version: tuple[tuple[int, int, int], list[str]]) -> tuple[Any, ...]:
    """Order as semver.org has it, written once more."""
    numbers, parts = version
    return (numbers, not parts, [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in parts])


def _written(version: tuple[tuple[int, int, int], list[str]]) -> str:
    numbers, parts = version
    return ".".join(map(str, numbers)) + ("-" + ".".join(parts) if parts else "")


@given(_VERSION, _VERSION)
@example(((1, 0, 0), ["1"]), ((1, 0, 0), ["-"]))
def test_versions_are_ordered_by_precedence(left: Any, right: Any) -> None:
    keys = parse_semver(_written(left)).key, parse_semver(_written(right)).key
    assert (keys[0] < keys[1]) == (_precedence(left) < _precedence(right))
    assert (keys[0] == keys[1]) == (_precedence(left) == _precedence(right))


def test_compiling_anew_is_paid_for_and_what_is_known_is_not() -> None:
    expression = f'{_READ} == 5 && device.driver != "paid for"'
    with pytest.raises(AllowanceSpentError):
        compile_selector(expression, Allowance(0))
    allowance = Allowance(_ENDLESS)
    compile_selector(expression, allowance)
    assert allowance.left < _ENDLESS
    compile_selector(expression, Allowance(0))

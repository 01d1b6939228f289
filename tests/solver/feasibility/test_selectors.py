"""The door to CEL: names, caching, and that an evaluation always ends in a decision."""

import threading
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from solver.domain import Allowance, AttributeKind, AttributeValue, Device, Quantity
from solver.feasibility.selectors import Selector, SelectorError, SelectorFailure, compile_selector
from tests.support import cel_oracle
from tests.support.cel_random import ExpressionSource

_DRIVER = "gpu.example.com"


def _device(capacity: Mapping[str, str] | None = None, **attributes: Any) -> Device:
    """A device of the driver; attributes are given as the API's one-of, with __ for the slash."""
    return cel_oracle.device_of(
        {
            "attributes": {name.replace("__", ".example.com/"): one_of for name, one_of in attributes.items()},
            "capacity": {name: {"value": text} for name, text in (capacity or {}).items()},
        }
    )


def _selects(expression: str, device: Device, driver: str = _DRIVER) -> bool | SelectorFailure:
    return compile_selector(expression).evaluate(driver, device)


def test_a_bare_name_belongs_to_the_drivers_domain() -> None:
    device = _device(model={"string": "A100"})
    assert _selects(f'device.attributes["{_DRIVER}"].model == "A100"', device) is True


def test_a_qualified_name_belongs_to_its_own_domain() -> None:
    device = _device(other__model={"string": "A100"})
    assert _selects('device.attributes["other.example.com"].model == "A100"', device) is True


@pytest.mark.parametrize(
    "expression",
    [
        pytest.param(f'device.attributes["{_DRIVER}"].model == "qualified"', id="one value"),
        pytest.param(f'device.attributes["{_DRIVER}"].exists(k, v, v == "qualified")', id="the whole map"),
    ],
)
def test_a_fully_qualified_name_wins_over_the_bare_one(expression: str) -> None:
    device = _device(model={"string": "bare"}, gpu__model={"string": "qualified"})
    assert _selects(expression, device) is True


def test_a_fully_qualified_capacity_wins_over_the_bare_one() -> None:
    device = _device({"memory": "1Gi", f"{_DRIVER}/memory": "2Gi"})
    assert _selects(f'device.capacity["{_DRIVER}"].memory == quantity("2Gi")', device) is True


def test_the_same_device_is_judged_by_the_driver_that_publishes_it() -> None:
    device = _device(model={"string": "A100"})
    expression = 'device.attributes["a.example.com"].?model.orValue("") == "A100"'
    assert _selects(expression, device, driver="a.example.com") is True
    assert _selects(expression, device, driver="b.example.com") is False


@pytest.mark.parametrize(
    ("expression", "first", "second"),
    [
        pytest.param(f'type(device.attributes["{_DRIVER}"].a) == int', {"int": 1}, {"bool": True}, id="1 and true"),
        pytest.param(
            f'type(device.attributes["{_DRIVER}"].a) == string', {"string": "1.0.0"}, {"version": "1.0.0"},
            id="a text and a version",
        ),
        pytest.param(
            f'device.attributes["{_DRIVER}"].a.size() == 1', {"ints": [1]}, {"ints": [1, 1]}, id="lists of two lengths"
        ),
        pytest.param(f'device.attributes["{_DRIVER}"].a == 1', {"int": 1}, {"int": 2}, id="two numbers"),
        pytest.param(f'device.attributes["{_DRIVER}"].size() == 2', {"int": 1}, {"int": 1}, id="a map"),
    ],
)  # fmt: skip
def test_results_remembered_for_one_device_are_not_given_for_another(
    expression: str, first: dict[str, Any], second: dict[str, Any]
) -> None:
    selector = Selector(expression)
    extra: dict[str, Any] = {} if first != second else {"b": {"int": 1}}
    assert selector.evaluate(_DRIVER, _device(a=first, **extra)) is True
    assert selector.evaluate(_DRIVER, _device(a=second)) is False
    assert selector.evaluate(_DRIVER, _device(a=first, **extra)) is True


def test_two_spellings_of_one_quantity_are_different_keys() -> None:
    selector = Selector(f'device.capacity["{_DRIVER}"].m.isInteger()')
    assert selector.evaluate(_DRIVER, _device({"m": "2"})) is True
    assert selector.evaluate(_DRIVER, _device({"m": "2000m"})) is False


def test_what_an_expression_does_not_read_costs_no_evaluation(monkeypatch: pytest.MonkeyPatch) -> None:
    evaluated: list[Device] = []
    run = Selector._run  # noqa: SLF001 - counted

    def counting(
        self: Selector, driver: str, device: Device, values: list[Any], allowance: Allowance | None
    ) -> bool | SelectorFailure | AttributeValue:
        evaluated.append(device)
        return run(self, driver, device, values, allowance)

    monkeypatch.setattr(Selector, "_run", counting)
    selector = Selector(f'device.attributes["{_DRIVER}"].model == "A100"')
    for at in range(50):
        assert selector.evaluate(_DRIVER, _device(model={"string": "A100"}, uuid={"string": f"GPU-{at}"})) is True
    assert len(evaluated) == 1


def test_more_devices_than_are_remembered_are_all_answered() -> None:
    selector = Selector(f'device.attributes["{_DRIVER}"].n % 2 == 0')
    devices = [Device(name="d", attributes=(("n", AttributeValue(AttributeKind.INT, at)),)) for at in range(20_000)]
    assert [selector.evaluate(_DRIVER, device) for device in devices] == [at % 2 == 0 for at in range(20_000)]


def test_a_malformed_version_fails_the_expressions_that_read_it() -> None:
    device = _device(v={"version": "1.0"}, n={"int": 1})
    failure = _selects(f'device.attributes["{_DRIVER}"].v.major() == 1', device)
    assert isinstance(failure, SelectorFailure)
    assert "'1.0' is not a semantic version" in failure.message
    assert _selects(f'device.attributes["{_DRIVER}"].n == 1', device) is True


def test_an_expression_is_compiled_once() -> None:
    assert compile_selector("device.driver == 'once'") is compile_selector("device.driver == 'once'")


def test_an_expression_that_does_not_compile_is_refused_each_time() -> None:
    for _ in range(2):
        with pytest.raises(SelectorError):
            compile_selector("device.nope")


def test_a_failure_is_a_value() -> None:
    assert SelectorFailure("x") == SelectorFailure("x")
    assert hash(SelectorFailure("x")) == hash(SelectorFailure("x"))


def test_threads_share_a_selector() -> None:
    selector = compile_selector(f'device.attributes["{_DRIVER}"].n < 50')
    wrong: list[int] = []

    def work() -> None:
        wrong.extend(at for at in range(100) if selector.evaluate(_DRIVER, _device(n={"int": at})) is not (at < 50))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


_ATTRIBUTES = st.dictionaries(
    st.sampled_from(["model", "n", "b", "v", "strings", "other.example.com/x", "gpu.example.com/model"]),
    st.one_of(
        st.builds(lambda value: {"int": value}, st.integers(-(2**63), 2**63 - 1)),
        st.builds(lambda value: {"bool": value}, st.booleans()),
        st.builds(lambda value: {"string": value}, st.text(max_size=8)),
        st.builds(lambda value: {"version": value}, st.sampled_from(["1.2.3", "2.0.0-rc.1", "nonsense"])),
        st.builds(lambda value: {"strings": value}, st.lists(st.text(max_size=3), max_size=3)),
    ),
    max_size=5,
)
_CAPACITIES = st.dictionaries(
    st.sampled_from(["memory", "gpu.example.com/memory", "cores"]),
    st.sampled_from(["80Gi", "1500m", "0", "1e3"]),
    max_size=2,
)


@settings(max_examples=150)
@given(st.integers(0, 10**6), st.lists(st.tuples(_ATTRIBUTES, _CAPACITIES, st.booleans()), min_size=1, max_size=4))
def test_what_is_remembered_is_what_would_be_evaluated(
    seed: int, published: list[tuple[dict[str, Any], dict[str, str], bool]]
) -> None:
    expression = ExpressionSource(seed, depth=3).expression()
    try:
        selector = Selector(expression)
    except SelectorError:
        return
    for attributes, capacities, shareable in [*published, *published]:
        device = cel_oracle.device_of(
            {
                "attributes": attributes,
                "capacity": {name: {"value": text} for name, text in capacities.items()},
                "allowMultipleAllocations": shareable,
            }
        )
        result = selector.evaluate(_DRIVER, device)
        assert result == Selector(expression).evaluate(_DRIVER, device)
        assert not isinstance(result, SelectorFailure) or not result.message.startswith("internal error")


def test_no_exception_gets_out_even_of_a_defect(monkeypatch: pytest.MonkeyPatch) -> None:
    selector = Selector('device.capacity["x"].m.isInteger()')

    def broken(*_: Any) -> Quantity:
        raise TypeError("broken")

    monkeypatch.setattr("solver.feasibility.selectors.published_value", broken)
    failure = selector.evaluate(_DRIVER, Device(name="d"))
    assert isinstance(failure, SelectorFailure)

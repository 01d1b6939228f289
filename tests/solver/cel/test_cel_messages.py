"""Common mistakes in expressions, and the message that says what to write instead."""

import pytest

from solver.feasibility.selectors import SelectorError, SelectorFailure, compile_selector
from tests.support import cel_oracle

_GPU = 'device.attributes["gpu.example.com"]'
_MEMORY = 'device.capacity["gpu.example.com"].memory'
_DEVICE = cel_oracle.devices()[0]


@pytest.mark.parametrize(
    ("expression", "position", "message"),
    [
        pytest.param(
            f'{_MEMORY} >= quantity("40Gi")',
            (1, 43),
            'a Quantity and a Quantity cannot be combined by >=: write x.compareTo(quantity("40Gi")) >= 0',
            id="quantities by >=",
        ),
        pytest.param(
            f"{_MEMORY} >= 40*1024*1024*1024",
            (1, 43),
            'a Quantity and an int cannot be combined by >=: write x.compareTo(quantity("40Gi")) >= 0',
            id="a quantity and a number",
        ),
        pytest.param(
            f'{_MEMORY} == "80Gi"',
            (1, 43),
            'a Quantity and a string cannot be combined by ==: write x == quantity("40Gi"), or for at least that much '
            'x.compareTo(quantity("40Gi")) >= 0',
            id="a quantity and a text",
        ),
        pytest.param(
            f"{_MEMORY}.isGreaterThan(5)",
            (1, 43),
            'isGreaterThan() of a Quantity does not take an int: write isGreaterThan(quantity("40Gi"))',
            id="a quantity's method and a number",
        ),
        pytest.param(
            f"{_MEMORY}.sign() > 0", (1, 43), "sign() of a Quantity does not take nothing: write sign(x)", id="sign"
        ),
        pytest.param(
            f'{_GPU}.v >= semver("1.0.0")',
            (1, 40),
            'a dynamic value and a Semver cannot be combined by >=: write x.compareTo(semver("1.2.3")) >= 0',
            id="versions by >=",
        ),
        pytest.param(
            f'{_GPU}.v.isGreaterThan("1.0.0")',
            (1, 40),
            'isGreaterThan() of a dynamic value does not take a string: write isGreaterThan(quantity("40Gi")) for a '
            'capacity, isGreaterThan(semver("1.2.3")) for a version',
            id="a version and a text",
        ),
        pytest.param(
            'device.name == "gpu-0"',
            (1, 8),
            "device has no field name: a device's name is not part of selection; device has driver, "
            'attributes["domain"].name, capacity["domain"].name and allowMultipleAllocations',
            id="the device's name",
        ),
        pytest.param(
            'device.driver.string == "x"',
            (1, 15),
            "a string has no field string: a value is used bare, without .string",
            id="a suffix on the driver",
        ),
        pytest.param('capacity["x"].y == 1', (1, 1), "capacity is not known: write device.capacity", id="no device"),
        pytest.param("devise.driver == ''", (1, 1), "devise is not known: did you mean device?", id="misspelt device"),
        pytest.param(
            f'{_GPU}.model.startswith("A")',
            (1, 44),
            "there is no function startswith(dyn, string): did you mean startsWith()?",
            id="misspelt function",
        ),
        pytest.param(
            '"A100" in device.driver',
            (1, 8),
            "a string and a string cannot be combined by in: for a part of a text write text.contains(part)",
            id="in a text",
        ),
        pytest.param(
            "device.driver",
            (1, 8),
            'a selector is true or false, and this expression is a string: compare it, as in x == "text"',
            id="no condition",
        ),
        pytest.param(
            f"{_GPU}.?b",
            (1, 39),
            "a selector is true or false, and this expression is an optional_type(dyn): write .orValue(false)",
            id="an optional",
        ),
        pytest.param(
            "1 == 1.0",
            (1, 3),
            "an int and a double cannot be combined by ==: write both with a point, or both without",
            id="int and double",
        ),
        pytest.param(
            '[1, "a"].size() == 2',
            (1, 5),
            "all items of a literal have one type: an int comes first, and this is a string",
            id="mixed list",
        ),
        pytest.param(
            'device.driver.matches("(")',
            (1, 23),
            "'(' is not a regular expression (RE2): missing ): (",
            id="pattern",
        ),
    ],
)
def test_an_expression_that_does_not_compile_says_what_to_write(
    expression: str, position: tuple[int, int], message: str
) -> None:
    with pytest.raises(SelectorError) as caught:
        compile_selector(expression)
    assert caught.value.message == message
    assert caught.value.position == position
    assert str(caught.value) == f"{position[0]}:{position[1]}: {message}"


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        pytest.param(
            'device.attributes["model"].string == "A100"',
            "the device publishes no attribute model/string: a value is used bare, without .string, and its domain "
            'stands in the brackets, as in device.attributes["gpu.example.com"].model',
            id="no domain and a suffix",
        ),
        pytest.param(
            f'{_GPU}.model.string == "A100"',
            "a string has no field string: a value is used bare, without .string",
            id="a suffix",
        ),
        pytest.param(
            f"{_GPU}.profile == '1g.5gb'",
            "the device publishes no attribute gpu.example.com/profile",
            id="an attribute that is not there",
        ),
        pytest.param(
            "device.capacity[device.driver].cores.isInteger()",
            "the device publishes no capacity cores of its driver",
            id="a capacity that is not there",
        ),
        pytest.param(
            f'{_GPU}.v == "1.2.3"', "no such overload: kubernetes.Semver == string", id="a version and a text"
        ),
        pytest.param(
            f"{_GPU}.model", "a selector is true or false, and this one gives a string: compare it", id="text"
        ),
        pytest.param(f"{_GPU}.n && true", "a int is not a condition: compare it", id="a number as condition"),
        pytest.param(
            'quantity("80 GB") == quantity("80G")',
            "'80 GB' is not a quantity: write a number with a suffix such as 500m, 16Gi, 2k",
            id="no quantity",
        ),
        pytest.param(
            'semver("1.0") == semver("1.0.0")',
            "'1.0' is not a semantic version: write major.minor.patch, as 1.2.0",
            id="no version",
        ),
    ],
)
def test_an_evaluation_that_fails_says_why(expression: str, message: str) -> None:
    result = compile_selector(expression).evaluate(_DEVICE["driver"], cel_oracle.device_of(_DEVICE))
    assert result == SelectorFailure(message)

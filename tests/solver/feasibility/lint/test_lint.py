"""What is said of selectors that select nothing, in the small; the whole messages are golden files of the shell."""

from collections.abc import Sequence

import pytest

from solver.domain import Device, DeviceId
from solver.feasibility import lint
from solver.feasibility.device_attributes import AttributeName
from solver.feasibility.lint import Candidate
from solver.feasibility.selectors import SelectorError, compile_selector
from tests.support import builders as b

DRIVER = "gpu.example.com"
A = 'device.attributes["gpu.example.com"]'
C = 'device.capacity["gpu.example.com"]'


def candidates(*devices: Device) -> list[Candidate]:
    return [Candidate(DeviceId(DRIVER, "n1", each.name), each) for each in devices]


SMALL = b.device("small", attributes={"model": "A10", "cores": 72, "isFast": False}, capacities={"memory": "24Gi"})
LARGE = b.device("large", attributes={"model": "H100", "cores": 132, "isFast": True}, capacities={"memory": "80Gi"})
BOTH = candidates(SMALL, LARGE)

OTHERS = "among the devices that meet its other conditions, "
ABSENT = "no device that could be selected publishes attribute modle under"
MODEL = 'write device.attributes["gpu.example.com"].model'

ROWS = [
    ("it selects one", [f'{A}.model == "H100"'], ""),
    (
        "the last condition is to blame where several are",
        [f'{A}.model == "A10" && {C}.memory.compareTo(quantity("40Gi")) >= 0'],
        f'{OTHERS}the largest memory is 24Gi, 16Gi less than 40Gi (gpu.example.com/n1/small): write quantity("24Gi")',
    ),
    (
        "conditions of several selectors",
        [f'{A}.model == "A10"', f"{A}.isFast == true"],
        f"{OTHERS}no isFast is true: there is false",
    ),
    ("a condition that no device meets goes first", [f"{A}.cores == 7", f"{A}.isFast"], "no cores is 7: there is 132"),
    ("a constant on the left", [f"100 * 2 < {A}.cores"], "no cores is > 200: there are 132, 72"),
    (
        "an alternative that holds for some is not to blame",
        [f'({A}.model == "H100" || {A}.model == "B200") && {A}.cores == 7'],
        "no cores is 7: there is 132",
    ),
    ("another type", [f'{A}.cores == "72"'], 'cores is an int, not "72": write for example 72'),
    ("a search", [f'{A}.model.startsWith("NVIDIA")'], 'no model startsWith "NVIDIA": there are "A10", "H100"'),
    (
        "just the size",
        [f'{C}.memory.isGreaterThan(quantity("80Gi"))'],
        "no memory is larger than 80Gi, but the largest is equal: write compareTo(…) >= 0",
    ),
    (
        "at most",
        [f'{C}.memory.isLessThan(quantity("16Gi"))'],
        'the smallest memory is 24Gi, 8Gi more than 16Gi (gpu.example.com/n1/small): write quantity("24Gi")',
    ),
    (
        "a size that is far from every device's is not replaced by another",
        [f'{C}.memory.compareTo(quantity("200Gi")) >= 0'],
        "the largest memory is 80Gi, 120Gi less than 200Gi (gpu.example.com/n1/large)",
    ),
    (
        "nor is one that is far below",
        [f'{C}.memory.isLessThan(quantity("4Gi"))'],
        "the smallest memory is 24Gi, 20Gi more than 4Gi (gpu.example.com/n1/small)",
    ),
    (
        "nor one that is asked for exactly",
        [f'{C}.memory == quantity("200Gi")'],
        "no memory is exactly 200Gi: the nearest is 80Gi, 120Gi less (gpu.example.com/n1/large)",
    ),
    ("an optional read", [f'{A}.?modle.orValue("") == "H100"'], f"{ABSENT} gpu.example.com: {MODEL}"),
    (
        "a domain given by the driver",
        ['device.attributes[device.driver].modle == "H100"'],
        f"{ABSENT} its driver: {MODEL}",
    ),
    (
        "domain and name in one text, before a type",
        ['device.attributes["gpu.example.com/isFast"].bool && device.driver == "gpu.example.com"'],
        f"domain and name stand apart in CEL: write {A}.isFast",
    ),
    (
        "the same of a text, with the nearest value",
        ['device.attributes["gpu.example.com/model"].string == "H10"'],
        f'domain and name stand apart in CEL: write {A}.model == "H100"',
    ),
    (
        "capital letters where there are none",
        [f'{A}.model.lowerAscii() == "H100"'],
        'model.lowerAscii() has no capital letters, and "H100" has: write "h100"',
    ),
    (
        "the same on the left",
        [f'"h100" == {A}.model.upperAscii()'],
        'model.upperAscii() has no small letters, and "h100" has: write "H100"',
    ),
    (
        "letters of a pattern are left alone",
        [f'{A}.model.lowerAscii().matches("(?i)B200")'],
        'no model.lowerAscii() matches "(?i)B200": there are "a10", "h100"',
    ),
    (
        "capital letters, and no device has the value in small ones",
        [f'{A}.model.lowerAscii() == "B200"'],
        'no model.lowerAscii() is "b200": there are "a10", "h100"',
    ),
    ("the read is what is looked for", [f'"H200".contains({A}.model.lowerAscii())'], ""),
    (
        "domain and name in one text, with another operator",
        ['device.attributes["gpu.example.com/model"].string != "A10"'],
        f'domain and name stand apart in CEL: write {A}.model != "A10"',
    ),
    (
        "domain and name in one text, with a number",
        ['device.attributes["gpu.example.com/cores"].int == 7'],
        f"domain and name stand apart in CEL: write {A}.cores == 7",
    ),
    (
        "letters are right, and no device has the value",
        [f'{A}.model.lowerAscii().contains("b200")'],
        'no model.lowerAscii() contains "b200": there are "a10", "h100"',
    ),
    (
        "one of several",
        [f'{A}.model.lowerAscii() in ["b200", "b300"]'],
        'no model.lowerAscii() is one of these: there are "a10", "h100"',
    ),
    ("letters of something else", ['device.driver.upperAscii() == "gpu"'], ""),
    ("nothing can be said", ["1 == 2"], ""),
    ("loops are not looked into", [f'["x"].exists(x, {A}.model == x)'], ""),
    ("what does not compile", ["device.nothing"], ""),
    ("what a program has made", [f"{A}.cores == 7" + " && true" * 600], ""),
]


@pytest.mark.parametrize(("selectors", "expected"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_of_selectors(selectors: Sequence[str], expected: str) -> None:
    assert lint.of_selectors(selectors, BOTH) == expected


def test_without_devices_nothing_is_said() -> None:
    assert lint.of_selectors([f"{A}.cores == 1"], []) == ""


def test_a_malformed_version_is_named() -> None:
    devices = candidates(b.device("d", attributes={"driver": b.version("535.104.05")}))
    hint = lint.of_selectors([f'{A}.driver.isGreaterThan(semver("1.0.0"))'], devices)
    assert hint == "driver 535.104.05 as the driver publishes it is not a semantic version"


@pytest.mark.parametrize(
    ("wanted", "instead"),
    [("9.0", "9.0.0"), ("550.127.08", "550.127.8"), ("v9.0.0", "9.0.0"), ("nine", "1.2.0")],
)
def test_a_version_that_raises_is_not_called_too_new(wanted: str, instead: str) -> None:
    devices = candidates(b.device("d", attributes={"driver": b.version("10.0.0")}))
    hint = lint.of_selectors([f'{A}.driver.isGreaterThan(semver("{wanted}"))'], devices)
    assert hint.startswith(f'"{wanted}" is no semantic version: write')
    assert hint.endswith(f'semver("{instead}")')


def test_a_version_that_is_normalized_is_compared() -> None:
    devices = candidates(b.device("d", attributes={"driver": b.version("8.0.0")}))
    hint = lint.of_selectors([f'{A}.driver.isGreaterThan(semver("9.0", true))'], devices)
    assert hint == "the newest driver is 8.0.0, and 9.0.0 is asked for"


def test_capacity_requests_name_what_is_not_published() -> None:
    hint = lint.of_requests({"memry": b.quantity("1Gi")}, BOTH)
    assert hint == "no device that it selects publishes capacity memry: did you mean memory?"


def test_a_capacity_request_of_another_order_is_shown_beside_the_largest() -> None:
    assert lint.of_requests({"memory": b.quantity("90Gi")}, BOTH) == (
        "the largest memory is 80Gi, 10Gi less than the 90Gi requested"
    )
    assert lint.of_requests({"memory": b.quantity("9Ei")}, BOTH) == "the largest memory is 80Gi, and 9Ei is requested"


def test_a_share_that_the_policy_does_not_give_is_told_apart_from_a_device_that_is_too_small() -> None:
    policy = b.capacity("40Gi", default="10Gi", valid_values=("10Gi", "20Gi"))
    devices = candidates(b.device("d", is_shareable=True, capacities={"memory": policy}))
    assert lint.of_requests({"memory": b.quantity("30Gi")}, devices) == (
        "no device gives a share of 30Gi of its memory: the largest share is 20Gi"
    )
    assert lint.of_requests({"memory": b.quantity("15Gi")}, devices) == ""


def test_the_share_of_the_device_that_has_as_much_is_spoken_of() -> None:
    small = b.device("small", is_shareable=True, capacities={"memory": b.capacity("4Gi")})
    limited = b.capacity("16Gi", default="1Gi", minimum="1Gi", maximum="8Gi")
    large = b.device("large", is_shareable=True, capacities={"memory": limited})
    assert lint.of_requests({"memory": b.quantity("10Gi")}, candidates(small, large)) == (
        "no device gives a share of 10Gi of its memory: the largest share is 8Gi"
    )
    assert lint.of_requests({"memory": b.quantity("6Gi")}, candidates(small, large)) == ""


def test_capacities_that_no_device_gives_together() -> None:
    few = b.capacity(8, default=1, minimum=1, maximum=2)
    devices = candidates(
        b.device("a", is_shareable=True, capacities={"cores": few, "memory": b.capacity("8Gi")}),
        b.device("b", is_shareable=True, capacities={"cores": b.capacity(8), "memory": b.capacity("1Gi")}),
    )
    wanted = {"cores": b.quantity(4), "memory": b.quantity("4Gi")}
    assert lint.of_requests(wanted, devices) == "no device gives all of the capacities that are requested"


def test_capacity_requests_that_fit_are_not_spoken_of() -> None:
    assert lint.of_requests({"memory": b.quantity("80Gi")}, BOTH) == ""


@pytest.mark.parametrize(
    ("attribute", "expected"),
    [
        pytest.param(
            "modle",
            "no device that request r selects publishes gpu.example.com/modle: write gpu.example.com/model",
            id="misspelt",
        ),
        pytest.param("model", "", id="published"),
    ],
)
def test_a_match_names_the_shared_attribute(attribute: str, expected: str) -> None:
    assert lint.of_constraint(AttributeName(DRIVER, attribute), {"r": BOTH}, [], lambda _: True) == expected


REWRITTEN = [
    ("an operator", f'{C}.memory >= quantity("16Gi")', f'{C}.memory.compareTo(quantity("16Gi")) >= 0'),
    ("a text", f'{C}.memory > "40Gi"', f'{C}.memory.isGreaterThan(quantity("40Gi"))'),
    ("bytes", f"{C}.memory == 40*1024*1024*1024", f'{C}.memory.compareTo(quantity("40Gi")) >= 0'),
    ("turned round", f'quantity("1Gi") < {C}.memory', f'{C}.memory.isGreaterThan(quantity("1Gi"))'),
    ("a method of a text", f'{C}.memory.compareTo("1Gi") <= 0', f'{C}.memory.compareTo(quantity("1Gi")) <= 0'),
    ("a version", f'{A}.driver < semver("2.0.0")', f'{A}.driver.isLessThan(semver("2.0.0"))'),
    ("domain and name in one text", 'device.attributes["gpu.example.com/model"] == "H100"', f'{A}.model == "H100"'),
    (
        "a joined version",
        'device.attributes["gpu.example.com/driver"] >= semver("1.2.0")',
        f'{A}.driver.compareTo(semver("1.2.0")) >= 0',
    ),
    (
        "a joined size",
        'device.capacity["gpu.example.com/memory"] >= quantity("4Gi")',
        f'{C}.memory.compareTo(quantity("4Gi")) >= 0',
    ),
    ("a joined text on the right", '"H100" == device.attributes["gpu.example.com/model"]', f'{A}.model == "H100"'),
    ("an attribute that is a size", f'{A}.memory >= quantity("1Gi")', f'{C}.memory.compareTo(quantity("1Gi")) >= 0'),
]


@pytest.mark.parametrize(("expression", "instead"), [row[1:] for row in REWRITTEN], ids=[row[0] for row in REWRITTEN])
def test_what_does_not_compile_is_rewritten_so_that_it_does(expression: str, instead: str) -> None:
    with pytest.raises(SelectorError):
        compile_selector(expression)
    assert lint.of_uncompiled(expression) == f"write {instead}"
    compile_selector(instead)


@pytest.mark.parametrize(
    "expression",
    [
        "device.",
        f"{A}.model + 1",
        "1 +",
        "a" * 5000,
        'device.attributes["a.com/"] == "x"',
        'device.attributes["a.com/b/c"] == 1',
    ],
    ids=["cut", "a sum", "half", "long", "no name", "two slashes"],
)
def test_nothing_is_written_where_the_meaning_is_not_clear(expression: str) -> None:
    assert lint.of_uncompiled(expression) == ""

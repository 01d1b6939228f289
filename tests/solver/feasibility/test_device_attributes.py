"""How constraints find an attribute on a device."""

import pytest

from solver.domain import AttributeKind
from solver.feasibility.device_attributes import AttributeName, Items, lookup
from tests.support import builders as b

DRIVER = "gpu.example.com"
STRING, INT, VERSION = AttributeKind.STRING, AttributeKind.INT, AttributeKind.VERSION

FOUND: tuple[tuple[str, dict[str, b.Attribute], str, Items], ...] = (
    ("by its qualified name", {"x.io/a": "v"}, "x.io/a", ((STRING, "v"),)),
    ("by its bare name in the driver's domain", {"a": "v"}, f"{DRIVER}/a", ((STRING, "v"),)),
    ("the qualified name wins over the bare one", {"a": "bare", f"{DRIVER}/a": "v"}, f"{DRIVER}/a", ((STRING, "v"),)),
    ("a bare name belongs to no other domain", {"a": "v"}, "x.io/a", ()),
    ("another name", {"x.io/b": "v"}, "x.io/a", ()),
    ("every item of a list", {"x.io/a": (1, 2)}, "x.io/a", ((INT, 1), (INT, 2))),
    ("an empty list has none", {"x.io/a": ()}, "x.io/a", ()),
    ("a version is its text", {"x.io/a": b.version("1.0.0+b")}, "x.io/a", ((VERSION, "1.0.0+b"),)),
)


@pytest.mark.parametrize(("published", "name", "items"), [row[1:] for row in FOUND], ids=[row[0] for row in FOUND])
def test_an_attribute_is_found(published: dict[str, b.Attribute], name: str, items: Items) -> None:
    assert lookup(DRIVER, b.device("d", attributes=published), AttributeName.parse(name)) == items


def test_a_number_and_its_text_differ() -> None:
    one, text = (b.device("d", attributes={"x.io/a": value}) for value in (1, "1"))
    name = AttributeName.parse("x.io/a")
    assert lookup(DRIVER, one, name) != lookup(DRIVER, text, name)


def test_a_truth_and_a_number_differ() -> None:
    one, truth = (b.device("d", attributes={"x.io/a": value}) for value in (1, True))
    name = AttributeName.parse("x.io/a")
    assert lookup(DRIVER, one, name) != lookup(DRIVER, truth, name)

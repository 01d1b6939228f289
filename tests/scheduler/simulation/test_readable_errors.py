"""The decoder's messages in the words of people who write manifests."""

import pytest

from scheduler.simulation.manifests.decoding import readable_error

ROWS = [
    (
        "spec: Expected `int`, got `str` - at `$.devices.requests[0].exactly.count`",
        ("spec.devices.requests[0].exactly.count", "expected a whole number, got a text"),
    ),
    (
        "Expected `str`, got `float` - at `$.metadata.name`",
        ("metadata.name", "expected a text, got a number: put it in quotes"),
    ),
    ("Expected `str | null`, got `array` - at `$.a`", ("a", "expected a text, got a list")),
    ("Object missing required field `driver` - at `$.spec`", ("spec.driver", "missing")),
    ("Object missing required field `metadata`", ("metadata", "missing")),
    ("spec.overhead: 'x' is not a quantity", ("spec.overhead", "'x' is not a quantity")),
    ("something else", ("", "something else")),
]


@pytest.mark.parametrize(("text", "expected"), ROWS, ids=[text[:30] for text, _ in ROWS])
def test_a_message_becomes_a_field_and_a_sentence(text: str, expected: tuple[str, str]) -> None:
    assert readable_error(text) == expected

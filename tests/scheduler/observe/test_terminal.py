"""Texts of users on a terminal."""

import json
import unicodedata

import pytest

from scheduler.observe import terminal


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("\x1b[31mred\x1b[0m", "\\x1b[31mred\\x1b[0m", id="colour"),
        pytest.param("\x1b]0;title\x07", "\\x1b]0;title\\x07", id="title"),
        pytest.param("a\x9b2Jb", "a\\x9b2Jb", id="C1"),
        pytest.param("a\rb\nc\td\x7f", "a\\rb\\nc\\td\\x7f", id="lines"),
        pytest.param("gpu\u202e1-upg", "gpu\\u202e1-upg", id="override of direction"),
        pytest.param("a\u2066b\u2069\u061c", "a\\u2066b\\u2069\\u061c", id="isolates and marks"),
        pytest.param("a\u200bb\ufeffc\u2060\xad", "a\\u200bb\\ufeffc\\u2060\\xad", id="no width"),
        pytest.param("a\u2028b\u2029", "a\\u2028b\\u2029", id="separators"),
        pytest.param("\U000e0041", "\\U000e0041", id="tags"),
        pytest.param("\udcff", "\\udcff", id="half a character"),
    ],
)
def test_what_cannot_be_seen_is_written_out(text: str, expected: str) -> None:
    assert terminal.escaped(text) == expected


def test_every_control_and_format_character_is_escaped() -> None:
    hidden = {"Cc", "Cf", "Cs", "Zl", "Zp"}
    found = [chr(number) for number in range(0x110000) if unicodedata.category(chr(number)) in hidden]
    scripts = {
        "\u0600",
        "\u0601",
        "\u0602",
        "\u0603",
        "\u0604",
        "\u0605",
        "\u06dd",
        "\u070f",
        "\u0890",
        "\u0891",
        "\u08e2",
    }
    left = {
        each for each in found if terminal.escaped(each) == each and ord(each) <= 0xFFFF
    } - scripts  # signs that are seen
    assert left == set()


@pytest.mark.parametrize("text", ["plain", "größe", "模型", "a b", "[red]x[/red]", "→ … 🚀", "\\x1b"])
def test_what_can_be_seen_stays(text: str) -> None:
    assert terminal.escaped(text) == text


def test_lines_stay_where_they_are_meant() -> None:
    assert terminal.escaped("a\nb\r\x1b", keep="\n") == "a\nb\\r\\x1b"


def test_json_keeps_its_values() -> None:
    value = {"a\u202eb": ["\x1b[31m", "\x9b", "\U000e0041", "größe"], "c": "\u200b"}
    document = json.dumps(value, ensure_ascii=False, indent=2)
    found = terminal.escaped_json(document)
    assert json.loads(found) == value
    assert terminal.escaped(found, keep="\n") == found
    assert "größe" in found

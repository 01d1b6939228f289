"""Lists as kubectl prints them: one line for each row, as wide as the terminal, whole in a pipe."""

import io

import pytest

from scheduler.simulation.list_table import Coloured, ListColumn, show

COLUMNS = (
    ListColumn("DEVICE"),
    ListColumn("HELD", is_number=True),
    ListColumn("WHY", is_sentence=True),
    ListColumn("UID", is_wide=True),
)
ROWS = (
    (Coloured("gpu-0", "green"), "1", "it is", "u-0"),
    ("a-very-long-name-of-a-device", "12", "the device is on a node that is cordoned, and it is tainted too", "u-1"),
)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def printed(to: io.StringIO, *rows: tuple[str | Coloured, ...], is_wide: bool = False) -> list[str]:
    show(COLUMNS, rows, to, is_wide=is_wide)
    return to.getvalue().splitlines()


def terminal(monkeypatch: pytest.MonkeyPatch, width: int, colour: str = "") -> Terminal:
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    if not colour:
        monkeypatch.setenv("NO_COLOR", "1")
    return Terminal()


def test_in_a_pipe_each_row_is_one_whole_line_without_colour() -> None:
    assert printed(io.StringIO(), *ROWS) == [
        "DEVICE                         HELD   WHY",
        "gpu-0                             1   it is",
        "a-very-long-name-of-a-device     12   the device is on a node that is cordoned, and it is tainted too",
    ]


def test_wide_has_more_columns() -> None:
    assert printed(io.StringIO(), ROWS[0], is_wide=True) == [
        "DEVICE   HELD   WHY     UID",
        "gpu-0       1   it is   u-0",
    ]


def test_sentences_are_wrapped_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    assert printed(terminal(monkeypatch, 70), *ROWS) == [
        "DEVICE                         HELD   WHY",
        "gpu-0                             1   it is",
        "a-very-long-name-of-a-device     12   the device is on a node that is",
        "                                      cordoned, and it is tainted too",
    ]


def test_names_are_shortened_only_where_nothing_else_helps(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = printed(terminal(monkeypatch, 50), *ROWS)
    assert lines[2].startswith("a-very-l…-device")
    assert max(map(len, lines)) <= 50


def test_wide_shortens_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = printed(terminal(monkeypatch, 50), *ROWS, is_wide=True)
    assert len(lines) == 3
    assert lines[2].startswith("a-very-long-name-of-a-device ")


def test_colours_are_for_terminals(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = printed(terminal(monkeypatch, 80, "yes"), ROWS[0])
    assert lines[1] == "\x1b[32mgpu-0\x1b[0m       1   it is"


def test_texts_of_users_are_escaped_and_wide_characters_counted() -> None:
    assert printed(io.StringIO(), ("a\x1b[2J", "1", "", ""), ("北京", "2", "", "")) == [
        "DEVICE     HELD   WHY",
        "a\\x1b[2J      1",
        "北京          2",
    ]

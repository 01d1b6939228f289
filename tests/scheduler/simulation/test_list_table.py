"""Lists as kubectl prints them: one line for each row, as wide as the terminal, whole in a pipe."""

import io

import pytest
from rich.padding import Padding
from rich.text import Text

from scheduler.simulation import list_table, printing
from scheduler.simulation.list_table import Coloured, ListColumn, Row, show, write

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
        "DEVICE                        HELD  WHY",
        "gpu-0                            1  it is",
        "a-very-long-name-of-a-device    12  the device is on a node that is",
        "                                    cordoned, and it is tainted too",
    ]


def test_where_there_is_no_room_sentences_stand_below_their_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    assert printed(terminal(monkeypatch, 50), *ROWS) == [
        "DEVICE                        HELD",
        "gpu-0                            1",
        "    it is",
        "a-very-long-name-of-a-device    12",
        "    the device is on a node that is cordoned,",
        "    and it is tainted too",
    ]


NAMES = (
    ListColumn("NODE"),
    ListColumn("TYPE", rank=1),
    ListColumn("CLAIM", rank=2),
    ListColumn("STATE", is_fixed=True),
    ListColumn("HELD", is_number=True),
)
NAMED = ("gpu-node-0001", "NVIDIA H100 80GB HBM3", "trainer-0-gpu-abcde", "held,pool-incomplete", "1")


@pytest.mark.parametrize(
    ("width", "expected"),
    [
        (80, ["NODE", "TYPE", "CLAIM", "STATE", "HELD"]),
        (64, ["NODE", "TYPE", "STATE", "HELD", "(-o wide shows CLAIM too)"]),
        (44, ["NODE", "STATE", "HELD", "(-o wide shows TYPE, CLAIM too)"]),
    ],
)
def test_columns_are_left_out_before_names_become_unreadable(
    monkeypatch: pytest.MonkeyPatch, width: int, expected: list[str]
) -> None:
    to = terminal(monkeypatch, width)
    show(NAMES, [NAMED], to)
    lines = to.getvalue().splitlines()
    assert lines[0].split() + lines[2:] == expected
    assert "held,pool-incomplete" in lines[1]
    assert max(map(len, lines)) <= width


def test_different_names_stay_different_when_they_are_shortened(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [("AMD_Instinct_MI300X_OAM cpx_nps1", "64", "", ""), ("AMD_Instinct_MI300X_OAM spx_nps1", "8", "", "")]
    columns = (ListColumn("TYPE"), ListColumn("TOTAL", is_number=True))
    to = terminal(monkeypatch, 20)
    show(columns, [row[:2] for row in rows], to)
    assert to.getvalue().splitlines() == [
        "TYPE           TOTAL",
        "AMD_…cpx_nps1     64",
        "AMD_…spx_nps1      8",
    ]


def test_names_are_shortened_only_where_nothing_else_helps(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = printed(terminal(monkeypatch, 24), *ROWS)
    assert lines[3].startswith("a-very-lo…a-device ")
    assert max(map(len, lines)) <= 24


def test_sentences_below_a_list_are_wrapped_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    to, pipe = terminal(monkeypatch, 20), io.StringIO()
    for each in (to, pipe):
        write(["", "  pod a holds 1 on node n-1"], each)
    assert to.getvalue().splitlines() == ["", "  pod a holds 1 on", "    node n-1"]
    assert pipe.getvalue().splitlines() == ["", "  pod a holds 1 on node n-1"]


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


def test_sentences_of_two_columns_stand_below_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    columns = (ListColumn("POD"), ListColumn("DEVICES", is_sentence=True), ListColumn("WHY", is_sentence=True))
    row = ("trainer-0", "gpu.example.com/n1/gpu-0, gpu.example.com/n1/gpu-1", "a node of the zone was drained")
    narrow, wide = terminal(monkeypatch, 70), io.StringIO()
    for each in (narrow, wide):
        show(columns, [row], each)
    assert narrow.getvalue().splitlines() == ["POD", row[0], f"    {row[1]}", f"    {row[2]}"]
    assert len(wide.getvalue().splitlines()) == 2


@pytest.mark.parametrize("cell", ["", "a", "ab cd  "])
def test_plain_lines_are_those_of_the_general_way(monkeypatch: pytest.MonkeyPatch, cell: str) -> None:
    rows: list[Row] = [("n1", Coloured("free", "green"), cell, "7"), ("a-longer-name", "held", "x" * 40, cell)]
    columns = [
        ListColumn("NODE"),
        ListColumn("STATE"),
        ListColumn("WHY", is_sentence=True),
        ListColumn("N", is_number=True),
    ]
    plain, general = io.StringIO(), io.StringIO()

    list_table.show(columns, rows, plain)
    monkeypatch.setattr(list_table, "_plain_lines", lambda *_: [])
    list_table.show(columns, rows, general)

    assert plain.getvalue() == general.getvalue()


def test_forced_colours_are_printed_in_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    to = io.StringIO()
    list_table.show([ListColumn("STATE")], [(Coloured("free", "green"),)], to)
    assert "\x1b[32mfree" in to.getvalue()


def test_names_that_are_copied_stay_whole_and_stand_below_where_there_is_no_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    columns = (
        ListColumn("NAMESPACE", is_copied=True),
        ListColumn("POD", is_copied=True),
        ListColumn("TYPE"),
        ListColumn("TOTAL", is_number=True),
    )
    row = ("team-with-a-long-name", "trainer-with-a-long-name-0", "NVIDIA H100 80GB HBM3", "12")
    wide, narrow = terminal(monkeypatch, 66), io.StringIO()
    show(columns, [row], wide)
    assert wide.getvalue().splitlines()[1] == "team-with-a-long-name  trainer-with-a-long-name-0  NVID…BM3     12"
    narrow = terminal(monkeypatch, 52)
    show(columns, [row], narrow)
    assert narrow.getvalue().splitlines() == [
        "NAMESPACE              TYPE                   TOTAL",
        "team-with-a-long-name  NVIDIA H100 80GB HBM3     12",
        "    POD trainer-with-a-long-name-0",
    ]


def test_a_product_keeps_its_model(monkeypatch: pytest.MonkeyPatch) -> None:
    columns = (ListColumn("NAME", is_copied=True), ListColumn("TYPE", is_product=True))
    for width, shown in ((40, "NVIDIA H100 80GB HBM3"), (24, "H100 80GB HBM3"), (20, "H100 80GB…")):
        to = terminal(monkeypatch, width)
        show(columns, [("gpu-0001", "NVIDIA H100 80GB HBM3")], to)
        assert to.getvalue().splitlines()[1].split("  ")[-1].strip() == shown


def test_products_that_begin_alike_keep_their_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    columns = (ListColumn("NAME", is_copied=True), ListColumn("TYPE", is_product=True))
    to = terminal(monkeypatch, 20)
    show(columns, [("gpu-0001", f"NVIDIA A100-SXM4-40GB {profile}") for profile in ("1g.5gb", "2g.10gb")], to)
    assert [line.split()[-1] for line in to.getvalue().splitlines()[1:]] == ["A100-….5gb", "A100-…10gb"]


def test_the_profile_of_a_partition_stays_whole_where_there_is_room(monkeypatch: pytest.MonkeyPatch) -> None:
    columns = (ListColumn("NAME", is_copied=True), ListColumn("TYPE", is_product=True))
    parts = [f"NVIDIA A100-SXM4-80GB {profile}" for profile in ("1g.10gb", "2g.20gb")]
    to = terminal(monkeypatch, 20)
    show(columns, [(f"gpu-{number}", part) for number, part in enumerate(parts)], to)
    assert [line.split()[-1] for line in to.getvalue().splitlines()[1:]] == ["A100-…1g.10gb", "A100-…2g.20gb"]


def test_a_name_that_no_other_column_stands_beside_takes_the_gaps_or_a_line_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    columns = (
        ListColumn("CLASS", is_copied=True),
        ListColumn("FREE", is_number=True),
        ListColumn("HELD", is_number=True),
    )
    to = terminal(monkeypatch, 30)
    show(columns, [("hami-core.project-hami", "4", "0")], to)
    assert to.getvalue().splitlines() == ["CLASS", "  FREE  HELD", "hami-core.project-hami", "     4     0"]
    to = terminal(monkeypatch, 32)
    show(columns, [("hami-core.project-hami", "4", "0")], to)
    assert max(map(len, to.getvalue().splitlines())) == 32


@pytest.mark.parametrize("colour", ["", "yes"])
def test_a_console_without_colour_writes_no_style_and_no_line_ends_in_blanks(
    colour: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    to = terminal(monkeypatch, 60, colour)
    console = printing.console(to)
    console.print(Padding(Text("plain"), (0, 10, 0, 2)), Text("head", "bold"), sep="\n")
    assert ("\x1b" in to.getvalue()) == bool(colour)
    assert not [line for line in to.getvalue().splitlines() if line.endswith(" ")]

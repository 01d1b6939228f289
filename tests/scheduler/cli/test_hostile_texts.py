"""Texts of users on the terminal of another user, and failures of our own."""

import io
import json
import sys
from pathlib import Path

import pytest

from scheduler.cli import config, main, simulate
from scheduler.observe import terminal
from scheduler.simulation.moves import moves_output
from solver.domain import PodId, Relocation, Staying
from tests.support import manifests as m

Capture = pytest.CaptureFixture[str]

EVIL = "\x1b[31m\u202e\x9b2J\u200b[red]"


def _hostile(tmp_path: Path) -> Path:
    """Names, also of refused objects, classes and selectors with what a terminal acts on."""
    pods = [
        m.pod(f"evil{EVIL}", template_name="t"),
        m.pod("lost", template_name=f"t{EVIL}"),
        m.pod("waits", nodeSelector={f"disk{EVIL}": EVIL}),
        m.pod("spread", priorityClassName=EVIL),
    ]
    objects = [
        m.node(),
        m.node(f"n{EVIL}"),
        m.slice_of(),
        m.slice_of(f"n{EVIL}"),
        m.device_class(),
        m.template(),
        *pods,
    ]
    for each in objects:  # as a server has written them, whose fields and values are not judged again
        each["metadata"] |= {"resourceVersion": "1", "creationTimestamp": "2026-01-01T00:00:00Z"}
    return m.write_json(tmp_path / "f.json", objects)


def _is_safe(text: str) -> bool:
    return terminal.escaped(text, keep="\n") == text


def test_tables_and_messages_show_hostile_texts_escaped(tmp_path: Path, capsys: Capture) -> None:
    m.run("simulate", "-f", _hostile(tmp_path))
    printed = capsys.readouterr()
    assert "\\x1b[31m\\u202e\\x9b2J\\u200b[red]" in printed.out.replace("\n", "")
    assert (_is_safe(printed.out), _is_safe(printed.err)) == (True, True)


def test_json_has_the_exact_texts(tmp_path: Path, capsys: Capture) -> None:
    m.run("simulate", "-o", "json", "-f", _hostile(tmp_path))
    printed = capsys.readouterr()
    found = json.loads(printed.out)
    (lost,) = (each for each in found["unplaced"] if each["pod"] == "default/lost")
    assert f"ResourceClaimTemplate t{EVIL} does not exist" in lost["reasons"][0]["message"]
    assert _is_safe(printed.out)


@pytest.mark.parametrize("pod", ["default/lost", "default/waits"])
def test_stories_show_hostile_texts_escaped(pod: str, tmp_path: Path, capsys: Capture) -> None:
    saved = tmp_path / "saved.json"
    m.run("simulate", "-f", _hostile(tmp_path), "--save", saved)
    capsys.readouterr()
    m.run("explain", "pod", pod, "--snapshot", saved)
    printed = capsys.readouterr()
    assert "Pod default/" in printed.out
    assert (_is_safe(printed.out), _is_safe(printed.err)) == (True, True)


def test_the_table_of_moves_has_no_markup() -> None:
    staying = Staying(pod=PodId("default", "[bold]x[/bold]"), node="[red]n[/red]", reason=EVIL)
    found = Relocation(is_found=False, reason=EVIL, staying=(staying,))
    to = io.StringIO()
    moves_output.show_moves(found, to)
    assert "[bold]x[/bold]" in to.getvalue()
    assert "[red]n[/red]" in to.getvalue()
    assert _is_safe(to.getvalue())


def test_a_failure_of_our_own_is_one_line_and_a_status(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    def execute(_: object) -> int:
        raise KeyError(f"secret\n{EVIL}")

    monkeypatch.setattr(config, "execute", execute)
    assert main(["config", "--print-default"]) == 70
    printed = capsys.readouterr()
    (line,) = printed.err.splitlines()
    assert line.startswith("dovetail: config: failed with KeyError at test_hostile_texts.py:")
    assert "please report it with the input that caused it; --debug prints the traceback" in line
    assert _is_safe(printed.err)


def test_the_traceback_is_printed_on_request(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    def execute(_: object) -> int:
        raise RuntimeError(EVIL)

    monkeypatch.setattr(simulate, "execute", execute)
    assert main(["simulate", "-f", "x", "--debug"]) == 70
    error = capsys.readouterr().err
    assert "Traceback (most recent call last)" in error
    assert _is_safe(error)


def test_every_command_has_the_option(capsys: Capture) -> None:
    for command in ("run", "simulate", "explain", "repair", "replay", "config", "version"):
        assert m.run(command, "--help") == 0
        assert "--debug" in capsys.readouterr().out


def test_arguments_are_escaped_too(capsys: Capture) -> None:
    assert m.run("config", f"--check{EVIL}") == 2
    assert _is_safe(capsys.readouterr().err)


def test_a_reader_that_goes_is_no_defect(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def execute(_: object) -> int:
        raise BrokenPipeError

    monkeypatch.setattr(config, "execute", execute)
    with (tmp_path / "out").open("w") as out:
        monkeypatch.setattr(sys, "stdout", out)
        assert main(["config", "--print-default"]) == 141

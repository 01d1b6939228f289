import argparse
import gc
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

from scheduler import __main__ as entry_point
from scheduler import cli
from scheduler.cli import main
from scheduler.settings import default, parse, reference

ROOT = Path(__file__).parents[3]


def test_config_prints_a_default_that_can_be_read_back(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "--print-default"]) == 0
    assert parse(capsys.readouterr().out, "stdout") == default()


def test_config_prints_the_schema(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "--print-schema"]) == 0
    assert capsys.readouterr().out == reference.json_schema()


def test_config_checks_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    path = ROOT / "config" / "default.yaml"
    assert main(["config", "--check", str(path)]) == 0
    assert capsys.readouterr().out == f"{path}: valid\n"


def test_config_warns_of_an_old_key(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "config.yaml"
    head = "apiVersion: config.dovetail.dev/v1alpha1\nkind: DovetailConfiguration\n"
    path.write_text(f"{head}holds: {{maxNodesPercent: 3}}\n", encoding="utf-8")
    assert main(["config", "--check", str(path)]) == 0
    expected = f"dovetail: warning: {path}: holds is deprecated, write nodeReservations\n"
    assert capsys.readouterr().err == expected


def test_config_refuses_a_wrong_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("a: 1", encoding="utf-8")
    assert main(["config", "--check", str(path)]) == 2
    assert capsys.readouterr().err.startswith(f"dovetail: {path}: apiVersion: missing")


@pytest.mark.parametrize("arguments", [["version", "--client"], ["--version"]], ids=" ".join)
def test_the_version_is_one_line(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    try:
        status = main(arguments)
    except SystemExit as end:
        status = int(end.code or 0)
    assert status == 0
    assert capsys.readouterr().out.startswith("dovetail 0.")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(
            ["nonsense"], "dovetail: there is no command 'nonsense' (see dovetail --help)", id="unknown command"
        ),
        pytest.param(
            ["devcies"], "dovetail: there is no command 'devcies': did you mean devices?", id="mistyped command"
        ),
        pytest.param(["--nonsense"], "dovetail: unrecognized arguments: --nonsense", id="unknown flag"),
        pytest.param(["--leader-elect=maybe"], "'maybe' is neither true nor false", id="no truth"),
        pytest.param(
            ["--log-level", "loud"], "invalid choice: 'loud' (choose from 'debug', 'info',", id="unknown level"
        ),
        pytest.param(["config"], "one of the arguments --print-default --print-schema --check", id="nothing to do"),
        pytest.param(
            ["--bind-address", "80"], "dovetail: command line: health.bindAddress: '80' is no address", id="address"
        ),
        pytest.param(["--config", "/absent"], "dovetail: /absent: cannot be read", id="no file"),
        pytest.param(["--scheduler-name", "a b"], "'a b' is no name", id="no name"),
    ],
)
def test_wrong_use_is_one_line_and_status_2(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        status = main(arguments)
    except SystemExit as end:
        status = int(end.code or 0)
    error = capsys.readouterr().err
    assert status == 2
    assert message in error
    assert error.count("\n") == 1


def test_commands_that_only_print_import_nothing_of_the_cluster() -> None:
    program = (
        "import sys; from scheduler.cli import main; main(['version', '--client']); "
        "print(sorted({'kubernetes', 'aiohttp', 'structlog'} & set(sys.modules)))"
    )
    result = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert result.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("command", ["config", "run"])
def test_only_the_scheduler_collects_garbage(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[bool] = []

    def execute(_: argparse.Namespace) -> int:
        found.append(gc.isenabled())
        return 0

    monkeypatch.setattr(importlib.import_module(f"scheduler.cli.{command}"), "execute", execute)

    assert main([command, *(["--print-default"] if command == "config" else [])]) == 0
    assert (found, gc.isenabled()) == ([command == "run"], True)


def test_the_process_ends_without_a_last_look_at_all_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli, "main", lambda: 3)
    try:
        assert entry_point.main() == 3
        assert gc.get_freeze_count() > 0
    finally:
        gc.unfreeze()

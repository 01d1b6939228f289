import argparse
import base64
import gc
import importlib
import os
import subprocess
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from scheduler.cli import main
from scheduler.cli.main import COMMANDS, EXAMPLES, GROUPS, _parser_for
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
        pytest.param(["nonsense"], 'dovetail: unknown command "nonsense" (see', id="unknown command"),
        pytest.param(
            ["quue", "-A"], 'dovetail: unknown command "quue". Did you mean "queue"? (see', id="close command"
        ),
        pytest.param(["run", "--nonsense"], "dovetail run: unrecognized arguments: --nonsense (see", id="unknown flag"),
        pytest.param(["--nonsense", "run"], "dovetail: unrecognized arguments: --nonsense (see", id="unknown before"),
        pytest.param(
            ["--leader-elect=false"],
            'the command is missing: write "dovetail run --leader-elect=false …" to schedule pods (see',
            id="no command",
        ),
        pytest.param(
            ["fit", "-f", "x", "--cuont=3"],
            'dovetail fit: unrecognized arguments: --cuont=3. Did you mean "--count"? (see dovetail fit --help)',
            id="close flag",
        ),
        *(
            pytest.param(words, f"unrecognized arguments: {words[1]}{more}. For one namespace write -n x (see", id=head)
            for words, more, head in (
                (["queue", "namespace/x"], "", "namespace"),
                (["queue", "ns", "x"], " x", "namespace of two words"),
                (["usage", "ns/x"], "", "another command"),
            )
        ),
        *(
            pytest.param(words, f"{words[1]}{more} (see dovetail {words[0]}", id=" ".join(words))
            for words, more in (
                (["queue", "pod/x"], ". For this pod write dovetail explain pod/x"),
                (["usage", "node/x"], ". For this node write dovetail devices node/x"),
                (["fit", "pod.yaml"], ". Write -f pod.yaml"),
                (["devices", "--node", "h100-1"], ". Write node/h100-1"),
                (["free", "--node=h100-1"], ". Write node/h100-1"),
            )
        ),
        pytest.param(["queue", "-x"], "dovetail queue: unrecognized arguments: -x (see", id="unknown letter"),
        pytest.param(["run", "--leader-elect=maybe"], "'maybe' is neither true nor false", id="no truth"),
        pytest.param(
            ["run", "--log-level", "loud"], "invalid choice: 'loud' (choose from 'debug', 'info',", id="unknown level"
        ),
        pytest.param(["config"], "one of the arguments --print-default --print-schema --check", id="nothing to do"),
        pytest.param(
            ["run", "--bind-address", "80"],
            "dovetail: command line: health.bindAddress: '80' is no address",
            id="address",
        ),
        pytest.param(["run", "--config", "/absent"], "dovetail: /absent: cannot be read", id="no file"),
        pytest.param(["run", "--scheduler-name", "a b"], "'a b' is no name", id="no name"),
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


def test_without_a_command_the_help_is_printed_and_nothing_starts(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main([])
    assert end.value.code == 0
    assert "simulate" in capsys.readouterr().out


def test_the_help_has_every_command_in_its_group_and_fits_the_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit):
        main(["--help"])
    lines = capsys.readouterr().out.splitlines()
    heads = [line for line in lines if line in GROUPS]
    assert heads == list(GROUPS)
    listed = [line.split()[0] for line in lines if line.startswith("  ") and line[2] != " "]
    assert listed == list(COMMANDS)
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize(("words", "same"), [(["help"], ["--help"]), (["help", "free"], ["free", "--help"])])
def test_help_is_a_word_too(words: list[str], same: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    printed = []
    for each in (words, same):
        with pytest.raises(SystemExit) as end:
            main(each)
        assert end.value.code == 0
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1]


@pytest.mark.parametrize(("name", "example"), [(name, each) for name, lines in EXAMPLES.items() for each in lines])
def test_the_examples_of_the_help_are_command_lines(
    name: str, example: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main([name, "--help"])
    assert f"  dovetail {example}\n" in capsys.readouterr().out
    _parser_for(name, "dovetail").parsed(example.split())


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


def process(*words: str, environment: Mapping[str, str] = os.environ, **more: Any) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "scheduler", *words]
    return subprocess.Popen(command, cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True, **more)


def ended(started: "subprocess.Popen[str]") -> tuple[int, str]:
    _, errors = started.communicate(timeout=180)
    return started.returncode, errors


def test_the_process_ends_with_the_status_of_the_command_and_of_wrong_arguments() -> None:
    assert ended(process("version", "--client", stdout=subprocess.DEVNULL)) == (0, "")
    assert ended(process("fit"))[0] == ended(process("fit", "--no-such-option"))[0] == 2


def test_an_output_that_is_closed_takes_nothing() -> None:
    assert ended(process("version", "--client", preexec_fn=partial(os.close, 1))) == (0, "")


@pytest.mark.parametrize("words", [("version", "--client"), ("completion", "bash"), ("config", "--print-schema")])
def test_an_output_on_a_full_disk_is_no_defect(words: tuple[str, ...]) -> None:
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    with Path("/dev/full").open("w") as full:
        status, errors = ended(process(*words, stdout=full, environment=buffered))
    assert (status, errors) == (2, f"dovetail: {words[0]}: the output cannot be written: No space left on device\n")


@pytest.mark.parametrize("words", [("completion", "bash"), ("simulate", "-f", "examples/01-one-gpu-per-pod.yaml")])
def test_a_reader_that_has_gone(words: tuple[str, ...]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as pipe:
        assert ended(process(*words, stdout=pipe))[0] == 141


def test_a_key_that_was_written_to_a_file_is_removed_at_the_end(tmp_path: Path) -> None:
    certificate = base64.b64encode(b"no certificate").decode()
    cluster = {"server": "https://127.0.0.1:1", "certificate-authority-data": certificate}
    kubeconfig, folder = tmp_path / "kubeconfig", tmp_path / "temporary"
    folder.mkdir()
    kubeconfig.write_text(
        yaml.safe_dump(
            {
                "current-context": "c",
                "clusters": [{"name": "c", "cluster": cluster}],
                "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
                "users": [{"name": "u", "user": {"token": "t"}}],
            }
        )
    )
    environment = os.environ | {"TMPDIR": str(folder)}
    status, errors = ended(process("queue", f"--kubeconfig={kubeconfig}", environment=environment))
    assert (status, str(folder) in errors, list(folder.iterdir())) == (2, True, [])


def test_a_command_builds_no_parser_of_another_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(_: argparse.ArgumentParser) -> None:
        raise AssertionError("it is the parser of another command")

    monkeypatch.setattr("scheduler.cli.run.add", never)
    assert main(["config", "--print-default"]) == 0

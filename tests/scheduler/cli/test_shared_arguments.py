"""What all commands share: objects, namespaces, label selectors, --watch, exit statuses, and how fast they start."""

import argparse
import io
import subprocess
import sys
from pathlib import Path

import pytest

from scheduler.api import selector_parameter
from scheduler.cli import run
from scheduler.cli.arguments import UsageError, add_namespaces, add_selector, completed, namespace_of
from scheduler.cli.exit_status import ExitStatus
from scheduler.cli.main import COMMANDS
from scheduler.cli.sources.targets import TargetKind, add_target, target_of
from scheduler.cli.sources.watching import watch
from scheduler.kube.access import ClusterAccess
from scheduler.settings import LogFormat, LogLevel
from tests.support import manifests as m

ROOT = Path(__file__).parents[3]
KINDS = (TargetKind.POD, TargetKind.POD_GROUP, TargetKind.NAMESPACE)
HERE = ClusterAccess(None, "", "here")


def parsed(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_target(parser, KINDS, is_optional=True)
    add_namespaces(parser)
    return parser.parse_args(words)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("x", (TargetKind.POD, "here", "x")),
        ("pod/x", (TargetKind.POD, "here", "x")),
        ("pod x", (TargetKind.POD, "here", "x")),
        ("PODS/x", (TargetKind.POD, "here", "x")),
        ("-n there x", (TargetKind.POD, "there", "x")),
        ("there/x", (TargetKind.POD, "there", "x")),
        ("pod there/x", (TargetKind.POD, "there", "x")),
        ("pod/there/x", (TargetKind.POD, "there", "x")),
        ("there/x -n there", (TargetKind.POD, "there", "x")),
        ("gang/x", (TargetKind.POD_GROUP, "here", "x")),
        ("podgroup there/x", (TargetKind.POD_GROUP, "there", "x")),
        ("ns/x", (TargetKind.NAMESPACE, "", "x")),
        ("pod/pod", (TargetKind.POD, "here", "pod")),
    ],
)
def test_an_object_is_named_as_kubectl_names_it(line: str, expected: tuple[TargetKind, str, str]) -> None:
    options = parsed(*line.split())
    assert target_of(options.target, options, KINDS, HERE)[:3] == expected


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("pod", "'pod' names no pod: write pod/NAME or pod NAMESPACE/NAME"),
        ("a/b/c", "'a/b/c' names no pod"),
        ("a b", "'a b': write one object"),
        ("pod x y", "'pod x y': write one object"),
        ("node/x", "'node/x' is a node: this command takes pod/NAME"),
        ("deployment/x", "'deployment/x': this command takes pod/NAME"),
        ("deploy x", "'deploy x': write one object, as pod/NAME"),
        ("ns/a/b", "'ns/a/b' names no namespace: write namespace/NAME"),
        ("a/x -n b", "'a/x' is in namespace a, but -n is b: give one of them"),
    ],
)
def test_what_names_no_object_is_refused(line: str, message: str) -> None:
    options = parsed(*line.split())
    with pytest.raises(UsageError) as error:
        target_of(options.target, options, KINDS, HERE)
    assert str(error.value).startswith(message)


@pytest.mark.parametrize(
    ("words", "access", "expected"),
    [((), HERE, "here"), (("-A",), HERE, ""), (("-n", "there"), HERE, "there"), ((), None, "default")],
    ids=["of the context", "all", "named", "of files"],
)
def test_the_namespace(words: tuple[str, ...], access: ClusterAccess | None, expected: str) -> None:
    assert namespace_of(parsed(*words), access) == expected


@pytest.mark.parametrize("command", ["queue", "devices", "explain", "fit"])
def test_what_can_be_no_namespace_is_refused(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert m.run(command, "-n", "No_Such/x") == 2
    assert "'No_Such/x' is no name of a namespace: write at most 63 of a-z, 0-9 and -" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "labels", "expected"),
    [
        ("app=web", {"app": "web"}, True),
        ("app==web", {"app": "db"}, False),
        ("app!=web", {}, True),
        ("app != web", {"app": "web"}, False),
        ("app", {"app": ""}, True),
        ("!app", {"app": ""}, False),
        ("team in (a, b),!old", {"team": "b"}, True),
        ("team in (a,b) , app=web", {"team": "b"}, False),
        ("example.com/team notin (a)", {"example.com/team": "a"}, False),
        ("app=", {"app": ""}, True),
        ("in=notin", {"in": "notin"}, True),
        ("", {"any": "thing"}, True),
    ],
)
def test_a_label_selector(text: str, labels: dict[str, str], expected: bool) -> None:  # noqa: FBT001 - a table
    assert selector_parameter.parse(text).matches(labels) is expected


@pytest.mark.parametrize("text", ["a=b=c", "a in b", "a,", ",a", "a b", "-a", "a in (b", "a=(b)", "a>1"])
def test_what_is_no_label_selector(text: str) -> None:
    with pytest.raises(
        selector_parameter.LabelSelectorError, match="is no label selector: write requirements such as app=web"
    ):
        selector_parameter.parse(text)


def test_the_option_gives_a_selector_or_none(capsys: pytest.CaptureFixture[str]) -> None:
    parser = argparse.ArgumentParser()
    add_selector(parser, "pods")
    assert parser.parse_args([]).selector is None
    assert parser.parse_args(["-l", "app=web"]).selector.matches({"app": "web"})
    with pytest.raises(SystemExit):
        parser.parse_args(["-l", "a b"])
    assert "'a b' is no label selector: write requirements" in capsys.readouterr().err


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("to", "expected"), [(io.StringIO(), "1\n2\n"), (Terminal(), "\x1b[H\x1b[2J1\n\x1b[H\x1b[2J2\n")]
)
def test_a_watch_prints_what_changes_and_waits_longer_where_asking_takes_long(to: io.StringIO, expected: str) -> None:
    answers = iter([1, 1, 2])
    slept: list[float] = []

    with pytest.raises(StopIteration):
        watch(
            lambda: next(answers),
            lambda answer: to.write(f"{answer}\n"),
            to,
            sleep=slept.append,
            clock=iter([0.0, 0.1, 10.0, 11.0, 20.0, 20.0, 30.0]).__next__,
        )
    assert to.getvalue() == expected
    assert slept == [2.0, 10.0, 2.0]


def test_a_kind_that_is_forbidden_is_named_and_the_answer_is_incomplete(capsys: pytest.CaptureFixture[str]) -> None:
    assert completed(ExitStatus.NO, ()) == ExitStatus.NO
    assert capsys.readouterr().err == ""
    assert completed(ExitStatus.OK, ("nodes", "pods")) == ExitStatus.INCOMPLETE
    assert capsys.readouterr().err.startswith(
        "dovetail: warning: cannot list nodes, pods: forbidden. The answer leaves them out; the ClusterRole "
    )


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_imports_only_what_it_needs(command: str) -> None:
    """A start within 0.25 s has no room for the solver, the cluster's client or the settings."""
    program = f"import sys; from scheduler.cli import main; sys.argv[1:] = {[*command.split(), '--help']}\n"
    program += "try: main()\nexcept SystemExit: print(sorted(set(sys.modules) & {'solver', 'yaml', 'rich', 'msgspec'}))"
    result = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert result.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize(
    ("module", "unneeded"),
    [
        ("live_cluster", {"numpy", "ortools", "lark", "solver.decide"}),
        ("queue_listing", {"numpy", "ortools", "lark", "solver.decide"}),
        ("fleet_reading", {"ortools", "solver.decide"}),
        ("supply_output", {"numpy", "aiohttp", "lark"}),
        ("devices_output", {"numpy", "aiohttp", "lark"}),
        ("printing", {"numpy", "ortools", "lark", "solver.decide"}),
    ],
)
def test_what_decides_nothing_imports_no_search(module: str, unneeded: set[str]) -> None:
    """Commands that only show objects start a second earlier."""
    program = f"import sys, scheduler.simulation.{module}; print(sorted(set(sys.modules) & {unneeded}))"
    result = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert result.stdout == "[]\n"


def test_the_choices_of_run_are_those_of_the_settings() -> None:
    assert [each.value for each in LogLevel] == list(run.LOG_LEVELS)
    assert [each.value for each in LogFormat] == list(run.LOG_FORMATS)


def test_the_page_lists_every_command_and_exit_status() -> None:
    page = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    assert [each for each in COMMANDS if f"| `{each}` |" not in page] == []
    assert [each.value for each in ExitStatus if f"| {each.value} |" not in page] == []

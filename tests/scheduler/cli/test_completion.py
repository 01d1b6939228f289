"""Completion: what the scripts of the shells and kubectl are answered, in processes of their own as there."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import manifests as m

ROOT = Path(__file__).parents[3]


def answered(code: str, *words: str, **environment: str) -> str:
    program = f"import sys; sys.path.insert(0, {str(ROOT)!r}); sys.argv[1:] = {list(words)!r}; {code}"
    result = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT / "config",
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    assert result.stderr == ""
    return result.stdout


def for_kubectl(*words: str, **environment: str) -> list[str]:
    code = "from scheduler.cli.completion import complete_for_kubectl; complete_for_kubectl()"
    return [line.partition("\t")[0] for line in answered(code, *words, **environment).splitlines()]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["stat"], ["status", ":4"]),
        (["explain", "--sn"], ["--snapshot", ":4"]),
        (["explain", "pod/x", "-o", ""], ["table", "wide", "json", "yaml", ":4"]),
        (["run", "--log-level", "w"], ["warning", ":4"]),
        (["config", "--check", "def"], ["default.yaml", ":4"]),
        (["simulate", "-f", "../doc"], ["../docs/", ":6"]),
        (["explain", "-n", ""], [":4"]),
        (["explain", "a pod", "--snap"], ["--snapshot", ":4"]),
    ],
    ids=" ".join,
)
def test_kubectl_is_answered_by_its_protocol(words: list[str], expected: list[str]) -> None:
    assert for_kubectl(*words) == expected


def test_all_commands_have_their_descriptions() -> None:
    code = "from scheduler.cli.completion import complete_for_kubectl; complete_for_kubectl()"
    lines = answered(code, "").splitlines()
    assert "config\tPrint the default configuration or its schema, or check a file." in lines


def test_the_script_of_bash_completes_words() -> None:
    """Bash itself, with a program `dovetail` on its path."""
    script = (
        f'dovetail() {{ "{sys.executable}" -m scheduler "$@"; }}; export -f dovetail; '
        "source <(dovetail completion bash); "
        'COMP_LINE="dovetail explain --sn"; COMP_POINT=${#COMP_LINE}; _python_argcomplete dovetail; '
        'echo "${COMPREPLY[*]}"'
    )
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{os.environ.get('PYTHONPATH', '')}"}
    result = subprocess.run(
        ["bash", "-c", script], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    assert result.stdout.split() == ["--snapshot"]


def as_a_shell(script: str, line: str) -> str:
    """What the program answers with the variables that a script sets, on the file descriptor that it reads."""
    texts = {"\\t": "\t", "\\n": "\n"}
    found = re.findall(r'(?:set -lx |^ +)(_ARGCOMPLETE\w*)[ =]"?([^\s"$]+)"?\s', script, re.MULTILINE)
    environment = {name: texts.get(value, value) for name, value in reversed(found)}  # zsh stands before bash
    run = '"$@" 8>&1 9>&2 1>/dev/null 2>&1'
    result = subprocess.run(
        ["bash", "-c", run, "_", sys.executable, "-m", "scheduler"],
        cwd=ROOT,
        env={**os.environ, **environment, "COMP_LINE": line, "COMP_POINT": str(len(line))},
        capture_output=True,
        text=True,
        check=True,
    )
    return result.stdout


@pytest.mark.parametrize(
    ("shell", "line", "expected"),
    [
        ("fish", "dovetail explain --sn", "--snapshot\tuse a file that `dovetail simulate --save` wrote"),
        ("fish", "kubectl-dovetail expl", "explain\tShow why a pod or gang waits"),
        ("zsh", "dovetail explain --sn", "--snapshot:use a file that `dovetail simulate --save` wrote"),
        ("zsh", "dovetail expl", "explain:Show why a pod or gang waits"),
    ],
)
def test_zsh_and_fish_get_words_with_descriptions(
    shell: str, line: str, expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without the shells: with the variables of their scripts. In them the scripts were tried by hand."""
    assert m.run("completion", shell) == 0
    assert as_a_shell(capsys.readouterr().out, line).startswith(expected)


@pytest.mark.parametrize(("shell", "separator"), [("fish", "\n"), ("zsh", "\v")])
def test_zsh_and_fish_get_one_word_for_each_choice(
    shell: str, separator: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert m.run("completion", shell) == 0
    answer = as_a_shell(capsys.readouterr().out, "dovetail explain pod/x -o ")
    assert [re.split(r"[\t:]", each)[0] for each in answer.split(separator)] == ["table", "wide", "json", "yaml"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_names_both_programs(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert m.run("completion", shell) == 0
    script = capsys.readouterr().out
    assert "dovetail" in script
    assert "kubectl-dovetail" in script


@pytest.mark.parametrize("content", ["", "a: [", "clusters: 3\ncurrent-context: x", None, "unreachable"])
def test_names_that_cannot_be_listed_are_not_completed_and_nothing_is_said(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "kubeconfig"
    if content == "unreachable":
        cluster = {"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}
        context = {"name": "c", "context": {"cluster": "c", "user": "u"}}
        m.write_yaml(path, {"clusters": [cluster], "users": [], "contexts": [context], "current-context": "c"})
    elif content is not None:
        path.write_text(content)
    for words in (("explain", "pod/"), ("queue", "-n", ""), ("devices", "node/x")):
        assert for_kubectl(*words, KUBECONFIG=str(path)) == [":4"]
    assert for_kubectl("explain", "", KUBECONFIG=str(path)) == ["pod/", "podgroup/", ":6"]


def test_contexts_are_completed_from_the_file(tmp_path: Path) -> None:
    contexts: list[m.Manifest] = [{"name": each, "context": {}} for each in ("blue", "green", "grey")]
    path = m.write_yaml(tmp_path / "kubeconfig", {"contexts": contexts})
    assert for_kubectl("queue", "--context", "gr", KUBECONFIG=str(path)) == ["green", "grey", ":4"]


_EVERY = (
    "from scheduler.cli.completion import complete; import importlib; "
    "made = importlib.import_module('scheduler.cli.main'); "
    "[made.parser_of_line(f'dovetail {each} --') for each in made.COMMANDS]"
)


def test_completion_imports_neither_solver_nor_client() -> None:
    code = (
        "from scheduler.cli.completion import complete_for_kubectl; complete_for_kubectl(); "
        "print(sorted(set(sys.modules) & {'solver', 'yaml', 'rich', 'kubernetes'}))"
    )
    assert answered(code, "defrag", "-l", "a=b", "--").splitlines()[-1] == "[]"
    every = code.replace("from scheduler.cli.completion import complete_for_kubectl; complete_for_kubectl()", _EVERY)
    assert answered(every.replace("'solver'", "'solver', 'asyncio'")).splitlines()[-1] == "[]", "of any command"
    names = code.replace("'yaml', ", "")  # which reads the kubeconfig
    assert answered(names, "explain", "pod/x", KUBECONFIG="/dev/null").splitlines()[-1] == "[]"

"""What the documents tell readers to type exists: commands of `dovetail` with their options, targets of `make`."""

import contextlib
import io
import re
import shlex
from collections.abc import Iterable, Iterator
from functools import cache

import pytest

from e2e.measure import TOOLS
from scheduler.cli.main import COMMANDS, parser_of_line
from tests.support import house

DOCUMENTS = [*house.DOCUMENTS, "examples/README.md"]
MAKEFILE = (house.ROOT / "Makefile").read_text(encoding="utf-8")
MODULES = dict(
    re.findall(r"^([a-z-]+):.*\n(?:\t.*\n)*?\t.*python -m (e2e[a-z0-9_.]*) \$\(ARGS\)", MAKEFILE, re.MULTILINE)
)
"""The module that a target hands `ARGS` to."""
_DOVETAIL = re.compile(r"(?:kubectl )?dovetail (?=[a-z-])")
_MAKE = re.compile(r"(?:[A-Z_]+=\S+ )*make (?=[a-z])")


def _blocks(document: str) -> Iterator[str]:
    """The lines of code blocks, fenced or indented, with continued lines in one."""
    text = (house.ROOT / document).read_text(encoding="utf-8").replace("\\\n", " ")
    is_fenced = False
    for line in text.splitlines():
        if line.lstrip().startswith("```"):
            is_fenced = not is_fenced
        elif is_fenced or line.startswith("    "):
            yield line.strip().removeprefix("$ ")


def _inline(document: str) -> Iterator[str]:
    text = (house.ROOT / document).read_text(encoding="utf-8")
    return (found.replace("\\|", "|") for found in re.findall(r"`([^`\n]+)`", text))


def _words(line: str) -> list[str]:
    """The words of a command behind `dovetail`, without comments and redirections."""
    lexer = shlex.shlex(_DOVETAIL.sub("", line, count=1), posix=True, punctuation_chars=True)
    lexer.wordchars += ":@%,…$\\{}'"
    words = list(lexer)
    ends = [number for number, word in enumerate(words) if set(word) <= set("|&;<>()")]
    return words[: ends[0]] if ends else words


@cache
def _options(command: str) -> frozenset[str]:
    """The options that the help of a command names."""
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown), pytest.raises(SystemExit):
        parser_of_line(f"dovetail {command}").parse_args([command, "--help"])
    return frozenset(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", shown.getvalue()))


def _unknown_flags(command: str, words: Iterable[str]) -> list[str]:
    flags = [word.partition("=")[0] for word in words if re.match(r"--?[a-z]", word)]
    return [flag for flag in flags if flag not in _options(command)]


@pytest.mark.parametrize("document", DOCUMENTS)
def test_commands_in_blocks_are_understood(document: str, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = []
    for line in filter(_DOVETAIL.match, _blocks(document)):
        words = _words(line)
        command = words[0]
        if command not in COMMANDS:
            wrong.append(f"{line}: no such command")
        elif "[" in line or "…" in line:  # which arguments there are, not how to write them
            wrong += [f"{line}: no {flag}" for flag in _unknown_flags(command, re.findall(r"[\w-]+", line))]
        else:
            try:
                parser_of_line(f"dovetail {command}").parse_args(words)
            except SystemExit:
                wrong.append(f"{line}: {capsys.readouterr().err}")
    assert wrong == []


@pytest.mark.parametrize("document", DOCUMENTS)
def test_commands_in_sentences_exist(document: str) -> None:
    wrong = []
    for text in filter(_DOVETAIL.match, _inline(document)):
        command, *arguments = _words(text)
        if command not in COMMANDS:
            wrong.append(text)
        else:
            wrong += [f"{text}: no {flag}" for flag in _unknown_flags(command, arguments)]
    assert wrong == []


@pytest.mark.parametrize("document", DOCUMENTS)
def test_targets_exist_with_their_variables_and_options(document: str) -> None:
    shown = [line for line in (*_blocks(document), *_inline(document)) if _MAKE.match(line)]
    wrong = []
    for line in shown:
        target, *settings = shlex.split(_MAKE.sub("", line, count=1), comments=True)
        named = dict(each.partition("=")[::2] for each in settings)
        module = MODULES.get(target, "")
        unknown = [name for name in named if f"$({name})" not in MAKEFILE]
        flags = [word for word in named.get("ARGS", "").split() if word.startswith("--") and word != "--help"]
        if target == "measure" and "ARGS" in named:
            tool = TOOLS.get(named["ARGS"].split()[0])
            unknown += [] if tool else [named["ARGS"]]
            module = tool.module.removesuffix(".__main__") if tool else ""
        unknown += [flag for flag in flags if module and f'"{flag}"' not in _source(module)]
        unknown += [
            path for path in named.get("TESTS", "").split() if path != "FILE" and not (house.ROOT / path).exists()
        ]
        if unknown or not re.search(rf"^{target}:", MAKEFILE, re.MULTILINE):
            wrong.append((line, unknown))
    assert wrong == []


@cache
def _source(module: str) -> str:
    """The text of a module, or of all modules of a package."""
    path = house.ROOT / module.replace(".", "/")
    files = sorted(path.rglob("*.py")) if path.is_dir() else [path.with_suffix(".py")]
    return "".join(each.read_text(encoding="utf-8") for each in files)


def test_most_targets_with_arguments_are_known() -> None:
    assert len(MODULES) > 10

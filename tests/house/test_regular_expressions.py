"""No regular expression over users' text backtracks without bound: judged by its structure, not by its time."""

import ast
import importlib
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from solver.cel import grammar
from tests.support.regex_ambiguity import work

ROOT = Path(__file__).parents[2]
SEARCHING = frozenset({"search", "sub", "subn", "split", "findall", "finditer"})
SHORT_OR_ALWAYS_MATCHES = {
    "scheduler.kube.login.redaction._NAMED": "the last 500 characters of a message are read",
    "scheduler.kube.login.redaction._OPAQUE": "the last 500 characters of a message are read",
    "scheduler.observe.wrapping._WORD": "each place where it can begin is in a match",
    "scheduler.settings.validation._steps": "paths of our settings, as msgspec writes them",
    "scheduler.status.conditions._HINT": "each place where it can begin ends the match before it",
    "solver.cel.parse._SKIPPED": "expressions of at most 10 KiB, and it stops at the first quote that is not closed",
    "solver.domain.wording._WORD_PARTS": "every letter and digit is matched, so that none is looked at twice",
}
"""Quadratic by their structure alone, with what bounds their work."""


class Expression(NamedTuple):
    """A regular expression of the code, and whether it is looked for anywhere in a text."""

    name: str
    pattern: re.Pattern[str]
    is_searched: bool


def modules() -> Iterator[tuple[str, ast.Module]]:
    for package in ("scheduler", "solver"):
        for path in sorted((ROOT / package).rglob("*.py")):
            name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
            text = path.read_text(encoding="utf-8")
            if re.search(r"^import re$|^import re2?,|^from re import", text, re.MULTILINE):
                yield name, ast.parse(text)


def calls(tree: ast.Module) -> Iterator[tuple[str, Any]]:
    """Return the calls of `re` with the name of the function that they stand in."""
    for statement in tree.body:
        for node in ast.walk(statement):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and isinstance(node.func.value, ast.Name)
                and node.func.value.id == "re"
                and node.func.attr != "escape"
            ):
                yield getattr(statement, "name", ""), node


def texts(pattern: re.Pattern[str] | re.Pattern[bytes]) -> re.Pattern[str]:
    if isinstance(pattern.pattern, bytes):
        return re.compile(pattern.pattern.decode("latin-1"), pattern.flags & ~re.LOCALE)
    return pattern


def of_module(name: str, tree: ast.Module) -> Iterator[Expression]:
    searched = {
        node.value.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr in SEARCHING and isinstance(node.value, ast.Name)
    }
    count = 0
    module = importlib.import_module(name)
    for key, value in vars(module).items():
        for number, each in enumerate(value if isinstance(value, tuple) else (value,)):
            if isinstance(each, re.Pattern):
                suffix = f"[{number}]" if isinstance(value, tuple) else ""
                yield Expression(f"{name}.{key}{suffix}", texts(each), key in searched)
                count += 1
    for holder, call in calls(tree):
        if call.func.attr == "compile":
            count -= 1
        else:
            pattern = re.compile(ast.literal_eval(call.args[0]))
            yield Expression(f"{name}.{holder}", texts(pattern), call.func.attr in SEARCHING)
    assert count >= 0, f"{name} compiles a regular expression that is no constant of the module"


def of_the_grammar() -> Iterator[Expression]:
    for terminal in grammar.parser().terminals:
        yield Expression(f"cel.{terminal.name}", re.compile(terminal.pattern.to_regexp()), is_searched=False)


def of_yaml() -> Iterator[Expression]:
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items():
        for tag, pattern in resolvers:
            yield Expression(f"yaml {first!r} {tag}", texts(pattern), is_searched=False)


@cache
def expressions() -> tuple[Expression, ...]:
    return (*(each for module in modules() for each in of_module(*module)), *of_the_grammar(), *of_yaml())


def test_every_regular_expression_is_linear() -> None:
    found = {each.name: work(each.pattern, is_searched=each.is_searched) for each in expressions()}
    assert {
        name: power for name, power in found.items() if power != "linear" and name not in SHORT_OR_ALWAYS_MATCHES
    } == {}
    assert len(found) > 80
    assert {name for name in SHORT_OR_ALWAYS_MATCHES if found.get(name) != "quadratic"} == set(), "no longer needed"


@pytest.mark.parametrize(
    ("pattern", "is_searched", "expected"),
    [
        (r"(?:\s|#[^\n]*|%[^\n]*|---|\.\.\.)*\Z", False, "exponential"),
        (r"(?:.|\n|\r)*?x", False, "exponential"),
        (r"(a?b?)*c", False, "exponential"),
        (r"(a{1,18})+", False, "exponential"),
        (r"a*a*b", False, "quadratic"),
        (r"a+b", True, "quadratic"),
        (r"a+b", False, "linear"),
        (r"^a+b", True, "linear"),
        (r"(?=\S*[0-9])a{3}", True, "quadratic"),
        (r"[a-z]([-a-z]*[a-z])?(\.[a-z]([-a-z]*[a-z])?)*", False, "linear"),
    ],
)
def test_the_judgement_itself(pattern: str, is_searched: bool, expected: str) -> None:  # noqa: FBT001 - a case of the test
    assert work(re.compile(pattern), is_searched=is_searched) == expected

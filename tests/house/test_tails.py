"""The rules of the house that no linter holds: each test gives the list of offenders, which is empty."""

import ast
import re
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from tests.support import house

MOST_LINES = 400
MOST_FUNCTION_LINES = 50
DEEPEST = 3
BANNED = {"common", "data", "handler", "handlers", "helper", "helpers", "info", "manager", "misc", "util", "utils"}
UNFINISHED = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X)\b")
IGNORED_TYPE = re.compile(r"# type: ignore(?P<code>\[[^\]]+\])?(?P<reason>\s+# \S.*)?")
IGNORED_LINT = re.compile(r"# noqa(?P<code>: [A-Z]+\d+(, [A-Z]+\d+)*)?(?P<reason> --? \S.*)?")


def _none(offenders: Iterable[str]) -> None:
    """Fail with every offender on a line of its own."""
    found = sorted(offenders)
    assert not found, "\n".join(["", *found])


def test_files_are_short() -> None:
    lines = {module.path: len(module.text.splitlines()) for module in house.modules(*house.HALVES)}
    _none(f"{path}: {count}" for path, count in lines.items() if count > MOST_LINES)


def test_functions_are_short() -> None:
    _none(_functions(house.length, MOST_FUNCTION_LINES))


def test_functions_are_flat() -> None:
    _none(_functions(house.nesting, DEEPEST))


def test_names_of_modules_say_something() -> None:
    words = {path: set(re.split(r"[_/.]", str(path.relative_to(house.ROOT)))) for path in house.files("*.py")}
    _none(str(path) for path, found in words.items() if found & BANNED)


def test_nothing_is_left_for_later() -> None:
    _none(f"{path}: {line}" for path, line in _lines() if UNFINISHED.search(line))


def test_no_file_names_a_place_of_one_machine() -> None:
    place = re.compile(r"/(work|root|home)/[\w.]")
    _none(f"{path}: {line}" for path, line in _lines() if place.search(line))


def test_every_package_says_what_lives_in_it() -> None:
    folders = {path.parent for path in house.files("scheduler/*.py", "solver/*.py", "e2e/*.py")}
    _none(str(folder.relative_to(house.ROOT)) for folder in folders if not _docstring(folder / "__init__.py"))


def test_no_package_under_tests_shadows_a_real_one() -> None:
    _none(map(str, house.files("tests/*__init__.py")))


@pytest.mark.parametrize("half", house.HALVES)
def test_tests_mirror_the_tree(half: str) -> None:
    folders = {path.parent.relative_to(house.ROOT / "tests") for path in house.files(f"tests/{half}/*.py")}
    _none(str(folder) for folder in folders if not _is_tested(folder))


def test_silenced_types_have_a_code_and_a_reason() -> None:
    _none(_silenced(IGNORED_TYPE))


def test_silenced_lints_have_a_code_and_a_reason() -> None:
    _none(_silenced(IGNORED_LINT))


def _functions(measure: Callable[[house.Function], int], most: int) -> list[str]:
    """Functions of the halves for which the measure is above the most allowed."""
    return [
        f"{module.path}:{function.lineno} {function.name}: {measure(function)}"
        for module in house.modules(*house.HALVES)
        for function in house.functions(module.tree)
        if measure(function) > most
    ]


def _lines() -> list[tuple[str, str]]:
    """Every line of every text file."""
    skipped = {"uv.lock", "go.sum", "LICENSE"}
    listed = [path for path in house.files() if path.name not in skipped and path.suffix not in {".xz", ".png"}]
    return [
        (str(path.relative_to(house.ROOT)), line.strip())
        for path in listed
        for line in path.read_text(encoding="utf-8").splitlines()
    ]


def _docstring(path: Path) -> str:
    return (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) if path.is_file() else None) or ""


def _is_tested(folder: Path) -> bool:
    """Whether the source tree has the folder, or a module of its name (whose tests fill a folder)."""
    source = house.ROOT / folder
    return source.is_dir() or source.with_suffix(".py").is_file()


def _silenced(pattern: re.Pattern[str]) -> list[str]:
    """Comments in the halves and in e2e that silence a tool without saying what and why."""
    found = [
        (path.relative_to(house.ROOT), line, match)
        for path in house.files(*(f"{folder}/*.py" for folder in (*house.HALVES, "e2e")))
        for line in path.read_text(encoding="utf-8").splitlines()
        for match in pattern.finditer(line)
    ]
    return [f"{path}: {line.strip()}" for path, line, match in found if not (match["code"] and match["reason"])]

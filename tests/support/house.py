"""The repository's files as the tests of the house rules see them."""

import ast
import fnmatch
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
HALVES = ("scheduler", "solver")
DOCUMENTS = [
    "README.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    *sorted(str(each.relative_to(ROOT)) for each in (ROOT / "docs").rglob("*.md")),
]
"""The pages for people, but for the changelog and the examples."""
Function = ast.FunctionDef | ast.AsyncFunctionDef
BLOCKS = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.With, ast.AsyncWith, ast.Try, ast.TryStar, ast.Match)


class Module(NamedTuple):
    """A Python file: its path from the root, its text and its tree."""

    path: str
    text: str
    tree: ast.Module


def files(*patterns: str) -> list[Path]:
    """The repository's files but those that .gitignore names, chosen by patterns (`solver/*.py`: at any depth)."""
    ignored = [line.strip("/") for line in (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines() if line]
    return [path for path in _walk(ROOT, (".git", *ignored)) if not patterns or _is_chosen(path, patterns)]


def _walk(folder: Path, ignored: Sequence[str]) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        if any(fnmatch.fnmatch(path.name, pattern) for pattern in ignored):
            continue
        if path.is_dir():
            yield from _walk(path, ignored)
        else:
            yield path


def _is_chosen(path: Path, patterns: Sequence[str]) -> bool:
    return any(fnmatch.fnmatch(str(path.relative_to(ROOT)), pattern) for pattern in patterns)


def modules(*folders: str) -> Iterator[Module]:
    """The Python files below some folders."""
    return map(_parsed, files(*(f"{folder}/*.py" for folder in folders)))


@cache
def _parsed(path: Path) -> Module:
    text = path.read_text(encoding="utf-8")
    return Module(str(path.relative_to(ROOT)), text, ast.parse(text))


def functions(tree: ast.AST) -> Iterator[Function]:
    """Every function and method, the nested ones too."""
    return (node for node in ast.walk(tree) if isinstance(node, Function))


def length(function: Function) -> int:
    """Lines from `def` to the end, without the docstring."""
    lines = (function.end_lineno or 0) - function.lineno + 1
    first = function.body[0]
    if ast.get_docstring(function, clean=False) is not None:
        lines -= (first.end_lineno or 0) - first.lineno + 1
    return lines


def nesting(node: ast.AST) -> int:
    """How deep blocks stand in each other; `elif` is no level of its own, a function inside begins anew."""
    deepest = 0
    for child in ast.iter_child_nodes(node):
        if isinstance(child, Function | ast.Lambda):
            continue
        depth = nesting(child) + (isinstance(child, BLOCKS) and not _is_elif(node, child))
        deepest = max(deepest, depth)
    return deepest


def _is_elif(parent: ast.AST, child: ast.AST) -> bool:
    return isinstance(parent, ast.If) and isinstance(child, ast.If) and parent.orelse == [child]

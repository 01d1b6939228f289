"""The dependencies of pyproject.toml are those that the code imports."""

import ast
import re
import sys
import tomllib
from importlib.metadata import packages_distributions

from tests.support import house

PROJECT = tomllib.loads((house.ROOT / "pyproject.toml").read_text(encoding="utf-8"))
OWN = {"scheduler", "solver", "tests", "e2e", "docs"}
TOOLS = {"import-linter", "mypy", "pytest-asyncio", "pytest-randomly", "pytest-xdist", "ruff", "types-pyyaml"}
"""Development dependencies that are commands or plugins, which no module imports."""
SITE_PLUGINS = {"furo", "myst-parser"}
"""What docs/site/conf.py names without importing it."""
OPTIONAL = {"pynvml": "nvidia-ml-py"}
"""Distributions of modules that differ in name, and that not every environment has."""


def _name(text: str) -> str:
    """The normalized name at the start of a requirement."""
    return re.sub(r"[-_.]+", "-", re.match(r"[\w.-]+", text)[0]).lower()  # type: ignore[index]  # all have a name


def _declared(*requirements: list[str]) -> set[str]:
    return {_name(each) for listed in requirements for each in listed}


def _modules(tree: ast.AST) -> set[str]:
    """The top-level modules that a file imports, or looks for by name."""
    found = set[str]()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {each.name for each in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
        elif isinstance(node, ast.Call) and _called(node) in {"find_spec", "importorskip"}:
            found |= {str(each.value) for each in node.args if isinstance(each, ast.Constant)}
    return {each.partition(".")[0] for each in found}


def _called(call: ast.Call) -> str:
    """The last name of what is called."""
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def _imported(*folders: str) -> set[str]:
    """The distributions that the files of some folders import."""
    files = [path for folder in folders for path in (house.ROOT / folder).rglob("*.py")]
    modules = set[str]().union(*(_modules(ast.parse(path.read_text(encoding="utf-8"))) for path in files))
    distributions = packages_distributions()
    return {
        _name(distributions.get(module, [OPTIONAL.get(module, module)])[0])
        for module in modules - set(sys.stdlib_module_names) - OWN
    }


def test_what_ships_declares_what_it_imports_and_nothing_else() -> None:
    assert _declared(PROJECT["project"]["dependencies"]) == _imported("scheduler", "solver")


def test_tests_and_tools_declare_what_they_import_and_nothing_else() -> None:
    shipped = _declared(PROJECT["project"]["dependencies"])
    imported = _imported("tests", "e2e", "docs")
    groups = PROJECT["dependency-groups"]
    development = _declared(groups["dev"])
    browser, gpu, site = (_declared(groups[each]) for each in ("browser", "gpu", "site"))
    assert imported <= shipped | development | browser | gpu | site
    assert browser | gpu | site - SITE_PLUGINS <= imported
    assert development - TOOLS - shipped <= imported
    assert development >= TOOLS

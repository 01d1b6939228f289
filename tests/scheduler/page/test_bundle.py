"""The built front end is that of the sources, is small, and ships without them."""

import hashlib
import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.support import house

PAGE = house.ROOT / "scheduler" / "page"
FRONT = PAGE / "front"
FIXED = ("build.mjs", "package-lock.json", "package.json", "tsconfig.json")
BUILT = json.loads((PAGE / "bundle" / "built.json").read_text(encoding="utf-8"))


def sources_hash(folder: Path) -> str:
    """The hash that build.mjs records: of each source's name and text, sorted by name."""
    names = sorted([*FIXED, *(f"src/{path.name}" for path in (folder / "src").iterdir())])
    found = hashlib.sha256()
    for name in names:
        found.update(name.encode() + b"\0" + (folder / name).read_bytes() + b"\0")
    return found.hexdigest()


def test_the_bundle_is_built_from_these_sources() -> None:
    assert BUILT["sources"] == sources_hash(FRONT), "run: make front"


@pytest.mark.parametrize("name", ["map.css", "map.js", "report.css", "report.js"])
def test_the_bundle_is_as_it_was_built(name: str) -> None:
    assert BUILT[name] == hashlib.sha256((PAGE / "bundle" / name).read_bytes()).hexdigest(), "run: make front"


def test_a_changed_source_has_another_hash(tmp_path: Path) -> None:
    for path in [*(FRONT / name for name in FIXED), *(FRONT / "src").iterdir()]:
        copy = tmp_path / path.relative_to(FRONT)
        copy.parent.mkdir(exist_ok=True)
        copy.write_bytes(path.read_bytes())
    assert sources_hash(tmp_path) == BUILT["sources"]
    (tmp_path / "src" / "text.ts").write_text("// changed", encoding="utf-8")
    assert sources_hash(tmp_path) != BUILT["sources"]


def test_the_bundle_is_small() -> None:
    sizes = [path.stat().st_size for path in (PAGE / "bundle").iterdir()]
    assert sum(sizes) < 200_000


def test_the_licence_of_what_is_in_the_bundle_is_there() -> None:
    own = json.loads((FRONT / "package.json").read_text(encoding="utf-8"))
    heads = [path.read_text(encoding="utf-8").partition("*/")[0] for path in (PAGE / "bundle").glob("*.js")]
    for name, version in own["dependencies"].items():
        (head,) = (each for each in heads if f"{name} {version}" in each)
        assert "The MIT License" in head


def test_packages_are_exact_and_locked() -> None:
    own = json.loads((FRONT / "package.json").read_text(encoding="utf-8"))
    locked = json.loads((FRONT / "package-lock.json").read_text(encoding="utf-8"))["packages"]
    wanted: dict[str, Any] = own["dependencies"] | own["devDependencies"]
    assert {name: locked[f"node_modules/{name}"]["version"] for name in wanted} == wanted
    assert [name for name, each in locked.items() if name and "integrity" not in each] == []


def test_the_wheel_has_the_bundle_and_not_its_sources() -> None:
    project = tomllib.loads((house.ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    wheel = project["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert "scheduler" in wheel["packages"]
    assert wheel["exclude"] == ["scheduler/page/front"]
    assert "node_modules/" in (house.ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()

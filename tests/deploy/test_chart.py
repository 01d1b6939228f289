"""The Helm chart fits the manifests, its values and its schema; `make chart` runs Helm itself."""

import functools
import json
import operator
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from e2e.controlplane.plane import ControlPlane
from e2e.helm import kustomize, release, templates
from e2e.helm.cases import CASES, Case
from tests.support import house
from tests.support.guides import blocks

CHART = templates.CHART
SCHEMA = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))


@pytest.mark.controlplane
def test_the_files_are_what_the_manifests_make(control_plane: ControlPlane) -> None:
    assert control_plane.kubectl_binary.exists()  # kustomize is part of it
    written = {path.name: path.read_text(encoding="utf-8") for path in templates.texts()}
    assert written == {path.name: text for path, text in templates.texts().items()}, "run: make chart-templates"


@pytest.mark.controlplane
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_values_of_an_overlay_fit_the_schema(control_plane: ControlPlane, case: Case) -> None:
    assert control_plane.kubectl_binary.exists()
    jsonschema.validate({**templates.values(), **case.chart_values()}, SCHEMA)


def test_every_overlay_has_values_that_do_the_same() -> None:
    overlays = {f"overlays/{path.name}" for path in (kustomize.DEPLOY / "overlays").iterdir()}
    assert {case.folders[0] for case in CASES} == overlays


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_an_overlay_has_the_parts_that_its_values_switch_on(case: Case) -> None:
    values = _laid_over(templates.values(), case.values)
    parts = [part for part in templates.PARTS.values() if values["scheduler"]["enabled"] or "components" not in part[0]]
    on = {folder for folder, value in parts if functools.reduce(operator.getitem, value.split("."), values)}
    made = {each for folder in case.folders for each in _folders(kustomize.DEPLOY / folder)}
    assert made & {folder for folder, _ in templates.PARTS.values()} == on


def _laid_over(below: Any, above: Any) -> Any:
    if not isinstance(below, dict) or not isinstance(above, dict):
        return above
    return {**below, **{key: _laid_over(below.get(key), value) for key, value in above.items()}}


def _folders(folder: Path) -> Iterator[str]:
    """Yield a folder of `deploy` and those that its kustomization names, of which names begin at `deploy`."""
    yield str(folder.relative_to(kustomize.DEPLOY))
    shown = yaml.safe_load((folder / "kustomization.yaml").read_text(encoding="utf-8"))
    for each in (*shown.get("resources", ()), *shown.get("components", ())):
        if (folder / each).is_dir():
            yield from _folders((folder / each).resolve())


def test_the_values_fit_the_schema() -> None:
    jsonschema.validate(templates.values(), SCHEMA)


@pytest.mark.parametrize("wrong", release.REFUSED)
def test_the_schema_refuses_unknown_names_and_wrong_types(wrong: str) -> None:
    path, value = wrong.split("=")
    values: dict[str, Any] = templates.values()
    *sections, name = path.split(".")
    section = values
    for each in sections:
        section = section.setdefault(each, {})
    section[name] = yaml.safe_load(value) if value.isdigit() else value
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(values, SCHEMA)


def test_every_value_is_used() -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in (CHART / "templates").iterdir())
    used = set(re.findall(r"\.Values\.([\w.]+)", text))
    ofimage = {f"image.{name}" for name in re.findall(r"\.(repository|tag|digest)\b", text)}
    unused = {path for path in _paths(templates.values(), "") if not _is_used(path, used | ofimage)}
    assert unused == set()


def _paths(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, dict) and value and path not in templates.FREE | {"config"}:
        for key, inner in value.items():
            yield from _paths(inner, f"{path}.{key}".lstrip("."))
    else:
        yield path


def _is_used(path: str, used: set[str]) -> bool:
    return path in used or any(path.startswith(f"{each}.") for each in used - {"image"})


def test_a_new_configuration_restarts_the_pods_that_read_it_and_no_others() -> None:
    for path in (CHART / "templates").glob("*.yaml"):
        for document in path.read_text(encoding="utf-8").split("\n---\n"):
            if "\nkind: Deployment\n" in document:
                # The record of an observer lasts as long as its pod.
                assert ("checksum/config" in document) == ("name: dovetail-config\n" in document), path.name


def test_chart_and_image_have_the_version_of_the_project() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    project = tomllib.loads((house.ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert {chart["version"], chart["appVersion"]} == {project["version"]}
    assert chart["description"] == project["description"]


def test_the_link_to_the_files_of_monitoring_is_relative() -> None:
    assert (CHART / "monitoring").readlink() == Path("../monitoring")


@pytest.mark.parametrize("page", ["installing.md", "coming-from.md"])
def test_the_values_that_a_page_shows_fit_the_schema(page: str) -> None:
    text = (house.ROOT / "docs" / page).read_text(encoding="utf-8")
    (shown,) = [each.removeprefix("# mine.yaml\n") for each in blocks(text) if "image:\n  repository:" in each]
    values = yaml.safe_load(shown.partition("helm ")[0])
    jsonschema.validate({**values, "config": {**templates.values()["config"], **values["config"]}}, SCHEMA)

"""What is offered is kept: settings that are read, series that move, events that are logged, targets that exist."""

import ast
import os
import re
import runpy
import subprocess
import textwrap
from pathlib import Path

import msgspec
import pytest
import yaml

from e2e.controlplane import versions
from scheduler.observe import logs, metrics
from scheduler.settings import Settings
from scheduler.settings.policies import (
    Autoscaling,
    NodeReservations,
    PodProtection,
    PreemptionSettings,
    ReclaimSettings,
    WeightSettings,
)
from scheduler.settings.repairs import RepairSettings
from tests.support import house
from tests.support.guides import anchor


def _attributes_outside(*places: str) -> set[str]:
    """Every `.name` that the shell reads, apart from what some places read of themselves."""
    return {
        node.attr
        for module in house.modules("scheduler")
        if not module.path.startswith(places)
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Attribute)
    }


def _fields(section: type[msgspec.Struct]) -> set[str]:
    found = set()
    for field in msgspec.structs.fields(section):
        inner = next((kind for kind in (field.type, *_arguments(field.type)) if _is_section(kind)), None)
        found |= _fields(inner) if inner is not None else {field.name}
    return found


def _arguments(kind: object) -> tuple[object, ...]:
    direct = getattr(kind, "__args__", ())
    return (*direct, *(inner for argument in direct for inner in getattr(argument, "__args__", ())))


def _is_section(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def test_every_setting_is_read() -> None:
    said_by_the_file_alone = {"api_version", "kind"}
    # The schema itself converts these to the solver's types.
    read_by_the_schema = {"policy", "drivers", "match_labels", "scheduler_name", "allocate_on_device_plugin_nodes"}
    read_by_the_schema |= {"group_labels", "group_attributes", "weights"} | _fields(WeightSettings)
    read_by_the_schema |= {"autoscaling"} | _fields(Autoscaling) | _fields(RepairSettings)
    read_by_the_schema |= (
        {"preemption"}
        | _fields(PreemptionSettings)
        | _fields(PodProtection)
        | _fields(ReclaimSettings)
        | _fields(NodeReservations)
    )
    unread = (
        _fields(Settings) - said_by_the_file_alone - read_by_the_schema - _attributes_outside("scheduler/settings/")
    )
    assert sorted(unread) == []


def test_every_series_moves() -> None:
    names = {name for name in vars(metrics.Metrics()) if not name.startswith("_")} - {"registry", "build"}
    assert len(names) > 15
    assert sorted(names - _attributes_outside("scheduler/observe/metrics.py")) == []


def test_every_event_is_logged() -> None:
    names = {name for name, value in vars(logs).items() if name.isupper() and isinstance(value, str)}
    assert len(names) > 15
    assert sorted(names - _attributes_outside("scheduler/observe/logs.py")) == []


SETTINGS = yaml.safe_load((house.ROOT / "config" / "default.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("document", house.DOCUMENTS)
def test_documents_name_only_what_exists(document: str) -> None:
    text = (house.ROOT / document).read_text(encoding="utf-8")
    makefile = (house.ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    mentioned = set(re.findall(r"(?:`|^ {4})make ([a-z-]+)", text, re.MULTILINE))
    assert sorted(mentioned - targets) == []
    paths = re.findall(r"`((?:solver|scheduler|tests|e2e|deploy|config|examples)/[^`*]*)`", text)
    assert [path for path in paths if not (house.ROOT / path).exists()] == []
    series = set(re.findall(r"`((?:scheduler|dovetail)_[a-z_]+[a-z])`", text))
    exported = metrics.Metrics().exposition()[0].decode()
    assert sorted(name for name in series if name not in exported) == []
    sections = "|".join(name for name, each in SETTINGS.items() if isinstance(each, dict))
    named = set(re.findall(rf"`((?:{sections})\.[A-Za-z.]+)`", text))
    assert sorted(name for name in named if not _is_setting(name)) == []


def _is_setting(name: str) -> bool:
    """Whether a name with dots is one of the configuration; modules of ours have such names too."""
    module = house.ROOT / name.replace(".", "/")
    if module.is_dir() or module.with_suffix(".py").exists():
        return True
    here: object = SETTINGS
    for key in name.split("."):
        if not isinstance(here, dict) or key not in here:
            return False
        here = here[key]
    return True


@pytest.mark.parametrize("document", [*house.DOCUMENTS, "CHANGELOG.md", "examples/README.md"])
def test_documents_link_to_what_is_there(document: str) -> None:
    path = house.ROOT / document
    links = re.findall(r"\]\(([^)#:]*)(?:#([^)]*))?\)", path.read_text(encoding="utf-8"))
    assert [target for target, _ in links if not (path.parent / target).exists()] == []
    sections = {(path.parent / target if target else path, name) for target, name in links if name}
    assert [(place.name, name) for place, name in sections if name not in _anchors(place)] == []


@pytest.mark.parametrize("document", [*house.DOCUMENTS, "CHANGELOG.md", "examples/README.md"])
def test_documents_are_merged_to_the_end(document: str) -> None:
    text = (house.ROOT / document).read_text(encoding="utf-8")
    assert re.findall(r"^(?:<{7}|={7}|>{7})(?: .*)?$", text, re.MULTILINE) == []


@pytest.mark.parametrize("document", [*house.DOCUMENTS, "examples/README.md"])
def test_documents_show_objects_that_can_be_read(document: str) -> None:
    text = (house.ROOT / document).read_text(encoding="utf-8")
    for block in re.findall(r"^ *```yaml\n(.*?)^ *```", text, re.MULTILINE | re.DOTALL):
        assert all(isinstance(each, dict | list) for each in yaml.safe_load_all(textwrap.dedent(block))), block


def _anchors(document: Path) -> set[str]:
    """The names by which links reach the headings of a page."""
    return set(map(anchor, re.findall(r"^#+ (.+)$", document.read_text(encoding="utf-8"), re.MULTILINE)))


def test_pictures_are_what_their_sources_say() -> None:
    script = runpy.run_path(str(house.ROOT / "docs" / "pictures.py"))
    assert len(script["SOURCES"]) > 1
    for source in script["SOURCES"]:
        drawn = script["svg"](source)
        assert source.with_suffix(".svg").read_text(encoding="utf-8") == drawn, "run: python docs/pictures.py"


def test_the_reference_is_what_the_code_says() -> None:
    script = house.ROOT / "docs" / "reference.py"
    written = runpy.run_path(str(script))["pages"]()
    found = {path.name: path.read_text(encoding="utf-8") for path in script.with_suffix("").iterdir()}
    assert found == written, "run: make reference"


def test_the_readme_leads_to_every_document() -> None:
    text = (house.ROOT / "README.md").read_text(encoding="utf-8")
    assert [each for each in house.DOCUMENTS[1:] if f"({each})" not in text] == []


def test_the_readme_is_read_in_three_minutes() -> None:
    assert len((house.ROOT / "README.md").read_text(encoding="utf-8").split()) < 750


def test_the_readme_says_which_versions_are_tested_and_for_how_long_each_is_kept() -> None:
    text = " ".join((house.ROOT / "README.md").read_text(encoding="utf-8").split())
    oldest, newest = versions.SUPPORTED[0], versions.SUPPORTED[-1]
    assert f"tested on Kubernetes {oldest} to {newest}, each as long as Kubernetes supports it" in text


@pytest.mark.parametrize("left", ["CompositePodGroup", "EvictionRequest", "resize of a running pod", "PreQueueingHint"])
def test_what_is_left_alone_is_listed(left: str) -> None:
    text = (house.ROOT / "docs" / "compatibility.md").read_text(encoding="utf-8")
    assert f"{left} |" in text.partition("\n## Left alone\n")[2]


def test_continuous_integration_runs_the_tests() -> None:
    script = house.ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    assert "\nmake test\n" in script.read_text(encoding="utf-8")


def _helped(*arguments: str) -> list[str]:
    """The targets that `make help` lists."""
    command = ["make", "help", *arguments]
    listed = subprocess.run(command, cwd=house.ROOT, capture_output=True, text=True, check=True).stdout
    return [line.split()[1] for line in listed.splitlines()]


def test_help_lists_every_target() -> None:
    makefile = (house.ROOT / "Makefile").read_text(encoding="utf-8")
    assert _helped("ARGS=all") == re.findall(r"^([a-z-]+):", makefile, re.MULTILINE)


def test_help_begins_with_ten_targets_and_how_to_see_the_others() -> None:
    *first, last = _helped()
    assert len(first) == len(set(first)) == 10
    assert set(first) < set(_helped("ARGS=all"))
    assert last == "help"

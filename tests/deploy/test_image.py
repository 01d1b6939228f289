import contextlib
import re
import shutil
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from scheduler.settings import reference
from tests.support import dockerfile
from tests.support.dockerfile import Stage

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "deploy" / "Dockerfile").read_text(encoding="utf-8")

IMPORT_ALL = """
import importlib, pkgutil, scheduler, solver
for package in (scheduler, solver):
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
print(scheduler.__file__)
"""


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """The last stage, built from nothing but what the ignore file lets the build see."""
    work = tmp_path_factory.mktemp("image")
    context = work / "context"
    context.mkdir()
    ignore = (ROOT / "deploy" / "Dockerfile.dockerignore").read_text(encoding="utf-8")
    for name in dockerfile.visible_context(ROOT, ignore):
        source = ROOT / name
        if source.is_dir():
            (context / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copytree(source, context / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, context / name)
    yield dockerfile.build(TEXT, context, work)[-1]
    shutil.rmtree(work)  # hundreds of megabytes, which pytest would keep for three runs


def test_the_entrypoint_starts(image: Stage) -> None:
    command = [str(image.place(image.entrypoint[0])), *image.entrypoint[1:]]
    assert image.run([*command, "version"]).startswith("dovetail 0.")
    assert image.run([*command, "config", "--print-default"]) == reference.default_file()


def test_every_module_has_what_it_imports(image: Stage) -> None:
    found = image.run([str(image.place(image.entrypoint[0])), "-c", IMPORT_ALL])
    assert found.startswith(str(image.root))


def test_the_console_command_is_there(image: Stage) -> None:
    assert image.place("/opt/dovetail/bin/dovetail").is_file()


def test_tests_and_their_tools_are_not_in_it(image: Stage) -> None:
    (packages,) = image.root.glob("opt/dovetail/lib/python3*/site-packages")
    assert [name for name in ("e2e", "tests", "pytest", "mypy", "config") if (packages / name).exists()] == []


def test_it_runs_as_a_number_that_is_not_root(image: Stage) -> None:
    assert image.user == "65532:65532"


def test_both_stages_have_the_same_base_that_can_be_pinned_by_digest() -> None:
    bases = {rest.split()[0] for word, rest in dockerfile.instructions(TEXT) if word == "FROM"}
    before = TEXT.partition("\nFROM ")[0]
    arguments = [rest for word, rest in dockerfile.instructions(before) if word == "ARG"]
    assert bases == {"${BASE}${DIGEST:+@}${DIGEST}"}
    assert arguments == ["BASE=docker.io/library/python:3.12-slim-bookworm", "DIGEST="]


REQUIREMENTS = [ROOT / "deploy" / "build" / name for name in ("uv.txt", "backend.txt")]


@pytest.mark.parametrize(
    ("arguments", "is_built"),
    [
        pytest.param({}, True, id="while developing"),
        pytest.param({"RELEASE": "1", "DIGEST": "sha256:0"}, True, id="a release with a digest"),
        pytest.param({"RELEASE": "1"}, False, id="a release without a digest"),
    ],
)
def test_a_release_is_not_built_without_its_base_by_digest(
    arguments: dict[str, str], tmp_path: Path, *, is_built: bool
) -> None:
    start, _, _ = TEXT.partition("ENV ")
    refused = contextlib.nullcontext() if is_built else pytest.raises(AssertionError, match="DIGEST is empty")
    with refused:
        dockerfile.build(start, tmp_path, tmp_path / "work", arguments)


@pytest.mark.parametrize("path", REQUIREMENTS, ids=lambda path: path.name)
def test_what_builds_is_one_version_with_hashes(path: Path) -> None:
    entries = re.split(r"\n(?=\w)", re.sub(r"^#.*\n", "", path.read_text(), flags=re.MULTILINE))
    assert entries
    assert [each for each in entries if not re.match(r"[\w-]+==[\d.]+ ?\\\n +--hash=sha256:[0-9a-f]{64}", each)] == []


def test_everything_that_is_fetched_is_checked_by_hash() -> None:
    commands = [rest for word, rest in dockerfile.instructions(TEXT) if word == "RUN"]
    fetching = [each for each in commands if re.match(r"python -m pip|uv (sync|build|pip)", each)]
    assert len(fetching) == 4
    allowed = ("--require-hashes", "--frozen --no-build", "--no-index")  # uv.lock has the hashes of what it names
    assert [each for each in fetching if not any(flag in each for flag in allowed)] == []


def test_the_lock_has_a_hash_for_everything() -> None:
    packages = tomllib.loads((ROOT / "uv.lock").read_text())["package"]
    for package in packages:
        if "registry" in package["source"]:
            files = [*package.get("wheels", ()), *([package["sdist"]] if "sdist" in package else [])]
            assert files, package["name"]
            assert all(each["hash"].startswith("sha256:") for each in files), package["name"]
    assert {next(iter(package["source"])) for package in packages} == {"registry", "editable"}

"""The wheel with the locked libraries, and nothing else: what an image, uvx or pipx installs."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.image.check import IMPORT_ALL, STAY_OUT
from e2e.image.commands import uv
from scheduler.settings import reference
from tests.support import house

REQUIREMENTS = [house.ROOT / "deploy" / "build" / name for name in ("uv.txt", "backend.txt")]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """An environment with the wheel in it."""
    work = tmp_path_factory.mktemp("wheel")
    home = work / "environment"
    environment = os.environ | {"UV_PROJECT_ENVIRONMENT": str(home), "VIRTUAL_ENV": str(home)}
    constraints = ("--require-hashes", "--build-constraints", "deploy/build/backend.txt")
    for command in (
        ("sync", "--frozen", "--no-build", "--no-dev", "--no-install-project", "--python", sys.executable),
        ("build", "--wheel", *constraints, "--out-dir", str(work)),
        ("pip", "install", "--no-index", "--no-deps", "--find-links", str(work), "dovetail-scheduler"),
    ):
        subprocess.run((uv(), "--quiet", *command), cwd=house.ROOT, env=environment, check=True)
    yield home
    shutil.rmtree(work)  # hundreds of megabytes, which pytest would keep for three runs


def _run(*command: str | Path) -> str:
    return subprocess.run(command, cwd="/", stdout=subprocess.PIPE, text=True, check=True).stdout


def test_it_starts(installed: Path) -> None:
    assert _run(installed / "bin" / "python", "-m", "scheduler", "version").startswith("dovetail 0.")
    assert _run(installed / "bin" / "dovetail", "config", "--print-default") == reference.default_file()


def test_every_module_has_what_it_imports(installed: Path) -> None:
    assert _run(installed / "bin" / "python", "-c", IMPORT_ALL).startswith(str(installed))


def test_tests_and_their_tools_are_not_in_it(installed: Path) -> None:
    (packages,) = installed.glob("lib/python3*/site-packages")
    assert (packages / "scheduler").exists()
    assert [name for name in STAY_OUT if (packages / name).exists()] == []


@pytest.mark.parametrize("path", REQUIREMENTS, ids=lambda path: path.name)
def test_what_builds_is_one_version_with_hashes(path: Path) -> None:
    entries = re.split(r"\n(?=\w)", re.sub(r"^#.*\n", "", path.read_text(), flags=re.MULTILINE))
    assert entries
    assert [each for each in entries if not re.match(r"[\w-]+==[\d.]+ ?\\\n +--hash=sha256:[0-9a-f]{64}", each)] == []


def test_the_lock_has_a_hash_for_everything() -> None:
    packages = tomllib.loads((house.ROOT / "uv.lock").read_text())["package"]
    for package in packages:
        if "registry" in package["source"]:
            files = [*package.get("wheels", ()), *([package["sdist"]] if "sdist" in package else [])]
            assert files, package["name"]
            assert all(each["hash"].startswith("sha256:") for each in files), package["name"]
    assert {next(iter(package["source"])) for package in packages} == {"registry", "editable"}

"""The release workflow calls what exists, and nothing that its author can exchange."""

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
WORKFLOW = ROOT / ".github" / "workflows" / "release.yml"
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")


def _jobs() -> dict[str, Any]:
    jobs: dict[str, Any] = yaml.safe_load(WORKFLOW.read_text(encoding="utf-8"))["jobs"]
    return jobs


def _commands() -> list[str]:
    return [step["run"] for job in _jobs().values() for step in job["steps"] if "run" in step]


def _make(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["make", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)


def test_every_target_that_it_calls_exists() -> None:
    called = {name for command in _commands() for name in re.findall(r"make ([a-z-]+)", command)}
    assert called >= {"test", "vulnerabilities", "wheel-check", "sbom", "release-image", "sign", "release-notes"}
    assert sorted(called - set(re.findall(r"^([a-z-]+):", MAKEFILE, re.MULTILINE))) == []


def test_actions_are_named_by_commit() -> None:
    used = [step["uses"] for job in _jobs().values() for step in job["steps"] if "uses" in step]
    assert used
    assert [each for each in used if not re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", each)] == []


def test_nothing_is_published_before_the_tests() -> None:
    assert _jobs()["publish"]["needs"] == "test"
    assert _jobs()["test"]["permissions"] == {"contents": "read"}


def test_no_expression_of_the_forge_is_in_a_command() -> None:
    assert [each for each in _commands() if "${{" in each] == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        pytest.param(("release-image",), "SNAPSHOT is no moment of Debian's archive", id="no snapshot"),
        pytest.param(("release-image", "SNAPSHOT=latest"), "SNAPSHOT is no moment", id="no moment"),
        pytest.param(("sign", "IMAGE=dovetail:0"), "run make release-image first", id="no image"),
        pytest.param(("release-check", "TAG=v9.9.9"), "pyproject.toml has version", id="another version"),
        pytest.param(("release-notes", "VERSION=9.9.9"), "CHANGELOG.md has no section '## [9.9.9]'", id="no changelog"),
    ],
)
def test_a_release_that_does_not_fit_together_is_refused(arguments: tuple[str, ...], words: str) -> None:
    refused = _make(*arguments)
    assert refused.returncode != 0
    assert words in refused.stderr


def test_the_notes_of_a_version_are_its_section_of_the_changelog() -> None:
    notes = _make("release-notes").stdout
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert notes.strip() in changelog
    assert notes.strip().startswith("### ")
    assert "\n## " not in notes


def _version() -> str:
    (version,) = re.findall(r'^version = "(.*)"$', (ROOT / "pyproject.toml").read_text(encoding="utf-8"), re.MULTILINE)
    return str(version)


def test_version_tag_and_changelog_fit_together() -> None:
    assert _make("release-check", f"TAG=v{_version()}").returncode == 0


def test_overlays_run_the_image_of_this_version() -> None:
    found = {
        str(path.relative_to(ROOT)): re.findall(r"newTag: (.*)", path.read_text(encoding="utf-8"))
        for path in (ROOT / "deploy").rglob("kustomization.yaml")
    }
    assert {path: tags for path, tags in found.items() if set(tags) - {_version()}} == {}


def test_uv_is_the_pinned_one_wherever_it_is_installed() -> None:
    texts = [MAKEFILE, WORKFLOW.read_text(encoding="utf-8")]
    installing = [line for text in texts for line in text.splitlines() if re.search(r"(?<!uv )pip install", line)]
    pinned = re.compile(r"\$\(UV\)|--require-hashes -r deploy/build/uv.txt")
    assert installing
    assert [line for line in installing if not pinned.search(line)] == []
    assert "UV := --require-hashes -r deploy/build/uv.txt" in MAKEFILE

"""What is fetched comes by hash or by a lock, and what may write at the forge runs nothing else."""

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from e2e import installers
from e2e.release_tools import PACKAGES, source
from tests.support import house

WORKFLOWS = house.files(".github/workflows/*.y*ml")


class Fetch(NamedTuple):
    """A kind of command that fetches, and what makes it safe; without `safe` it is written nowhere."""

    command: str
    safe: str = "(?!)"


FETCHES = {
    "pip": Fetch(r"\bpip3?( -\S+)* (install|download|wheel)\b", r"--require-hashes|\$\(UV\)|--no-index"),
    "uv, from the lock": Fetch(r"\buv( -\S+)* (sync|export)\b|^(sync|export) -|\buv( -\S+)* run\b", "--frozen"),
    "uv, what builds": Fetch(r"\buv( -\S+)* build\b", "--require-hashes"),
    "uv, a new lock": Fetch(r"\buv( -\S+)* (lock|add)\b"),
    "uvx, pipx": Fetch(r"\buv( -\S+)* tool (run|install)\b|\buvx\b(?! and)|\bpipx( -\S+)* (run|install)\b"),
    "npm": Fetch(r"\b(npm|yarn|pnpm)( -\S+)* (install|i|add|exec|update)\b|\bnpx\b"),
    "go": Fetch(r"\bgo( -\S+)* (install|get)\b|\b(go|GO\))( -\S+)* run (\S+@|\$)"),
    "Debian": Fetch(r"\bapt(-get)?( -\S+)* install\b"),
    "files": Fetch(
        r"\b(curl|wget)\b|\bgit( -\S+)* clone\b|\b(docker|podman)( -\S+)* (pull|run)\b|\bgh release download"
    ),
}
ELSEWHERE = {
    ("e2e/installers.py", "uvx, pipx"): "what is tried; its environment has no package registry, as tested below",
    (".github/workflows/release.yml", "Debian"): "programs of the runner's Ubuntu, signed by Ubuntu",
    ("e2e/image/recipe.py", "Debian"): "a message that says what to install",
}
"""Commands that no option makes safe, and why they are there."""


def _pieces(path: Path) -> Iterator[str]:
    """Give the commands of a file: of a shell's lines, or the words of each function of a Python module together."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        yield from _words(ast.parse(text))
        return
    for line in text.replace("\\\n", " ").splitlines():
        if not line.lstrip().startswith("#"):
            yield from (each.strip() for each in re.split(r"\s##\s.*|;|&&|\|+", line) if each)


def _words(tree: ast.Module) -> Iterator[str]:
    for scope in tree.body:
        found = [each for each in ast.walk(scope) if isinstance(each, ast.Tuple | ast.List)]
        commands = [" ".join(map(_word, each.elts)) for each in found]
        yield "\n".join(commands)


def _word(node: ast.expr) -> str:
    if isinstance(node, ast.Constant):
        return str(node.value)
    return "uv" if ast.unparse(node) in {"uv()", "uv"} else "…"


def _unsafe(pieces: Iterator[str]) -> set[str]:
    return {
        kind
        for piece in pieces
        for kind, fetch in FETCHES.items()
        if re.search(fetch.command, piece, re.MULTILINE) and not re.search(fetch.safe, piece)
    }


def test_everything_is_fetched_by_hash_or_by_a_lock() -> None:
    patterns = ("Makefile", ".ci/*", ".github/*", "e2e/*.py", "docs/*.py", "deploy/*.sh")
    files = house.files(*patterns)
    found = {(str(path.relative_to(house.ROOT)), kind) for path in files for kind in _unsafe(_pieces(path))}
    assert sorted(found - ELSEWHERE.keys()) == []
    assert sorted(ELSEWHERE.keys() - found) == []


@pytest.mark.parametrize(
    ("command", "kind"),
    [
        ("python3 -m pip install uv", "pip"),
        ("pip install --require-hashes -r deploy/build/uv.txt", ""),
        ("uv pip install -r requirements.txt", "pip"),
        ("uv run pytest", "uv, from the lock"),
        ("uv --quiet sync", "uv, from the lock"),
        ("uv sync --frozen", ""),
        ("uv build --wheel", "uv, what builds"),
        ("uv lock --upgrade", "uv, a new lock"),
        ("uvx ruff", "uvx, pipx"),
        ("pipx install dist/a.whl", "uvx, pipx"),
        ("npm install", "npm"),
        ("npm ci --silent", ""),
        ("go run github.com/a/b@v1.0.0", "go"),
        ("$(GO) run github.com/a/b@v1.0.0", "go"),
        ("$(GO) run $(COSIGN) sign", "go"),
        ("go install ./...", "go"),
        ("go build ./...", ""),
        ("sudo apt-get install --yes skopeo", "Debian"),
        ("curl -sSfL https://example.com/install.sh", "files"),
        ("docker run example.com/image", "files"),
    ],
)
def test_a_command_that_fetches_is_found(tmp_path: Path, command: str, kind: str) -> None:
    shell, python = tmp_path / "Makefile", tmp_path / "module.py"
    shell.write_text(f"target: ## Say what it does\n\t@cd there && {command}\n", encoding="utf-8")
    python.write_text(f"def run():\n    call({tuple(command.split())})\n", encoding="utf-8")
    expected = {kind} if kind else set()
    assert _unsafe(_pieces(shell)) == expected
    if "$" not in command:
        assert _unsafe(_pieces(python)) == expected


def test_uvx_and_pipx_find_no_package_but_the_fetched_ones(tmp_path: Path) -> None:
    found = installers.environment(tmp_path)
    assert (found["PIP_NO_INDEX"], found["UV_NO_INDEX"]) == ("1", "1")
    assert {found["PIP_FIND_LINKS"], found["UV_FIND_LINKS"]} == {str(tmp_path / "wheels")}
    assert Path(found["UV_CACHE_DIR"]).is_relative_to(tmp_path)  # another one may hold what came without a hash


def test_every_go_module_has_the_hashes_of_what_it_needs() -> None:
    files = [*house.files("*.mod"), *(source(name) / "go.mod" for name in PACKAGES)]
    modules = [path for path in files if "require" in path.read_text(encoding="utf-8")]
    assert len(modules) > len(PACKAGES)
    assert [path for path in modules if not path.with_suffix(".sum").is_file()] == []


def test_every_npm_package_has_a_hash_and_runs_no_script_when_it_is_installed() -> None:
    front = house.ROOT / "scheduler" / "page" / "front"
    packages = json.loads((front / "package-lock.json").read_text(encoding="utf-8"))["packages"]
    assert [
        name for name, each in packages.items() if name and not each.get("integrity", "").startswith("sha512-")
    ] == []
    assert "ignore-scripts=true" in (front / ".npmrc").read_text(encoding="utf-8").splitlines()


RIGHTS = {"make release-image", "make sbom", "make sign", "make release-notes"}
"""What a job that may write may call: all of it is locked, and nothing is a test."""
ACTIONS = {"actions/checkout", "actions/attest-build-provenance"}


def _jobs() -> Iterator[tuple[str, dict[str, Any]]]:
    for path in WORKFLOWS:
        workflow = yaml.safe_load(path.read_text(encoding="utf-8"))
        assert workflow["permissions"] == {}, path.name  # a job has what it names
        for name, job in workflow["jobs"].items():
            yield f"{path.name} {name}", job


def test_a_job_that_may_write_only_publishes() -> None:
    writing = {name: job for name, job in _jobs() if "write" in job["permissions"].values()}
    assert list(writing) == ["release.yml publish"]
    for job in writing.values():
        commands = "\n".join(step.get("run", "") for step in job["steps"])
        assert set(re.findall(r"make [\w-]+", commands)) == RIGHTS
        assert {step["uses"].partition("@")[0] for step in job["steps"] if "uses" in step} == ACTIONS


def test_what_other_people_wrote_runs_before_any_right_is_given() -> None:
    """The wheel is tried with installers that run code of packages: in the job that tests, which publishing needs."""
    jobs = dict(_jobs())
    called = "\n".join(step.get("run", "") for step in jobs["release.yml test"]["steps"])
    assert "make wheel-check" in called
    assert set(jobs["release.yml test"]["permissions"].values()) == {"read"}


def test_no_checkout_leaves_a_token_behind() -> None:
    steps = [
        step for _, job in _jobs() for step in job["steps"] if step.get("uses", "").startswith("actions/checkout@")
    ]
    assert steps
    assert [step for step in steps if step["with"].get("persist-credentials") is not False] == []

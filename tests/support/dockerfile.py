"""Carries out a Dockerfile's instructions without an engine: each stage in a folder of its own, as if it were `/`."""

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import NamedTuple

MACHINE = ("/usr/bin", "/bin")
"""What a stage borrows of the machine besides Python: a shell and its tools."""
KEPT = (
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "NO_PROXY",
    "https_proxy",
    "http_proxy",
    "no_proxy",
)
"""How this machine reaches the package registries: a builder's network is no part of the Dockerfile."""


class Instruction(NamedTuple):
    """One instruction, its continued lines joined: `COPY`, `scheduler ./scheduler`."""

    word: str
    rest: str


@dataclass
class Stage:
    """A stage's own file system and what its instructions have set."""

    root: Path
    environment: dict[str, str]
    folder: PurePosixPath = field(default_factory=lambda: PurePosixPath("/"))
    user: str = ""
    entrypoint: list[str] = field(default_factory=list)

    def place(self, path: str) -> Path:
        """Where a path inside the stage lies on this machine."""
        return self.root / str(self.folder / path).lstrip("/")

    def run(self, command: str | list[str]) -> str:
        """Run a command as if inside the stage and give what it printed; the test fails with its output."""
        if isinstance(command, str):
            command = ["/bin/sh", "-c", command]
        done = subprocess.run(
            command, cwd=self.place("."), env=self.environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
        return done.stdout


def instructions(text: str) -> list[Instruction]:
    """Split a Dockerfile's text."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    joined = "\n".join(lines).replace("\\\n", " ").splitlines()
    return [Instruction(*line.split(maxsplit=1)) for line in joined if line.strip()]


def visible_context(repository: Path, ignore: str) -> list[str]:
    """The top-level names that an ignore file of the form `*`, then `!name`, lets a build see."""
    rules = [line for line in ignore.splitlines() if line and not line.startswith("#")]
    assert rules[0] == "*"
    return sorted(rule[1:] for rule in rules if rule.startswith("!") and (repository / rule[1:]).exists())


def build(text: str, context: Path, work: Path, arguments: Mapping[str, str] = MappingProxyType({})) -> list[Stage]:
    """
    Carry out all stages below the folder `work`; sources of COPY come from `context` or an earlier stage.

    `arguments` are those of `--build-arg`.
    """
    stages: list[Stage] = []
    names: dict[str, Stage] = {}
    for word, rest in instructions(text):
        match word:
            case "FROM":
                stages.append(_new_stage(work / f"stage-{len(stages)}"))
                if " AS " in rest:
                    names[rest.rpartition(" AS ")[2]] = stages[-1]
            case "ENV":
                _set(stages[-1], rest)
            case "WORKDIR":
                stages[-1].folder /= rest
                stages[-1].place(".").mkdir(parents=True, exist_ok=True)
            case "COPY":
                _copy(stages[-1], rest, context, names)
            case "RUN":
                stages[-1].run(rest)
            case "USER":
                stages[-1].user = rest
            case "ENTRYPOINT":
                stages[-1].entrypoint = [part.strip(' "') for part in rest.strip("[]").split(",")]
            case "ARG" if stages:
                name, _, default = rest.partition("=")
                stages[-1].environment[name] = arguments.get(name, default)
            case "ARG" | "LABEL" | "EXPOSE" | "CMD":
                pass
            case _:
                raise AssertionError(f"an instruction that this does not know: {word}")
    return stages


def _new_stage(root: Path) -> Stage:
    """A file system that holds Python, as the base image does, and nothing else."""
    local = root / "usr" / "local"
    subprocess.run([sys.executable, "-m", "venv", str(local)], check=True)
    environment = {name: os.environ[name] for name in KEPT if name in os.environ}
    environment |= {
        name: value for name, value in os.environ.items() if name.startswith(("PIP_", "UV_INDEX", "UV_CACHE"))
    }
    environment["PATH"] = os.pathsep.join((str(local / "bin"), *MACHINE))
    environment["HOME"] = str(root / "root")
    # Packages that this machine has fetched before need not be fetched again.
    environment.setdefault("UV_CACHE_DIR", str(Path.home() / ".cache" / "uv"))
    return Stage(root, environment)


def _set(stage: Stage, rest: str) -> None:
    for assignment in shlex.split(rest):
        name, _, value = assignment.partition("=")
        parts = [
            stage.environment["PATH"] if part == "$PATH" else str(stage.place(part)) if part.startswith("/") else part
            for part in value.split(":")
        ]
        stage.environment[name] = ":".join(parts)


def _copy(stage: Stage, rest: str, context: Path, names: dict[str, Stage]) -> None:
    *sources, target = rest.split()
    origin = context
    if sources[0].startswith("--from="):
        origin = names[sources.pop(0).removeprefix("--from=")].root
    for source in sources:
        found = origin / source.lstrip("/")
        place = stage.place(target)
        if found.is_dir():
            shutil.copytree(found, place, symlinks=True, dirs_exist_ok=True)
        else:
            place.mkdir(parents=True, exist_ok=True) if target.endswith("/") else place.parent.mkdir(parents=True)
            shutil.copy(found, place)

"""
Whether people can install the wheel as they install commands: with uvx and with pipx, in an empty folder.

What the wheel needs is fetched first, by the hashes of uv.lock. The installers see these files and no package registry.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from e2e.controlplane.plane import REPOSITORY
from e2e.fleet.fleets import gpu_fleet
from e2e.image.commands import uv

EXAMPLE = REPOSITORY / "examples" / "01-one-gpu-per-pod.yaml"


def ways(wheel: str) -> dict[str, tuple[str, ...]]:
    """The command lines that people write before the arguments of `dovetail`."""
    return {
        "uvx": ("uv", "tool", "run", "--from", wheel, "dovetail"),  # `uvx` is the same
        "pipx run": ("pipx", "run", "--spec", wheel, "dovetail"),
        "pipx install": ("bin/dovetail",),
    }


def check(wheel: Path, folder: Path) -> None:
    """Run the wheel's commands in an empty folder; raise `AssertionError` where one does something else."""
    fleet = gpu_fleet(1)
    hardware = {"apiVersion": "v1", "kind": "List", "items": [*fleet.nodes, *fleet.classes, *fleet.slices]}
    (folder / "hardware.json").write_text(json.dumps(hardware), encoding="utf-8")
    _fetch(folder / "wheels")
    _run(("pipx", "install", "--quiet", str(wheel)), folder)
    version = wheel.name.split("-")[1]
    for name, command in ways(str(wheel)).items():
        _expect(_run((*command, "version"), folder), f"dovetail {version} ")
        _expect(_run((*command, "simulate", "-f", "hardware.json", "-f", str(EXAMPLE)), folder), "3 of 3 pods placed")
        print(f"ok  {name}: version, simulate", flush=True)
    _expect(_run(("bin/kubectl-dovetail", "version"), folder), f"dovetail {version} ")
    print("ok  pipx install: kubectl-dovetail")


def _fetch(wheels: Path) -> None:
    """Fetch the locked packages that the wheel needs, each by its hash."""
    locked = wheels.with_suffix(".txt")
    export = (uv(), "export", "--quiet", "--frozen", "--no-dev", "--no-emit-project", "--output-file", str(locked))
    fetch = (sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--dest", str(wheels))
    exact = ("--no-deps", "--require-hashes", "--only-binary", ":all:", "--requirement", str(locked))
    for command in (export, (*fetch, *exact)):
        subprocess.run(command, cwd=REPOSITORY, stdout=subprocess.DEVNULL, check=True)


def environment(folder: Path) -> dict[str, str]:
    """Give the environment of the installers: places of their own, and no packages but those that were fetched."""
    wheels = str(folder / "wheels")
    packages = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": wheels, "UV_NO_INDEX": "1", "UV_FIND_LINKS": wheels}
    places = {"PIPX_HOME": folder / "pipx", "PIPX_BIN_DIR": folder / "bin", "UV_CACHE_DIR": folder / "cache"}
    return os.environ | packages | {name: str(path) for name, path in places.items()} | {"KUBECONFIG": ""}


def _run(command: Sequence[str], folder: Path) -> str:
    """Run a command with the environment of the installers; return what it printed."""
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment(folder),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{' '.join(command)}: exit status {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


def _expect(printed: str, words: str) -> None:
    assert words in printed, f"expected {words!r}, and it printed:\n{printed}"


def main() -> int:
    """Run the command; 1 where the wheel cannot be installed or used."""
    parser = argparse.ArgumentParser(prog="make wheel-check", description=__doc__)
    parser.add_argument("wheel", type=Path, help="the wheel of make wheel")
    with tempfile.TemporaryDirectory(prefix="dovetail-wheel-") as folder:
        try:
            check(parser.parse_args().wheel.resolve(), Path(folder))
        except AssertionError as error:
            print(error, file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

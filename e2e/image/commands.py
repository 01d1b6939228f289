"""Starts the programs that build and check the image."""

import os
import shutil
import subprocess
from collections.abc import Sequence

from e2e.controlplane.build import cache_folder
from e2e.image import recipe


class ImageError(Exception):
    """The image cannot be built, or does not do what it should."""


def require() -> None:
    """Raise `ImageError` if a program is missing."""
    missing = [each for each in ("mmdebstrap", "umoci", "skopeo") if not shutil.which(each)]
    if missing:
        raise ImageError(f"not found: {', '.join(missing)}; on Debian and Ubuntu write: {' '.join(recipe.APT)}")


def uv() -> str:
    """Find uv: on the path, else where the Makefile installs it."""
    return shutil.which("uv") or str(cache_folder("bin") / "uv")


def run(*command: str) -> str:
    """Run a command and return what it printed. Raise `ImageError` with its messages if it fails."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ImageError(f"{' '.join(command[:2])}: exit status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def as_root(command: Sequence[str]) -> tuple[str, ...]:
    """Give a command that root has to run: with sudo, unless this is root."""
    return (*(() if os.geteuid() == 0 else ("sudo",)), *command)

"""Another commit of this repository with its locked environment, kept in the cache."""

import os
import subprocess
from pathlib import Path
from typing import Final

from e2e.controlplane import build
from e2e.controlplane.plane import REPOSITORY

_GIT: Final = ("git", "-C", str(REPOSITORY))


class UnknownCommitError(Exception):
    """A commit was named that the repository does not have."""


def checkout(commit: str) -> Path:
    """
    Return the folder of a commit, with its environment in `.venv`; the first time takes a minute.

    Raises UnknownCommitError, and subprocess.CalledProcessError where its environment cannot be made.
    """
    named = subprocess.run((*_GIT, "rev-parse", "--verify", f"{commit}^{{commit}}"), capture_output=True, check=False)
    if named.returncode:
        raise UnknownCommitError(f"this repository has no commit {commit!r}: write one that `git log` shows")
    found = named.stdout.decode().strip()
    home = build.cache_folder("commits") / found
    if not (home / ".venv").exists():
        home.mkdir(parents=True, exist_ok=True)
        packed = subprocess.run((*_GIT, "archive", found), check=True, capture_output=True).stdout
        subprocess.run(("tar", "-x", "-C", str(home)), check=True, input=packed)
        environment = {key: value for key, value in os.environ.items() if key != "VIRTUAL_ENV"}
        subprocess.run(("uv", "sync", "--frozen", "--quiet"), check=True, cwd=home, env=environment)
    return home

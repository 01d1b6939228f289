"""
The programs of a release that are written in Go: built on this machine from modules whose hashes are in the repository.

Each has a folder of `deploy/build` with its version in go.mod and the hash of every module in go.sum.
"""

import argparse
import sys
from pathlib import Path
from typing import Final

from e2e.controlplane import build
from e2e.controlplane.plane import REPOSITORY

PACKAGES: Final = {
    "actionlint": "github.com/rhysd/actionlint/cmd/actionlint",
    "cosign": "github.com/sigstore/cosign/v3/cmd/cosign",
}
"""The programs, with the packages of their commands."""


def source(name: str) -> Path:
    """Return the folder of a program's go.mod and go.sum."""
    return REPOSITORY / "deploy" / "build" / name


def main() -> int:
    """Print the path of a program; 1 where it cannot be built."""
    parser = argparse.ArgumentParser(prog="python -m e2e.release_tools", description=__doc__)
    parser.add_argument("name", choices=sorted(PACKAGES), help="the program, which is built where it is missing")
    name = parser.parse_args().name
    try:
        print(build.tool(name, source(name), PACKAGES[name]))
    except build.BuildError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

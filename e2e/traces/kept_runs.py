"""
Runs that are kept as files, so that a command goes on where an earlier one was interrupted.

Each says which code it was made with: a run of other code is made again, unless it is to be kept.
"""

import hashlib
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from e2e.controlplane.plane import REPOSITORY
from e2e.traces.workload import TraceError

SIMPLE: Final = ("e2e/traces",)
"""The folders on which runs of simple policies depend."""
DOVETAIL: Final = (*SIMPLE, "solver", "scheduler/cluster", "scheduler/queue")
"""Those on which runs of Dovetail depend."""
_Run = TypeVar("_Run")


class _Kept(msgspec.Struct, frozen=True):
    """A run, and the fingerprint of the code that made it; none before runs had one."""

    run: msgspec.Raw
    code: str = ""


@cache
def fingerprint(folders: tuple[str, ...], root: Path = REPOSITORY) -> str:
    """Return a name for the state of the code in some folders."""
    found = hashlib.sha256()
    for path in sorted(each for folder in folders for each in (root / folder).rglob("*.py")):
        found.update(f"{path.relative_to(root)}\n".encode() + path.read_bytes())
    return found.hexdigest()[:16]


def kept(
    path: Path, kind: type[_Run], folders: tuple[str, ...], measure: Callable[[], _Run], *, whatever_code: bool
) -> _Run:
    """
    Return the run of a file; measure and write it where there is none, or one of other code.

    With `whatever_code` it is taken as it is. Raises TraceError where the file cannot be read.
    """
    code = fingerprint(folders)
    if path.exists():
        found = _read(path, _Kept)
        if whatever_code or found.code == code:
            return _decoded(path, found.run, kind)
        print(f"{path} was measured with other code", file=sys.stderr)
    print(f"{path.parent.name}, {path.stem}", file=sys.stderr)
    run = measure()
    path.parent.mkdir(parents=True, exist_ok=True)
    staged = path.with_suffix(".part")  # a file is whole or not there
    staged.write_bytes(msgspec.json.encode(_Kept(msgspec.Raw(msgspec.json.encode(run)), code)))
    staged.rename(path)
    return run


def _read(path: Path, kind: type[_Run]) -> _Run:
    return _decoded(path, path.read_bytes(), kind)


def _decoded(path: Path, text: bytes | msgspec.Raw, kind: type[_Run]) -> _Run:
    try:
        return msgspec.json.decode(text, type=kind)
    except msgspec.MsgspecError as error:
        raise TraceError(f"{path}: {error}; remove it, and it is measured again") from None

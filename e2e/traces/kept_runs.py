"""Runs that are kept as files, so that a command goes on where an earlier one was interrupted."""

from pathlib import Path
from typing import TypeVar

import msgspec

from e2e.traces.workload import TraceError

_Run = TypeVar("_Run", bound=msgspec.Struct)


def write(path: Path, run: msgspec.Struct) -> None:
    """Record a run; a file is whole or not there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    staged = path.with_suffix(".part")
    staged.write_bytes(msgspec.json.encode(run))
    staged.rename(path)


def read(path: Path, kind: type[_Run]) -> _Run:
    """Read a recorded run. Raises TraceError."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except msgspec.MsgspecError as error:
        raise TraceError(f"{path}: {error}; remove it, and it is measured again") from None

"""
A decision's input as a file, for a report: snapshot, batch, policy and budget as versioned JSON.

Opaque parameters of drivers are left out (they may hold secrets and decide nothing), and so is everything that the
domain does not know, such as environments.
"""

import contextlib
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec

from solver.domain import GENEROUS_UNITS, Batch, Claim, OpaqueConfig, Policy, Snapshot, Stop

API_VERSION: Final = "record.dovetail.dev/v1alpha1"
KIND: Final = "Decision"

_MOST_FILES: Final = 20
"""Files kept in one folder; the oldest go first."""
_MOST_BYTES: Final = 128 * 1024 * 1024
"""Bytes that they may have together: a large cluster's take tens of megabytes each. The newest always stays."""
_MOST_READ: Final = 1024 * 1024 * 1024
"""Bytes of a file that is read."""


class Record(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The file: everything that `solve` was given, and why it was saved."""

    api_version: str = API_VERSION
    kind: str = KIND
    cause: str
    snapshot: Snapshot
    batch: Batch
    policy: Policy
    seconds: float
    deterministic_seconds: float
    seed: int = 0
    workers: int = 1
    cost_units: int = GENEROUS_UNITS
    stopped: tuple[Stop, ...] = ()
    """Where the decision was stopped, if it was: repeated, it stops there and nowhere else."""


def save(folder: Path, record: Record, now: datetime | None = None) -> Path:
    """Write a record to a new file in a folder, which is made if need be; give its path; raise `OSError`."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    moment = (now or datetime.now(UTC)).strftime("%Y%m%dT%H%M%S.%fZ")
    path = folder / f"dovetail-decision-{moment}.json"
    write(path, msgspec.json.encode(without_parameters(record)))
    _prune(folder)
    return path


def write(path: Path, content: bytes) -> None:
    """
    Put a file that its owner alone can read in a path's place, whole or not at all; raise `OSError`.

    What was there is replaced and never written into: a link that somebody else put there, in a folder for temporary
    files for example, leads nowhere. Only what is no file (`/dev/stdout`, a pipe) is written to as it is.
    """
    if path.is_relative_to("/dev") or (path.exists() and not path.is_file()):
        path.write_bytes(content)
        return
    draft = path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}")
    file = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    try:
        with os.fdopen(file, "wb") as opened:
            opened.write(content)
        draft.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            draft.unlink()
        raise


def _prune(folder: Path) -> None:
    """Remove the oldest files while there are too many, or too large ones."""
    total = 0
    for number, each in enumerate(sorted(folder.glob("dovetail-decision-*.json"), reverse=True), start=1):
        total += each.stat().st_size
        if number > 1 and (number > _MOST_FILES or total > _MOST_BYTES):
            each.unlink(missing_ok=True)


def read(path: Path) -> Record:
    """Read a record; raise `msgspec.MsgspecError`, `RecursionError` where it nests too deep, or `OSError`."""
    with path.open("rb") as file:
        content = file.read(_MOST_READ + 1)
    if len(content) > _MOST_READ:
        raise msgspec.DecodeError(f"larger than {_MOST_READ // 2**20} MiB")
    return msgspec.json.decode(content, type=Record)


def without_parameters(record: Record) -> Record:
    """Give the record with every opaque parameter left out; who configures what, and for which driver, stays."""
    snapshot = msgspec.structs.replace(
        record.snapshot,
        claims=tuple(_stripped_claim(claim) for claim in record.snapshot.claims),
        classes=tuple(
            msgspec.structs.replace(each, config=_stripped(each.config)) if each.config else each
            for each in record.snapshot.classes
        ),
    )
    return msgspec.structs.replace(record, snapshot=snapshot)


def _stripped_claim(claim: Claim) -> Claim:
    allocation = claim.allocation
    if allocation is not None and allocation.config:
        allocation = msgspec.structs.replace(allocation, config=_stripped(allocation.config))
    if allocation is claim.allocation and not claim.config:
        return claim
    return msgspec.structs.replace(claim, config=_stripped(claim.config), allocation=allocation)


def _stripped(config: tuple[OpaqueConfig, ...]) -> tuple[OpaqueConfig, ...]:
    return tuple(msgspec.structs.replace(each, parameters="") for each in config)

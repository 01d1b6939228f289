"""
Saves the input of a decision as versioned JSON: snapshot, batch, policy and budget, for bug reports and `replay`.

Opaque parameters of drivers are left out: they may hold secrets and have no effect on the decision. Everything else
that the domain does not model, such as environments, is not in it anyway.
"""

from collections.abc import Callable, Collection
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from scheduler import private_file
from solver import as_running
from solver.domain import (
    DEFAULT_COST_UNITS,
    Batch,
    Claim,
    LeftOutPod,
    OpaqueConfig,
    PodId,
    Policy,
    Relocation,
    RepairGoal,
    RepairRules,
    Snapshot,
    StageStop,
    open_seats,
)

API_VERSION: Final = "record.dovetail.dev/v1alpha1"
KIND: Final = "Decision"

_MOST_READ: Final = 1024 * 1024 * 1024
"""The largest file that is read, in bytes."""

_json: Final = msgspec.json.encode

_REPAIR: Final = "RepairPlan"
"""The kind of the owner of holds that repairs make; there is one plan at a time."""


class FolderLimits(NamedTuple):
    """
    The most files kept in one folder, and the most bytes of all these; the oldest are removed first.

    A file of a large cluster has tens of megabytes. The newest file always stays.
    """

    files: int
    total_bytes: int


DEFECTS: Final = FolderLimits(20, 128 * 1024 * 1024)
"""For cases that are saved after a defect."""


class RepairRecord(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Moves of pods: the goal that they reach, what protected pods, and what was found."""

    goal: RepairGoal
    rules: RepairRules
    found: Relocation


class Record(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The file: all arguments of `solve`, and why they were saved."""

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
    cost_units: int = DEFAULT_COST_UNITS
    stopped: tuple[StageStop, ...] = ()
    """Where each stage of the decision stopped, if known; a replay stops at the same points."""
    left_out: tuple[tuple[LeftOutPod, ...], ...] = ()
    """The pods that the decision left out each time it prepared a problem; a replay leaves them out, too."""
    made_after: tuple[tuple[PodId, PodId], ...] = ()
    """In a simulation: pods that are made one by one, each with the pod that has a node before it is made."""
    not_made: tuple[tuple[PodId, str], ...] = ()
    """In a simulation: pods that the API server refuses, because a ResourceQuota is used up, with the reason."""
    repair: RepairRecord | None = None
    """What was decided where it was about moves, and not about the pods of the batch."""


def save(folder: Path, record: Record, now: datetime | None = None, limits: FolderLimits = DEFECTS) -> Path:
    """
    Write a record to a new file in a folder, and remove the oldest files there; return its path. Raise `OSError`.

    The folder is created if needed.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = new_path(folder, now or datetime.now(UTC))
    private_file.replace(path, _encoded(without_parameters(record)))
    _prune(folder, limits)
    return path


def new_path(folder: Path, now: datetime) -> Path:
    """Return the path of the file that is saved at a time."""
    return folder / f"dovetail-decision-{now:%Y%m%dT%H%M%S.%fZ}.json"


def _encoded(record: Record) -> bytes:
    """
    Encode a record object by object.

    One call for a whole cluster takes half a second, in which it would hold the GIL.
    """
    return _object(record, lambda value: _object(value, _list) if isinstance(value, Snapshot) else _json(value))


def _object(value: msgspec.Struct, encoded: Callable[[Any], bytes]) -> bytes:
    fields = msgspec.structs.fields(value)
    return (
        b"{" + b",".join(_json(each.encode_name) + b":" + encoded(getattr(value, each.name)) for each in fields) + b"}"
    )


def _list(values: tuple[object, ...]) -> bytes:
    return b"[" + b",".join(map(_json, values)) + b"]"


def _prune(folder: Path, limits: FolderLimits) -> None:
    """Remove the oldest files while there are too many, or too many bytes."""
    total = 0
    for number, each in enumerate(sorted(folder.glob("dovetail-decision-*.json"), reverse=True), start=1):
        total += each.stat().st_size
        if number > 1 and (number > limits.files or total > limits.total_bytes):
            each.unlink(missing_ok=True)


def read(path: Path) -> Record:
    """Read a record; raise `msgspec.MsgspecError`, `RecursionError` if it nests too deep, or `OSError`."""
    with path.open("rb") as file:
        content = file.read(_MOST_READ + 1)
    if len(content) > _MOST_READ:
        raise msgspec.DecodeError(f"larger than {_MOST_READ // 2**20} MiB")
    return msgspec.json.decode(content, type=Record)


def without_parameters(record: Record) -> Record:
    """Remove every opaque parameter from a record; source, driver and requests of each configuration stay."""
    snapshot = msgspec.structs.replace(
        record.snapshot,
        claims=tuple(_stripped_claim(claim) for claim in record.snapshot.claims),
        classes=tuple(
            msgspec.structs.replace(each, config=_stripped(each.config)) if each.config else each
            for each in record.snapshot.classes
        ),
    )
    return msgspec.structs.replace(record, snapshot=snapshot)


def seen_by_repairs(snapshot: Snapshot, under_way: Collection[str] = ()) -> Snapshot:
    """Return a cluster as repairs see it: room that others hold, and places of moves under way, count as taken."""
    seats = open_seats(snapshot.holds)
    return as_running(snapshot, (seat for seat in seats if seat.hold.owner.kind != _REPAIR or seat.id in under_way))


def _stripped_claim(claim: Claim) -> Claim:
    allocation = claim.allocation
    if allocation is not None and allocation.config:
        allocation = msgspec.structs.replace(allocation, config=_stripped(allocation.config))
    if allocation is claim.allocation and not claim.config:
        return claim
    return msgspec.structs.replace(claim, config=_stripped(claim.config), allocation=allocation)


def _stripped(config: tuple[OpaqueConfig, ...]) -> tuple[OpaqueConfig, ...]:
    return tuple(msgspec.structs.replace(each, parameters="") for each in config)

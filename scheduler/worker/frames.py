"""
The messages between the shell and the worker: JSON frames, each with its length in front.

Orders go from the shell to the worker (`Apply`, `Decide`, `CountFleet`, `AskFleet`, `PlanRepair`), answers back
(`WorkerReady`, `Decided`, `SolveFailed`, `ChildEnded`, `FleetCounted`, `FleetAnswered`, `RepairPlanned`). msgpack would
not do: it has no integers beyond 2^64, and amounts in nano-units need them. Both ends run the same code, so frames have
no version; a saved decision (`recording`) has one.
"""

import socket
import struct
from enum import StrEnum
from typing import TYPE_CHECKING, Final

import msgspec

from scheduler.change import Change, Kind, Object
from scheduler.cluster import Assumptions
from scheduler.worker.fleet_questions import FleetQuestion
from solver.domain import (
    Batch,
    Claim,
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    DeviceClass,
    DeviceHold,
    DeviceQuota,
    DeviceTaintRule,
    Namespace,
    Node,
    PersistentVolume,
    PersistentVolumeClaim,
    Plan,
    Pod,
    PodDisruptionBudget,
    PodGroup,
    PodId,
    Policy,
    QuotaCharges,
    QuotaFleet,
    Relocation,
    RepairGoal,
    RepairRules,
    RepairTargets,
    ResourceSlice,
    StorageClass,
    Violation,
    VolumeAttachment,
)
from solver.domain.fleet import FleetTotals

if TYPE_CHECKING:
    from asyncio import StreamReader  # the worker has no tasks

_LENGTH: Final = struct.Struct("!Q")
MOST_BYTES: Final = 256 * 1024 * 1024
"""The largest answer that is read; a plan for 100,000 pods is smaller. A larger length is malformed."""


class MalformedFrameError(OSError, ValueError):
    """The bytes received are not a frame; the connection cannot be used any more."""


class Apply(msgspec.Struct, frozen=True, tag=True):
    """Shell → worker: changes to apply to the replica, in order. `changes` are encoded `Change`s."""

    changes: tuple[msgspec.Raw, ...]


class IsolationLimits(msgspec.Struct, frozen=True, kw_only=True):
    """
    Limits of an isolated decision.

    The kernel ends the child after `end_seconds` of wall time, or `cpu_seconds` of CPU time for each search thread.
    `memory_limit_mib` is MiB of address space beyond what it has at its start. With `may_defer` its plan may leave pods
    undecided; with `is_greedy` only the greedy plan is made.
    """

    end_seconds: float
    cpu_seconds: float
    memory_limit_mib: int
    may_defer: bool = False
    is_greedy: bool = False


class Decide(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """
    Shell → worker: solve this batch. `assumptions` replaces the whole ledger of the replica.

    Pods in `known` have only id and uid here, because the replica has them (`change_log`). With `isolation` a child
    solves the batch while the worker goes on. The answer has the same `id`.
    """

    id: int
    batch: Batch
    known: frozenset[PodId] = frozenset()
    assumptions: Assumptions
    policy: Policy
    seconds: float
    deterministic_seconds: float
    cost_units: int
    seed: int
    workers: int
    isolation: IsolationLimits | None = None


class WorkerReady(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Worker → shell: the worker has started; its process id and memory limit."""

    pid: int
    address_space_bytes: int


class Decided(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """
    Worker → shell: a checked plan.

    `violations` are those of the solver's plan; it was then dropped, and `plan` is a greedy plan, or None if that
    breaks a rule too.
    """

    id: int
    plan: Plan | None
    violations: tuple[Violation, ...] = ()
    seconds: float = 0.0
    charges: QuotaCharges = QuotaCharges()
    """What claims count for quotas, of the plan and of others that changed."""


class SolveFailed(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Worker → shell: the solver raised, which is a defect. `message` is the traceback."""

    id: int
    message: str


class Cause(StrEnum):
    """Why a child ended before it answered."""

    TIME = "time"
    MEMORY = "memory"
    CRASH = "crash"


class ChildEnded(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Worker → shell: the child of an order ended without an answer."""

    id: int
    cause: Cause


class CountFleet(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """
    Shell → worker: count the fleet in a child, by node and by namespace where the settings say so.

    `assumptions` replaces the whole ledger of the replica.
    """

    id: int
    assumptions: Assumptions
    policy: Policy
    node_group_label: str
    per_node: bool
    most_namespaces: int
    limits: IsolationLimits


class FleetCounted(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Worker → shell: the numbers of the fleet, what it has of what quotas count, and charges as in `Decided`."""

    id: int
    totals: FleetTotals
    quotas: QuotaFleet = QuotaFleet()
    charges: QuotaCharges = QuotaCharges()


class AskFleet(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Shell → worker: answer a question about the fleet in a child. `assumptions` are as in `CountFleet`."""

    id: int
    assumptions: Assumptions
    policy: Policy
    question: FleetQuestion
    limits: IsolationLimits


class FleetAnswered(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Worker → shell: the encoded `FleetDocument`, which the shell only hands on."""

    id: int
    document: msgspec.Raw


MOST_GOALS: Final = 16
"""Goals of a kind that are tried for one `PlanRepair`."""


class PlanRepair(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """
    Shell → worker: look for the most important goal of a repair that moves can reach, in a child.

    `waiting` are the pods without a node, `skipped` the subjects of goals that were tried a short time ago. With `goal`
    nothing is looked for: the moves of `planned` are judged on the present cluster, as it is once those `under_way` are
    made (the uid of each pod that leaves, and the place of its successor). `assumptions` are as in `CountFleet`.
    """

    id: int
    assumptions: Assumptions
    policy: Policy
    waiting: Batch
    targets: RepairTargets
    rules: RepairRules
    skipped: tuple[str, ...] = ()
    seconds: float
    workers: int
    goal: RepairGoal | None = None
    planned: Relocation | None = None
    under_way: tuple[tuple[str, str], ...] = ()
    limits: IsolationLimits


class RepairPlanned(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """
    Worker → shell: a goal with its moves, if one was found.

    `failures` are the goals (subjects) that no moves reach, with the reason; `violations` say why planned moves are not
    possible any more.
    """

    id: int
    goal: RepairGoal | None = None
    found: Relocation | None = None
    failures: tuple[tuple[str, str], ...] = ()
    violations: tuple[Violation, ...] = ()


Order = Apply | Decide | CountFleet | AskFleet | PlanRepair
Answer = WorkerReady | Decided | SolveFailed | ChildEnded | FleetCounted | FleetAnswered | RepairPlanned


class _WireChange(msgspec.Struct, frozen=True, kw_only=True):
    kind: Kind
    key: str
    value: msgspec.Raw


class _Name(msgspec.Struct, frozen=True, kw_only=True):
    kind: Kind
    key: str


_VALUES: Final[dict[Kind, msgspec.json.Decoder[Object | None]]] = {
    Kind.NODES: msgspec.json.Decoder(Node | None),
    Kind.PODS: msgspec.json.Decoder(Pod | None),
    Kind.NAMESPACES: msgspec.json.Decoder(Namespace | None),
    Kind.SLICES: msgspec.json.Decoder(ResourceSlice | None),
    Kind.CLASSES: msgspec.json.Decoder(DeviceClass | None),
    Kind.CLAIMS: msgspec.json.Decoder(Claim | None),
    Kind.TAINT_RULES: msgspec.json.Decoder(DeviceTaintRule | None),
    Kind.VOLUMES: msgspec.json.Decoder(PersistentVolume | None),
    Kind.VOLUME_CLAIMS: msgspec.json.Decoder(PersistentVolumeClaim | None),
    Kind.STORAGE_CLASSES: msgspec.json.Decoder(StorageClass | None),
    Kind.NODE_DRIVERS: msgspec.json.Decoder(CSINode | None),
    Kind.STORAGE_CAPACITIES: msgspec.json.Decoder(CSIStorageCapacity | None),
    Kind.STORAGE_DRIVERS: msgspec.json.Decoder(CSIDriver | None),
    Kind.ATTACHMENTS: msgspec.json.Decoder(VolumeAttachment | None),
    Kind.BUDGETS: msgspec.json.Decoder(PodDisruptionBudget | None),
    Kind.POD_GROUPS: msgspec.json.Decoder(PodGroup | None),
    Kind.COSCHEDULING_GROUPS: msgspec.json.Decoder(PodGroup | None),
    Kind.HOLDS: msgspec.json.Decoder(DeviceHold | None),
    Kind.QUOTAS: msgspec.json.Decoder(DeviceQuota | None),
}
_encoder: Final = msgspec.json.Encoder()
_changes: Final = msgspec.json.Decoder(_WireChange)
_names: Final = msgspec.json.Decoder(_Name)
_orders: Final = msgspec.json.Decoder(Order)
_answers: Final = msgspec.json.Decoder(Answer)


def encode_change(change: Change) -> msgspec.Raw:
    """Encode one change for `Apply`. A value that JSON cannot represent is left out; `decode_change` refuses it."""
    try:
        return msgspec.Raw(_encoder.encode(change))
    except MemoryError:
        raise
    except Exception:  # noqa: BLE001 - an error on one object must not stop the others
        return msgspec.Raw(_encoder.encode(_Name(kind=change.kind, key=change.key)))


def identify(raw: msgspec.Raw) -> tuple[Kind, str]:
    """Return kind and key of a change whose value cannot be decoded."""
    name = _names.decode(raw)
    return name.kind, name.key


def decode_change(raw: msgspec.Raw) -> Change:
    """Decode one change of an `Apply`."""
    wire = _changes.decode(raw)
    return Change(kind=wire.kind, key=wire.key, value=_VALUES[wire.kind].decode(wire.value))


def encode(frame: Order | Answer) -> bytes:
    """Encode a frame, with its length in front."""
    return framed(encode_body(frame))


def encode_raw(value: msgspec.Struct) -> msgspec.Raw:
    """Encode a part of a frame that its reader only hands on."""
    return msgspec.Raw(_encoder.encode(value))


def encode_body(frame: Order | Answer) -> bytes:
    """Encode a frame without its length."""
    return _encoder.encode(frame)


def receive_order(connection: socket.socket) -> Order | None:
    """Wait for the next order; None when the shell has closed the connection."""
    head = _receive(connection, _LENGTH.size)
    body = _receive(connection, _LENGTH.unpack(head)[0]) if head else b""
    return _orders.decode(body) if body else None


async def read_answer(reader: "StreamReader") -> Answer:
    """
    Wait for the next answer.

    Raise `asyncio.IncompleteReadError` or `OSError` if the worker has ended, `MalformedFrameError` for other bytes.
    """
    (length,) = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
    if length > MOST_BYTES:
        raise MalformedFrameError(f"an answer of {length} bytes was announced; the limit is {MOST_BYTES}")
    return decode_answer(await reader.readexactly(length))


def decode_answer(body: bytes | memoryview) -> Answer:
    """Decode an answer without its length; raise `MalformedFrameError` if it is malformed."""
    try:
        answer: Answer = _answers.decode(body)
    except (msgspec.DecodeError, RecursionError) as error:
        raise MalformedFrameError(f"an answer cannot be decoded: {error}") from error
    return answer


def split(received: bytes | bytearray) -> tuple[memoryview, ...]:
    """Split received bytes into the bodies of frames; raise `MalformedFrameError` if one is cut off."""
    bodies, view = list[memoryview](), memoryview(received)
    while view:
        if len(view) < _LENGTH.size or len(view) - _LENGTH.size < _LENGTH.unpack_from(view)[0]:
            raise MalformedFrameError("a frame is cut off")
        end = _LENGTH.size + _LENGTH.unpack_from(view)[0]
        bodies.append(view[_LENGTH.size : end])
        view = view[end:]
    return tuple(bodies)


def framed(body: bytes) -> bytes:
    """Put the length in front of a body."""
    return _LENGTH.pack(len(body)) + body


def _receive(connection: socket.socket, length: int) -> bytearray:
    """Receive exactly `length` bytes, or nothing if the other end has closed the connection."""
    buffer = bytearray(length)
    view = memoryview(buffer)
    while view:
        count = connection.recv_into(view)
        if not count:
            return bytearray()
        view = view[count:]
    return buffer

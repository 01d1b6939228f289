"""What goes over the pipe between the shell and the solver's process: JSON, each frame behind its length.

Not msgpack, which has no room for nano-units beyond 2^64. Both ends run the same code, so a frame has no version; a
snapshot that is saved for a report has one (`record`).

What the replica has to be told: every change since it was last told, or everything after a restart.
"""

import socket
import struct
from asyncio import StreamReader
from collections.abc import Callable
from enum import StrEnum
from typing import Final

import msgspec

from scheduler.change import Change, Kind, Object
from scheduler.cluster import Assumptions
from solver import Learned
from solver.domain import (
    Batch,
    Claim,
    DeviceClass,
    DeviceTaintRule,
    DisruptionBudget,
    Namespace,
    Node,
    NodeDrivers,
    Plan,
    Pod,
    PodGroup,
    PodId,
    Policy,
    ResourceSlice,
    StorageCapacity,
    StorageClass,
    StorageDriver,
    Violation,
    Volume,
    VolumeAttachment,
    VolumeClaim,
)


class Feed:
    """
    The last change of every object, and which of them the present replica has not seen.

    Only the last change of an object matters to a replica, so that a busy object waits once however often it
    changes during a solve. The objects are the mirror's own: a feed holds references, no copies.
    """

    def __init__(self) -> None:
        self._last: Final[dict[tuple[Kind, str], Change]] = {}
        self._untold: Final[dict[tuple[Kind, str], None]] = {}
        self._has_replica = False

    def __len__(self) -> int:
        """Give the number of changes that `take` would give."""
        return len(self._untold)

    @property
    def count(self) -> int:
        """The number of objects that a replica holds."""
        return len(self._last)

    def note(self, change: Change) -> None:
        """Take a change that the mirror took."""
        key = (change.kind, change.key)
        self._untold.pop(key, None)
        if change.value is None and not self._has_replica:
            self._last.pop(key, None)  # a replica that is empty need not be told what is gone
            return
        self._untold[key] = None
        self._last[key] = change

    def has_told(self, kind: Kind, key: str, value: object) -> bool:
        """Whether the replica has been told this very value of an object, and nothing newer is waiting."""
        last = self._last.get((kind, key))
        return last is not None and last.value is value and (kind, key) not in self._untold

    def take(self) -> tuple[Change, ...]:
        """Give what the replica has not been told, in the order of the last changes, and count it as told."""
        changes = tuple(self._last[key] for key in self._untold)
        self._untold.clear()
        for change in changes:
            if change.value is None:
                self._last.pop((change.kind, change.key), None)
        return changes

    def lose(self) -> None:
        """Note that there is no replica until `start_over`: what is gone meanwhile is not kept for it."""
        self._has_replica = False
        self._drop_gone()

    def start_over(self) -> None:
        """Count everything as untold, for a replica that is empty."""
        self._has_replica = True
        self._drop_gone()
        self._untold.clear()
        self._untold.update(dict.fromkeys(self._last))

    def _drop_gone(self) -> None:
        for key in [key for key, change in self._last.items() if change.value is None]:
            del self._last[key]
            self._untold.pop(key, None)


_LENGTH: Final = struct.Struct("!Q")
MOST_BYTES: Final = 256 * 1024 * 1024
"""The largest answer that is read: a plan for 100,000 pods takes less. What says it is larger is no answer."""


class GarbledError(OSError, ValueError):
    """What came over the pipe is no frame: the two ends do not understand each other any more."""


class Apply(msgspec.Struct, frozen=True, tag=True):
    """Shell → worker: what the watch told, in order. `changes` are encoded `Change`s."""

    changes: tuple[msgspec.Raw, ...]


class Aside(msgspec.Struct, frozen=True, kw_only=True):
    """
    What a child of the worker may use for one decision.

    The kernel ends it after `end_seconds` of wall time, or `cpu_seconds` of CPU time for each thread of the search.
    `memory_limit_mib` is MiB of address space beyond what it has at its start. With `may_leave` its plan may leave pods
    for later or as too costly; `is_greedy` asks for the greedy plan alone.
    """

    end_seconds: float
    cpu_seconds: float
    memory_limit_mib: int
    may_leave: bool = False
    is_greedy: bool = False


class Decide(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """
    Shell → worker: solve this batch. `assumptions` replaces the whole ledger of the replica.

    Of the pods that `known` names the batch has id and uid alone: the replica has them (`filled`). With `aside` a child
    solves it while the worker goes on. `id` comes back with the answer.
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
    aside: Aside | None = None


class WorkerReady(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Worker → shell: started, its process id, and what it may use."""

    pid: int
    address_space_bytes: int


class Decided(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """
    Worker → shell: the plan, checked; `violations` are those of the solver's plan, which was dropped for them.

    The plan is the greedy one then, and None where that was wrong as well.
    """

    id: int
    plan: Plan | None
    violations: tuple[Violation, ...] = ()
    seconds: float = 0.0


class SolveFailed(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Worker → shell: the solver raised; a defect. `message` is the traceback's text."""

    id: int
    message: str


class Cause(StrEnum):
    """What ended a child before it answered."""

    TIME = "time"
    MEMORY = "memory"
    CRASH = "crash"


class Ended(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Worker → shell: the child of an order ended without an answer."""

    id: int
    cause: Cause


Order = Apply | Decide
Answer = WorkerReady | Decided | SolveFailed | Ended


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
    Kind.VOLUMES: msgspec.json.Decoder(Volume | None),
    Kind.VOLUME_CLAIMS: msgspec.json.Decoder(VolumeClaim | None),
    Kind.STORAGE_CLASSES: msgspec.json.Decoder(StorageClass | None),
    Kind.NODE_DRIVERS: msgspec.json.Decoder(NodeDrivers | None),
    Kind.STORAGE_CAPACITIES: msgspec.json.Decoder(StorageCapacity | None),
    Kind.STORAGE_DRIVERS: msgspec.json.Decoder(StorageDriver | None),
    Kind.ATTACHMENTS: msgspec.json.Decoder(VolumeAttachment | None),
    Kind.BUDGETS: msgspec.json.Decoder(DisruptionBudget | None),
    Kind.POD_GROUPS: msgspec.json.Decoder(PodGroup | None),
    Kind.COSCHEDULING_GROUPS: msgspec.json.Decoder(PodGroup | None),
}
_encoder: Final = msgspec.json.Encoder()
_changes: Final = msgspec.json.Decoder(_WireChange)
_names: Final = msgspec.json.Decoder(_Name)
_orders: Final = msgspec.json.Decoder(Order)
_learned: Final = msgspec.json.Decoder(tuple[Learned, ...])
_answers: Final = msgspec.json.Decoder(Answer)


def lean(batch: Batch, known: frozenset[PodId]) -> Batch:
    """Give a batch with id and uid alone of some pods: large ones, or equal ones of which there is one copy here."""
    pods = (Pod(id=pod.id, uid=pod.uid) if pod.id in known else pod for pod in batch.pods)
    return msgspec.structs.replace(batch, pods=tuple(pods))


def filled(order: Decide, has: Callable[[PodId], Pod | None]) -> Batch:
    """Give the batch of an order with whole pods; one that the replica lacks is left out."""
    pods = list[Pod]()
    for pod in order.batch.pods:
        whole = has(pod.id) if pod.id in order.known else pod
        if whole is not None and whole.uid == pod.uid:
            pods.append(whole)
    return msgspec.structs.replace(order.batch, pods=tuple(pods))


def encode_change(change: Change) -> msgspec.Raw:
    """Encode one change for `Apply`. A value that JSON has no form for is left out: `decode_change` refuses it then."""
    try:
        return msgspec.Raw(_encoder.encode(change))
    except MemoryError:
        raise
    except Exception:  # noqa: BLE001 - whatever one object raises, the others are told
        return msgspec.Raw(_encoder.encode(_Name(kind=change.kind, key=change.key)))


def identify(raw: msgspec.Raw) -> tuple[Kind, str]:
    """Give which object a change of an `Apply` is about, of which the value cannot be decoded."""
    name = _names.decode(raw)
    return name.kind, name.key


def decode_change(raw: msgspec.Raw) -> Change:
    """Decode one change of an `Apply`."""
    wire = _changes.decode(raw)
    return Change(kind=wire.kind, key=wire.key, value=_VALUES[wire.kind].decode(wire.value))


def encode(frame: Order | Answer) -> bytes:
    """Give a frame with its length in front."""
    return framed(encode_body(frame))


def encode_body(frame: Order | Answer) -> bytes:
    """Give a frame without its length."""
    return _encoder.encode(frame)


def receive_order(connection: socket.socket) -> Order | None:
    """Wait for the next order; None when the shell has closed its end, or is gone."""
    head = _receive(connection, _LENGTH.size)
    body = _receive(connection, _LENGTH.unpack(head)[0]) if head else b""
    return _orders.decode(body) if body else None


async def read_answer(reader: StreamReader) -> Answer:
    """
    Wait for the next answer.

    Raise `asyncio.IncompleteReadError` or `OSError` when the worker is gone, `GarbledError` for what is no answer.
    """
    (length,) = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
    if length > MOST_BYTES:
        raise GarbledError(f"an answer of {length} bytes was announced, and {MOST_BYTES} are the most")
    return decode_answer(await reader.readexactly(length))


def decode_answer(body: bytes | memoryview) -> Answer:
    """Decode an answer without its length; raise `GarbledError` for what is none."""
    try:
        answer: Answer = _answers.decode(body)
    except (msgspec.DecodeError, RecursionError) as error:
        raise GarbledError(f"an answer that cannot be read: {error}") from error
    return answer


def split(received: bytes | bytearray) -> tuple[memoryview, ...]:
    """Give the bodies of whole frames that were received one after the other; `GarbledError` where one is cut off."""
    bodies, view = list[memoryview](), memoryview(received)
    while view:
        if len(view) < _LENGTH.size or len(view) - _LENGTH.size < _LENGTH.unpack_from(view)[0]:
            raise GarbledError("a frame is cut off")
        end = _LENGTH.size + _LENGTH.unpack_from(view)[0]
        bodies.append(view[_LENGTH.size : end])
        view = view[end:]
    return tuple(bodies)


def encode_learned(learned: tuple[Learned, ...]) -> bytes:
    """Encode what a child has learned, for its parent."""
    return _encoder.encode(learned)


def decode_learned(body: bytes | memoryview) -> tuple[Learned, ...]:
    """Decode what a child has learned."""
    learned: tuple[Learned, ...] = _learned.decode(body)
    return learned


def framed(body: bytes) -> bytes:
    """Give a body with its length in front."""
    return _LENGTH.pack(len(body)) + body


def _receive(connection: socket.socket, length: int) -> bytearray:
    """Receive exactly so many bytes, or nothing when the other end closed."""
    buffer = bytearray(length)
    view = memoryview(buffer)
    while view:
        count = connection.recv_into(view)
        if not count:
            return bytearray()
        view = view[count:]
    return buffer

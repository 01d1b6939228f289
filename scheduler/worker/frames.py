"""
What goes over the pipe between the shell and the solver's process: JSON, each frame behind its length.

Not msgpack, which has no room for nano-units beyond 2^64. Both ends run the same code, so a frame has no version; a
snapshot that is saved for a report has one (`record`).
"""

import socket
import struct
from asyncio import StreamReader
from typing import Final

import msgspec

from scheduler.change import Change, Kind, Object
from scheduler.cluster import Assumptions
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

_LENGTH: Final = struct.Struct("!Q")


class Apply(msgspec.Struct, frozen=True, tag=True):
    """Shell → worker: what the watch told, in order. `changes` are encoded `Change`s."""

    changes: tuple[msgspec.Raw, ...]


class Decide(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Shell → worker: solve this batch. `assumptions` replaces the whole ledger of the replica."""

    batch: Batch
    assumptions: Assumptions
    policy: Policy
    seconds: float
    deterministic_seconds: float
    seed: int
    workers: int


class Ready(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Worker → shell: started, and what it may use."""

    address_space_bytes: int


class Decided(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """
    Worker → shell: the plan, checked; `violations` are those of the solver's plan, which was dropped for them.

    The plan is the greedy one then, and None where that was wrong as well.
    """

    plan: Plan | None
    violations: tuple[Violation, ...] = ()
    seconds: float = 0.0


class Failed(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Worker → shell: the solver raised; a defect. `message` is the traceback's text."""

    message: str


Order = Apply | Decide
Answer = Ready | Decided | Failed


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
_answers: Final = msgspec.json.Decoder(Answer)


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
    body = _encoder.encode(frame)
    return _LENGTH.pack(len(body)) + body


def receive_order(connection: socket.socket) -> Order | None:
    """Wait for the next order; None when the shell has closed its end, or is gone."""
    head = _receive(connection, _LENGTH.size)
    body = _receive(connection, _LENGTH.unpack(head)[0]) if head else b""
    return _orders.decode(body) if body else None


async def read_answer(reader: StreamReader) -> Answer:
    """Wait for the next answer; raise `asyncio.IncompleteReadError` or `OSError` when the worker is gone."""
    (length,) = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
    answer: Answer = _answers.decode(await reader.readexactly(length))
    return answer


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

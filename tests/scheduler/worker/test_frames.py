"""What goes over the pipe comes out as it went in."""

import asyncio
import socket

import msgspec
import pytest

from scheduler.change import Change, Kind, Object
from scheduler.cluster import Assumptions
from scheduler.worker import frames
from solver.domain import AttributeKind, AttributeValue, Namespace, Policy, Violation
from solver.domain.fleet import ClassBlocks, DeviceState, FleetTotals, LargestBlock, NodeDeviceCount
from tests.support.builders import (
    batch,
    capacity,
    claim,
    config,
    device,
    gpu_class,
    held,
    node,
    plan,
    pod,
    resource_slice,
    result,
    share_id,
    taint,
    taint_rule,
    unplaced,
    version,
)
from tests.support.cluster_builders import gone, seen

OBJECTS: tuple[Object, ...] = (
    node("n1", cpu=4),
    pod("p", "c", cpu="500m", priority=7),
    Namespace(name="default", labels=(("team", "a"),)),
    resource_slice(
        "n1",
        device("d", attributes={"model": "H100", "cc": version("9.0.0"), "numa": 1, "list": ("a", "b")}),
        device("m", consumes={"card": {"memory": "20Gi"}}, capacities={"memory": capacity("40Gi")}),
    ),
    gpu_class(),
    held("c", result("gpu", "d", "n1", share_id=share_id(1), consumed={"memory": "10Gi"}), node_name="n1"),
    claim("bad", invalid="spec.devices: expected an object", config=(config("gpu"),)),
    taint_rule("rule", taint("broken"), device_name="d"),
)


@pytest.mark.parametrize("value", OBJECTS, ids=lambda value: type(value).__name__)
def test_a_change_survives(value: Object) -> None:
    assert frames.decode_change(frames.encode_change(seen(value))) == seen(value)


def test_a_deletion_survives() -> None:
    assert frames.decode_change(frames.encode_change(gone(OBJECTS[0]))) == gone(OBJECTS[0])


@pytest.mark.parametrize(
    "value",
    [
        AttributeValue(AttributeKind.BOOL, True),  # noqa: FBT003 - the API's own shape
        AttributeValue(AttributeKind.INT, 1),
        AttributeValue(AttributeKind.BOOLS, (True, False)),
        AttributeValue(AttributeKind.INTS, (1, 0)),
    ],
    ids=lambda value: value.kind,
)
def test_booleans_and_numbers_stay_apart(value: AttributeValue) -> None:
    decoded = msgspec.msgpack.decode(msgspec.msgpack.encode(value), type=AttributeValue)

    assert msgspec.json.encode(decoded) == msgspec.json.encode(value)


def test_orders_are_received_in_order_until_the_other_end_closes() -> None:
    ours, theirs = socket.socketpair()
    apply = frames.Apply((frames.encode_change(seen(OBJECTS[0])),))
    decide = frames.Decide(
        id=3,
        batch=batch(pod("p")),
        assumptions=Assumptions(),
        policy=Policy(),
        seconds=2.0,
        deterministic_seconds=4.0,
        seed=1,
        workers=2,
        cost_units=5,
        isolation=frames.IsolationLimits(end_seconds=1.5, cpu_seconds=0.5, memory_limit_mib=64),
    )
    count = frames.CountFleet(
        id=4,
        assumptions=Assumptions(),
        policy=Policy(),
        node_group_label="pool",
        per_node=True,
        most_namespaces=3,
        limits=frames.IsolationLimits(end_seconds=1.5, cpu_seconds=0.5, memory_limit_mib=64),
    )
    with ours, theirs:
        ours.sendall(frames.encode(apply) + frames.encode(decide) + frames.encode(count))
        ours.shutdown(socket.SHUT_WR)

        first, second, third, end = (frames.receive_order(theirs) for _ in range(4))

    assert isinstance(first, frames.Apply)
    assert frames.decode_change(first.changes[0]) == seen(OBJECTS[0])
    assert (second, third, end) == (decide, count, None)


@pytest.mark.parametrize(
    "answer",
    [
        frames.WorkerReady(pid=7, address_space_bytes=2**30),
        frames.SolveFailed(id=1, message="Traceback"),
        frames.Decided(id=1, plan=None, violations=(Violation(rule="r", subject="s", message="m"),), seconds=0.5),
        frames.Decided(id=2, plan=plan(unplaced(pod("p")))),
        frames.ChildEnded(id=3, cause=frames.Cause.TIME),
        frames.FleetCounted(
            id=4,
            totals=FleetTotals(
                classes=(ClassBlocks(device_class="gpu", largest=LargestBlock(node=2, claim=2), fragmentation=0.5),),
                nodes=(NodeDeviceCount(node="n1", device_class="gpu", state=DeviceState.FREE, count=2),),
            ),
        ),
    ],
    ids=lambda answer: type(answer).__name__,
)
async def test_an_answer_survives(answer: frames.Answer) -> None:
    reader = asyncio.StreamReader()
    reader.feed_data(frames.encode(answer))

    assert await frames.read_answer(reader) == answer


async def test_an_answer_that_is_cut_off_is_an_error() -> None:
    reader = asyncio.StreamReader()
    reader.feed_data(frames.encode(frames.WorkerReady(pid=7, address_space_bytes=1))[:-1])
    reader.feed_eof()

    with pytest.raises(asyncio.IncompleteReadError):
        await frames.read_answer(reader)


@pytest.mark.parametrize(
    "received",
    [
        (2**40).to_bytes(8, "big"),
        frames.framed(b"no JSON"),
        frames.framed(b'{"type": "Decided"}'),
        frames.framed(b"[" * 100_000),
    ],
    ids=["too long", "no JSON", "no answer", "deep"],
)
async def test_what_is_no_answer_is_said_to_be_garbled(received: bytes) -> None:
    reader = asyncio.StreamReader()
    reader.feed_data(received)

    with pytest.raises(frames.MalformedFrameError):
        await frames.read_answer(reader)


def test_frames_that_came_together_are_split() -> None:
    received = frames.framed(b"one") + frames.framed(b"") + frames.framed(b"three")

    assert [bytes(each) for each in frames.split(received)] == [b"one", b"", b"three"]


@pytest.mark.parametrize("missing", [1, 5, 12], ids=["of the body", "of the next length", "of the first body"])
def test_a_frame_that_is_cut_off_is_garbled(missing: int) -> None:
    received = frames.framed(b"one") + frames.framed(b"two")

    with pytest.raises(frames.MalformedFrameError):
        frames.split(received[:-missing])


def test_every_kind_has_a_decoder() -> None:
    for kind in Kind:
        change = Change(kind=kind, key="x", value=None)

        assert frames.decode_change(frames.encode_change(change)) == change

"""Nodes that are kept from autoscalers: how much is read and written, and what is tried again."""

import asyncio
from typing import cast

import pytest
from msgspec.structs import replace

from scheduler.change import Change, Kind
from scheduler.cluster import Cluster
from scheduler.holds import kept_nodes, node_marks
from scheduler.holds.kept_nodes import KeptNodes
from scheduler.holds.node_marks import KEPT_NODE, NodeMark
from scheduler.kube.client import Client
from scheduler.kube.concurrency_limit import ConcurrencyLimit, RequestSlots
from scheduler.kube.errors import AnswerLost, Conflict, Forbidden, KubeError
from scheduler.kube.writer import NoFence, Writer
from scheduler.observe.metrics import Metrics
from tests.support import builders as b
from tests.support import hold_builders as h
from tests.support.cluster_builders import cluster_of
from tests.support.shell_clock import VirtualClock


class Stage:
    """Nodes of a cluster with their annotations, and a leader that keeps some of them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, count: int) -> None:
        self.names = [f"n{number:03}" for number in range(count)]
        self.cluster: Cluster = cluster_of(*(b.node(name) for name in self.names))
        self.notes: dict[str, dict[str, str]] = {name: {} for name in self.names}
        self.calls: list[str] = []
        self.conflicts = 0
        self.error: KubeError | None = None
        self.clock = VirtualClock()
        for name in ("read_mark", "kept_nodes", "keep", "let_go"):
            monkeypatch.setattr(node_marks, name, getattr(self, name))
        slots = RequestSlots(ConcurrencyLimit(), self.clock, self.clock.sleep)
        self.writer = Writer(slots, NoFence(), 10.0, self.clock, self.clock.sleep)
        self.leader = self.lead()

    def lead(self) -> KeptNodes:
        """Begin to lead."""
        return KeptNodes((cast("Client", None), self.writer, self.cluster), Metrics(), clock=self.clock)

    def hold(self, name: str, *nodes: str) -> None:
        """Hold room on nodes, from now on."""
        made = h.hold(name, *(h.place("later", each) for each in nodes))
        self.cluster.apply(Change(kind=Kind.HOLDS, key=name, value=made))

    def end(self, name: str) -> None:
        """End a hold."""
        self.cluster.apply(Change(kind=Kind.HOLDS, key=name, value=None))

    async def look(self, seconds: float = 1.0) -> list[str]:
        """Let time pass, and return what the leader's next look reads and writes."""
        await self.clock.sleep(seconds)
        self.calls.clear()
        await self.leader.look()
        return list(self.calls)

    def kept(self) -> list[str]:
        """The nodes that Dovetail keeps."""
        return [name for name in self.names if KEPT_NODE in self.notes[name]]

    async def kept_nodes(self, _: Client) -> dict[str, str]:
        self.calls.append("list")
        if self.error is not None:
            raise self.error
        return {name: f"uid-{name}" for name in self.kept()}

    async def read_mark(self, _: Client, node: str, **__: object) -> NodeMark | None:
        self.calls.append(f"read {node}")
        found = self.cluster.store.nodes.get(node)
        return NodeMark(node, found.uid, "1", dict(self.notes[node])) if found is not None else None

    async def keep(self, _: Client, mark: NodeMark, **__: object) -> None:
        self._write("keep", mark)
        self.notes[mark.name][KEPT_NODE] = "yes"

    async def let_go(self, _: Client, mark: NodeMark, **__: object) -> None:
        self._write("let go", mark)
        del self.notes[mark.name][KEPT_NODE]

    def _write(self, what: str, mark: NodeMark) -> None:
        self.calls.append(f"{what} {mark.name}")
        if self.error is not None:
            raise self.error
        if self.conflicts:
            self.conflicts -= 1
            raise Conflict(409)


async def test_work_is_that_of_the_nodes_that_change_however_many_holds_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stage = Stage(monkeypatch, 3)
    for number in range(50):
        stage.hold(f"h{number}", "n000", "n001")

    assert sorted(await stage.look()) == ["keep n000", "keep n001", "list", "read n000", "read n001"]
    for _ in range(3):
        assert await stage.look(10.0) == []
    for number in range(49):
        stage.end(f"h{number}")
    assert await stage.look(10.0) == []
    stage.end("h49")
    assert sorted(await stage.look(10.0)) == ["let go n000", "let go n001", "read n000", "read n001"]
    assert await stage.look(10.0) == []


async def test_a_node_is_kept_when_its_hold_begins_and_not_at_the_next_look(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_nodes, "_PERIOD_SECONDS", 3600.0)
    stage = Stage(monkeypatch, 1)
    async with asyncio.timeout(60.0), asyncio.TaskGroup() as tasks:
        leader = tasks.create_task(stage.leader.run())
        while "list" not in stage.calls:  # noqa: ASYNC110 - the leader has no event for the test
            await asyncio.sleep(0.01)
        stage.hold("h", "n000")
        stage.leader.wake()
        while not stage.kept():  # noqa: ASYNC110 - as above
            await asyncio.sleep(0.01)
        leader.cancel()
    assert stage.calls == ["list", "read n000", "keep n000"]


async def test_so_many_nodes_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(monkeypatch, 70)
    stage.hold("h", *stage.names)
    counts = []
    for _ in range(3):
        await stage.look()
        counts.append(len(stage.kept()))
    assert counts == [32, 64, 70]


async def test_a_node_that_others_write_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(monkeypatch, 1)
    stage.hold("h", "n000")
    stage.conflicts = 1
    assert await stage.look() == ["list", "read n000", "keep n000", "read n000", "keep n000"]
    assert stage.kept() == ["n000"]


async def test_what_fails_is_tried_again_and_not_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(monkeypatch, 1)
    stage.hold("h", "n000")
    stage.error = AnswerLost("no answer")
    assert await stage.look() == ["list", "read n000", "keep n000"]
    assert await stage.look() == []
    stage.error = None
    assert await stage.look(5.0) == ["list", "read n000", "keep n000"]


async def test_what_fails_again_and_again_is_tried_ever_more_rarely_and_keeps_no_other_node_from_its_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stage = Stage(monkeypatch, 70)
    stage.hold("h", *stage.names[:40])
    for _ in range(2):
        await stage.look()
    stage.end("h")
    stage.error = Forbidden(403)
    await stage.look(5.0)
    tries = [len([each for each in await stage.look(5.0) if each == "let go n000"]) for _ in range(12)]
    assert sum(tries) == 3  # after 5, 15 and 35 seconds
    stage.hold("other", *stage.names[40:60])
    assert len([each for each in await stage.look(600.0) if each.startswith("keep")]) == 16


async def test_a_new_leader_ends_what_an_earlier_one_began(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(monkeypatch, 2)
    stage.hold("h", "n000")
    stage.hold("other", "n001")
    await stage.look()
    stage.end("h")
    stage.leader = stage.lead()
    assert await stage.look() == ["list", "read n000", "let go n000"]
    assert stage.kept() == ["n001"]


async def test_another_node_of_its_name_is_kept_too(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(monkeypatch, 1)
    stage.hold("h", "n000")
    await stage.look()
    stage.notes["n000"] = {}
    again = b.node("n000")
    stage.cluster.apply(Change(kind=Kind.NODES, key="n000", value=None))
    assert await stage.look(10.0) == ["read n000"]
    stage.cluster.apply(Change(kind=Kind.NODES, key="n000", value=replace(again, uid="another")))
    assert await stage.look(10.0) == ["read n000", "keep n000"]

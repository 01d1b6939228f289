"""Shed objects are read again: one that raises keeps no other one out, and ends no task."""

import asyncio
from collections.abc import Sequence
from typing import cast

import pytest

from scheduler.change import Change, Kind
from scheduler.commit import readmission
from scheduler.commit.readmission import Readmission
from scheduler.kube.client import Client
from scheduler.kube.errors import NotFound, Unreachable
from scheduler.observe import memory
from scheduler.observe.health import Health
from scheduler.observe.metrics import Metrics
from scheduler.queue.memory_budget import MemoryBudget, ObjectKey


class Shed:
    """In place of the budget: these pods were left out."""

    bytes, is_closed = 0, False

    def __init__(self, *names: str) -> None:
        self.keys = [ObjectKey(Kind.PODS, f"default/{name}") for name in names]

    def candidates(self, most: int) -> list[tuple[ObjectKey, int]]:
        return [(key, 0) for key in self.keys][:most]

    def readmit(self, key: ObjectKey, _: int) -> bool:
        if key not in self.keys:
            return False
        self.keys.remove(key)
        return True

    def left(self, kind: Kind) -> int:
        return len(self.keys) if kind is Kind.PODS else 0

    def largest(self) -> str:
        return "default"


class Stage:
    """Readmission over a server on which pods are gone, or raise by their names."""

    def __init__(self, *names: str) -> None:
        self.shed, self.metrics, self.seen = Shed(*names), Metrics(), list[str]()
        self.readmission = Readmission(
            cast("Client", self),
            cast("MemoryBudget", self.shed),
            self.see,
            metrics=self.metrics,
            check=Health().ready("memory"),
            worker_pid=lambda: None,
        )

    async def request(self, method: str, path: str) -> bytes:
        if path.endswith("/defect"):
            raise RuntimeError("a defect")
        if path.endswith("/unreachable"):
            raise Unreachable(method, path, "no route")
        raise NotFound(404)

    def see(self, changes: Sequence[Change]) -> None:
        if changes[0].key == "default/unseen":
            raise RuntimeError("a defect")
        self.seen += [each.key for each in changes]

    @property
    def defects(self) -> float | None:
        return self.metrics.registry.get_sample_value("dovetail_defects_total", {"part": "readmission"})


async def test_an_object_that_raises_keeps_no_other_one_out() -> None:
    stage = Stage("a", "defect", "b", "unseen", "c")

    await stage.readmission.readmit()

    assert stage.seen == ["default/a", "default/b", "default/c"]
    assert stage.shed.keys == []
    assert stage.defects == 2


async def test_where_the_server_is_away_the_next_period_tries_again() -> None:
    stage = Stage("unreachable", "a")

    await stage.readmission.readmit()

    assert (stage.seen, len(stage.shed.keys), stage.defects) == ([], 2, 0)


async def test_the_task_goes_on_where_memory_cannot_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage("a")

    def fail(_: object) -> int:
        raise RuntimeError("a defect")

    monkeypatch.setattr(memory, "resident_bytes", fail)
    monkeypatch.setattr(readmission, "_PERIOD_SECONDS", 0.0)
    task = asyncio.create_task(stage.readmission.run())
    while not stage.seen:  # noqa: ASYNC110 - the period is zero
        await asyncio.sleep(0)

    assert not task.done()
    assert stage.defects
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

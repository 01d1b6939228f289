"""Workloads that the limits on all holds keep back: decided once, and again when other holds have ended."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from functools import partial
from typing import Any, cast

import pytest
from msgspec.structs import replace

from scheduler.change import Change, Kind
from scheduler.cluster import Unit
from scheduler.cluster.holds.seat_index import HeldTotals
from scheduler.cluster.interning import Interner
from scheduler.kube.client import Client
from scheduler.kube.writer import Writer
from scheduler.observe.health import Health
from scheduler.observe.metrics import Metrics
from scheduler.placement_check import placement_check
from scheduler.placement_check.hold_line import HoldLine
from scheduler.placement_check.kueue_objects import AdmissionCheck, KueueWorkload
from scheduler.placement_check.placement_check import PlacementCheck
from scheduler.placement_check.podset_pods import WorkloadContext, workload_of
from scheduler.placement_check.workload_rooms import WorkloadRooms
from scheduler.queue import SchedulingQueue
from scheduler.queue.memory_budget import MemoryBudget
from scheduler.queue_waker import QueueWaker
from scheduler.settings import HoldLimits
from solver.domain import Placement, Pod, PodId
from tests.scheduler.placement_check.test_check_in_turns import STATUS
from tests.scheduler.placement_check.test_podset_pods import AROUND, OURS, pod_set, workload
from tests.support import builders as b
from tests.support.hold_stage import HoldStage


class Shown:
    """Stands where Kueue's objects are watched."""

    problem = ""
    checks = (AdmissionCheck(name="placement", controller="dovetail.dev/placement", is_active=True),)

    def __init__(self, _: Client, *, on_workload: Any, **__: Any) -> None:
        self.workloads: dict[str, KueueWorkload] = {}
        self.on_workload = on_workload

    @property
    def around(self) -> WorkloadContext:
        return AROUND

    async def run(self) -> None:
        await asyncio.Event().wait()

    async def synced(self) -> None: ...


class Writing:
    """Stands where the states of Workloads are written; the watch shows them."""

    def __init__(self, shown: Shown) -> None:
        self.shown = shown

    async def write(self, call: "partial[object]", **_: object) -> str:
        await asyncio.sleep(0)
        written, name, state, message = call.args[1:]
        found = self.shown.workloads[written.key]
        checks = [replace(each, state=state, message=message) for each in found.checks if each.name == name]
        self.shown.workloads[written.key] = replace(found, checks=tuple(checks))
        self.shown.on_workload(written.key)
        return ""


class Deciding:
    """Stands where the scheduler decides: whatever Workload has pods in the queue gets its places on n1."""

    def __init__(self, check: PlacementCheck) -> None:
        self.check = check
        self.pods: dict[PodId, Pod] = {}
        self.decided: list[str] = []

    def see(self, changes: Sequence[Change]) -> None:
        for each in changes:
            if isinstance(pod := each.value, Pod):
                self.pods[pod.id] = pod
            elif each.kind is Kind.PODS:
                self.pods.pop(PodId(*each.key.split("/", 1)), None)

    def give_back(self, *_: object) -> None: ...

    def decide(self) -> None:
        units: dict[str, list[Pod]] = {}
        for pod in self.pods.values():
            units.setdefault(workload_of(pod.id), []).append(pod)
        for key, pods in units.items():
            self.decided.append(key.removeprefix("ml/"))
            placements = tuple(Placement(pod=pod.id, pod_uid=pod.uid, node="n1", claims=()) for pod in pods)
            self.check.placed(Unit(placements=placements, allocations=()), {pod.id: pod for pod in pods})


class Stage(HoldStage):
    """The check beside a keeper with few holds, and a scheduler that finds room for everybody."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, limits: HoldLimits) -> None:
        super().__init__(monkeypatch)
        self.limits = limits
        self.keeper = self._keeper()
        monkeypatch.setattr(placement_check, "KueueObjects", self.shown)
        self.waker = QueueWaker(self.cluster, SchedulingQueue(["dovetail"]), self.clock)
        self.kueue = Shown(cast("Client", None), on_workload=None)
        self.check = PlacementCheck(
            cast("Client", None),
            cast("Writer", Writing(self.kueue)),
            WorkloadRooms(self.keeper, hold_seconds=600.0, now=self.wall),
            OURS,
            park_after_seconds=1e6,
            told=(Metrics(), Health().ready("admission-check")),
        )
        self.waker.subscribers.append(self.check.held_may_be_less)
        self.scheduler = Deciding(self.check)

    def shown(self, _: Client, **callbacks: Any) -> Shown:
        self.kueue.on_workload = callbacks["on_workload"]
        return self.kueue

    def admit(self, name: str, *, pods: int = 1, priority: int = 0) -> None:
        """A Workload gets its quota."""
        sets = pod_set(count=pods, resourceClaims=[])
        made = workload(sets, spec={"priority": priority}, status=STATUS)
        made = replace(made, name=name, uid=f"uid-{name}")
        self.server.owners[made.uid] = next(iter(self.server.owners.values()))
        self.kueue.workloads[made.key] = made
        self.kueue.on_workload(made.key)

    def see(self, change: Change) -> None:
        transitions = self.cluster.apply(change)
        self.keeper.see(transitions)
        self.waker.wake(transitions)

    async def decisions(self, rounds: int = 20) -> list[str]:
        """Let the scheduler decide so many times, and return for whom."""
        self.scheduler.decided.clear()
        for _ in range(rounds):
            for _ in range(20):
                await asyncio.sleep(0)
            self.scheduler.decide()
        return list(self.scheduler.decided)


@pytest.fixture
def limits() -> HoldLimits:
    return HoldLimits(max_holds=1)


@pytest.fixture
async def stage(monkeypatch: pytest.MonkeyPatch, limits: HoldLimits) -> AsyncIterator[Stage]:
    found = Stage(monkeypatch, limits)
    memory = MemoryBudget(OURS, 2**30, Interner())
    running = asyncio.create_task(found.check.run(found.scheduler, memory))
    await asyncio.sleep(0)
    yield found
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_each_is_decided_once_while_the_limit_is_full_and_one_more_for_each_hold_that_ends(stage: Stage) -> None:
    for name, priority in (("first", 0), ("low", 0), ("high", 5), ("middle", 1)):
        stage.admit(name, priority=priority)
    assert sorted(await stage.decisions()) == ["first", "high", "low", "middle"]
    assert await stage.decisions() == []
    for ended, follows in (("first", "high"), ("high", "middle"), ("middle", "low")):
        stage.server.remove(f"workload-uid-{ended}")
        assert await stage.decisions() == [follows]
        assert list(stage.server.stored) == [f"workload-uid-{follows}"]


async def test_one_that_is_kept_back_says_why(stage: Stage) -> None:
    stage.admit("first")
    stage.admit("second")
    await stage.decisions()
    (check,) = stage.kueue.workloads["ml/second"].checks
    assert check.message == "no room can be held: there are 1 holds, and deviceHolds.maxHolds is 1"


async def test_one_whose_pods_change_is_decided_anew(stage: Stage) -> None:
    stage.admit("first")
    stage.admit("second")
    await stage.decisions()
    stage.admit("second", pods=2)
    assert await stage.decisions() == ["second"]


@pytest.mark.parametrize("limits", [HoldLimits(max_places=3)])
async def test_a_place_that_its_pod_uses_up_makes_room_for_another_hold(stage: Stage) -> None:
    stage.admit("first", pods=3)
    await stage.decisions(3)
    stage.admit("second", pods=2)
    stage.admit("third", pods=1)
    assert await stage.decisions() == ["second", "third"]

    hold = stage.server.stored["workload-uid-first"]
    for place, follow in ((0, ["third"]), (1, []), (2, ["second"])):
        pods = hold.places[place].pods
        pod = b.pod(f"p{place}", node_name="n1", namespace="ml", labels=dict(pods.labels))
        pod = replace(pod, annotations=pods.annotations, place=f"{hold.uid}/{place}")
        stage.see(Change(kind=Kind.PODS, key=str(pod.id), value=pod))
        assert await stage.decisions() == follow, place


def line(most: int, held: dict[str, int]) -> HoldLine:
    return HoldLine(lambda needs: sum(held.values()) + needs.places <= most)


def test_those_that_were_called_count_until_they_are_decided() -> None:
    held = {"a": 10}
    waiting = line(10, held)
    for name in ("b", "c", "d"):
        waiting.join(name, HeldTotals(1, 5, 0), 0)
    assert not waiting.moves()
    assert waiting.call() == []
    held.clear()
    assert waiting.moves()
    assert waiting.call() == ["b", "c"]
    assert waiting.call() == []
    waiting.leave("c")  # no room in the cluster
    assert waiting.call() == ["d"]
    assert not waiting.moves()


def test_one_that_needs_less_passes_one_that_needs_too_much() -> None:
    waiting = line(4, {})
    waiting.join("large", HeldTotals(1, 5, 0), 9)
    waiting.join("small", HeldTotals(1, 3, 0), 0)
    assert waiting.call() == ["small"]

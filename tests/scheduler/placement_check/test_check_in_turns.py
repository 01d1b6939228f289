"""The loop of the admission check: of many Workloads that change at once, others run between one and the next."""

import asyncio
from collections.abc import Sequence
from typing import Any, cast

import pytest
from msgspec.structs import replace

from scheduler import loop_turns
from scheduler.change import Change, Kind
from scheduler.cluster.holds.hold_cache import HoldCache
from scheduler.cluster.interning import Interner
from scheduler.holds.hold_bounds import HoldBounds
from scheduler.holds.hold_keeper import HoldKeeper
from scheduler.kube.client import Client
from scheduler.kube.errors import Conflict
from scheduler.kube.writer import Writer
from scheduler.observe.health import Health
from scheduler.observe.metrics import Metrics
from scheduler.placement_check import placement_check
from scheduler.placement_check.kueue_objects import AdmissionCheck, KueueWorkload
from scheduler.placement_check.placement_check import PlacementCheck
from scheduler.placement_check.podset_pods import WorkloadContext
from scheduler.placement_check.workload_rooms import WorkloadRooms
from scheduler.queue.memory_budget import CLAIM_BYTES, POD_BYTES, MemoryBudget
from scheduler.settings import HoldLimits
from tests.scheduler.placement_check.test_podset_pods import AROUND, OURS, pod_set, workload

COUNT = 30
STATUS = {
    "conditions": [{"type": "QuotaReserved", "status": "True"}],
    "admissionChecks": [{"name": "placement", "state": "Pending", "message": "", "lastTransitionTime": ""}],
}


class Loop:
    """Counts the turns of another task, and notes in which turn the pods of a Workload are made."""

    def __init__(self) -> None:
        self.turn = 0
        self.made: list[int] = []


class Shown:
    """Stands where Kueue's objects are watched: all are there from the beginning."""

    problem = ""
    loop = Loop()

    def __init__(self, _: Client, *, on_workload: Any, **__: Any) -> None:
        self.workloads: dict[str, KueueWorkload] = {}
        self.on_workload = on_workload

    checks = (AdmissionCheck(name="placement", controller="dovetail.dev/placement", is_active=True),)

    @property
    def around(self) -> WorkloadContext:
        self.loop.made.append(self.loop.turn)
        return AROUND

    async def run(self) -> None:
        for n in range(COUNT):
            made = replace(workload(pod_set(count=1), status=STATUS), name=f"w{n}", uid=f"uid-{n}")
            self.workloads[made.key] = made
            self.on_workload(made.key)
        await asyncio.Event().wait()

    async def synced(self) -> None:
        await asyncio.sleep(0)


class Fed:
    """Notes the pods that are in the queue."""

    def __init__(self) -> None:
        self.pods: set[str] = set()

    def see(self, changes: Sequence[Change]) -> None:
        for each in changes:
            if each.kind is Kind.PODS:
                (self.pods.discard if each.value is None else self.pods.add)(each.key)

    def give_back(self, *_: object) -> None: ...


class Keeping:
    """Stands where holds are kept: there are none."""

    bounds = HoldBounds(HoldCache(), HoldLimits())

    def __init__(self) -> None:
        self.subscribers: list[object] = []

    def of_owner(self, _: str) -> tuple[()]:
        return ()


class Written:
    """Stands where the API server is written."""

    def __init__(self) -> None:
        self.count = 0

    async def write(self, _: object, **__: object) -> str:
        self.count += 1
        return "2"


async def run_until_idle(
    memory: MemoryBudget, monkeypatch: pytest.MonkeyPatch, written: Written | None = None
) -> tuple[Loop, Fed]:
    """Run the check until nothing happens any more, with a piece for each step."""
    monkeypatch.setattr(Shown, "loop", Loop())
    monkeypatch.setattr(placement_check, "KueueObjects", Shown)
    monkeypatch.setattr(loop_turns, "_PIECE_SECONDS", 0.0)
    check = PlacementCheck(
        cast("Client", None),
        cast("Writer", written),
        WorkloadRooms(cast("HoldKeeper", Keeping()), hold_seconds=60.0),
        OURS,
        park_after_seconds=60.0,
        told=(Metrics(), Health().ready("admission-check")),
    )
    fed = Fed()
    running = asyncio.create_task(check.run(fed, memory))
    for Shown.loop.turn in range(20 * COUNT):
        await asyncio.sleep(0)
    running.cancel()
    return Shown.loop, fed


async def test_of_many_workloads_each_has_a_turn_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    loop, fed = await run_until_idle(MemoryBudget(OURS, 2**30, Interner()), monkeypatch)
    assert len(fed.pods) == COUNT
    assert len(loop.made) == len(set(loop.made)) == COUNT


async def test_those_for_which_there_is_no_memory_stop_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    few = 4 * (POD_BYTES + CLAIM_BYTES) * 10  # half of it is for pods, and half of that for one namespace
    _, fed = await run_until_idle(MemoryBudget(OURS, few, Interner()), monkeypatch)
    assert len(fed.pods) == 10


@pytest.mark.parametrize("is_gone", [False, True])
async def test_the_growth_of_a_job_that_runs_is_let_in_without_a_decision(
    monkeypatch: pytest.MonkeyPatch, *, is_gone: bool
) -> None:
    """Also where Kueue deletes the Workload that has finished by it, before the growth is looked at."""

    async def run(self: Shown) -> None:
        old = replace(workload(pod_set(count=1), status=STATUS), is_admitted=True, is_finished=True)
        new = replace(
            workload(pod_set(count=3), status=STATUS), name="new", uid="uid-new", replaces=old.key, resource_version="1"
        )
        self.workloads[old.key] = old
        self.on_workload(old.key)
        for _ in range(10):
            await asyncio.sleep(0)
        if is_gone:
            del self.workloads[old.key]
            self.on_workload(old.key)
        self.workloads[new.key] = new
        self.on_workload(new.key)
        await asyncio.Event().wait()

    monkeypatch.setattr(Shown, "run", run)
    written = Written()
    loop, _ = await run_until_idle(MemoryBudget(OURS, 2**30, Interner()), monkeypatch, written)
    assert (written.count, loop.made) == (1, [])


class Refusing:
    """Stands where the API server is written: Kueue changes the Workload during the first write, which is refused."""

    def __init__(self, shown: list[Shown]) -> None:
        self.shown = shown
        self.writes = 0

    async def write(self, _: object, **__: object) -> str:
        self.writes += 1
        await asyncio.sleep(0)
        if self.writes == 1:
            (shown,) = self.shown
            ((key, seen),) = shown.workloads.items()
            shown.workloads[key] = replace(seen, resource_version="2")
            shown.on_workload(key)
            for _ in range(50):  # the loop sees it before the answer
                await asyncio.sleep(0)
            raise Conflict(409, "Conflict", "the object has been modified")
        return "3"


async def test_a_write_that_a_change_has_overtaken_is_made_anew_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    watches: list[Shown] = []

    class One(Shown):
        async def run(self) -> None:
            watches.append(self)
            made = workload(pod_set(scheduler="other"), status=STATUS)  # which has no pod of ours: it is Ready
            self.workloads[made.key] = replace(made, resource_version="1")
            self.on_workload(made.key)
            await asyncio.Event().wait()

    monkeypatch.setattr(placement_check, "KueueObjects", One)
    writer = Refusing(watches)
    check = PlacementCheck(
        cast("Client", None),
        cast("Writer", writer),
        WorkloadRooms(cast("HoldKeeper", Keeping()), hold_seconds=60.0),
        OURS,
        park_after_seconds=60.0,
        told=(Metrics(), Health().ready("admission-check")),
        clock=lambda: 0.0,  # nothing is ever due again
    )
    running = asyncio.create_task(check.run(Fed(), MemoryBudget(OURS, 2**30, Interner())))
    for _ in range(300):
        await asyncio.sleep(0)
    running.cancel()
    assert writer.writes == 2

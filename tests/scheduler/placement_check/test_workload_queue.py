"""The pods of Workloads in the queue: told in turns, given back in parts, and within the memory for pods that wait."""

import asyncio
from collections.abc import Mapping, Sequence

import pytest
from msgspec.structs import replace

from scheduler import loop_turns
from scheduler.change import Change
from scheduler.cluster import Unit
from scheduler.cluster.interning import Interner
from scheduler.loop_turns import LoopTurns
from scheduler.placement_check.kueue_objects import KueueWorkload
from scheduler.placement_check.workload_queue import NoMemoryError, WorkloadQueue
from scheduler.queue.memory_budget import CLAIM_BYTES, POD_BYTES, MemoryBudget
from solver.domain import Allocation, ClaimAllocation, ClaimId, Placement, Pod, PodId, Reason, ReasonCode
from tests.scheduler.placement_check.test_podset_pods import AROUND, OURS, pod_set, workload

NO_ROOM = (Reason(code=ReasonCode.API_ERROR, message="no room can be held"),)
PER_POD = POD_BYTES + CLAIM_BYTES
"""What a pod of these Workloads counts, with its claim."""


class Fed:
    """Notes what it is told, and in which turn of the loop."""

    def __init__(self) -> None:
        self.turn = 0
        self.told: list[tuple[int, str]] = []
        self.returned: list[tuple[int, Unit]] = []
        self.here: dict[str, object] = {}

    def see(self, changes: Sequence[Change]) -> None:
        for change in changes:
            self.told.append((self.turn, change.key))
            self.here[f"{change.kind.value} {change.key}"] = change.value

    def give_back(self, unit: Unit, _: Mapping[PodId, Pod], __: Sequence[Reason]) -> None:
        self.returned.append((self.turn, unit))

    def waiting(self) -> int:
        return sum(value is not None for value in self.here.values())


def queue(pods: int = 10_000) -> tuple[WorkloadQueue, Fed, MemoryBudget]:
    """A queue with a feed; one namespace may have so many of these pods, which is half of the budget for pods."""
    made, fed, memory = WorkloadQueue(OURS), Fed(), MemoryBudget(OURS, 4 * pods * PER_POD, Interner())
    made.feed, made.memory = fed, memory
    return made, fed, memory


async def flushed(made: WorkloadQueue, fed: Fed, monkeypatch: pytest.MonkeyPatch) -> None:
    """Flush with a piece for each step, and count the turns that another task gets meanwhile."""
    monkeypatch.setattr(loop_turns, "_PIECE_SECONDS", 0.0)

    async def tick() -> None:
        while True:
            fed.turn += 1
            await asyncio.sleep(0)

    other = asyncio.create_task(tick())
    await made.flush(LoopTurns())
    other.cancel()


def named(count: int, name: str) -> KueueWorkload:
    return replace(workload(pod_set(count=count)), name=name, uid=f"uid-{name}")


async def test_other_tasks_run_between_the_pods_of_a_workload(monkeypatch: pytest.MonkeyPatch) -> None:
    made, fed, _ = queue()
    assert made.offer(named(20, "w"), AROUND)
    assert fed.told == []
    await flushed(made, fed, monkeypatch)
    assert (len(fed.told), fed.waiting()) == (40, 40)
    assert len({turn for turn, _ in fed.told}) == 40

    made.leave("ml/w")
    await flushed(made, fed, monkeypatch)
    assert fed.waiting() == 0
    assert len({turn for turn, _ in fed.told}) == 80


async def test_what_comes_and_goes_before_it_is_told_is_told_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    made, fed, _ = queue()
    made.offer(named(2, "w"), AROUND)
    made.leave("ml/w")
    made.offer(named(3, "w"), AROUND)
    await flushed(made, fed, monkeypatch)
    assert fed.waiting() == 6


async def test_a_unit_is_given_back_in_parts_each_with_its_claims(monkeypatch: pytest.MonkeyPatch) -> None:
    made, fed, _ = queue()
    placements, allocations = [], []
    for n in range(120):
        key = PodId("ml", f"w:main:{n}")
        claim = ClaimId("ml", f"w:main:{n}:gpus")
        placements.append(Placement(pod=key, pod_uid=f"u{n}", node="n1", claims=(claim,)))
        allocations.append(ClaimAllocation(claim=claim, claim_uid=f"c{n}", allocation=Allocation(results=())))
    unit = Unit(placements=tuple(placements), allocations=tuple(allocations))
    made.give_back(unit, {}, NO_ROOM)
    await flushed(made, fed, monkeypatch)
    assert [len(part.placements) for _, part in fed.returned] == [50, 50, 20]
    assert len({turn for turn, _ in fed.returned}) == 3
    for _, part in fed.returned:
        assert [each.claim for each in part.allocations] == [claim for each in part.placements for claim in each.claims]


def test_workloads_beyond_the_memory_for_pods_that_wait_are_kept_out_until_there_is_some() -> None:
    made, _, memory = queue(pods=10)
    assert made.offer(named(10, "first"), AROUND)
    assert memory.bytes == 10 * PER_POD
    for _ in range(2):
        with pytest.raises(NoMemoryError, match=r"raise queue\.maxWaitingMiB"):
            made.offer(named(10, "second"), AROUND)
        assert memory.bytes == 10 * PER_POD

    made.leave("ml/first")
    assert memory.bytes == 0
    assert made.offer(named(10, "second"), AROUND)
    made.leave("ml/second")
    assert memory.bytes == 0


def test_pods_that_are_kept_out_for_want_of_memory_are_not_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    made, _, _ = queue(pods=10)
    made.offer(named(10, "first"), AROUND)
    with pytest.raises(NoMemoryError):
        made.offer(named(10, "second"), AROUND)
    monkeypatch.setattr("scheduler.placement_check.workload_queue.expected_pods", None)
    with pytest.raises(NoMemoryError):
        made.offer(named(10, "second"), AROUND)

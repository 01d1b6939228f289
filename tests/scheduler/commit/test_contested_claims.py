"""Of allocations that exclude each other, those go that no pod runs with: the newest, until the others go together."""

from typing import cast

import msgspec
import pytest

from scheduler.commit.rollback import Rollback
from scheduler.commit.stale_allocations import StaleAllocations
from scheduler.observe.metrics import Metrics
from scheduler.queue import PodState, SchedulingQueue
from scheduler.status.status_writer import StatusWriter
from solver.domain import Claim, ClaimId, DeviceId, DeviceResult, Pod, PodId
from tests.support import builders as b
from tests.support.cluster_builders import cluster_of, show, unit
from tests.support.shell_clock import VirtualClock

SLICES = (
    b.resource_slice(
        "n1",
        b.device("card", consumes={"card": {"memory": 40}}),
        b.device("part", consumes={"card": {"memory": 10}}),
        b.device("alone"),
        b.device("shared", is_shareable=True, capacities={"memory": 80}),
        name="devices",
        slice_count=2,
    ),
    b.resource_slice("n1", name="counters", slice_count=2, counter_sets={"card": {"memory": 40}}),
)


def allocated(name: str, hour: int, result: DeviceResult) -> Claim:
    allocation = msgspec.structs.replace(b.allocation(result), allocation_timestamp=f"2026-01-01T{hour:02}:00:00Z")
    return b.claim(name, allocation=allocation)


def share(name: str, hour: int, memory: int) -> Claim:
    taken = b.result("gpu", "shared", "n1", share_id=b.share_id(hour), consumed={"memory": memory})
    return allocated(name, hour, taken)


ALONE = DeviceId("gpu.example.com", "n1", "alone")


def held(name: str, hour: int) -> Claim:
    return allocated(name, hour, b.result("gpu", "alone", "n1"))


class Stage:
    """Stands where claims are deallocated, where pods wait, and where events are recorded."""

    def __init__(self, *claims: Claim, running: tuple[str, ...] = ()) -> None:
        self.pods = {each.id.name: b.pod(f"p-{each.id.name}", each.id.name) for each in claims}
        for name in running:
            self.pods[name] = msgspec.structs.replace(self.pods[name], node_name="n1")
        self.queued = {each.id for each in self.pods.values() if not each.node_name}
        self.claims = {each.id.name: each for each in claims}
        self.cluster = cluster_of(b.node("n1"), SLICES, claims, tuple(self.pods.values()))
        self.removed: list[str] = []
        self.told: list[str] = []
        self.clock, self.metrics = VirtualClock(), Metrics()
        self.stale = StaleAllocations(
            self.cluster,
            cast("SchedulingQueue", self),
            cast("Rollback", self),
            cast("StatusWriter", self),
            self.metrics,
            clock=self.clock,
        )

    def state(self, key: PodId) -> PodState | None:
        return PodState.ACTIVE if key in self.queued else None

    async def deallocate(self, key: ClaimId, is_wanted: object, _: object) -> bool:
        assert callable(is_wanted)
        assert is_wanted(self.claims[key.name])
        self.removed.append(key.name)
        return True

    def record_lost_race(self, pod: Pod, _: object) -> None:
        self.told.append(pod.id.name)

    @property
    def counted(self) -> float | None:
        return self.metrics.registry.get_sample_value("dovetail_duplicate_devices_total")

    async def refuse(self, name: str) -> None:
        self.stale.note_refused(unit(b.placement(self.pods[name], "n1")))
        await self.stale.resolve_duplicates()


@pytest.mark.parametrize(
    ("claims", "running", "removed"),
    [
        pytest.param((share("old", 1, 50), share("new", 2, 50)), (), ["new"], id="the newer share"),
        pytest.param((share("old", 1, 50), share("new", 2, 50)), ("new",), ["old"], id="the one that does not run"),
        pytest.param(
            (share("old", 1, 40), share("mid", 2, 40), share("new", 3, 40)), (), ["new"], id="no more than needed"
        ),
        pytest.param(
            (
                allocated("old", 1, b.result("gpu", "part", "n1")),
                allocated("new", 2, b.result("gpu", "card", "n1")),
            ),
            (),
            ["new"],
            id="a card beside its partition",
        ),
        pytest.param((share("old", 1, 50), share("new", 2, 50)), ("old", "new"), [], id="both run"),
    ],
)
async def test_the_newest_allocation_without_a_running_pod_is_removed(
    claims: tuple[Claim, ...], running: tuple[str, ...], removed: list[str]
) -> None:
    stage = Stage(*claims, running=running)
    await stage.refuse("old")

    assert stage.removed == removed
    assert stage.told == [f"p-{name}" for name in removed]


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(msgspec.structs.replace(b.pod("other", "new", node_name="n1"), is_terminal=True), id="has ended"),
        pytest.param(msgspec.structs.replace(b.pod("other", "new"), scheduling_gates=("quota",)), id="has a gate"),
    ],
)
async def test_a_pod_that_cannot_run_keeps_no_allocation_of_a_claim_that_another_pod_waits_for(other: Pod) -> None:
    stage = Stage(share("old", 1, 50), share("new", 2, 50))
    show(stage.cluster, other)
    await stage.refuse("new")

    assert stage.removed == ["new"]


async def test_the_allocation_of_a_claim_that_a_pod_of_another_scheduler_waits_for_stays() -> None:
    stage = Stage(share("old", 1, 50), share("new", 2, 50))
    show(stage.cluster, b.pod("stranger", "new"))
    await stage.refuse("new")

    assert stage.removed == ["old"]


async def test_of_claims_with_two_devices_each_conflict_is_resolved_by_itself() -> None:
    """The middle one excludes both others: as the older one it stays beside the newest, not beside the oldest."""
    both = b.allocation(b.result("gpu", "card", "n1"), b.result("gpu", "alone", "n1"))
    middle = b.claim("middle", allocation=msgspec.structs.replace(both, allocation_timestamp="2026-01-01T01:00:00Z"))
    newer = allocated("newer", 2, b.result("gpu", "alone", "n1"))
    newest = allocated("newest", 3, b.result("gpu", "card", "n1"))
    stage = Stage(middle, newer, newest)
    await stage.refuse("middle")

    assert sorted(stage.removed) == ["newer", "newest"]


async def test_a_conflict_that_has_ended_is_not_looked_at_again() -> None:
    stage = Stage(share("old", 1, 50), share("new", 2, 50))
    await stage.refuse("old")
    new = stage.claims["new"]
    show(stage.cluster, msgspec.structs.replace(new, allocation=None))
    await stage.stale.resolve_duplicates()
    stage.clock.advance(31.0)
    show(stage.cluster, new)
    await stage.stale.resolve_duplicates()

    assert stage.removed == ["new"]


async def test_a_conflict_is_counted_once_and_resolved_again_where_it_stays() -> None:
    stage = Stage(share("old", 1, 50), share("new", 2, 50))
    for _ in range(3):
        await stage.refuse("old")
    stage.clock.advance(31.0)
    await stage.stale.resolve_duplicates()  # no unit has to be refused again

    assert stage.removed == ["new", "new"]
    assert stage.counted == 1


async def test_a_device_whose_claim_is_being_written_is_left_to_the_commit() -> None:
    stage = Stage(held("old", 1), held("new", 2))
    async with stage.stale.excluding([stage.claims["new"].id]):
        await stage.stale.resolve_duplicates()
        assert (stage.removed, stage.counted) == ([], 1)
        stage.stale.note_lost_race([ALONE])
    await stage.stale.resolve_duplicates()

    assert (stage.removed, stage.counted) == (["new"], 1)  # the commit could not remove it


async def test_a_device_that_is_held_twice_again_is_counted_again() -> None:
    stage = Stage(held("old", 1))
    stage.stale.note_lost_race([ALONE])
    await stage.stale.resolve_duplicates()
    stage.stale.note_lost_race([ALONE])

    assert stage.counted == 2


async def test_claims_that_go_together_by_now_are_left_alone() -> None:
    stage = Stage(share("old", 1, 50), share("new", 2, 50))
    stage.stale.note_refused(unit(b.placement(stage.pods["old"], "n1")))
    show(stage.cluster, msgspec.structs.replace(stage.claims["new"], allocation=None))
    await stage.stale.resolve_duplicates()

    assert stage.removed == []


async def test_a_claim_that_its_unit_allocates_itself_was_rolled_back() -> None:
    stage = Stage(share("old", 1, 50), share("new", 2, 50))
    claim = stage.claims["new"]
    assert claim.allocation is not None
    own = b.claim_allocation(claim, *claim.allocation.results)
    stage.stale.note_refused(unit(b.placement(stage.pods["new"], "n1"), own))
    await stage.stale.resolve_duplicates()

    assert stage.removed == []

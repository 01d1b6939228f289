"""One claim that a repair fails at ends neither the repair of the others nor the task."""

import asyncio
import itertools
from collections.abc import Coroutine
from typing import Any, cast

import pytest

from scheduler.cluster import Cluster
from scheduler.commit import extended_resource_claims, stale_allocations
from scheduler.commit.extended_resource_claims import ExtendedResourceClaims, OrphanedClaims
from scheduler.commit.rollback import Rollback
from scheduler.commit.stale_allocations import StaleAllocations
from scheduler.kube.writer import FencedError
from scheduler.observe.metrics import Metrics
from scheduler.queue import PodState, SchedulingQueue
from scheduler.status.status_writer import StatusWriter
from solver.domain import Claim, ClaimId, Pod, PodId, Reason, ReasonCode
from tests.support import builders as b
from tests.support.cluster_builders import cluster_of

DEVICE = b.result("gpu", "gpu-0", "n1")
CLAIMS = tuple(b.claim(name, allocation=b.allocation(DEVICE)) for name in ("c1", "c2", "c3"))
APART = tuple(
    b.claim(name, allocation=b.allocation(b.result("gpu", f"gpu-{name}", "n1"))) for name in ("c1", "c2", "c3")
)
PODS = tuple(b.pod(f"p{claim.id.name}", claim.id.name) for claim in CLAIMS)
ELSEWHERE = Reason(code=ReasonCode.CLAIM_ELSEWHERE, message="the claim is allocated elsewhere")


class Server:
    """Stands where claims are deallocated: some raise what no code expects, or say that no write may start."""

    def __init__(self, *bad: str, closed: str = "") -> None:
        self.bad, self.closed = bad, closed
        self.done: list[str] = []

    async def deallocate(self, key: ClaimId, *_: object) -> bool:
        if key.name == self.closed:
            raise FencedError
        if key.name in self.bad:
            raise RuntimeError("a defect")
        self.done.append(key.name)
        return True

    async def remove(self, claim: Claim, _: object) -> None:
        await self.deallocate(claim.id)


class Queue:
    """A queue in which every pod waits."""

    def state(self, _: PodId) -> PodState:
        return PodState.UNSCHEDULABLE


class Events:
    def record_lost_race(self, pod: Pod, devices: object) -> None:
        pass


def repairing(server: Server, metrics: Metrics, cluster: Cluster) -> StaleAllocations:
    waiting = cast("SchedulingQueue", Queue())
    return StaleAllocations(cluster, waiting, cast("Rollback", server), cast("StatusWriter", Events()), metrics)


async def run(loop: Coroutine[Any, Any, None]) -> bool:
    """Let a task run for some turns; give whether it goes on."""
    task = asyncio.create_task(loop)
    for _ in range(20):
        await asyncio.sleep(0)
    goes_on = not task.done()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return goes_on


async def test_of_claims_that_hold_a_device_twice_those_behind_a_defect_are_looked_at_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stale_allocations, "_PERIOD_SECONDS", 0.0)
    server, metrics, cluster = Server("c3"), Metrics(), cluster_of(*CLAIMS, *PODS)

    assert await run(repairing(server, metrics, cluster).run())

    assert metrics.registry.get_sample_value("dovetail_defects_total", {"part": "stale_allocations"}) == 1


async def test_what_was_left_behind_is_given_free_beside_a_claim_that_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stale_allocations, "_PERIOD_SECONDS", 0.0)
    server, metrics = Server("c2"), Metrics()
    each = repairing(server, metrics, cluster_of(*APART, *PODS))
    for pod in PODS:
        each.note_unplaced(pod, (ELSEWHERE,))

    assert await run(each.run())

    assert sorted(server.done) == ["c1", "c3"]
    assert metrics.registry.get_sample_value("dovetail_defects_total", {"part": "stale_allocations"}) == 1


async def test_a_repair_ends_where_no_write_may_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stale_allocations, "_PERIOD_SECONDS", 0.0)
    each = repairing(Server(closed="c2"), metrics := Metrics(), cluster_of(*APART, *PODS))
    each.note_unplaced(PODS[1], (ELSEWHERE,))

    assert not await run(each.run())

    assert metrics.registry.get_sample_value("dovetail_defects_total", {"part": "stale_allocations"}) == 0


async def test_an_orphaned_claim_that_raises_keeps_no_other_from_being_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extended_resource_claims, "_PERIOD_SECONDS", 0.0)
    server, metrics = Server("c1"), Metrics()

    class Left:
        def orphaned_special_claims(self) -> tuple[tuple[Claim, Pod], ...]:
            return tuple(zip(CLAIMS, PODS, strict=True))

    looking = OrphanedClaims(
        cast("Cluster", Left()),
        cast("SchedulingQueue", Queue()),
        cast("ExtendedResourceClaims", server),
        metrics,
        scheduler_names=("dovetail",),
        clock=itertools.count(1.0, 0.001).__next__,
    )

    assert await run(looking.run())

    assert server.done == ["c2", "c3"]
    assert metrics.registry.get_sample_value("dovetail_defects_total", {"part": "orphaned_claims"}) == 1

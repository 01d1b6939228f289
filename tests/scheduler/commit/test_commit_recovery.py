"""A unit whose commit a defect has ended: live reads decide what became of it."""

from typing import cast

import msgspec
import pytest

from scheduler.cluster import Unit
from scheduler.cluster.unit import Aborted, Bound, Outcome, PartlyBound, Undone
from scheduler.commit.commit import Commit
from scheduler.commit.prebind import PreBind
from scheduler.kube import writes
from scheduler.kube.client import Client
from scheduler.kube.concurrency_limit import ConcurrencyLimit, RequestSlots
from scheduler.kube.errors import Unreachable
from scheduler.kube.writer import Writer
from solver.domain import Claim, ClaimAllocation, ClaimId, Pod, PodId
from tests.support import builders as b
from tests.support.cluster_builders import cluster_of, unit
from tests.support.shell_clock import VirtualClock

PODS = tuple(b.pod(name, f"c-{name}") for name in ("p", "q"))
DEVICES = {pod.id: b.allocation(b.result("gpu", f"gpu-{pod.id.name}", "n1")) for pod in PODS}
UNIT = unit(
    *(b.placement(pod, "n1") for pod in PODS),
    *(
        ClaimAllocation(claim=pod.claim_ids[0], claim_uid=f"uid-{pod.claim_ids[0].name}", allocation=DEVICES[pod.id])
        for pod in PODS
    ),
)


class Open:
    seconds = 60.0

    def write_seconds(self) -> float:
        return self.seconds


class Server:
    """Has the pods, some of them bound, and their claims, allocated and reserved; away for so many reads."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *bound: str, away: int = 0) -> None:
        self.bound, self.away = bound, away
        self.released: list[tuple[str, tuple[str, ...], bool]] = []
        for name in ("read_pod", "read_claim", "release"):
            monkeypatch.setattr(writes, name, getattr(self, name))

    async def read_pod(self, _: Client, key: PodId, **__: object) -> Pod:
        if self.away:
            self.away -= 1
            raise Unreachable("no server there")
        return b.pod(key.name, f"c-{key.name}", node_name="n1" if key.name in self.bound else "")

    async def read_claim(self, _: Client, key: ClaimId, **__: object) -> Claim:
        pod = PodId(key.namespace, key.name.removeprefix("c-"))
        return b.claim(key.name, allocation=DEVICES[pod], reserved_for=[b.consumer(pod.name)])

    async def release(self, _: Client, claim: Claim, uids: tuple[str, ...], *, deallocate: bool, **__: object) -> Claim:
        self.released.append((claim.id.name, uids, deallocate))
        return claim


async def recovered(gate: Open | None = None, clock: VirtualClock | None = None, unit: Unit = UNIT) -> Outcome:
    clock = clock or VirtualClock()
    writer = Writer(RequestSlots(ConcurrencyLimit(), clock, clock.sleep), gate or Open(), 10.0, clock, clock.sleep)
    waits, cluster = cast("PreBind", None), cluster_of(b.node("n1"), *PODS)
    commit = Commit(cast("Client", None), cluster, writer, waits, lambda _: None, pod_groups="", clock=clock)
    return await commit.recover(unit)


async def test_what_a_live_read_shows_bound_is_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server(monkeypatch, "p", "q")

    assert await recovered() == Bound(unit=UNIT, seconds=None)
    assert server.released == []


async def test_everything_is_rolled_back_for_pods_that_are_not_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server(monkeypatch)

    outcome = await recovered()

    assert isinstance(outcome, Undone)
    assert {each.message for each in outcome.reasons} == {
        "an unexpected error ended the writes for the pod; the scheduler tries again"
    }
    assert server.released == [("c-p", (PODS[0].uid,), True), ("c-q", (PODS[1].uid,), True)]


async def test_an_allocation_of_an_earlier_unit_goes_with_its_last_consumer(monkeypatch: pytest.MonkeyPatch) -> None:
    """The claim controller would not remove it: it does so only where it removes the last consumer itself."""
    server = Server(monkeypatch)

    outcome = await recovered(unit=msgspec.structs.replace(UNIT, allocations=()))

    assert isinstance(outcome, Undone)
    assert server.released == [("c-p", (PODS[0].uid,), True), ("c-q", (PODS[1].uid,), True)]


async def test_what_is_bound_in_part_keeps_that_part(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server(monkeypatch, "p")

    outcome = await recovered()

    assert isinstance(outcome, PartlyBound)
    assert [each.pod.name for each in outcome.bound] == ["p"]
    assert server.released == [("c-q", (PODS[1].uid,), True)]


async def test_a_server_that_is_away_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    Server(monkeypatch, "p", "q", away=20_000)
    clock = VirtualClock()

    assert isinstance(await recovered(clock=clock), Bound)
    assert clock.now > 3600.0


async def test_nothing_is_decided_where_no_write_may_start(monkeypatch: pytest.MonkeyPatch) -> None:
    Server(monkeypatch, away=100)
    gate = Open()
    gate.seconds = 0.0

    assert await recovered(gate) == Aborted(unit=UNIT)

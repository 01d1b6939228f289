"""Acquisitions and renewals whose answers are lost, and a Lease that is deleted: on a clock that the test moves."""

import asyncio
from typing import Any, cast

import msgspec
import pytest

from scheduler.kube.client import Client
from scheduler.kube.errors import AnswerLost, Conflict, Forbidden, LeadershipLost, NotFound
from scheduler.kube.leader_election.elector import LeaderElector
from scheduler.kube.leader_election.lease import Timing
from tests.support.shell_clock import VirtualClock

TIMING = Timing(lease_duration=15.0, renew_deadline=10.0, retry_period=2.0)


class LeaseServer:
    """Stores a Lease as the API server does; the next write of `lost` gets no answer, and is stored by `arrive`."""

    def __init__(self) -> None:
        self.lease: dict[str, Any] | None = None
        self.is_marked = self.forbids_marker = False
        self.lost = 0
        self._late: list[tuple[str, dict[str, Any]]] = []
        self._version = 0

    async def request(self, method: str, _path: str, *, body: bytes = b"", **_: Any) -> bytes:
        if method == "GET":
            if self.lease is None:
                raise NotFound(404)
            return msgspec.json.encode(self.lease)
        patch = msgspec.json.decode(body)
        if patch["metadata"].get("name") == "dovetail-led":
            return self._mark()
        if self.lost:
            self.lost -= 1
            self._late.append((method, patch))
            raise AnswerLost("no answer")
        self.arrive()
        return self._store(method, patch)

    def _mark(self) -> bytes:
        if self.forbids_marker:
            raise Forbidden(403)
        if self.is_marked:
            raise Conflict(409)
        self.is_marked = True
        return b"{}"

    def arrive(self) -> None:
        """Store the writes whose answer was lost."""
        while self._late:
            self._store(*self._late.pop(0))

    @property
    def holder(self) -> str:
        assert self.lease is not None
        holder: str = self.lease["spec"]["holderIdentity"]
        return holder

    def _store(self, method: str, patch: dict[str, Any]) -> bytes:
        if self.lease is None:
            if method != "POST":
                raise NotFound(404)
            self.lease = {"metadata": {"uid": "u"}, "spec": patch["spec"]}
        elif method == "POST" or patch["metadata"].get("resourceVersion") != str(self._version):
            raise Conflict(409)
        else:
            self.lease["spec"] |= patch.get("spec", {})
            self.lease["metadata"].setdefault("annotations", {}).update(patch["metadata"].get("annotations", {}))
        self._version += 1
        self.lease["metadata"]["resourceVersion"] = str(self._version)
        return msgspec.json.encode(self.lease)


class Candidates:
    """Candidates for one Lease, on one clock; `sleep` lets its time pass."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.server, self.clock = LeaseServer(), VirtualClock()
        self._yield = asyncio.sleep
        monkeypatch.setattr(asyncio, "sleep", self._sleep)

    def make(self, identity: str, *, drains: bool = False) -> LeaderElector:
        return LeaderElector(
            cast("Client", self.server),
            namespace="n",
            name="dovetail",
            identity=identity,
            timing=TIMING,
            on_error=lambda _: None,
            clock=self.clock,
            drains=drains,
        )

    async def _sleep(self, seconds: float) -> None:
        await self.clock.sleep(seconds)
        await self._yield(0)


@pytest.fixture
def candidates(monkeypatch: pytest.MonkeyPatch) -> Candidates:
    return Candidates(monkeypatch)


async def test_a_renewal_after_one_whose_answer_was_lost_takes_one_try(candidates: Candidates) -> None:
    """The server has stored the one before, so that it refuses a second one with the version that we know."""
    leader, server = candidates.make("us"), candidates.server
    await leader.acquire()
    server.lost, began, renewed = 1, candidates.clock(), list[float]()
    holding = asyncio.create_task(leader.hold(lambda: renewed.append(candidates.clock())))
    while not renewed:
        await candidates._yield(0)  # noqa: SLF001 - the clock stands still meanwhile
    holding.cancel()
    assert renewed[0] - began <= 2 * 1.2 * TIMING.retry_period


async def test_an_acquisition_whose_answer_is_lost_counts_from_when_it_was_sent(candidates: Candidates) -> None:
    leader, server = candidates.make("us"), candidates.server
    server.lost, sent = 1, candidates.clock()
    acquiring = asyncio.create_task(leader.acquire())
    while server.lost:
        await candidates._yield(0)  # noqa: SLF001 - the clock stands still meanwhile
    server.arrive()
    await acquiring
    assert server.holder == "us"
    candidates.clock.now = sent + TIMING.renew_deadline
    assert leader.may_write()
    candidates.clock.advance(0.01)
    assert not leader.may_write()


async def test_an_acquisition_that_is_stored_just_before_the_second_try_leads(candidates: Candidates) -> None:
    leader, server = candidates.make("us"), candidates.server
    server.lost = 1
    await leader.acquire()
    assert (server.holder, leader.may_write()) == ("us", True)


async def test_an_acquisition_that_another_candidate_overtakes_leads_nothing(candidates: Candidates) -> None:
    leader, other, server = candidates.make("us"), candidates.make("them"), candidates.server
    server.lost = 1
    acquiring = asyncio.create_task(leader.acquire())
    while server.lost:
        await candidates._yield(0)  # noqa: SLF001 - the clock stands still meanwhile
    server._late.clear()  # noqa: SLF001 - it never arrives
    await other.acquire()
    for _ in range(10):
        await candidates._yield(0)  # noqa: SLF001 - the clock stands still meanwhile
    assert (server.holder, leader.may_write(), other.may_write()) == ("them", False, True)
    acquiring.cancel()
    await asyncio.gather(acquiring, return_exceptions=True)
    await leader.release()
    assert server.holder == "them"


async def test_an_acquisition_that_is_too_old_for_a_renewal_waits_for_its_end(candidates: Candidates) -> None:
    leader, server, clock = candidates.make("us"), candidates.server, candidates.clock
    server.lost, sent = 1, clock()
    acquiring = asyncio.create_task(leader.acquire())
    while server.lost:
        await candidates._yield(0)  # noqa: SLF001 - the clock stands still meanwhile
    server.arrive()
    clock.now = sent + 8.0
    await acquiring
    assert clock() >= sent + TIMING.lease_duration
    assert leader.may_write()


async def test_a_process_that_drains_waits_for_a_leader_whose_lease_was_deleted(candidates: Candidates) -> None:
    leader, drains = candidates.make("us"), candidates.make("drains", drains=True)
    await leader.acquire()
    candidates.server.lease, deleted = None, candidates.clock()
    assert not await drains.drain(is_drained=True)
    await drains.acquire(was_led=lambda: True)
    assert candidates.clock() >= deleted + TIMING.lease_duration
    assert not leader.may_write()


async def test_a_lease_is_taken_at_once_where_no_leader_has_worked(candidates: Candidates) -> None:
    began, leader = candidates.clock(), candidates.make("us")
    await leader.acquire(was_led=lambda: False)
    assert candidates.clock() == began


async def test_the_first_candidate_ever_leads_at_once(candidates: Candidates) -> None:
    began = candidates.clock()
    await candidates.make("us").acquire()
    assert candidates.clock() == began


async def test_a_lease_that_was_deleted_in_an_idle_cluster_is_free_no_sooner(candidates: Candidates) -> None:
    """Nothing but the marker shows that a leader was here, and may write for a while."""
    leader = candidates.make("them")
    await leader.acquire()
    candidates.server.lease = None
    began = candidates.clock()
    await candidates.make("us").acquire()
    assert candidates.clock() - began >= TIMING.lease_duration
    assert not leader.may_write()


async def test_a_candidate_that_finds_the_marker_and_no_lease_waits(candidates: Candidates) -> None:
    """The first one may be about to create the Lease."""
    us, them, began = candidates.make("us"), candidates.make("them"), candidates.clock()
    assert await them._mark() > began  # noqa: SLF001 - it is stopped after this request
    await us.acquire()
    assert candidates.clock() - began >= TIMING.lease_duration


async def test_a_first_candidate_that_was_stopped_for_long_is_the_first_one_no_more(candidates: Candidates) -> None:
    """Another one may have led meanwhile, and its Lease may have been deleted."""
    us, began = candidates.make("us"), candidates.clock()
    us._first_until = await us._mark()  # noqa: SLF001 - it is stopped after this request
    candidates.clock.advance(TIMING.lease_duration)
    await us.acquire()
    assert candidates.clock() - began >= 2 * TIMING.lease_duration


async def test_where_the_marker_is_forbidden_the_work_of_a_leader_counts_alone(candidates: Candidates) -> None:
    candidates.server.forbids_marker, began = True, candidates.clock()
    await candidates.make("us").acquire()
    assert candidates.clock() == began
    candidates.server.lease = None
    await candidates.make("them").acquire(was_led=lambda: True)
    assert candidates.clock() - began >= TIMING.lease_duration


async def test_a_standby_that_runs_waits_where_both_leases_are_deleted(candidates: Candidates) -> None:
    leader, standby = candidates.make("them"), candidates.make("us")
    await leader.acquire()
    waits = asyncio.Event()
    acquiring = asyncio.create_task(standby.acquire(on_wait=waits.set))
    await waits.wait()
    candidates.server.lease, candidates.server.is_marked, deleted = None, False, candidates.clock()
    await acquiring
    assert candidates.clock() - deleted >= TIMING.lease_duration


@pytest.mark.parametrize("was_led", [True, False])
async def test_where_both_leases_are_deleted_a_new_replica_goes_by_what_the_leader_has_placed(
    candidates: Candidates,
    was_led: bool,  # noqa: FBT001 - a column of the table
) -> None:
    """Without a trace of it two processes may write until the leader meets the missing Lease: docs/robustness.md."""
    await candidates.make("them").acquire()
    candidates.server.lease, candidates.server.is_marked, deleted = None, False, candidates.clock()
    await candidates.make("us").acquire(was_led=lambda: was_led)
    waited = candidates.clock() - deleted
    assert waited >= TIMING.lease_duration if was_led else waited == 0.0


async def test_a_leader_that_meets_the_missing_lease_writes_no_more(candidates: Candidates) -> None:
    leader = candidates.make("them")
    await leader.acquire()
    candidates.server.lease, candidates.server.is_marked, deleted = None, False, candidates.clock()
    with pytest.raises(LeadershipLost):
        await leader.hold()
    assert candidates.clock() - deleted <= 1.2 * TIMING.retry_period
    assert not leader.may_write()

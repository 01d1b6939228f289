"""A new leader makes the API server refuse claim writes that the leader before has under way, and no others."""

import asyncio
from typing import Any, cast

import msgspec
import pytest
from structlog.testing import capture_logs

from scheduler.cluster import Cluster
from scheduler.commit import take_over
from scheduler.commit.claims import ClaimWriter
from scheduler.commit.own_writes import OwnWrites
from scheduler.commit.take_over import fence_claims, was_led
from scheduler.kube import writes
from scheduler.kube.client import Client
from scheduler.kube.errors import AnswerLost, Conflict, Forbidden, TooManyRequests
from scheduler.kube.writer import ApiCall, Writer
from solver.domain import FINALIZER, Claim, ClaimId, Pod
from tests.support import builders as b
from tests.support.cluster_builders import seen
from tests.support.shell_clock import VirtualClock

HELD = b.allocation(b.result("r", "gpu-0", "n1"))


class Slots:
    """Writes and reads at once, and rests for no time."""

    async def write(self, request: ApiCall[Any]) -> object:
        return await request(timeout_seconds=1.0)

    read = write

    async def pause(self, _: int) -> None:
        pass


class Server:
    """Notes the claims that are written, and fails as told first."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *errors: Exception) -> None:
        self.written: list[str] = []
        self.errors = list(errors)
        self.claims: dict[ClaimId, Claim] = {}
        monkeypatch.setattr(writes, "adopt", self._adopt)
        monkeypatch.setattr(writes, "read_claim", self._read)

    async def _adopt(self, _: object, claim: Claim, **__: object) -> Claim:
        if self.errors:
            raise self.errors.pop(0)
        self.written.append(claim.id.name)
        return msgspec.structs.replace(claim, resource_version="2")

    async def _read(self, _: object, key: ClaimId, **__: object) -> Claim | None:
        return self.claims.get(key)

    async def take_over(self, *objects: Any, late_seconds: float = 0.0) -> OwnWrites:
        cluster, own = Cluster(), OwnWrites()
        for each in objects:
            cluster.apply(seen(each))
            if isinstance(each, Claim):
                self.claims[each.id] = each
        claims = ClaimWriter(cast("Client", None), cast("Writer", Slots()), own, cluster.acknowledge)
        await fence_claims(cluster, claims, ("dovetail",), late_seconds)
        return own


def claim(name: str, *finalizers: str, **fields: Any) -> Claim:
    return b.claim(name, b.request("r"), finalizers=finalizers, **fields)


async def test_claims_that_may_be_written_late_are_written_once_more(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server(monkeypatch)
    unused, shared = claim("unused", FINALIZER), claim("shared", FINALIZER, allocation=HELD)
    own = await server.take_over(
        claim("begun", FINALIZER), b.pod("p", "begun"), unused, shared, b.pod("q", "shared"), b.pod("r", "shared")
    )
    assert sorted(server.written) == ["begun", "shared", "unused"]
    assert shared in own


async def test_other_claims_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server(monkeypatch)
    await server.take_over(
        claim("untouched"),
        b.pod("p", "untouched"),
        claim("running", FINALIZER, allocation=HELD),
        b.pod("q", "running", node_name="n1"),
        claim("theirs", FINALIZER),
        msgspec.structs.replace(b.pod("r", "theirs"), scheduler_name="default-scheduler"),
    )
    assert server.written == []


@pytest.mark.parametrize("error", [Conflict(409), AnswerLost("no answer")])
async def test_a_claim_that_a_late_write_has_changed_is_read_and_written(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    server = Server(monkeypatch, error)
    await server.take_over(claim("begun", FINALIZER))
    assert server.written == ["begun"]


async def test_a_claim_that_cannot_be_written_is_tried_for_as_long_as_a_late_write_may_arrive(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = VirtualClock()
    monkeypatch.setattr(take_over, "boot_time", clock)
    monkeypatch.setattr(asyncio, "sleep", clock.sleep)
    server = Server(monkeypatch, Forbidden(403), TooManyRequests(429))
    with capture_logs() as lines:
        await server.take_over(*(claim(name, FINALIZER) for name in "abc"), late_seconds=15.0)
    assert sorted(server.written) == ["a", "b", "c"]
    assert [(each["log_level"], len(each["failed"])) for each in lines] == [("warning", 2), ("info", 0)]


async def test_a_claim_that_could_not_be_written_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = VirtualClock()
    monkeypatch.setattr(take_over, "boot_time", clock)
    monkeypatch.setattr(asyncio, "sleep", clock.sleep)
    server = Server(monkeypatch, *[Forbidden(403)] * 16)
    with capture_logs() as lines:
        await server.take_over(claim("begun", FINALIZER), late_seconds=15.0)
    assert {each["event"] for each in lines} == {"claims_fenced"}
    assert (lines[-1]["log_level"], lines[-1]["failed"]) == ("warning", [str(claim("begun").id)])
    assert server.written == []


@pytest.mark.parametrize(
    "work", [b.pod("p", node_name="n1"), claim("c", FINALIZER)], ids=["a bound pod", "a claim that is begun"]
)
def test_the_work_of_a_leader_is_seen(work: Pod | Claim) -> None:
    cluster = Cluster()
    others = msgspec.structs.replace(b.pod("q", "theirs", node_name="n1"), scheduler_name="default-scheduler")
    for each in (b.pod("waits"), claim("free"), others, claim("theirs", FINALIZER, allocation=HELD)):
        cluster.apply(seen(each))
    assert not was_led(cluster, (b.pod("p").scheduler_name,))
    cluster.apply(seen(work))
    assert was_led(cluster, (b.pod("p").scheduler_name,))
    if isinstance(work, Pod):
        assert not was_led(cluster, ("another",))

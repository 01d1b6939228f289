"""A device whose allocation may be stored is given to no other claim, until it is known what the API server has."""

from typing import Any, cast

import msgspec
import pytest

from scheduler.cluster import Transition
from scheduler.cluster.unit import Undone
from scheduler.commit.commit import Commit
from scheduler.commit.prebind import PreBind
from scheduler.commit.uncertain_allocations import UncertainAllocations
from scheduler.kube import writes
from scheduler.kube.client import Client
from scheduler.kube.concurrency_limit import ConcurrencyLimit, RequestSlots
from scheduler.kube.errors import AnswerLost, Conflict, Forbidden, Unreachable
from scheduler.kube.writer import NoFence, Writer
from scheduler.observe.metrics import Metrics
from solver.domain import FINALIZER, Allocation, Claim, ClaimId, ConsumerReference, Pod, PodId
from tests.support import builders as b
from tests.support.cluster_builders import cluster_of, gone, show, unit
from tests.support.shell_clock import VirtualClock

POD = b.pod("p", "c")
CLAIM = msgspec.structs.replace(b.claim("c"), finalizers=(FINALIZER,), resource_version="1")
DEVICE = b.result("gpu", "gpu-0", "n1")
ALLOCATED = b.claim_allocation(CLAIM, DEVICE, node_name="n1")
UNIT = unit(b.placement(POD, "n1"), ALLOCATED)


class Server:
    """Has one claim and guards writes by its version; `arrives` says whether a lost allocation was stored."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.claim: Claim | None = CLAIM
        self.is_away = self.arrives = self.forbids = False
        self.on_its_way: list[tuple[Claim, Allocation, tuple[ConsumerReference, ...]]] = []
        for name in ("allocate", "adopt", "release", "read_claim", "read_pod"):
            monkeypatch.setattr(writes, name, getattr(self, name))

    async def allocate(
        self, _: Client, claim: Claim, allocation: Allocation, consumers: tuple[ConsumerReference, ...], **__: object
    ) -> Claim:
        self.on_its_way.append((claim, allocation, consumers))
        self.is_away = True
        if self.arrives:
            self.deliver()
        raise AnswerLost("no answer")

    def deliver(self) -> None:
        """What was sent arrives."""
        for claim, allocation, consumers in self.on_its_way:
            if self.claim is not None and claim.resource_version == self.claim.resource_version:
                self.store(allocation=allocation, reserved_for=consumers)
        self.on_its_way.clear()

    async def adopt(self, _: Client, claim: Claim, **__: object) -> Claim:
        self._require()
        if self.forbids:
            raise Forbidden(403)
        if self.claim is None or claim.resource_version != self.claim.resource_version:
            raise Conflict(409)
        return self.store()

    async def release(self, _: Client, claim: Claim, *__: object, **___: object) -> Claim:
        self._require()
        assert self.claim is not None
        assert claim.resource_version == self.claim.resource_version
        return self.store(allocation=None, reserved_for=())

    async def read_claim(self, *_: object, **__: object) -> Claim | None:
        self._require()
        return self.claim

    async def read_pod(self, _: Client, key: PodId, **__: object) -> Pod:
        self._require()
        return b.pod(key.name, "c")

    def _require(self) -> None:
        if self.is_away:
            raise Unreachable("refused")

    def store(self, **fields: Any) -> Claim:
        assert self.claim is not None
        version = str(int(self.claim.resource_version) + 1)
        self.claim = msgspec.structs.replace(self.claim, resource_version=version, **fields)
        return self.claim


class Stage:
    """A commit that lost the answer to its allocation, and could ask the API server nothing afterwards."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.server, self.clock = Server(monkeypatch), VirtualClock()
        self.cluster = cluster_of(b.node("n1"), b.gpu_slice("n1", count=1), POD, CLAIM)
        slots = RequestSlots(ConcurrencyLimit(), self.clock, self.clock.sleep)
        writer = Writer(slots, NoFence(), 10.0, self.clock, self.clock.sleep)
        self.woken: list[Transition] = []
        self.commit = Commit(
            cast("Client", None),
            self.cluster,
            writer,
            cast("PreBind", None),
            self.woken.extend,
            pod_groups="",
            clock=self.clock,
        )
        self.uncertain = UncertainAllocations(self.cluster, self.commit.claims, Metrics(), clock=self.clock)

    async def fail(self) -> Undone:
        self.cluster.assume(UNIT)
        await self.commit.begin([UNIT])
        outcome = await self.commit.commit(UNIT)
        assert isinstance(outcome, Undone)
        self.cluster.forget(UNIT, outcome.unreleased)
        return outcome

    def is_held(self) -> bool:
        """Whether a decision counts the device as allocated, also one of a worker that has just been started."""
        shown = self.cluster.claim(CLAIM.id)
        replica = cluster_of(b.node("n1"), *(each for each in (self.cluster.observed_claim(CLAIM.id),) if each))
        (there,) = replica.snapshot(self.cluster.assumptions()).claims or (None,)
        assert (there is None) == (shown is None)
        assert (there is not None and there.allocation) == (shown is not None and shown.allocation)
        return shown is not None and shown.allocation is not None

    def is_open(self) -> bool:
        return bool(self.cluster.uncertain_claims())


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Stage:
    return Stage(monkeypatch)


async def test_the_devices_stay_assumed(stage: Stage) -> None:
    outcome = await stage.fail()

    assert outcome.unreleased == (CLAIM.id,)
    assert stage.is_held()
    assert stage.cluster.snapshot().pods == ()
    await stage.uncertain.find_out()
    assert stage.is_held()  # nothing answers: nothing is known
    assert stage.is_open()


async def test_another_claim_cannot_take_the_device(stage: Stage) -> None:
    await stage.fail()
    other = b.claim("d")
    show(stage.cluster, b.pod("q", "d"), other)

    (reason,) = stage.cluster.check(unit(b.placement(b.pod("q", "d"), "n1"), b.claim_allocation(other, DEVICE)))

    assert "is held by claim default/c" in reason.message


async def test_the_watch_shows_the_allocation(stage: Stage) -> None:
    stage.server.arrives = True
    await stage.fail()
    assert stage.server.claim is not None
    show(stage.cluster, stage.server.claim)

    assert stage.is_held()
    assert not stage.is_open()
    show(stage.cluster, msgspec.structs.replace(CLAIM, resource_version="9"))
    assert not stage.is_held()


async def test_the_watch_shows_another_allocation(stage: Stage) -> None:
    await stage.fail()
    other = b.allocation(b.result("gpu", "gpu-7", "n1"))
    show(stage.cluster, msgspec.structs.replace(CLAIM, resource_version="2", allocation=other))

    shown = stage.cluster.claim(CLAIM.id)
    assert shown is not None
    assert shown.allocation == other
    assert not stage.is_open()


async def test_the_watch_shows_that_the_claim_is_gone(stage: Stage) -> None:
    await stage.fail()
    stage.cluster.apply(gone(CLAIM))

    assert not stage.is_held()
    assert not stage.is_open()


async def test_an_answer_shows_the_allocation(stage: Stage) -> None:
    """It is a fact then, and stays until the watch shows it."""
    stage.server.arrives = True
    await stage.fail()
    stage.server.is_away = False
    await stage.uncertain.find_out()

    assert stage.is_held()
    assert not stage.is_open()
    assert stage.server.claim is not None
    show(stage.cluster, stage.server.claim, msgspec.structs.replace(CLAIM, resource_version="9"))
    assert not stage.is_held()


async def test_a_write_that_has_not_arrived_is_made_to_fail(stage: Stage) -> None:
    await stage.fail()
    stage.server.is_away = False
    await stage.uncertain.find_out()
    assert stage.is_held()  # until the watch shows the version of the answer
    stage.server.deliver()
    assert stage.server.claim is not None
    assert stage.server.claim.allocation is None
    show(stage.cluster, stage.server.claim)

    assert not stage.is_held()
    assert not stage.is_open()


async def test_pods_learn_of_a_device_that_an_answer_shows_to_be_free(stage: Stage) -> None:
    """The watch was faster than the answer."""
    await stage.fail()
    stage.server.is_away = False
    show(stage.cluster, msgspec.structs.replace(CLAIM, resource_version="9"))
    stage.server.claim = msgspec.structs.replace(CLAIM, resource_version="7")
    await stage.uncertain.find_out()

    assert not stage.is_held()
    assert [(each.key, cast("Claim", each.before).allocation is None) for each in stage.woken] == [("default/c", False)]


async def test_a_claim_that_another_client_has_cleared_is_released(stage: Stage) -> None:
    stage.server.arrives = True
    await stage.fail()
    stage.server.is_away = False
    stage.server.claim = msgspec.structs.replace(CLAIM, resource_version="8")
    await stage.uncertain.find_out()
    show(stage.cluster, stage.server.claim)

    assert not stage.is_held()


async def test_a_claim_that_cannot_be_written_is_read_when_no_write_can_arrive_any_more(stage: Stage) -> None:
    await stage.fail()
    stage.server.is_away, stage.server.forbids = False, True
    await stage.uncertain.find_out()
    assert stage.is_open()
    stage.clock.advance(31.0)
    await stage.uncertain.find_out()

    assert not stage.is_open()
    assert not stage.is_held()


async def test_a_late_write_fails_also_where_the_server_answers_the_rollback(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A live read that shows no allocation says nothing about one that is on its way."""
    server = stage.server

    async def allocate(*arguments: Any, **_: object) -> Claim:
        server.on_its_way.append(arguments[1:])
        raise AnswerLost("no answer")

    monkeypatch.setattr(writes, "allocate", allocate)
    outcome = await stage.fail()
    assert outcome.unreleased == ()
    assert not stage.is_held()
    server.deliver()

    assert server.claim is not None
    assert server.claim.allocation is None


async def test_another_attempt_goes_on_with_the_allocation_when_it_is_known(stage: Stage) -> None:
    stage.server.arrives = True
    await stage.fail()
    stage.server.is_away = False
    claim = stage.cluster.claim(ClaimId("default", "c"))

    assert claim is not None
    assert claim.allocation is not None
    assert not stage.cluster.check(unit(b.placement(POD, "n1")))


@pytest.mark.parametrize(
    ("after", "said"),
    [
        pytest.param({"uid": "again"}, "deleted and created again", id="made again"),
        pytest.param(None, "deleted", id="deleted"),
    ],
)
async def test_no_pod_is_bound_whose_claim_has_gone_since_it_was_written(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, after: dict[str, Any] | None, said: str
) -> None:
    """Another claim of its name, with the same devices, is not the one that was written for the pod."""
    server = stage.server

    async def allocate(_: Client, __: Claim, allocation: Allocation, consumers: Any, **___: object) -> Claim:
        stored = server.store(allocation=allocation, reserved_for=consumers)
        show(stage.cluster, stored)
        stage.cluster.apply(gone(stored))
        if after is None:
            server.claim = None
        else:
            show(stage.cluster, server.store(**after))
        return stored

    monkeypatch.setattr(writes, "allocate", allocate)
    outcome = await stage.fail()

    assert [each.message for each in outcome.reasons] == [f"claim default/c was {said} meanwhile"]


async def test_no_pod_is_bound_whose_claim_another_client_has_cleared(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would wait on its node for ever."""
    server = stage.server

    async def allocate(_: Client, __: Claim, allocation: Allocation, consumers: Any, **___: object) -> Claim:
        stored = server.store(allocation=allocation, reserved_for=consumers)
        show(stage.cluster, stored, server.store(allocation=None, reserved_for=()))
        return stored

    monkeypatch.setattr(writes, "allocate", allocate)
    outcome = await stage.fail()

    assert [each.message for each in outcome.reasons] == ["claim default/c was deallocated by another client meanwhile"]
    assert outcome.unreleased == ()
    assert not stage.is_held()

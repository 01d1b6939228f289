"""A claim for extended resources that no watch has shown yet holds its devices, too, while it may be allocated."""

import asyncio
from typing import Any, TypeVar, cast

import msgspec
import pytest

from scheduler.cluster import Unit, split_plan
from scheduler.cluster.unit import Aborted, Bound, LostRace, Outcome, Undone
from scheduler.commit.commit import Commit
from scheduler.commit.prebind import PreBind
from scheduler.kube import extended_resource_writes, writes
from scheduler.kube.client import Client
from scheduler.kube.concurrency_limit import ConcurrencyLimit, RequestSlots
from scheduler.kube.errors import AnswerLost, Conflict, Forbidden, Unreachable
from scheduler.kube.writer import NoFence, Writer
from solver import solve
from solver.domain import FINALIZER, Allocation, Budget, Claim, ClaimId, ConsumerReference, Pod, PodId, Policy
from tests.support import builders as b
from tests.support.cluster_builders import cluster_of, gone, show, unit
from tests.support.extended_builders import container, gpu_class, pod
from tests.support.shell_clock import VirtualClock

T = TypeVar("T")

POD = pod("p", container(cpu=1000, gpu=1))
OBJECTS = (b.node("n"), b.gpu_slice("n", count=1), gpu_class())
UNIT = split_plan(solve(b.snapshot(*OBJECTS), b.batch(POD), Policy(), Budget(seconds=60.0)))[0]
DEVICE = UNIT.allocations[0].allocation.results[0]
SPECIAL = UNIT.placements[0].extended_resource_claim
OTHER = b.claim("d")
TAKES_THE_DEVICE = unit(
    b.placement(b.pod("q", "d"), "n"), b.claim_allocation(OTHER, msgspec.structs.replace(DEVICE, request="r"))
)


class Server:
    """Makes claims, stores an allocation and loses the answer, and is away then; the watch shows nothing of it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.claim: Claim | None = None
        self.made = 0
        self.is_away = False
        self.bound_to = ""
        for name in ("allocate", "adopt", "release", "read_claim", "read_pod"):
            monkeypatch.setattr(writes, name, getattr(self, name))
        for name in ("create_claim", "delete_claim"):
            monkeypatch.setattr(extended_resource_writes, name, getattr(self, name))

    async def create_claim(self, *_: object, **__: object) -> Claim:
        assert SPECIAL is not None
        self.made += 1
        created = SPECIAL.as_claim(POD.uid)
        name = f"made-{self.made}"
        self.claim = msgspec.structs.replace(
            created, id=ClaimId("default", name), uid=name, finalizers=(FINALIZER,), resource_version="1"
        )
        return self.claim

    async def allocate(
        self, _: Client, __: Claim, allocation: Allocation, consumers: tuple[ConsumerReference, ...], **___: object
    ) -> Claim:
        self.store(allocation=allocation, reserved_for=consumers)
        self.is_away = True
        raise AnswerLost("no answer")

    async def adopt(self, *_: object, **__: object) -> Claim:
        self._require()
        return self.store()

    async def release(self, _: Client, claim: Claim, *__: object, **___: object) -> Claim:
        self._require()
        if self.claim is None or claim.resource_version != self.claim.resource_version:
            raise Conflict(409)
        return self.store(allocation=None, reserved_for=())

    async def read_claim(self, *_: object, **__: object) -> Claim | None:
        self._require()
        return self.claim

    async def read_pod(self, _: Client, __: PodId, **___: object) -> Pod:
        self._require()
        return msgspec.structs.replace(POD, node_name=self.bound_to)

    async def delete_claim(self, *_: object, **__: object) -> None:
        self._require()
        self.claim = None

    def _require(self) -> None:
        if self.is_away:
            raise Unreachable("refused")

    def store(self, **fields: Any) -> Claim:
        assert self.claim is not None
        version = str(int(self.claim.resource_version) + 1)
        self.claim = msgspec.structs.replace(self.claim, resource_version=version, **fields)
        return self.claim


class Clock(VirtualClock):
    """Lets others run at every pause."""

    async def sleep(self, seconds: float) -> None:
        await super().sleep(seconds)
        await asyncio.sleep(0)


class Stage:
    """A unit whose commit is under way beside what a test does."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.server, self.clock = Server(monkeypatch), Clock()
        self.cluster = cluster_of(*OBJECTS, POD, b.pod("q", "d"), OTHER)
        slots = RequestSlots(ConcurrencyLimit(), self.clock, self.clock.sleep)
        self.writer = Writer(slots, NoFence(), 10.0, self.clock, self.clock.sleep)
        self.commit = Commit(
            cast("Client", None),
            self.cluster,
            self.writer,
            cast("PreBind", None),
            lambda _: None,
            pod_groups="",
            clock=self.clock,
        )
        self.cluster.assume(UNIT)

    async def commit_for(self, seconds: float) -> asyncio.Task[Outcome]:
        commit = asyncio.create_task(self.commit.commit(UNIT))
        return await self.go_on(commit, seconds)

    async def go_on(self, commit: asyncio.Task[T], seconds: float) -> asyncio.Task[T]:
        until = self.clock.now + seconds
        while self.clock.now < until and not commit.done():  # noqa: ASYNC110 - the clock is virtual
            await asyncio.sleep(0)
        return commit

    def settle(self, outcome: Outcome) -> None:
        """What the binding cycle does."""
        assert isinstance(outcome, Undone | LostRace)
        self.cluster.forget(outcome.unit, outcome.unreleased)

    def is_held(self) -> bool:
        return bool(self.cluster.check(TAKES_THE_DEVICE))


@pytest.fixture
async def stage(monkeypatch: pytest.MonkeyPatch) -> Stage:
    made = Stage(monkeypatch)
    await made.commit.begin([UNIT])
    return made


async def test_its_unit_stays_assumed_while_the_server_is_away(stage: Stage) -> None:
    commit = await stage.commit_for(seconds=600.0)

    assert not commit.done()
    assert stage.is_held()
    stage.server.is_away = False
    stage.settle(await commit)
    assert stage.server.claim is None
    assert not stage.is_held()


async def test_it_is_held_by_itself_when_the_watch_has_shown_it(stage: Stage) -> None:
    commit = await stage.commit_for(seconds=60.0)
    assert stage.server.claim is not None
    show(stage.cluster, msgspec.structs.replace(stage.server.claim, allocation=None, resource_version="1"))
    stage.settle(await commit)

    assert stage.is_held()
    assert stage.cluster.uncertain_claims()
    show(stage.cluster, stage.server.claim)
    assert stage.is_held()
    assert not stage.cluster.uncertain_claims()


async def test_it_is_removed_too_where_a_defect_ends_the_commit(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    async def allocate(_: Client, __: Claim, allocation: Allocation, consumers: Any, **___: object) -> Claim:
        stage.server.store(allocation=allocation, reserved_for=consumers)
        raise RuntimeError("a defect")

    monkeypatch.setattr(writes, "allocate", allocate)
    with pytest.raises(RuntimeError):
        await stage.commit.commit(UNIT)
    outcome = await stage.commit.recover(UNIT)
    stage.settle(outcome)

    assert stage.server.claim is None
    assert not stage.is_held()


async def test_it_stays_held_where_its_pod_is_bound_after_all(stage: Stage) -> None:
    """A binding that was late, of this process or another."""
    commit = await stage.commit_for(seconds=60.0)
    stage.server.is_away, stage.server.bound_to = False, "n"
    await stage.go_on(commit, seconds=600.0)

    assert not commit.done()
    assert stage.is_held()
    assert stage.server.claim is not None
    show(stage.cluster, stage.server.claim)
    stage.settle(await commit)
    assert stage.is_held()


async def test_it_is_held_no_more_where_others_have_deleted_it_before_any_watch_has_shown_it(stage: Stage) -> None:
    commit = await stage.commit_for(seconds=60.0)
    stage.server.is_away, stage.server.bound_to, stage.server.claim = False, "n", None
    await stage.go_on(commit, seconds=600.0)

    assert commit.done()
    stage.settle(await commit)
    assert not stage.is_held()


async def test_nothing_is_waited_for_where_no_write_may_start(stage: Stage) -> None:
    commit = await stage.commit_for(seconds=60.0)
    await stage.writer.close()

    assert isinstance(await commit, Aborted)


async def test_a_claim_that_is_certainly_not_allocated_is_not_waited_for(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(*_: object, **__: object) -> None:
        raise Forbidden(403)

    monkeypatch.setattr(writes, "allocate", refuse)
    monkeypatch.setattr(extended_resource_writes, "delete_claim", refuse)
    commit = await stage.commit_for(seconds=60.0)

    assert isinstance(await commit, Undone)
    assert stage.clock.now == 1000.0


async def test_a_claim_whose_creation_got_no_answer_holds_nothing(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody but a later attempt knows its name: it is allocated by none, and goes when the watch shows it."""

    async def create(*arguments: Any, **more: Any) -> Claim:
        await stage.server.create_claim(*arguments, **more)
        raise AnswerLost("no answer")

    monkeypatch.setattr(extended_resource_writes, "create_claim", create)
    stage.settle(await stage.commit.commit(UNIT))

    assert stage.server.claim is not None
    assert stage.server.claim.allocation is None
    assert not stage.is_held()
    show(stage.cluster, stage.server.claim)
    ((orphan, _),) = stage.cluster.orphaned_special_claims()
    assert orphan.id == stage.server.claim.id


class BoundAtOnce(Stage):
    """The unit is bound before the watch shows its claim."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(monkeypatch)

        async def allocate(_: Client, __: Claim, allocation: Allocation, consumers: Any, **___: object) -> Claim:
            return self.server.store(allocation=allocation, reserved_for=consumers)

        async def succeed(*_: object, **__: object) -> None:
            """Nothing more is known of it."""

        monkeypatch.setattr(writes, "allocate", allocate)
        monkeypatch.setattr(extended_resource_writes, "announce_claim", succeed)
        monkeypatch.setattr(writes, "bind", succeed)

    async def wait_for(self, seconds: float) -> asyncio.Task[None]:
        outcome = await self.commit.commit(UNIT)
        assert isinstance(outcome, Bound)
        waits = self.commit.extended_claims.until_shown(outcome.unit, outcome.unit.placements[0])
        return await self.go_on(asyncio.create_task(waits), seconds)


@pytest.fixture
async def bound(monkeypatch: pytest.MonkeyPatch) -> BoundAtOnce:
    made = BoundAtOnce(monkeypatch)
    await made.commit.begin([UNIT])
    return made


async def test_a_bound_pod_holds_its_devices_until_the_watch_shows_its_claim_allocated(bound: BoundAtOnce) -> None:
    waits = await bound.wait_for(seconds=600.0)
    made = bound.server.claim
    assert made is not None
    show(bound.cluster, msgspec.structs.replace(made, allocation=None, resource_version="1"))
    bound.cluster.apply(gone(POD))
    await bound.go_on(waits, seconds=600.0)
    assert not waits.done()
    assert bound.is_held()

    show(bound.cluster, made)
    await waits
    bound.cluster.settled(UNIT.placements[0])
    assert bound.is_held()


@pytest.mark.parametrize("changes", [{"allocation": None}, {"uid": "another"}])
async def test_it_holds_nothing_more_where_a_live_read_shows_no_such_allocation(
    bound: BoundAtOnce, changes: dict[str, Any]
) -> None:
    """The pod and its claim are deleted before the watch shows any of it; a listing skips what was between."""
    waits = await bound.wait_for(seconds=60.0)
    bound.cluster.apply(gone(POD))
    bound.server.is_away = True
    await bound.go_on(waits, seconds=60.0)
    assert not waits.done()
    bound.server.is_away = False
    bound.server.store(**changes)
    await waits
    bound.cluster.settled(UNIT.placements[0])

    assert not bound.is_held()


async def test_nothing_is_waited_for_when_nothing_is_decided_any_more(bound: BoundAtOnce) -> None:
    waits = await bound.wait_for(seconds=60.0)
    bound.commit.extended_claims.close()
    await bound.go_on(waits, seconds=60.0)

    assert waits.done()


async def test_a_gang_stays_a_gang_when_its_claims_have_names(stage: Stage) -> None:
    """Without its gangs no check before the first binding would notice that members are missing."""
    gang, entry = b.gang("g", minimum=1), ConsumerReference(resource="podgroups", name="g", uid="uid-g")
    whole = msgspec.structs.replace(UNIT, gangs=(gang,), for_groups=((POD.id, OTHER.id, entry),))
    made = await stage.commit.extended_claims.make(whole)

    assert isinstance(made, Unit)
    assert made.claims == (ClaimId("default", "made-1"),)
    assert (made.gangs, made.for_groups) == (whole.gangs, whole.for_groups)

"""What a PodGroup has reserved is given free when the whole group failed, and only then."""

from typing import Any, cast

import msgspec
import pytest

from scheduler.cluster import Unit
from scheduler.commit.bindings import PodBinder
from scheduler.commit.own_writes import OwnWrites
from scheduler.commit.rollback import Rollback
from scheduler.commit.stale_allocations import StaleAllocations
from scheduler.kube import writes
from scheduler.kube.client import Client
from scheduler.kube.writer import ApiCall, Writer
from scheduler.observe.metrics import Metrics
from scheduler.queue import PodState, SchedulingQueue
from scheduler.status.status_writer import StatusWriter
from solver.domain import Claim, ConsumerReference, Pod, PodGroup, PodId, Reason, ReasonCode
from tests.support import builders as b
from tests.support.cluster_builders import cluster_of

SOURCE = "scheduling.k8s.io"
GANG = b.gang_id("g", source=SOURCE)
ENTRY = ConsumerReference(api_group=SOURCE, resource="podgroups", name="g", uid="uid-g")
GROUP = PodGroup(id=GANG, uid="uid-g", min_count=2)
ALLOCATION = b.allocation(b.result("r", "gpu-0", "n1"), node_name="n1")
CLAIM = b.claim("c", allocation=ALLOCATION, reserved_for=(ENTRY,))


def member(name: str, node_name: str = "") -> Pod:
    return msgspec.structs.replace(b.pod(name, b.entry("c"), node_name=node_name), gang=GANG, pod_group="g")


class Slots:
    """Writes and reads at once, and rests for no time."""

    async def write(self, request: ApiCall[Any], **_: object) -> object:
        return await request(timeout_seconds=1.0)

    read = write

    async def pause(self, _: int) -> None:
        """Rest for no time."""


class Server:
    """A claim and pods as live reads show them, and what was released: uids, and whether the allocation went."""

    def __init__(self, claim: Claim, *pods: Pod) -> None:
        self.claim = claim
        self.pods = {pod.id: pod for pod in pods}
        self.released: list[tuple[tuple[str, ...], bool]] = []

    async def read(self, pod: PodId) -> Pod | None:
        return self.pods.get(pod)

    def rollback(self, monkeypatch: pytest.MonkeyPatch) -> Rollback:
        async def read_claim(*_: object, **__: object) -> Claim:
            return self.claim

        async def release(_: object, claim: Claim, uids: tuple[str, ...], *, deallocate: bool, **__: object) -> Claim:
            self.released.append((uids, deallocate))
            return claim

        monkeypatch.setattr(writes, "read_claim", read_claim)
        monkeypatch.setattr(writes, "release", release)
        return Rollback(
            cast("Client", None), cast("Writer", Slots()), cast("PodBinder", self), OwnWrites(), lambda _: None
        )


def unit_of(*pods: Pod) -> Unit:
    placements = tuple(b.placement(pod, "n1") for pod in pods)
    return Unit(placements=placements, for_groups=tuple((pod.id, CLAIM.id, ENTRY) for pod in pods))


def idle(unit: Unit, given_up: tuple[Pod, ...], *members: Pod) -> frozenset[str]:
    return unit.idle_groups({each.id for each in given_up}, lambda gang: members if gang == GANG else ())


ONE, TWO = member("one"), member("two")


def test_a_group_is_idle_when_all_of_its_pods_are_given_up() -> None:
    assert idle(unit_of(ONE, TWO), (ONE, TWO), ONE, TWO) == {"uid-g"}


def test_a_group_is_not_idle_while_another_of_its_pods_runs() -> None:
    assert idle(unit_of(ONE), (ONE,), ONE, member("two", "n1")) == frozenset()


def test_a_pod_that_is_given_up_does_not_count_though_it_is_believed_to_have_a_node() -> None:
    assert idle(unit_of(ONE), (ONE,), member("one", "n1"), TWO) == {"uid-g"}


def test_a_group_is_not_idle_though_the_pod_that_is_given_up_is_gone() -> None:
    assert idle(unit_of(ONE), (ONE,), member("two", "n1")) == frozenset()


def test_pods_that_are_not_given_up_do_not_free_their_group() -> None:
    assert idle(unit_of(ONE, TWO), (), ONE, TWO) == frozenset()


async def take_back(server: Server, monkeypatch: pytest.MonkeyPatch, *pods: Pod, groups: set[str]) -> bool:
    """Whether everything was taken back."""
    named = tuple((pod.id, pod.uid) for pod in pods)
    unreleased = await server.rollback(monkeypatch).release((CLAIM.id,), named, groups=frozenset(groups))
    return not unreleased


async def test_the_entry_of_an_idle_group_goes_with_the_allocation(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server(CLAIM, ONE, TWO)
    assert await take_back(server, monkeypatch, ONE, TWO, groups={"uid-g"})
    assert server.released == [(("uid-g",), True)]


async def test_the_entry_of_a_group_stays_where_one_pod_is_bound_after_all(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server(CLAIM, ONE, member("two", "n1"))
    assert not await take_back(server, monkeypatch, ONE, TWO, groups={"uid-g"})
    assert server.released == []


async def test_the_entry_of_a_group_that_is_not_idle_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server(CLAIM, ONE)
    assert await take_back(server, monkeypatch, ONE, groups=set())
    assert server.released == []


async def test_an_allocation_that_others_share_stays_when_an_idle_group_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    shared = msgspec.structs.replace(CLAIM, reserved_for=(ENTRY, b.consumer("other")))
    server = Server(shared, ONE)
    assert await take_back(server, monkeypatch, ONE, groups={"uid-g"})
    assert server.released == [(("uid-g",), False)]


class Waiting:
    """The queue, in which the members wait, and the events."""

    def state(self, key: PodId) -> PodState | None:
        return PodState.ACTIVE if key in {ONE.id, TWO.id} else None

    def record_lost_race(self, *_: object) -> None:
        """No test reads it."""


def repairs(server: Server, monkeypatch: pytest.MonkeyPatch, *believed: Pod | Claim) -> StaleAllocations:
    cluster = cluster_of(b.node("n1"), GROUP, server.claim, *believed)
    rollback, waiting = server.rollback(monkeypatch), Waiting()
    return StaleAllocations(
        cluster, cast("SchedulingQueue", waiting), rollback, cast("StatusWriter", waiting), Metrics()
    )


STUCK = (Reason(code=ReasonCode.CLAIM_ELSEWHERE, message="the claim is allocated elsewhere"),)


@pytest.mark.parametrize(
    ("believed", "live", "released"),
    [
        pytest.param((ONE, TWO), (ONE, TWO), [(("uid-g",), True)], id="no pod runs"),
        pytest.param((ONE, member("two", "n1")), (ONE, TWO), [], id="one is believed to run"),
        pytest.param((ONE, TWO), (ONE, member("two", "n1")), [], id="one runs by a live read"),
        pytest.param((ONE, TWO), (ONE,), [(("uid-g",), True)], id="one is gone"),
    ],
)
async def test_the_stale_allocation_of_a_group_is_removed_where_no_member_runs(
    monkeypatch: pytest.MonkeyPatch,
    believed: tuple[Pod, ...],
    live: tuple[Pod, ...],
    released: list[tuple[tuple[str, ...], bool]],
) -> None:
    server = Server(CLAIM, *live)
    found = repairs(server, monkeypatch, *believed)
    found.note_unplaced(ONE, STUCK)
    await found.deallocate_unused()
    assert server.released == released


@pytest.mark.parametrize(
    ("live", "released"),
    [
        pytest.param((ONE, TWO), [(("uid-g",), True)], id="no pod runs"),
        pytest.param((ONE, member("two", "n1")), [], id="one runs by a live read"),
    ],
)
async def test_of_a_device_held_twice_the_allocation_of_a_group_is_removed_where_no_member_runs(
    monkeypatch: pytest.MonkeyPatch, live: tuple[Pod, ...], released: list[tuple[tuple[str, ...], bool]]
) -> None:
    server = Server(CLAIM, *live)
    other = b.claim("other", allocation=ALLOCATION, reserved_for=(b.consumer("runs"),))
    found = repairs(server, monkeypatch, other, b.pod("runs", "other", node_name="n1"), ONE, TWO)
    await found.resolve_duplicates()
    assert server.released == released


async def test_what_a_stranger_shares_with_a_group_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server(msgspec.structs.replace(CLAIM, reserved_for=(ENTRY, b.consumer("other"))), ONE, TWO)
    found = repairs(server, monkeypatch, ONE, TWO)
    found.note_unplaced(ONE, STUCK)
    await found.deallocate_unused()
    assert server.released == []


@pytest.mark.parametrize("is_again", [False, True], ids=["the same", "made again"])
async def test_a_claim_that_was_made_again_keeps_its_allocation(
    monkeypatch: pytest.MonkeyPatch, *, is_again: bool
) -> None:
    """What was judged stale is the claim before: the new one may be allocated and not be reserved yet."""
    server = Server(CLAIM, ONE, TWO)
    found = repairs(server, monkeypatch, ONE, TWO)
    found.note_unplaced(ONE, STUCK)
    if is_again:
        server.claim = msgspec.structs.replace(CLAIM, uid="again", reserved_for=())
    await found.deallocate_unused()
    assert server.released == ([] if is_again else [(("uid-g",), True)])


@pytest.mark.parametrize("is_again", [False, True], ids=["the same", "made again"])
async def test_a_claim_of_the_name_of_one_with_a_device_held_twice_keeps_it(
    monkeypatch: pytest.MonkeyPatch, *, is_again: bool
) -> None:
    server = Server(CLAIM, ONE, TWO)
    other = b.claim("other", allocation=ALLOCATION, reserved_for=(b.consumer("runs"),))
    found = repairs(server, monkeypatch, other, b.pod("runs", "other", node_name="n1"), ONE, TWO)
    server.claim = msgspec.structs.replace(CLAIM, uid="again" if is_again else CLAIM.uid)
    await found.resolve_duplicates()
    assert len(server.released) == (0 if is_again else 1)

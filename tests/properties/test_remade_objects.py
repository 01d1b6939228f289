"""
Objects are made again under their names at every step of a commit, and no device ever has two holders.

Pods, claims, PodGroups, nodes and classes end and come again, with other uids, before any request of the commit
protocol and while the cache lags behind, for each kind on its own. A claim controller removes reservations of what is
gone, as the real one does: by uid. The checker judges each plan; what runs is judged after each request.
"""

import asyncio
import random
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Any, Final, cast

import msgspec
import pytest

from scheduler.change import Change, Kind, Object
from scheduler.cluster import Cluster, Unit, split_plan
from scheduler.cluster.unit import Bound, LostRace, Outcome, PartlyBound, Refused, Undone
from scheduler.commit.commit import Commit
from scheduler.commit.prebind import PreBind
from scheduler.kube import writes
from scheduler.kube.client import Client
from scheduler.kube.concurrency_limit import ConcurrencyLimit, RequestSlots
from scheduler.kube.errors import Conflict, NotFound
from scheduler.kube.writer import NoFence, Writer
from solver import solve, verify
from solver.domain import (
    FINALIZER,
    Allocation,
    Batch,
    Budget,
    Claim,
    ClaimId,
    ConsumerReference,
    DeviceId,
    GangId,
    Pod,
    PodClaim,
    PodGroup,
    PodId,
    Policy,
)
from tests.support import builders as b
from tests.support.cluster_builders import KINDS, key_of
from tests.support.shell_clock import VirtualClock

GROUP: Final = b.gang_id("g", source="scheduling.k8s.io")
SHARED: Final = PodClaim(entry="shared", claim=ClaimId("default", "shared"))
APART: Final = msgspec.structs.replace(SHARED, entry="apart")
"""The group has no such entry: the pod needs one of its own in reservedFor, unless the group's is there."""
OF_GROUP: Final = PodClaim(entry="shared", claim=ClaimId("default", "of-group"), template="t")
DEVICES: Final = 2
ROUNDS: Final = 10

Key = tuple[Kind, str]


def members(first: PodClaim = SHARED) -> list[Pod]:
    """Pods of a group, with a claim that they share and one that was made for the group, and pods with their own."""
    grouped = [
        msgspec.structs.replace(b.pod(f"g{number}", entry), pod_group="g", gang=GROUP)
        for number, entry in enumerate((first, APART, OF_GROUP))
    ]
    return [*grouped, *(b.pod(f"p{number}", f"c{number}") for number in range(2))]


class World:
    """What an API server stores, the changes that no watch has shown yet, and what devices running pods use."""

    def __init__(self, seed: int) -> None:
        self.chance: Final = random.Random(seed)  # noqa: S311 - a test
        self.objects: Final[dict[Key, Any]] = {}
        self.cluster: Final = Cluster()
        self.unseen: Final[defaultdict[Kind, deque[Change]]] = defaultdict(deque)
        self.used: Final[dict[str, frozenset[DeviceId]]] = {}
        """The devices that each running pod got, by its uid."""
        self.is_group_looked_at = self.is_calm = False
        self._version = 0
        self.put(b.node("n1"))
        self.put(b.gpu_slice("n1", count=DEVICES))
        self.put(b.gpu_class())
        self.put(PodGroup(id=GROUP, uid="uid-g", claims=self._group_claims()))
        for name in ("shared", "of-group", "c0", "c1"):
            self._make_claim(name)
        for pod in members(APART if seed % 2 else SHARED):
            self.put(pod)
        if seed % 2:
            self.reserve_for_group()
            self.restart_group()

    # objects

    def get(self, kind: Kind, key: object) -> Any:
        return self.objects.get((kind, str(key)))

    def put(self, value: Object) -> None:
        self._version += 1
        if isinstance(value, Claim):
            value = msgspec.structs.replace(value, resource_version=str(self._version))
        self.objects[KINDS[type(value)], key_of(value)] = value
        self.unseen[KINDS[type(value)]].append(Change(kind=KINDS[type(value)], key=key_of(value), value=value))

    def end(self, value: Object) -> None:
        kind, key = KINDS[type(value)], key_of(value)
        del self.objects[kind, key]
        self.unseen[kind].append(Change(kind=kind, key=key, value=None))
        if isinstance(value, Pod):
            self.used.pop(value.uid, None)

    def remake(self) -> None:
        """Delete one object and make it again, unless a finalizer keeps it."""
        kind, key = self.chance.choice(sorted(self.objects))
        value = self.objects[kind, key]
        if isinstance(value, Claim) and value.reserved_for:
            return
        # Kubernetes 1.37 keeps the group of pods that exist. Before, nothing does after the scheduler's last look.
        is_used = any(pod.gang == GROUP and pod.uid in self.used for pod in self.pods())
        if not (isinstance(value, PodGroup) and (is_used or self.is_group_looked_at)):
            self.again(value)

    def again(self, value: Object) -> None:
        """Delete an object and make it again."""
        self.end(value)
        if isinstance(value, Claim):
            self._make_claim(value.id.name)
        elif isinstance(value, Pod):
            self.put(msgspec.structs.replace(value, uid=self._uid(), node_name=""))
        else:
            self.put(msgspec.structs.replace(value, uid=self._uid()) if hasattr(value, "uid") else value)

    def restart_group(self) -> None:
        """Delete a group with its pods and make all of them again, before the controller has seen it."""
        for pod in self.pods():
            if pod.gang == GROUP:
                self.again(pod)
        self.again(self.get(Kind.POD_GROUPS, GROUP))
        self.show(*(kind for kind in (Kind.PODS, Kind.POD_GROUPS) if self.chance.randrange(4)))

    def reserve_for_group(self) -> None:
        """Allocate the shared claim and reserve it for the group, as another scheduler does."""
        reference = ConsumerReference(
            api_group=GROUP.source, resource="podgroups", name="g", uid=self.get(Kind.POD_GROUPS, GROUP).uid
        )
        given = b.allocation(b.result("gpu", "gpu-0", "n1"), node_name="n1")
        claim = self.get(Kind.CLAIMS, SHARED.claim)
        fields = {"allocation": given, "reserved_for": (reference,), "finalizers": (FINALIZER,)}
        self.put(msgspec.structs.replace(claim, **fields))

    def _make_claim(self, name: str) -> None:
        group = self.get(Kind.POD_GROUPS, GROUP)
        made = msgspec.structs.replace(b.claim(name), uid=self._uid())
        if name == "of-group" and group is not None:
            made = msgspec.structs.replace(made, owner_group_uid=group.uid)
        self.put(made)

    def _uid(self) -> str:
        self._version += 1
        return f"uid-{self._version}"

    def _group_claims(self) -> tuple[tuple[str, ClaimId | None, str], ...]:
        return tuple((each.entry, each.claim, each.template) for each in (SHARED, OF_GROUP))

    def pods(self) -> list[Pod]:
        return [each for (kind, _), each in self.objects.items() if kind is Kind.PODS]

    def claims(self) -> list[Claim]:
        return [each for (kind, _), each in self.objects.items() if kind is Kind.CLAIMS]

    # what goes on

    def control(self) -> None:
        """Remove the reservations of pods and groups that are gone; the last one takes the allocation with it."""
        uids = {getattr(each, "uid", "") for each in self.objects.values()}
        for claim in self.claims():
            left = tuple(each for each in claim.reserved_for if each.uid in uids)
            if len(left) < len(claim.reserved_for):
                allocation = claim.allocation if left else None
                self.put(msgspec.structs.replace(claim, reserved_for=left, allocation=allocation))
        group = self.get(Kind.POD_GROUPS, GROUP)
        made = self.get(Kind.CLAIMS, OF_GROUP.claim)
        if group is not None and made.owner_group_uid != group.uid and made.allocation is None:
            self.end(made)
            self._make_claim(made.id.name)

    def show(self, *kinds: Kind) -> None:
        for kind in kinds or tuple(self.unseen):
            while self.unseen[kind]:
                self.cluster.apply(self.unseen[kind].popleft())

    def happen(self) -> None:
        """Let something happen, between two requests of the scheduler."""
        match self.chance.randrange(8) if not self.is_calm else None:
            case 0 | 1:
                self.remake()
            case 2:
                self.control()
            case 3 | 4 | 5:
                self.show(self.chance.choice(list(Kind)))
            case _:
                pass
        self.judge()

    def judge(self) -> None:
        """Every running pod has its claims, allocated and reserved for it; no device has two holders."""
        holders: defaultdict[DeviceId, set[str]] = defaultdict(set)
        for claim in self.claims():
            for result in claim.allocation.results if claim.allocation is not None else ():
                holders[result.device].add(claim.uid)
        for pod in self.pods():
            if pod.uid not in self.used:
                continue
            group = self.get(Kind.POD_GROUPS, GROUP)
            claim = self.get(Kind.CLAIMS, pod.claim_ids[0])
            own = {pod.uid} | ({group.uid} if pod.gang is not None and group is not None else set())
            assert own & {each.uid for each in claim.reserved_for}, f"{pod.id} runs, and its claim is not reserved"
            for device in self.used[pod.uid]:
                holders[device].add(claim.uid)
        assert {device: uids for device, uids in holders.items() if len(uids) > 1} == {}


class Server:
    """The requests of the scheduler; before each of them something happens."""

    def __init__(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        self.world: Final = world
        for name in (
            *("add_finalizer", "allocate", "adopt", "reserve", "release", "bind"),
            *("read_claim", "read_pod", "read_group_uid"),
        ):
            monkeypatch.setattr(writes, name, self._request(getattr(self, name)))

    def _request(self, act: Callable[..., Any]) -> Callable[..., Awaitable[Any]]:
        async def request(_: Client, *arguments: Any, timeout_seconds: float, **more: Any) -> Any:
            del timeout_seconds
            await asyncio.sleep(0)
            self.world.happen()
            answer = act(*arguments, **more)
            self.world.judge()
            return answer

        return request

    def _live(self, claim: Claim) -> Claim:
        live = self.world.get(Kind.CLAIMS, claim.id)
        if live is None:
            raise NotFound(404)
        if live.resource_version != claim.resource_version:
            raise Conflict(409)
        return cast("Claim", live)

    def _store(self, claim: Claim, **changes: Any) -> Claim:
        self.world.put(msgspec.structs.replace(self._live(claim), **changes))
        return cast("Claim", self.world.get(Kind.CLAIMS, claim.id))

    def add_finalizer(self, claim: Claim) -> Claim:
        return self._store(claim, finalizers=(FINALIZER,))

    def adopt(self, claim: Claim) -> Claim:
        return self._store(claim)

    def allocate(self, claim: Claim, allocation: Allocation, consumers: Sequence[ConsumerReference]) -> Claim:
        return self._store(claim, allocation=allocation, reserved_for=(*claim.reserved_for, *consumers))

    def reserve(self, claim: Claim, consumers: Sequence[ConsumerReference]) -> Claim:
        return self._store(claim, reserved_for=(*claim.reserved_for, *consumers))

    def release(self, claim: Claim, uids: Collection[str], *, deallocate: bool) -> Claim:
        left = tuple(each for each in claim.reserved_for if each.uid not in uids)
        return self._store(claim, reserved_for=left, allocation=None if deallocate else claim.allocation)

    def read_claim(self, key: ClaimId) -> Claim | None:
        return cast("Claim | None", self.world.get(Kind.CLAIMS, key))

    def read_pod(self, key: PodId) -> Pod | None:
        return cast("Pod | None", self.world.get(Kind.PODS, key))

    def read_group_uid(self, _: str, group: GangId) -> str:
        found, self.world.is_group_looked_at = self.world.get(Kind.POD_GROUPS, group), True
        return "" if found is None else str(found.uid)

    def bind(self, key: PodId, uid: str, node: str, *, place: str = "") -> None:
        assert not place, "no room is held here"
        pod = self.world.get(Kind.PODS, key)
        if pod is None:
            raise NotFound(404)
        if pod.uid != uid or pod.node_name:
            raise Conflict(409)
        self.world.put(msgspec.structs.replace(pod, node_name=node))
        claim = self.world.get(Kind.CLAIMS, pod.claim_ids[0])
        assert claim.allocation is not None, f"{key} is bound and its claim is not allocated"
        self.world.used[uid] = frozenset(each.device for each in claim.allocation.results)


class Scheduler:
    """Decides about all pods that wait in the cache, and commits the plan."""

    def __init__(self, world: World) -> None:
        clock = VirtualClock()
        slots = RequestSlots(ConcurrencyLimit(), clock, clock.sleep)
        writer = Writer(slots, NoFence(), 10.0, clock, clock.sleep)
        self.world: Final = world
        self.commit: Final = Commit(
            cast("Client", None),
            world.cluster,
            writer,
            cast("PreBind", None),
            lambda _: None,
            pod_groups="/podgroups",
            clock=clock,
        )

    async def decide(self) -> None:
        cluster, self.world.is_group_looked_at = self.world.cluster, False
        shown = [cluster.pod(each.id) for each in members()]
        waiting = Batch(pods=tuple(each for each in shown if each is not None and not each.node_name))
        batch, snapshot = cluster.with_gangs(waiting), cluster.snapshot()
        plan = solve(snapshot, batch, Policy(), Budget(seconds=60.0))
        assert verify.check(snapshot, batch, plan, Policy()) == ()
        self.world.happen()
        units = split_plan(plan, batch)
        for unit in units:
            cluster.assume(unit)
        await self.commit.begin(units)
        for outcome in await asyncio.gather(*map(self.commit.commit, units)):
            self._settle(outcome)

    def _settle(self, outcome: Outcome) -> None:
        match outcome:
            case Undone(unit=unit, unreleased=unreleased) | LostRace(unit=unit, unreleased=unreleased):
                self.world.cluster.forget(unit, unreleased)
            case Refused(unit=unit):
                self.world.cluster.forget(unit)
            case PartlyBound(unit=unit, unbound=unbound):
                for placement, _ in unbound:
                    own = tuple(each for each in unit.allocations if each.claim in placement.claims)
                    part = Unit(placements=(placement,), allocations=own)
                    self.world.cluster.forget(part, placement.claims)
            case _:
                assert isinstance(outcome, Bound)


@pytest.mark.parametrize("seed", range(16))
async def test_no_device_has_two_holders(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(seed)
    Server(world, monkeypatch)
    scheduler = Scheduler(world)
    world.show()
    for _ in range(ROUNDS):
        await scheduler.decide()
        world.happen()
        for pod in world.pods():
            if pod.uid in world.used and not world.chance.randrange(3):
                world.again(pod)
        if world.chance.randrange(2):
            world.restart_group()
    world.is_calm = True
    for _ in range(3):
        world.control()
        world.show()
        await scheduler.decide()
    assert len({device for devices in world.used.values() for device in devices}) == DEVICES  # nothing is held in vain

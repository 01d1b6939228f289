"""The keeper of holds beside a cluster cache, and an API server that has DeviceHolds and loses answers when told to."""

import asyncio
from collections.abc import Callable
from typing import Self, cast

import pytest
from msgspec.structs import replace

from scheduler.change import Change, Kind, Transition
from scheduler.cluster import Cluster
from scheduler.holds.hold_keeper import HoldKeeper
from scheduler.holds.hold_requests import HoldNews, HoldRequest
from scheduler.kube import hold_writes
from scheduler.kube.client import Client
from scheduler.kube.concurrency_limit import ConcurrencyLimit, RequestSlots
from scheduler.kube.errors import AnswerLost, Conflict, KubeError, Unreachable
from scheduler.kube.hold_writes import OwnerState
from scheduler.kube.writer import NoFence, Writer
from scheduler.observe.metrics import Metrics
from scheduler.settings import HoldLimits
from solver.domain import DeviceHold, HeldPlace, HoldOwner, LostPlace
from tests.support import builders as b
from tests.support import hold_builders as h
from tests.support.cluster_builders import cluster_of
from tests.support.shell_clock import Ahead, VirtualClock


class HoldServer:
    """
    What the API server has stored. `shows` gets each change.

    `error` is what writes are answered with; with `acts` they act all the same. `is_away`: reads are not answered
    either. `late` are creations that arrive when `deliver` is called.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, shows: Callable[[Change], None]) -> None:
        self.stored: dict[str, DeviceHold] = {}
        self.owners: dict[str, OwnerState] = {h.OWNER.uid: OwnerState(h.OWNER.uid, has_ended=False)}
        self.error: KubeError | None = None
        self.acts = self.is_away = self.arrives_late = False
        self.calls: list[str] = []
        self.late: list[DeviceHold] = []
        self._shows = shows
        self._count = 0
        for name in ("create_hold", "read_hold", "note_places", "delete_hold"):
            monkeypatch.setattr(hold_writes, name, getattr(self, name))
        monkeypatch.setattr("scheduler.holds.hold_owners.read_owner", self.read_owner)

    def store(self, hold: DeviceHold) -> DeviceHold:
        """Somebody writes a hold."""
        self._count += 1
        uid = hold.uid or f"uid-{self._count}"
        self.stored[hold.name] = found = replace(hold, uid=uid, resource_version=str(self._count))
        self._shows(Change(kind=Kind.HOLDS, key=hold.name, value=found))
        return found

    def remove(self, name: str) -> None:
        """Somebody deletes a hold."""
        if self.stored.pop(name, None) is not None:
            self._shows(Change(kind=Kind.HOLDS, key=name, value=None))

    def deliver(self) -> None:
        """What was sent arrives."""
        for hold in self.late:
            if hold.name not in self.stored:
                self.store(hold)
        self.late.clear()

    async def create_hold(self, _: Client, hold: DeviceHold, **__: object) -> DeviceHold:
        self.calls.append(f"create {hold.name}")
        if self.arrives_late:
            self.late.append(hold)
            raise AnswerLost("no answer")
        if self.error is None or self.acts:
            if hold.name in self.stored:
                raise Conflict(409, "AlreadyExists")
            self.store(hold)
        self._answer()
        return self.stored[hold.name]

    async def read_hold(self, _: Client, name: str, **__: object) -> DeviceHold | None:
        if self.is_away:
            raise Unreachable("away")
        return self.stored.get(name)

    async def note_places(
        self, _: Client, hold: DeviceHold, used: tuple[int, ...], lost: tuple[LostPlace, ...], **__: object
    ) -> None:
        self.calls.append(f"note {hold.name}")
        if self.error is None or self.acts:
            found = self.stored.get(hold.name)
            if found is None or found.resource_version != hold.resource_version:
                raise Conflict(409)
            self.store(replace(found, used=tuple(used), lost=tuple(lost)))
        self._answer()

    async def delete_hold(self, _: Client, name: str, uid: str, **__: object) -> None:
        self.calls.append(f"delete {name}")
        if (self.error is None or self.acts) and name in self.stored and self.stored[name].uid == uid:
            self.remove(name)
        self._answer()

    async def read_owner(self, _: Client, owner: HoldOwner, **__: object) -> OwnerState | None:
        if self.is_away:
            raise Unreachable("away")
        return self.owners.get(owner.uid)

    def _answer(self) -> None:
        if self.error is not None:
            raise self.error


class HoldStage:
    """
    Two nodes with two devices each, a leader that follows holds, and its clocks.

    With `is_watching` off, the watch shows nothing until `show`.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.clock, self.wall, self.ahead = VirtualClock(), VirtualClock(5000.0), Ahead()
        self.is_watching, self.unseen = True, list[Change]()
        self.cluster: Cluster = cluster_of(
            *(each for n in ("n1", "n2") for each in (b.node(n, cpu=4), b.gpu_slice(n, count=2)))
        )
        self.server = HoldServer(monkeypatch, self._changed)
        self.woken: list[Transition] = []
        self.news: list[HoldNews] = []
        self.limits, self.unavailable = HoldLimits(), ""
        self.keeper = self._keeper()
        self._leading: asyncio.Task[None] | None = None

    def _keeper(self) -> HoldKeeper:
        slots = RequestSlots(ConcurrencyLimit(), self.clock, self.clock.sleep)
        writer = Writer(slots, NoFence(), 10.0, self.clock, self.clock.sleep)
        keeper = HoldKeeper(
            (cast("Client", None), writer, self.cluster),
            self.limits,
            Metrics(),
            self.woken.extend,
            self.unavailable,
            clock=self.clock,
            wall=self.wall,
        )
        keeper.subscribers.append(self.news.append)
        return keeper

    def _changed(self, change: Change) -> None:
        self.unseen.append(change)
        if self.is_watching:
            self.show()

    def show(self) -> None:
        """The watches show what has happened."""
        changes, self.unseen = self.unseen, []
        for change in changes:
            self.see(change)

    def relist(self) -> None:
        """The watches begin again: what came and went meanwhile is never shown."""
        self.unseen.clear()
        shown = {each.name for each in self.cluster.holds.values() if self.cluster.seen(Kind.HOLDS, each.name)}
        for name in sorted(shown | self.server.stored.keys()):
            self.see(Change(kind=Kind.HOLDS, key=name, value=self.server.stored.get(name)))

    def see(self, change: Change) -> None:
        """The watch shows a change."""
        transitions = self.cluster.apply(change)
        self.keeper.see(transitions)
        self.woken.extend(transitions)

    async def lead(self) -> Self:
        """Let the keeper follow holds."""
        self._leading = asyncio.create_task(self.keeper.run())
        await self.passes(0.2)
        return self

    async def end(self) -> None:
        """The leader ends; what it had in memory is gone."""
        if self._leading is not None:
            self._leading.cancel()
            await asyncio.gather(self._leading, return_exceptions=True)

    async def change_leader(self) -> None:
        """Another replica, which has seen the same, goes on."""
        await self.end()
        for hold in self.cluster.holds.values():
            self.cluster.holds.forget(hold.name)  # what was assumed is not known to it
        self.keeper = self._keeper()
        await self.lead()

    async def passes(self, seconds: float) -> None:
        """Let time pass on all clocks."""
        while seconds > 0:
            step = min(seconds, 1.0)
            self.clock.advance(step)
            self.wall.advance(step)
            await self.ahead.sleep(step)
            for _ in range(20):
                await asyncio.sleep(0)
            seconds -= step

    def is_held(self, device: str = "gpu-0", node: str = "n1") -> bool:
        """Whether a device is held for pods to come."""
        return any(
            each.device == b.result("r", device, node).device
            for seat in self.cluster.holds.seats_on(node)
            for each in seat.place.devices
        )

    def freed(self) -> int:
        """Count the places of which waiting pods were told that they are free."""
        return sum(len(each.closed) for each in self.woken)


def request(*places: HeldPlace, name: str = "", seconds: float = 60.0, **fields: object) -> HoldRequest:
    """Ask for the room of the first device of n1, or for other places."""
    own = places or (h.place(h.of_owner("job"), "n1", "gpu-0", cpu=1),)
    return replace(HoldRequest(owner=h.OWNER, places=own, seconds=seconds, name=name), **fields)

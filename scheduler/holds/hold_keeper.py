"""
The door of holds: makes DeviceHolds for other parts of the scheduler, follows them, and ends them.

The room is assumed to be held before the object is written, so that no decision gives it away meanwhile. It stays held
in the cache until the watch shows that the object is gone. So a write that is lost, late or refused frees nothing that
is held, and holds nothing that was not asked for longer than until its deadline.
"""

import asyncio
import contextlib
import math
import secrets
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Final

import msgspec

from scheduler.backoff import Cooldown
from scheduler.change import Kind, Transition
from scheduler.cluster import Cluster
from scheduler.cluster.devices import DevicePart
from scheduler.cluster.holds.held_conflicts import lost_seats
from scheduler.holds.hold_bounds import HoldBounds, first_objection
from scheduler.holds.hold_owners import HoldOwners
from scheduler.holds.hold_requests import HoldEnding, HoldNews, HoldRefused, HoldRequest
from scheduler.kube import hold_writes
from scheduler.kube.client import Client
from scheduler.kube.errors import Conflict, KubeError
from scheduler.kube.writer import FencedError, Writer
from scheduler.loop_turns import LoopTurns
from scheduler.observe import logs
from scheduler.observe.metrics import Metrics, Subsystem
from scheduler.observe.unexpected_errors import Confined, together
from scheduler.settings import HoldLimits
from solver.domain import Claim, DeviceHold, DeviceId, HeldPlace, Pod, Seat

_PERIOD_SECONDS: Final = 1.0
"""Between two looks at deadlines and owners."""
_TOGETHER_SECONDS: Final = 0.1
"""Changes within this time are handled together."""
_NOTE_SECONDS: Final = 1.0
"""Between two notes of what was used up of a hold: each writes all of it, and pods say it meanwhile."""
_AGAIN_SECONDS: Final = 5.0
"""A write that the watch does not show is sent again after this time."""
_MOST_DEVICES: Final = 50
"""Devices whose places are looked at together."""
_LATE_SECONDS: Final = 60.0
"""After its deadline, a hold that no watch has shown by then was never made."""

_log: Final = logs.logger()


class HoldKeeper:
    """
    Holds room for other parts, and carries all DeviceHolds of the cluster to their ends while this replica leads.

    `unavailable` says why no room can be held in this cluster, else empty. `wake` gets the transitions of room that
    comes free. `subscribers` learn of each end and of each lost place, and `on_begin` is called as soon as room is
    held: in the cache, before the object is written.
    """

    def __init__(
        self,
        access: tuple[Client, Writer, Cluster],
        limits: HoldLimits,
        metrics: Metrics,
        wake: Callable[[Sequence[Transition]], object],
        unavailable: str = "",
        *,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._client, self._writer, self._cluster = access
        self.bounds: Final = HoldBounds(self._cluster.holds, limits)
        self._metrics: Final = metrics
        self._wake: Final = wake
        self._unavailable: Final = unavailable
        self._wall: Final = wall
        self._owners: Final = HoldOwners(self._client, self._writer, clock)
        self._confined: Final = partial(Confined, metrics, Subsystem.HOLDS, passing=(FencedError,))
        self.subscribers: Final[list[Callable[[HoldNews], None]]] = []
        self.on_begin: Final[list[Callable[[], object]]] = []
        self._ends: Final[dict[str, tuple[HoldEnding, str]]] = {}
        """Why holds end, by uid, from then on until the watch shows that they are gone."""
        self._unwanted: Final[dict[str, DeviceHold]] = {}
        """Holds by name that were given up before it was known whether they are stored."""
        self._sent: Final[Cooldown[tuple[str, str]]] = Cooldown(_AGAIN_SECONDS, clock)
        """Writes by uid and version of the hold ("" for its deletion)."""
        self._noted: Final[Cooldown[str]] = Cooldown(_NOTE_SECONDS, clock)
        self._nodes: Final[dict[str, None]] = {}
        self._parts: Final[dict[DevicePart, None]] = {}
        """Nodes and devices of which others may have got held room."""
        self._changed: Final = asyncio.Event()
        self._is_leading = False

    def hold(self, request: HoldRequest) -> Coroutine[Any, Any, DeviceHold]:
        """
        Hold room in the cache at once, and return what stores the hold: await it in any case.

        Raise `HoldRefused`. What is awaited raises it too, where others have the room already or the write fails, and
        `FencedError` where this replica may write no more.
        """
        known = self._cluster.holds.get(request.name)
        if known is not None and known.uid and known.owner.uid == request.owner.uid:
            if known.uid in self._ends:
                raise HoldRefused(f"DeviceHold {known.name} is ending")
            return self._kept(known, request.seconds)
        return self._kept(self._assumed(request), request.seconds)

    async def _kept(self, hold: DeviceHold, seconds: float) -> DeviceHold:
        """Store a hold that is assumed, and return it as it is stored; one that is stored already is returned."""
        if hold.uid:
            return hold
        is_sent = is_stored = False
        try:
            if reason := await first_objection(self._cluster, hold):  # nobody else gets the room from now on
                _log.info(logs.HOLD_REFUSED, owner=str(hold.owner), reason=reason)
                raise HoldRefused(reason)
            is_sent = True
            stored = await self._stored(hold)
            is_stored = True
        except (KubeError, hold_writes.HoldTooLargeError) as error:
            raise HoldRefused(str(error)) from error
        finally:
            if not is_stored:  # nothing is held for it; a hold that is stored after all is deleted once it is seen
                if is_sent:
                    self._unwanted[hold.name] = hold
                self._wake(self._cluster.holds.forget(hold.name))
                self._release_unwanted(hold.name)
        if self._cluster.holds.get(hold.name) is not None:  # else the watch has shown it, and its end
            self._wake(self._cluster.holds.make(stored))
        _log.info(logs.HOLD_MADE, hold=hold.name, owner=str(hold.owner), places=len(hold.places), seconds=seconds)
        return stored

    def release(self, uid: str) -> None:
        """Give the room of a hold free; one that is gone already is no error."""
        self._end(uid, HoldEnding.RELEASED, "")

    def of_owner(self, uid: str) -> tuple[DeviceHold, ...]:
        """Return the holds of an owner by its uid, those that are being made included."""
        return self._cluster.holds.of_owner(uid)

    def _assumed(self, request: HoldRequest) -> DeviceHold:
        """Hold room in the cache. Raise `HoldRefused`."""
        if reason := self.why_not(request, hold := self._wanted(request)):
            _log.info(logs.HOLD_REFUSED, owner=str(hold.owner), reason=reason)
            raise HoldRefused(reason)
        self._unwanted.pop(hold.name, None)
        self._wake(self._cluster.holds.make(hold))
        self._begin()
        return hold

    def _wanted(self, request: HoldRequest) -> DeviceHold:
        """Return the hold of a request, from now on."""
        places = tuple(msgspec.structs.replace(each, index=index) for index, each in enumerate(request.places))
        return DeviceHold(
            name=request.name or f"hold-{secrets.token_hex(8)}",
            uid="",
            owner=request.owner,
            priority=request.priority,
            deadline=math.ceil(self._wall() + request.seconds),
            places=places,
            departing=request.departing,
        )

    def why_not(self, request: HoldRequest, hold: DeviceHold | None = None) -> str:
        """Say which limit keeps room from being held now; empty where none does."""
        hold = hold or self._wanted(request)
        found = self.bounds.refusals(hold, request.seconds, has_quota=request.has_quota)
        return self._unavailable or next(found, "")

    async def _stored(self, hold: DeviceHold) -> DeviceHold:
        """Create a hold. Where an answer is lost, a live read says whether it is stored."""
        try:
            return await self._writer.insist(partial(hold_writes.create_hold, self._client, hold))
        except KubeError as error:  # a conflict: an earlier try has acted, of this leader or of one before
            if not isinstance(error, Conflict) and not error.may_have_acted:
                raise
        found = await self._writer.read(partial(hold_writes.read_hold, self._client, hold.name))
        if found is None:
            raise KubeError("no answer says that it is stored, and it cannot be read")
        if found.owner.uid != hold.owner.uid:
            raise KubeError(f"DeviceHold {hold.name} is there already, for {found.owner}")
        return found

    def _release_unwanted(self, name: str) -> None:
        """End a hold that was given up; one of another owner has the name of its own right."""
        hold, unwanted = self._cluster.holds.seen(Kind.HOLDS, name), self._unwanted.get(name)
        if hold is not None and unwanted is not None and hold.owner.uid == unwanted.owner.uid:
            del self._unwanted[name]
            self.release(hold.uid)

    def _end(self, uid: str, ending: HoldEnding, message: str) -> None:
        if self._cluster.holds.by_uid(uid) is not None:
            self._ends.setdefault(uid, (ending, message))
            self._changed.set()

    # What the watches show

    def see(self, transitions: Sequence[Transition]) -> None:
        """Follow changes of holds, and of what may take their room or is their owner."""
        for each in transitions:
            if each.kind is Kind.HOLDS:
                self._see_hold(each)
            elif not len(self._cluster.holds):
                continue
            elif each.kind is Kind.NODES and each.after is None:
                self._suspect((each.key,), ())
            elif each.kind is Kind.PODS and isinstance(pod := each.after or each.before, Pod):
                if each.after is not None:
                    self._suspect((pod.node_name,), ())
                else:
                    self._see_end_of(pod)
            elif each.kind is Kind.CLAIMS and isinstance(claim := each.after, Claim) and claim.allocation is not None:
                self._suspect((), (result.device for result in claim.allocation.results))

    def _see_end_of(self, pod: Pod) -> None:
        """A pod is gone: what it owns ends, and places that are for it alone are lost."""
        if self.of_owner(pod.uid):
            self._owners.suspect(pod.uid)
            self._changed.set()
        for seat in tuple(self._cluster.holds.seats_of(pod.uid)):
            self._give_up(seat, f"pod {pod.id} is gone")

    def _give_up(self, seat: Seat, message: str) -> None:
        self._wake(self._cluster.holds.lose(seat.id, message))
        self._tell(HoldNews(seat.hold, None, message))
        self._changed.set()

    def _see_hold(self, transition: Transition) -> None:
        before, after = transition.before, transition.after
        uid = after.uid if isinstance(after, DeviceHold) else ""
        if isinstance(before, DeviceHold) and before.uid != uid:
            self._tell(HoldNews(before, *self._ends.pop(before.uid, (HoldEnding.DELETED, ""))))
        self._release_unwanted(transition.key)
        if isinstance(after, DeviceHold) and not isinstance(before, DeviceHold):
            self._suspect((each.node for each in after.places), _devices(after.places))
            self._begin()
        self._changed.set()

    def _begin(self) -> None:
        for tell in self.on_begin:
            tell()

    def _suspect(self, nodes: Iterable[str], devices: Iterable[DeviceId]) -> None:
        """Look at the places on some nodes and with some devices: others may have got their room."""
        parts = self._cluster.store.slice_index.parts_of(devices)
        self._nodes.update((each, None) for each in nodes if self._cluster.holds.seats_on(each))
        self._parts.update((each, None) for each in parts if self._cluster.holds.has_seats_with(each))
        if self._nodes or self._parts:
            self._changed.set()

    def _tell(self, news: HoldNews) -> None:
        if not self._is_leading:
            return
        owner, hold = str(news.hold.owner), news.hold.name
        if news.ending is None:
            _log.warning(logs.PLACE_LOST, hold=hold, owner=owner, message=news.message)
        else:
            self._metrics.holds_ended.labels(news.ending).inc()
            _log.info(logs.HOLD_ENDED, hold=hold, owner=owner, ending=news.ending.value, message=news.message)
        for tell in self.subscribers:
            with self._confined(hold=hold):
                tell(news)

    # What the leader does

    async def run(self) -> None:
        """Follow all holds to their ends; return when no write may start any more."""
        self._is_leading = True
        holds = self._cluster.holds.values()
        for hold in holds:
            self._suspect((each.node for each in hold.places), _devices(hold.places))
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_PERIOD_SECONDS):
                    await self._changed.wait()
            self._changed.clear()
            try:
                with self._confined():
                    await self.look()
            except FencedError:
                return
            await asyncio.sleep(_TOGETHER_SECONDS)

    async def look(self) -> None:
        """Note lost places, end the holds that are over, and write what has been used up."""
        await self._note_lost()
        for name in [each.name for each in self._unwanted.values() if self._is_late(each)]:
            del self._unwanted[name]
        holds = [each for each in self._cluster.holds.values() if self._is_watched(each)]
        gone = await self._owners.gone(each.owner for each in holds)
        for hold in holds:
            ending, message = self._ending(hold, gone)
            if ending is not None:
                self._end(hold.uid, ending, message)
        self._metrics.held_places.set(sum(len(hold.open_places) for hold in holds))
        due = (hold for hold in self._cluster.holds.values() if hold.uid in self._ends)
        ended = (hold for hold in due if self._sent.try_start((hold.uid, "")))
        await together([*map(self._delete, ended), *map(self._write_status, holds)])

    async def _note_lost(self) -> None:
        """Find the places that others have now: those of one node, or with some devices, at a time."""
        nodes, parts = tuple(self._nodes), tuple(self._parts)
        self._nodes.clear()
        self._parts.clear()
        some = (parts[first : first + _MOST_DEVICES] for first in range(0, len(parts), _MOST_DEVICES))
        async for near in LoopTurns().each((*(((node,), ()) for node in nodes), *(((), each) for each in some))):
            with self._confined():
                for seat, message in tuple(lost_seats(self._cluster.store, self._cluster.holds, *near)):
                    self._give_up(seat, message)

    def _is_watched(self, hold: DeviceHold) -> bool:
        """Whether the watch shows a hold; one that it has not shown long after its deadline is forgotten."""
        is_seen = self._cluster.holds.seen(Kind.HOLDS, hold.name) is not None
        if not is_seen and self._is_late(hold):
            self._gone_unseen(hold)
        return is_seen

    def _is_late(self, hold: DeviceHold) -> bool:
        return self._wall() > hold.deadline + _LATE_SECONDS

    def _gone_unseen(self, hold: DeviceHold) -> None:
        """Forget a hold that no watch has shown, and that is there no more."""
        self._wake(self._cluster.holds.forget(hold.name))
        self._tell(HoldNews(hold, *self._ends.pop(hold.uid, (HoldEnding.DEADLINE, ""))))

    def _ending(self, hold: DeviceHold, gone: dict[str, str]) -> tuple[HoldEnding | None, str]:
        if hold.deadline and self._wall() >= hold.deadline:
            return HoldEnding.DEADLINE, ""
        if hold.owner.uid in gone:
            return HoldEnding.OWNER, gone[hold.owner.uid]
        if self._cluster.holds.has_ended(hold.name) and not hold.invalid:  # of which places may not be known
            return (HoldEnding.LOST, hold.lost[-1].message) if hold.lost else (HoldEnding.USED, "")
        return None, ""

    async def _delete(self, hold: DeviceHold) -> None:
        with self._confined(hold=hold.name):
            try:
                await self._writer.write(partial(hold_writes.delete_hold, self._client, hold.name, hold.uid))
            except KubeError as error:
                _log.warning(logs.HOLD_WRITE_FAILED, hold=hold.name, error=str(error))
                return
            if hold.uid in self._ends and self._cluster.holds.seen(Kind.HOLDS, hold.name) is None:
                self._gone_unseen(hold)  # a list after a broken watch may never show it

    async def _write_status(self, hold: DeviceHold) -> None:
        """Write which places are used up and lost, unless the hold ends."""
        now = self._cluster.holds.unwritten(hold.name)
        if now is None or now.uid in self._ends or not self._noted.try_start(now.uid):
            return
        if not self._sent.try_start((now.uid, now.resource_version)):
            return
        with self._confined(hold=hold.name):
            try:
                await self._writer.write(partial(hold_writes.note_places, self._client, now, now.used, now.lost))
            except Conflict:
                return  # the watch shows what has changed
            except KubeError as error:
                _log.warning(logs.HOLD_WRITE_FAILED, hold=hold.name, error=str(error))


def _devices(places: Iterable[HeldPlace]) -> Iterator[DeviceId]:
    return (each.device for place in places for each in place.devices)

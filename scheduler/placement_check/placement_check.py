"""
The admission check `dovetail.dev/placement`, between the watches of Kueue's objects, the queue and the API server.

    follow    the pods of a Workload that needs an answer are in the scheduling queue, and no others
    placed    a decision has a place for all of them: the room is held, or a parked Workload becomes active
    refused   a decision has none: the reason is kept
    act       what `check_states` says is next is written, one write of a Workload at a time

Where a Workload stands is what its watch shows, never what was written. So a restart, and a leader that dies at any
write, goes on from there; holds say which room is whose.
"""

import asyncio
import contextlib
import math
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

from scheduler.change import is_older
from scheduler.cluster import Unit
from scheduler.holds.hold_requests import HoldNews, HoldRefused
from scheduler.kube.client import Client
from scheduler.kube.errors import Conflict, KubeError, NotFound
from scheduler.kube.writer import ApiCall, FencedError, Writer
from scheduler.loop_turns import LoopTurns
from scheduler.observe import logs
from scheduler.observe.health import Check
from scheduler.observe.metrics import Metrics, Subsystem
from scheduler.observe.unexpected_errors import Confined, Tasks
from scheduler.placement_check import check_writes as writes
from scheduler.placement_check.check_states import (
    Activate,
    CheckMemory,
    Duty,
    Park,
    Say,
    Step,
    Unmark,
    Wait,
    duty,
    next_step,
)
from scheduler.placement_check.hold_line import HoldLine
from scheduler.placement_check.known_workloads import KnownWorkload, KnownWorkloads
from scheduler.placement_check.kueue_objects import PENDING, REJECTED, KueueWorkload, grows_beside_running_pods
from scheduler.placement_check.kueue_objects_watch import KueueObjects
from scheduler.placement_check.podset_pods import MissingPartError, Part, is_expected, workload_of
from scheduler.placement_check.workload_queue import Feed, NoMemoryError, WorkloadQueue
from scheduler.placement_check.workload_rooms import RoomState, WorkloadRooms
from scheduler.queue.memory_budget import MemoryBudget
from solver.domain import DeviceHold, Pod, PodId, Reason, ReasonCode

_GROWS: Final = "Kueue lets further pods of a running Job come by quota alone: they are placed like any other"
_OTHERS: Final = "Dovetail schedules none of its pods"
_ACTIVE: Final = "Dovetail answers this check: a Workload is let in when all its pods have room"
_First = Callable[..., Awaitable[KueueWorkload]]
_Second = Callable[..., Awaitable[str]]
_EVENTS: Final = {"parked": logs.WORKLOAD_PARKED, "activated": logs.WORKLOAD_ACTIVATED}
_RETRY_SECONDS: Final = 5.0
"""After a write that failed, unless the Workload changes before."""
_REPORT_SECONDS: Final = 5.0
"""How often the health check is looked at while nothing changes."""
_WITHOUT_ROOM: Final = frozenset({Duty.NONE, Duty.WATCH})

_log: Final = logs.logger()


class PlacementCheck:
    """Answers the check for all Workloads; `run` while this replica leads. `told` are series and the health check."""

    def __init__(
        self,
        client: Client,
        writer: Writer,
        rooms: WorkloadRooms,
        scheduler_names: frozenset[str],
        *,
        park_after_seconds: float,
        told: tuple[Metrics, Check],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client: Final = client
        self._writer: Final = writer
        self._rooms: Final = rooms
        self._park_after_seconds: Final = park_after_seconds
        self._metrics, self._health = told
        self._clock: Final = clock
        self._tasks: Final = Tasks(self._metrics, Subsystem.ADMISSION_CHECK)
        self._changed: Final = asyncio.Event()
        self._dirty: Final[dict[str, None]] = {}
        self._due: Final[dict[str, float]] = {}
        """When something is to be done about a Workload although nothing changes."""
        self._activated: Final[dict[str, float]] = {}
        """When an AdmissionCheck that is not active yet may be written again."""
        self._writing: Final[set[str]] = set()
        self._holding: Final[set[str]] = set()
        """Workloads (and checks) of which a state is being written, or room is being held."""
        self._written: Final[dict[str, str]] = {}
        """The version that the last write has made: what the watch shows before it is of the past."""
        self._known: Final = KnownWorkloads(clock)
        self._queue: Final = WorkloadQueue(scheduler_names)
        self._line: Final = HoldLine(rooms.keeper.bounds.leave)
        self._objects: Final = KueueObjects(
            client,
            on_workload=self._look_at,
            on_part=self._part_changed,
            on_check=self._check_changed,
            on_error=self._failed,
        )
        rooms.keeper.subscribers.append(self._see_room)

    async def run(self, feed: Feed, memory: MemoryBudget) -> None:
        """Answer until cancelled; pods that are expected are kept within the memory budget of all that wait."""
        self._queue.feed, self._queue.memory = feed, memory
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._objects.run())
                self._health.degrade("Kueue's objects are not listed yet")
                await self._objects.synced()
                turns = LoopTurns()
                while True:
                    self._changed.clear()
                    await self._act_on_all(turns)
                    await self._queue.flush(turns)
                    await self._until_due()
        finally:
            await self._tasks.finish()

    def placed(self, unit: Unit, pods: Mapping[PodId, Pod]) -> None:
        """Take a place for all pods of a Workload: its room is held at once, or the Workload becomes active."""
        key = workload_of(unit.placements[0].pod)
        self._line.leave(key)
        known, workload = self._known.get(key), self._objects.workloads.get(key)
        if any(not is_expected(each.pod) or workload_of(each.pod) != key for each in unit.placements):
            self._refuse_shared(unit, pods)
        elif workload is None or known is None or not self._queue.is_whole(key, unit, pods):
            self._give_back(unit, pods, _again("the Workload has changed"))
        elif known.duty is Duty.WATCH:
            if why := self._rooms.why_not(workload, unit, pods):  # it would be parked again
                self._no_room_held(workload, unit, pods, why)
                return
            self._give_back(unit, pods, ())
            self._known.note(key, is_placed=True)
            self._look_at(key)
        elif key in self._holding or self._rooms.room(workload.uid) is not RoomState.NONE:
            self._give_back(unit, pods, _again("the room that was held for it before is not free yet"))
        else:
            try:
                stored = self._rooms.hold(workload, unit, pods)
            except HoldRefused as refusal:
                self._no_room_held(workload, unit, pods, str(refusal))
                return
            self._known.note(key, is_placed=True)
            self._begin(key, self._holding, self._hold(key, stored, (unit, pods)))

    def _no_room_held(self, workload: KueueWorkload, unit: Unit, pods: Mapping[PodId, Pod], why: str) -> None:
        """Decide again; where the limits on all holds are the reason, not before these leave enough."""
        message, needs = f"no room can be held: {why}", self._rooms.lacking(workload, unit, pods)
        if needs is None:
            self._give_back(unit, pods, _again(message))
            return
        self._line.join(workload.key, needs, workload.priority)
        self._queue.keep_out(workload.key)
        self._known.refuse(workload.key, message)
        self._look_at(workload.key)
        self._give_back(unit, pods, ())

    def held_may_be_less(self) -> None:
        """Look whether those may come back that wait for the end of other holds."""
        if self._line.moves():
            self._changed.set()

    def refused(self, pod: Pod, say: Callable[[], str]) -> None:
        """Take why a pod of a Workload has no place, which `say` says; the first pod speaks for all."""
        key = workload_of(pod.id)
        if self._queue.is_first(key, pod):
            self._line.leave(key)
            self._known.refuse(key, say())
            self._look_at(key)

    def _refuse_shared(self, unit: Unit, pods: Mapping[PodId, Pod]) -> None:
        """Leave Workloads out that share claims with other pods: their room cannot be held apart."""
        for key in dict.fromkeys(workload_of(each.pod) for each in unit.placements if is_expected(each.pod)):
            self._queue.keep_out(key)
            self._known.refuse(key, "it shares a claim with pods of others; room is held for claims of its own only")
            self._look_at(key)
        self._give_back(unit, pods, _again("a Workload with the same claim was left out"))

    def _see_room(self, news: HoldNews) -> None:
        """Look at a Workload whose hold has ended or has lost a place: before it is let in it is decided again."""
        owner = news.hold.owner
        key = f"{owner.namespace}/{owner.name}"
        if news.ending is not None:
            self._rooms.ended(news.hold)
        known = self._known.get(key)
        if owner.kind == "Workload" and known is not None and known.uid == owner.uid:
            if known.memory.is_held:
                self._known[key] = known._replace(memory=CheckMemory(reason=known.memory.reason))
            self._look_at(key)

    async def _act_on_all(self, turns: LoopTurns) -> None:
        """Act on what has changed or is due, in turns: what changes meanwhile is looked at next."""
        for key in self._line.call():
            self._queue.leave(key)  # its pods are made anew
            self._dirty[key] = None
        now = self._clock()
        for check in self._objects.checks:
            is_due = check.name not in self._writing and self._activated.get(check.name, now) <= now
            if check.is_active is not True and not check.is_deleting and is_due:
                self._activated[check.name] = now + _RETRY_SECONDS  # the watch shows it meanwhile, or it failed
                call = partial(writes.apply_active, self._client, check, _ACTIVE)
                self._begin(check.name, self._writing, self._write(check.name, call))
        due = [key for key, at in self._due.items() if at <= now]
        async for key in turns.each(dict.fromkeys((*self._dirty, *due))):
            self._due.pop(key, None)
            if key in self._writing or key in self._holding:
                self._dirty[key] = None  # it is looked at when that has ended, also where the write was refused
                continue
            self._dirty.pop(key, None)
            with Confined(self._metrics, Subsystem.ADMISSION_CHECK, workload=key):
                self._act_on(key, frozenset(check.name for check in self._objects.checks), self._clock())

    def _act_on(self, key: str, ours: frozenset[str], now: float) -> None:
        """Bring the queue and the API server to what a Workload needs."""
        workload, before = self._objects.workloads.get(key), self._known.get(key)
        if workload is not None and is_older(workload.resource_version, self._written.get(key, "")):
            return
        wanted = duty(workload, ours) if workload is not None else Duty.NONE
        uid = workload.uid if workload is not None else ""
        ended = before.uid if before is not None and before.uid != uid else uid if wanted in _WITHOUT_ROOM else ""
        if ended:
            self._rooms.release(ended)
        if workload is None:
            self._queue.leave(key)
            self._line.leave(key)
            for kept in (self._known, self._written, self._due):
                kept.pop(key, None)
            return
        if before is None or (before.uid, before.duty) != (uid, wanted):
            self._queue.leave(key)
            self._line.leave(key)
            is_held = wanted is Duty.PLACE and self._rooms.room(uid) is RoomState.HELD
            self._known[key] = KnownWorkload(uid, wanted, now, CheckMemory(is_placed=is_held, is_held=is_held))
        if wanted is Duty.PLACE and self._rooms.room(uid) is RoomState.ENDING and key not in self._holding:
            self._queue.leave(key)
            self._rooms.release(uid)  # its end is seen, and then its pods are decided
            return
        self._known.see(workload)
        self._follow(key, workload)
        step = next_step(workload, ours, self._known[key].memory, now, park_after_seconds=self._park_after_seconds)
        self._act(key, workload, ours, step)

    def _follow(self, key: str, workload: KueueWorkload) -> None:
        """Have the pods of a Workload that needs a decision in the queue, made of what it is now."""
        known = self._known[key]
        if known.duty not in {Duty.PLACE, Duty.WATCH} or known.memory.is_placed:
            return
        if grows_beside_running_pods(workload, self._objects.workloads, self._known.admitted):
            self._queue.leave(key)
            self._line.leave(key)
            self._known.note(key, is_placed=True, is_held=True, answer=_GROWS)
            return
        try:
            has_pods = self._queue.offer(workload, self._objects.around)
        except (MissingPartError, ValueError) as error:
            self._line.leave(key)
            self._known.refuse(key, str(error))
            if isinstance(error, NoMemoryError):  # nothing tells when there is some
                self._due[key] = self._clock() + _RETRY_SECONDS
            return
        if not has_pods:
            self._line.leave(key)
            self._known.note(key, is_placed=True, is_held=True, answer=_OTHERS)

    def _part_changed(self, part: Part) -> None:
        """Look at Workloads that name something which has come, changed or gone."""
        for key in self._queue.see_part(part):
            self._look_at(key)

    def _check_changed(self) -> None:
        """Look at all Workloads: other checks may be ours."""
        for key in self._objects.workloads:
            self._look_at(key)
        self._changed.set()

    def _act(self, key: str, workload: KueueWorkload, ours: frozenset[str], step: Step) -> None:
        check = workload.check(ours)
        match step:
            case Wait(seconds=seconds):
                if seconds is not None:
                    self._due[key] = min(self._due.get(key, math.inf), self._clock() + seconds)
            case Park(message=message) if check is not None:
                reject = partial(writes.apply_state, check=check.name, state=REJECTED, message=message)
                both = self._write_both(workload, writes.mark_parked, reject, "parked", message)
                self._begin(key, self._writing, both)
            case Say(state=state, message=message) if check is not None:
                if state == PENDING:
                    self._known.note(key, written_at=self._clock())
                call = partial(writes.apply_state, self._client, workload, check.name, state, message)
                self._begin(key, self._writing, self._write(key, call, "" if state == PENDING else "ready"))
            case Activate():
                both = self._write_both(workload, writes.let_requeue, writes.activate, "activated", "it fits")
                self._begin(key, self._writing, both)
            case Unmark():
                self._begin(key, self._writing, self._write_both(workload, writes.let_requeue, writes.unmark))

    async def _hold(self, key: str, stored: Awaitable[DeviceHold], placed: tuple[Unit, Mapping[PodId, Pod]]) -> None:
        """Wait until the room of a unit is stored as held; then its pods leave the queue."""
        is_held, reason = False, "the hold was not stored; the scheduler decides again"
        try:
            await stored
            is_held = True
        except HoldRefused as refusal:
            reason = f"no room can be held: {refusal}"
        except FencedError:  # another replica leads, and goes on
            pass
        finally:
            if is_held:
                self._queue.leave(key)
                self._known.note(key, is_held=True)
            else:
                self._known.note(key, is_placed=False)
                self._give_back(*placed, _again(reason))

    async def _write_both(
        self, workload: KueueWorkload, first: _First, second: _Second, result: str = "", reason: str = ""
    ) -> None:
        """Write twice, the second by what the first has made of the Workload; then count and log a `result`."""
        with self._retried(workload.key):
            between = await self._writer.write(partial(first, self._client, workload))
            self._written[workload.key] = between.resource_version
            self._written[workload.key] = await self._writer.write(partial(second, self._client, between))
            if result:
                self._metrics.admission.answers.labels(result).inc()
                _log.info(_EVENTS[result], workload=workload.key, reason=reason)

    async def _write(self, key: str, call: ApiCall[str], result: str = "") -> None:
        """Write and count the `result`; where there is none, the write only informs."""
        with self._retried(key):
            self._written[key] = await self._writer.write(call, is_status=not result)
            if result:
                self._metrics.admission.answers.labels(result).inc()
            known = self._known.get(key)
            if result == "ready" and known is not None:
                self._metrics.admission.seconds.observe(self._clock() - known.since)

    @contextlib.contextmanager
    def _retried(self, key: str) -> Iterator[None]:
        """Suppress the errors of a write; what is to be done is worked out anew, after a while if nothing changes."""
        try:
            yield
        except FencedError:  # another replica leads, and goes on
            self._due[key] = self._clock() + _RETRY_SECONDS
        except KubeError as error:
            self._due[key] = self._clock() + _RETRY_SECONDS
            if not isinstance(error, Conflict | NotFound):  # it has changed, which the watch shows
                self._failed(key, error)

    def _begin(self, key: str, under_way: set[str], work: Coroutine[Any, Any, None]) -> None:
        async def until_done() -> None:
            try:
                await work
            finally:
                under_way.discard(key)
                if key in self._due:  # it failed; what the watch has shown meanwhile is looked at all the same
                    self._changed.set()
                else:
                    self._look_at(key)

        self._due.pop(key, None)
        under_way.add(key)
        self._tasks.begin(until_done())

    def _give_back(self, unit: Unit, pods: Mapping[PodId, Pod], reasons: Sequence[Reason]) -> None:
        self._queue.give_back(unit, pods, reasons)
        self._changed.set()

    def _look_at(self, key: str) -> None:
        self._dirty[key] = None
        self._changed.set()

    def _failed(self, what: str, error: Exception) -> None:
        _log.warning(logs.ADMISSION_CHECK_FAILED, object=what, error=str(error))

    async def _until_due(self) -> None:
        """Wait until something changes, or is due; the health check says whether Kueue's objects are followed."""
        if problem := self._objects.problem:
            self._health.degrade(problem)
        else:
            self._health.succeed()
        seconds = min((at - self._clock() for at in self._due.values()), default=_REPORT_SECONDS)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(min(_REPORT_SECONDS, max(0.0, seconds))):
                await self._changed.wait()


def _again(message: str) -> tuple[Reason, ...]:
    return (Reason(code=ReasonCode.API_ERROR, message=message),)

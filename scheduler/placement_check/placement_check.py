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
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple, Protocol

import msgspec

from scheduler.change import Change, Kind, Object, is_older
from scheduler.cluster import Unit
from scheduler.kube.client import Client
from scheduler.kube.errors import Conflict, KubeError, NotFound
from scheduler.kube.writer import ApiCall, FencedError, Writer
from scheduler.kueue_objects import PENDING, REJECTED, KueueWorkload
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
from scheduler.placement_check.kueue_objects_watch import KueueObjects
from scheduler.placement_check.podset_pods import MissingPartError, WorkloadPods, expected_pods, workload_of
from scheduler.placement_check.workload_rooms import WorkloadRooms
from solver.domain import Pod, PodId, Reason, ReasonCode

_ACTIVE: Final = "Dovetail answers this check: a Workload is let in when all its pods have room"
_RETRY_SECONDS: Final = 5.0
"""After a write that failed, unless the Workload changes before."""
_REPORT_SECONDS: Final = 5.0
"""How often the health check is looked at while nothing changes."""
_WITHOUT_ROOM: Final = frozenset({Duty.NONE, Duty.WATCH})
_LOST: Final = Reason(code=ReasonCode.API_ERROR, message="a write failed; the scheduler decides again")

_log: Final = logs.logger()


class Feed(Protocol):
    """The scheduling cycle, as the check uses it."""

    def see(self, changes: Sequence[Change]) -> None:
        """Apply changes to the cluster cache, the queue and the worker's replica."""

    def give_back(self, unit: Unit, pods: Mapping[PodId, Pod], reasons: Sequence[Reason]) -> None:
        """Forget what was assumed of a unit, and put its pods back; without reasons they stay in flight."""


class _Queued(NamedTuple):
    """The pods of a Workload in the queue, and what they were made of: others are needed where that changes."""

    made_of: tuple[object, ...]
    expected: WorkloadPods


class _Known(NamedTuple):
    """What is known of a Workload while its uid and duty stay."""

    uid: str
    duty: Duty
    memory: CheckMemory = CheckMemory()


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
        self._scheduler_names: Final = scheduler_names
        self._park_after_seconds: Final = park_after_seconds
        self._metrics, self._health = told
        self._clock: Final = clock
        self._tasks: Final = Tasks(self._metrics, Subsystem.ADMISSION_CHECK)
        self._changed: Final = asyncio.Event()
        self._dirty: Final[dict[str, None]] = {}
        self._due: Final[dict[str, float]] = {}
        """When something is to be done about a Workload although nothing changes."""
        self._writing: Final[set[str]] = set()
        self._holding: Final[set[str]] = set()
        """Workloads (and checks) of which a state is being written, or room is being held."""
        self._written: Final[dict[str, str]] = {}
        """The version that the last write has made: what the watch shows before it is of the past."""
        self._known: Final[dict[str, _Known]] = {}
        self._queued: Final[dict[str, _Queued]] = {}
        self._incomplete: Final[set[str]] = set()
        """Workloads that name something which does not exist."""
        self._parts_version = 0
        """How often something that Workloads name has changed or gone."""
        self._feed: Feed | None = None
        self._objects: Final = KueueObjects(
            client, on_workload=self._look_at, on_part=self._part_changed, on_error=self._failed
        )

    async def run(self, feed: Feed) -> None:
        """Answer until cancelled."""
        self._feed = feed
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._objects.run())
                self._health.degrade("Kueue's objects are not listed yet")
                await self._objects.synced()
                while True:
                    self._changed.clear()
                    self._report()
                    self._act_on_all(self._clock())
                    await self._until_due()
        finally:
            await self._tasks.finish()

    def _report(self) -> None:
        """Say in the health check whether Kueue's objects are followed: nothing else depends on them."""
        if problem := self._objects.problem:
            self._health.degrade(problem)
        else:
            self._health.succeed()

    # what decisions say

    def placed(self, unit: Unit, pods: Mapping[PodId, Pod]) -> None:
        """Take a place for all pods of a Workload, which is assumed in the cluster cache."""
        key = workload_of(unit.placements[0].pod)
        known, workload = self._known.get(key), self._objects.workloads.get(key)
        if workload is None or known is None or key in self._holding:
            self._give_back(unit, pods, (_LOST,))
        elif known.duty is Duty.PLACE:
            self._set(key, is_placed=True)
            self._begin(key, self._holding, self._hold(key, workload, (unit, pods)))
        else:
            self._give_back(unit, pods, ())
            self._set(key, is_placed=True)
            self._look_at(key)

    def refused(self, pod: Pod, message: str) -> None:
        """Take why a pod of a Workload has no place; the first pod speaks for all."""
        key = workload_of(pod.id)
        queued = self._queued.get(key)
        if queued is not None and queued.expected.pods[0].uid == pod.uid:
            self._refuse(key, message)
            self._look_at(key)

    # what the watches show

    def _act_on_all(self, now: float) -> None:
        for check in self._objects.checks:
            if check.is_active is not True and not check.is_deleting and check.name not in self._writing:
                call = partial(writes.apply_active, self._client, check, _ACTIVE)
                self._begin(check.name, self._writing, self._write(check.name, call))
        ours = frozenset(check.name for check in self._objects.checks)
        due = [key for key, at in self._due.items() if at <= now]
        for key in dict.fromkeys((*self._dirty, *due)):
            self._dirty.pop(key, None)
            self._due.pop(key, None)
            if key not in self._writing and key not in self._holding:  # else it is looked at when that has ended
                with Confined(self._metrics, Subsystem.ADMISSION_CHECK, workload=key):
                    self._act_on(key, ours, now)

    def _act_on(self, key: str, ours: frozenset[str], now: float) -> None:
        """Bring the queue and the API server to what a Workload needs."""
        workload, before = self._objects.workloads.get(key), self._known.get(key)
        if workload is not None and is_older(workload.resource_version, self._written.get(key, "")):
            return
        wanted = duty(workload, ours) if workload is not None else Duty.NONE
        uid = workload.uid if workload is not None else ""
        ended = before.uid if before is not None and before.uid != uid else uid if wanted in _WITHOUT_ROOM else ""
        if ended and self._rooms.is_held(ended):
            self._leave_queue(key)
            self._begin(key, self._holding, self._release(key, ended))
            return
        if workload is None:
            self._leave_queue(key)
            self._forget(key)
            return
        if before is None or (before.uid, before.duty) != (uid, wanted):
            self._leave_queue(key)
            is_held = wanted is Duty.PLACE and self._rooms.is_held(uid)
            self._known[key] = _Known(uid, wanted, CheckMemory(is_placed=is_held, is_held=is_held))
        self._follow(key, workload)
        step = next_step(workload, ours, self._known[key].memory, now, park_after_seconds=self._park_after_seconds)
        self._act(key, workload, ours, step)

    def _follow(self, key: str, workload: KueueWorkload) -> None:
        """Have the pods of a Workload that needs a decision in the queue, made of what it is now."""
        known = self._known[key]
        if known.duty not in {Duty.PLACE, Duty.WATCH} or known.memory.is_placed:
            return
        former = self._objects.workloads.get(workload.replaces)
        replaced = former if former is not None and former.is_admitted else None
        updates = tuple(each.updates for each in workload.checks)
        priority = workload.priority, workload.has_pod_priority
        running = replaced.pod_sets if replaced is not None else ()
        made_of = (workload.uid, workload.pod_sets, running, updates, priority, self._parts_version)
        queued = self._queued.get(key)
        if queued is not None and queued.made_of == made_of:
            return
        self._leave_queue(key)
        self._incomplete.discard(key)
        try:
            expected = expected_pods(workload, self._objects.around, self._scheduler_names, replaced)
        except (MissingPartError, ValueError) as error:
            self._incomplete.add(key)
            self._refuse(key, str(error))
            return
        if not expected.pods:  # all of them are other schedulers'
            self._set(key, is_placed=True, is_held=True)
            return
        self._queued[key] = _Queued(made_of, expected)
        self._see(Kind.CLAIMS, {str(claim.id): claim for claim in expected.claims})
        self._see(Kind.PODS, {str(pod.id): pod for pod in expected.pods})

    def _leave_queue(self, key: str) -> None:
        queued = self._queued.pop(key, None)
        if queued is not None:
            self._see(Kind.PODS, dict.fromkeys(str(pod.id) for pod in queued.expected.pods))
            self._see(Kind.CLAIMS, dict.fromkeys(str(claim.id) for claim in queued.expected.claims))

    def _see(self, kind: Kind, objects: Mapping[str, Object | None]) -> None:
        self._feed_with([Change(kind=kind, key=key, value=value) for key, value in objects.items()])

    def _feed_with(self, changes: Sequence[Change]) -> None:
        if self._feed is not None:
            self._feed.see(changes)

    def _part_changed(self, is_new: bool) -> None:  # noqa: FBT001 - a callback
        """Look at the Workloads that wait for something new; at all where something is another one now."""
        self._parts_version += not is_new
        for key in tuple(self._incomplete if is_new else self._objects.workloads):
            self._look_at(key)
        self._changed.set()

    # what is written

    def _act(self, key: str, workload: KueueWorkload, ours: frozenset[str], step: Step) -> None:
        check = workload.check(ours)
        match step:
            case Wait(seconds=seconds):
                if seconds is not None:
                    self._due[key] = self._clock() + seconds
            case Park(message=message) if check is not None:
                self._begin(key, self._writing, self._park(key, workload, check.name, message))
            case Say(state=state, message=message) if check is not None:
                if state == PENDING:
                    self._set(key, written_at=self._clock())
                call = partial(writes.apply_state, self._client, workload, check.name, state, message)
                self._begin(key, self._writing, self._write(key, call, is_status=state == PENDING))
            case Activate():
                self._begin(key, self._writing, self._write(key, partial(writes.activate, self._client, workload)))
            case Unmark():
                self._begin(key, self._writing, self._write(key, partial(writes.unmark, self._client, workload)))

    async def _hold(self, key: str, workload: KueueWorkload, placed: tuple[Unit, Mapping[PodId, Pod]]) -> None:
        """Hold the room of a unit; then its pods leave the queue, in one step with what was assumed of them."""
        unit, pods = placed
        is_held = False
        try:
            with self._retried(key):
                self._feed_with(await self._rooms.hold(workload, unit, pods))
                is_held = True
        finally:
            if is_held:
                self._give_back(unit, pods, ())
                self._leave_queue(key)
                self._set(key, is_held=True)
            else:
                self._set(key, is_placed=False)
                self._give_back(unit, pods, (_LOST,))

    async def _release(self, key: str, uid: str) -> None:
        with self._retried(key):
            self._feed_with(await self._rooms.release(uid))

    async def _park(self, key: str, workload: KueueWorkload, check: str, message: str) -> None:
        """Mark a Workload, then reject it: a mark means nothing without Kueue's reason for the rejection."""
        with self._retried(key):
            marked = await self._writer.write(partial(writes.mark_parked, self._client, workload))
            self._written[key] = marked.resource_version
            call = partial(writes.apply_state, self._client, marked, check, REJECTED, message)
            self._written[key] = await self._writer.write(call)
            _log.info(logs.WORKLOAD_PARKED, workload=key, reason=message)

    async def _write(self, key: str, call: ApiCall[str], *, is_status: bool = False) -> None:
        with self._retried(key):
            self._written[key] = await self._writer.write(call, is_status=is_status)

    @contextlib.contextmanager
    def _retried(self, key: str) -> Iterator[None]:
        """Suppress the errors of a write; what is to be done is worked out anew, after a while if nothing changes."""
        try:
            yield
        except FencedError:
            return
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
                self._look_at(key)

        under_way.add(key)
        self._tasks.begin(until_done())

    # what is remembered

    def _set(self, key: str, **fields: Any) -> None:
        if (known := self._known.get(key)) is not None:
            self._known[key] = known._replace(memory=msgspec.structs.replace(known.memory, **fields))

    def _refuse(self, key: str, reason: str) -> None:
        if (known := self._known.get(key)) is not None:
            self._known[key] = known._replace(memory=known.memory.refused(reason, self._clock()))

    def _forget(self, key: str) -> None:
        for kept in (self._known, self._written, self._due):
            kept.pop(key, None)
        self._incomplete.discard(key)

    def _give_back(self, unit: Unit, pods: Mapping[PodId, Pod], reasons: Sequence[Reason]) -> None:
        if self._feed is not None:
            self._feed.give_back(unit, pods, reasons)

    def _look_at(self, key: str) -> None:
        self._dirty[key] = None
        self._changed.set()

    def _failed(self, what: str, error: Exception) -> None:
        _log.warning(logs.ADMISSION_CHECK_FAILED, object=what, error=str(error))

    async def _until_due(self) -> None:
        """Wait until something changes, or is due."""
        seconds = min((at - self._clock() for at in self._due.values()), default=_REPORT_SECONDS)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(min(_REPORT_SECONDS, max(0.0, seconds))):
                await self._changed.wait()

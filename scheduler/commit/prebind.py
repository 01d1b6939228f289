"""Units whose devices have to be got ready before their pods are bound (PreBind): what they wait for, and how long.

A waiting unit holds its place in the cluster and no place in the line of writes. Whatever the wait rests on is in the
API: the claim is allocated and reserved for the pod, and the time runs from its allocationTimestamp. So a scheduler
that starts anew places the pod on its claim again and goes on waiting, by the same clock.

Pods whose devices or volumes did not get ready evict nobody for a while.

What fails may be the pod's own doing, and then the next devices fail as well, and others leave them in vain, one node
after the other. It is tried on what is free; `avoidFailedDeviceSeconds` later it may evict again.
"""

import asyncio
import contextlib
import datetime as dt
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import msgspec

from scheduler.change import Change, Kind, is_at_least
from scheduler.cluster import Cluster, Unit
from scheduler.cluster.assume_cache import is_same
from scheduler.commit.binding_conditions import (
    DeviceCondition,
    allocated_at,
    conditioned,
    has_conditions,
    listed,
    readiness,
)
from scheduler.commit.local_taints import Avoidance
from scheduler.commit.volumes import AwaitedVolume, Prepared
from scheduler.commit.volumes import readiness as readiness_of_volumes
from scheduler.observe import logs
from scheduler.status.reports import Reports
from solver.domain import Batch, Claim, ClaimId, Placement, Reason, ReasonCode

_FAILURES: Final = frozenset({ReasonCode.BINDING_FAILED, ReasonCode.VOLUME_BINDING_FAILED})
"""What a pod comes to whose devices or volumes did not get ready."""
_NEVER: Final = "Never"


class Restraint:
    """Remembers such pods by uid for so many seconds; `clock` gives seconds."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds: Final = seconds
        self._clock: Final = clock
        self._until: Final[dict[str, float]] = {}

    def begin(self, uids: Iterable[str]) -> None:
        """Restrain pods; for one that is restrained already the time starts again."""
        now = self._clock()
        for uid in [uid for uid, until in self._until.items() if until <= now]:
            del self._until[uid]
        self._until.update((uid, now + self._seconds) for uid in uids)

    def holds(self, uid: str) -> bool:
        """Whether a pod is restrained now."""
        return self._until.get(uid, 0.0) > self._clock()

    def applied(self, batch: Batch) -> Batch:
        """Give the batch with these pods' preemptionPolicy as `Never`; the same batch where there are none."""
        now = self._clock()
        mine = {pod.uid for pod in batch.pods if self._until.get(pod.uid, now) > now}
        if not mine:
            return batch
        pods = tuple(
            msgspec.structs.replace(pod, preemption_policy=_NEVER) if pod.uid in mine else pod for pod in batch.pods
        )
        return msgspec.structs.replace(batch, pods=pods)


_LONGEST_SECONDS: Final = 10.0
"""What no watch tells, a node that is gone say, is looked at that often."""

_PATIENCE_SECONDS: Final = 2.0
"""A volume that is bound sooner is not told about."""

_log: Final = logs.logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class DevicesReady:
    """All devices are ready."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitFailed:
    """The unit is not to be bound: `claims` are those that must not be bound to any more, whoever allocated them."""

    reason: Reason
    claims: tuple[ClaimId, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopped:
    """The process is about to end; the next one goes on waiting."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pending:
    """What is awaited, and in which time (seconds since the epoch); `left` are the seconds that are left of it."""

    awaited: tuple[DeviceCondition | AwaitedVolume, ...]
    since: float
    until: float
    left: float


class _Work(NamedTuple):
    """A unit, its claims with binding conditions, its volumes, and when the wait began, by both clocks."""

    unit: Unit
    claims: tuple[Claim, ...]
    volumes: tuple[Prepared, ...]
    started: float
    began: float


class Waits:
    """
    Waits for units, each in its own task.

    `wall` gives seconds since the epoch: what is left since an allocationTimestamp, whoever wrote it, is judged by it.
    Every other interval is measured by `clock`, which is monotonic.
    """

    def __init__(
        self,
        cluster: Cluster,
        reports: Reports,
        avoidance: Avoidance,
        *,
        timeout_seconds: float,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._cluster: Final = cluster
        self._reports: Final = reports
        self._avoidance: Final = avoidance
        self.restraint: Final = Restraint(avoidance.seconds, clock)
        self._timeout_seconds: Final = timeout_seconds
        self._clock: Final = clock
        self._wall: Final = wall
        self._is_closed = False
        self._on_begin: Callable[[], None] = lambda: None
        self._waiters: Final[dict[tuple[Kind, str], list[asyncio.Event]]] = defaultdict(list)
        self._count = 0

    def connect(self, see: Callable[[Sequence[Change]], None], on_begin: Callable[[], None]) -> None:
        """Say who takes changes that are made here, and who wants to know that a unit stands aside."""
        self._avoidance.connect(see)
        self._on_begin = on_begin

    @property
    def count(self) -> int:
        """Units that wait now."""
        return self._count

    @contextlib.contextmanager
    def aside(self) -> Iterator[None]:
        """Count a unit as waiting for the block: it writes nothing, and holds up no decision."""
        self._count += 1
        self._on_begin()
        try:
            yield
        finally:
            self._count -= 1

    def see(self, change: Change) -> None:
        """Take what a watch told."""
        for event in self._waiters.get((change.kind, change.key), ()):
            event.set()

    def close(self) -> None:
        """End every wait, and begin none."""
        self._is_closed = True
        for events in self._waiters.values():
            for event in events:
                event.set()

    async def until_ready(
        self, unit: Unit, claims: Sequence[Claim], volumes: Sequence[Prepared] = ()
    ) -> DevicesReady | WaitFailed | Stopped:
        """
        Wait until every device of these claims and every volume is ready, or until it is clear that one will not be.

        `claims` are as the server answered when they were allocated or reserved. No condition of the unit's pods is
        on its way any more when this ends.
        """
        relevant = tuple(claim for claim in claims if has_conditions(claim))
        if not relevant and not volumes:
            return DevicesReady()
        work = _Work(unit, relevant, tuple(volumes), self._wall(), self._clock())
        with self._registered(work) as changed:
            end = await self._watch(work, changed)
        if isinstance(end, DevicesReady):
            self._avoidance.worked(each for claim in relevant for each in conditioned(claim))
        if isinstance(end, WaitFailed) and end.reason.code in _FAILURES:
            self.restraint.begin(each.pod_uid for each in unit.placements)
        await self._reports.hush(each.pod_uid for each in unit.placements)
        return end

    async def _watch(self, work: "_Work", changed: asyncio.Event) -> DevicesReady | WaitFailed | Stopped:
        unit, told = work.unit, tuple[DeviceCondition | AwaitedVolume, ...]()
        while not self._is_closed:
            changed.clear()
            state = self._judge(work)
            if not isinstance(state, _Pending):
                return state
            seconds = min(state.left, _LONGEST_SECONDS)
            patience = work.began + _PATIENCE_SECONDS - self._clock()
            if patience > 0 and not any(isinstance(each, DeviceCondition) for each in state.awaited):
                seconds = min(seconds, patience)
            else:
                self._log(unit, state, told)
                self._tell(unit, state, is_first=not told)  # again and again: what could not be written is not told
                told = state.awaited
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await changed.wait()
        return Stopped()

    def _judge(self, work: "_Work") -> DevicesReady | WaitFailed | _Pending:
        for placement in work.unit.placements:
            if problem := self._objection(placement):
                return WaitFailed(reason=Reason(code=ReasonCode.CONFLICT, message=problem))
        claims: list[Claim] = []
        for each in work.claims:
            now = self._newest(each)
            if isinstance(now, Reason):
                return WaitFailed(reason=now)
            claims.append(now)
        if failed := tuple(each for claim in claims for each in readiness(claim).failed):
            return self._fail(failed, f"{listed(failed)} says that it does not get ready")
        volumes = readiness_of_volumes(self._cluster, work.volumes)
        if volumes.problem:
            return WaitFailed(reason=Reason(code=ReasonCode.VOLUME_BINDING_FAILED, message=volumes.problem))
        pending = [self._pending(claim, work.started) for claim in claims]
        late = tuple(
            each for wait in pending for each in wait.awaited if wait.left <= 0 and isinstance(each, DeviceCondition)
        )
        if late:
            return self._fail(late, f"{listed(late)} was not True within {self._timeout_seconds:g} s")
        until, left = work.started + self._timeout_seconds, work.began + self._timeout_seconds - self._clock()
        if volumes.awaited and left <= 0:
            message = f"binding volumes: {listed(volumes.awaited)} was not bound within {self._timeout_seconds:g} s"
            return WaitFailed(reason=Reason(code=ReasonCode.VOLUME_BINDING_FAILED, message=message))
        pending.append(_Pending(awaited=volumes.awaited, since=work.started, until=until, left=left))
        waiting = [wait for wait in pending if wait.awaited]
        if not waiting:
            return DevicesReady()
        return _Pending(
            awaited=tuple(each for wait in waiting for each in wait.awaited),
            since=min(wait.since for wait in waiting),
            until=min(wait.until for wait in waiting),
            left=min(wait.left for wait in waiting),
        )

    def _objection(self, placement: Placement) -> str:
        """Say why a pod is not to be bound any more, whatever its devices are; empty where it is."""
        pod = self._cluster.seen_pod(placement.pod)
        if pod is None or pod.uid != placement.pod_uid:
            return f"pod {placement.pod} was deleted meanwhile"
        if pod.is_deleting or pod.is_terminal:
            return f"pod {placement.pod} is being deleted or has ended"
        if pod.node_name:
            return f"pod {placement.pod} was bound to node {pod.node_name} by another client meanwhile"
        if self._cluster.node(placement.node) is None:
            return f"node {placement.node} is gone"
        return ""

    def _newest(self, written: Claim) -> Claim | Reason:
        """Give the claim as the watch shows it, or as it was written where the watch is behind."""
        key, seen = written.id, self._cluster.seen_claim(written.id)
        if seen is None or seen.uid != written.uid:
            return Reason(code=ReasonCode.CLAIM_MISSING, message=f"claim {key} was deleted meanwhile")
        if seen.is_deleting:
            return Reason(code=ReasonCode.CLAIM_DELETING, message=f"claim {key} is being deleted")
        if seen.allocation is not None and written.allocation is not None:
            if is_same(written.allocation, seen.allocation):
                return seen
            return Reason(code=ReasonCode.CONFLICT, message=f"claim {key} was allocated anew meanwhile")
        if not is_at_least(seen.resource_version, written.resource_version):
            return written
        return Reason(code=ReasonCode.CONFLICT, message=f"claim {key} was deallocated meanwhile")

    def _pending(self, claim: Claim, started: float) -> _Pending:
        at = allocated_at(claim)
        since = at.timestamp() if at is not None else started
        until = since + self._timeout_seconds
        return _Pending(awaited=readiness(claim).awaited, since=since, until=until, left=until - self._wall())

    def _fail(self, conditions: tuple[DeviceCondition, ...], message: str) -> WaitFailed:
        self._avoidance.avoid(each.device for each in conditions)
        return WaitFailed(
            reason=Reason(code=ReasonCode.BINDING_FAILED, message=f"binding condition {message}"),
            claims=tuple(dict.fromkeys(each.claim for each in conditions)),
        )

    def _log(self, unit: Unit, state: _Pending, told: tuple[DeviceCondition | AwaitedVolume, ...]) -> None:
        """Write a line when what is awaited has changed."""
        if state.awaited != told:
            _log.info(
                logs.UNIT_WAITING,
                pods=[str(each.pod) for each in unit.placements],
                conditions=[str(each) for each in state.awaited],
                until=_time(state.until),
            )

    def _tell(self, unit: Unit, state: _Pending, *, is_first: bool) -> None:
        for placement in unit.placements:
            pod = self._cluster.seen_pod(placement.pod)
            own = [each for each in state.awaited if _is_of(each, placement)]
            if pod is not None:
                awaited, where = own or state.awaited, f"is to run on node {placement.node} and "
                named = listed(awaited) if self._reports.tells_inventory else f"{len(awaited)} binding conditions"
                message = (
                    f"the pod {where if self._reports.tells_inventory else ''}waits for {named}, "
                    f"since {_time(state.since)} and until {_time(state.until)}"
                )
                self._reports.awaits(pod, placement.node, message, is_first=is_first)

    @contextlib.contextmanager
    def _registered(self, work: "_Work") -> Iterator[asyncio.Event]:
        """Wake the unit by its pods and claims, for devices and volumes."""
        changed = asyncio.Event()
        keys = [(Kind.PODS, str(each.pod)) for each in work.unit.placements]
        keys += [(Kind.CLAIMS, str(claim.id)) for claim in work.claims]
        keys += [(Kind.VOLUME_CLAIMS, str(each.binding.claim)) for each in work.volumes]
        for key in keys:
            self._waiters[key].append(changed)
        try:
            with self.aside():
                yield changed
        finally:
            for key in keys:
                self._waiters[key].remove(changed)
                if not self._waiters[key]:
                    del self._waiters[key]


def _is_of(awaited: DeviceCondition | AwaitedVolume, placement: Placement) -> bool:
    if isinstance(awaited, AwaitedVolume):
        return awaited.pod_uid == placement.pod_uid
    return awaited.claim in placement.claims


def _time(seconds: float) -> str:
    return dt.datetime.fromtimestamp(seconds, dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

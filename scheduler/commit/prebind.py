"""
PreBind: a unit waits until its devices (KEP-5007) and volumes are ready before its pods are bound.

A waiting unit stays assumed and holds no unit slot. All that the wait depends on is in the API: the claim is allocated
and reserved for the pod, and the timeout counts from the allocationTimestamp. So after a restart the scheduler places
the pod on its claim again and continues the wait with the same deadline.

A pod whose devices or volumes failed evicts no pod for a while (`PreemptionBackoff`). The pod itself may be the cause,
and then it would evict pods on one node after the other without use. It is still tried on free devices.
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

from scheduler.backoff import Cooldown
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
from scheduler.commit.local_taints import FailedDevices
from scheduler.commit.volumes import AwaitedVolume, PreparedVolume, volume_readiness
from scheduler.observe import logs
from scheduler.status.status_writer import StatusWriter
from solver.domain import NEVER_PREEMPT, Batch, Claim, Placement, Reason, ReasonCode

_FAILURES: Final = frozenset({ReasonCode.BINDING_FAILED, ReasonCode.VOLUME_BINDING_FAILED})


class PreemptionBackoff:
    """Pods by uid that must not evict for `seconds` after their devices or volumes failed."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._pods: Final[Cooldown[str]] = Cooldown(seconds, clock)

    def start(self, uids: Iterable[str]) -> None:
        """Start the backoff of pods, or start it again."""
        for uid in uids:
            self._pods.start(uid)

    def __contains__(self, uid: str) -> bool:
        """Whether a pod must not evict now."""
        return uid in self._pods

    def apply(self, batch: Batch) -> Batch:
        """Return the batch with preemptionPolicy `Never` for these pods; the same batch where it has none of them."""
        if not any(pod.uid in self._pods for pod in batch.pods):
            return batch
        pods = tuple(
            msgspec.structs.replace(pod, preemption_policy=NEVER_PREEMPT) if pod.uid in self._pods else pod
            for pod in batch.pods
        )
        return msgspec.structs.replace(batch, pods=pods)


_LONGEST_SECONDS: Final = 10.0
"""A wait is judged at least this often: some changes wake no unit, a deleted node for example."""
_VOLUME_GRACE_SECONDS: Final = 2.0
"""A volume that is bound sooner is not reported."""

_log: Final = logs.logger()

_Awaited = tuple[DeviceCondition | AwaitedVolume, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DevicesReady:
    """All devices and volumes are ready."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitFailed:
    """The unit must not be bound."""

    reason: Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitStopped:
    """The process is about to end; the next leader continues the wait."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _NotReady:
    """What is awaited, since when and until when (seconds since the epoch), and the `left` seconds of that."""

    awaited: _Awaited
    since: float
    until: float
    left: float


class _Wait(NamedTuple):
    """A unit, its claims with binding conditions, its volumes, and when the wait began by `wall` and by `clock`."""

    unit: Unit
    claims: tuple[Claim, ...]
    volumes: tuple[PreparedVolume, ...]
    started_wall: float
    started: float


class PreBind:
    """
    Waits for units, each in the task of its commit; `on_begin` is called when a unit begins to wait.

    `wall` gives seconds since the epoch, to compare with an allocationTimestamp that another process may have written
    before the wait began. Every other interval is measured by `clock`, which is monotonic.
    """

    def __init__(
        self,
        cluster: Cluster,
        reports: StatusWriter,
        failed_devices: FailedDevices,
        preemption_backoff: PreemptionBackoff,
        *,
        timeout_seconds: float,
        on_begin: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._cluster: Final = cluster
        self._reports: Final = reports
        self._failed_devices: Final = failed_devices
        self._preemption_backoff: Final = preemption_backoff
        self._on_begin: Final = on_begin
        self._timeout_seconds: Final = timeout_seconds
        self._clock: Final = clock
        self._wall: Final = wall
        self._is_closed = False
        self._waiters: Final[dict[tuple[Kind, str], list[asyncio.Event]]] = defaultdict(list)
        self._count = 0

    @property
    def count(self) -> int:
        """Units that wait now."""
        return self._count

    @contextlib.contextmanager
    def counted(self) -> Iterator[None]:
        """Count a unit as waiting for the block: it writes nothing, so that no decision waits for it."""
        self._count += 1
        self._on_begin()
        try:
            yield
        finally:
            self._count -= 1

    def see(self, change: Change) -> None:
        """Wake the units that wait for an object."""
        for event in self._waiters.get((change.kind, change.key), ()):
            event.set()

    def close(self) -> None:
        """Stop every wait, and begin no other wait."""
        self._is_closed = True
        for events in self._waiters.values():
            for event in events:
                event.set()

    async def until_ready(
        self, unit: Unit, claims: Sequence[Claim], volumes: Sequence[PreparedVolume] = ()
    ) -> DevicesReady | WaitFailed | WaitStopped:
        """
        Wait until every device of these claims and every volume is ready, or one has failed.

        `claims` are as the API server answered when they were allocated or reserved. When this returns, no condition of
        the unit's pods is being written any more.
        """
        relevant = tuple(claim for claim in claims if has_conditions(claim))
        if not relevant and not volumes:
            return DevicesReady()
        wait = _Wait(unit, relevant, tuple(volumes), self._wall(), self._clock())
        with self._registered(wait) as changed:
            end = await self._until_ended(wait, changed)
        if isinstance(end, DevicesReady):
            self._failed_devices.recovered(each for claim in relevant for each in conditioned(claim))
        if isinstance(end, WaitFailed) and end.reason.code in _FAILURES:
            self._preemption_backoff.start(each.pod_uid for each in unit.placements)
        await self._reports.suppress(each.pod_uid for each in unit.placements)
        return end

    async def _until_ended(self, wait: _Wait, changed: asyncio.Event) -> DevicesReady | WaitFailed | WaitStopped:
        reported: _Awaited = ()
        while not self._is_closed:
            changed.clear()
            state = self._judge(wait)
            if not isinstance(state, _NotReady):
                return state
            seconds = min(state.left, _LONGEST_SECONDS)
            grace = wait.started + _VOLUME_GRACE_SECONDS - self._clock()
            if grace > 0 and not any(isinstance(each, DeviceCondition) for each in state.awaited):
                seconds = min(seconds, grace)
            else:
                if state.awaited != reported:
                    self._log(wait.unit, state)
                # Reported every time: the status writer drops what the pod shows already, and repeats a failed write.
                self._report(wait.unit, state, is_first=not reported)
                reported = state.awaited
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await changed.wait()
        return WaitStopped()

    def _judge(self, wait: _Wait) -> DevicesReady | WaitFailed | _NotReady:
        for placement in wait.unit.placements:
            if problem := self._objection(placement):
                return WaitFailed(reason=Reason(code=ReasonCode.CONFLICT, message=problem))
        claims: list[Claim] = []
        for each in wait.claims:
            newest = self._newest(each)
            if isinstance(newest, Reason):
                return WaitFailed(reason=newest)
            claims.append(newest)
        if failed := tuple(each for claim in claims for each in readiness(claim).failed):
            return self._fail(failed, f"device binding failed: {listed(failed)} reports a failure")
        volumes = volume_readiness(self._cluster, wait.volumes)
        if volumes.problem:
            return WaitFailed(reason=Reason(code=ReasonCode.VOLUME_BINDING_FAILED, message=volumes.problem))
        states = [self._not_ready(claim, wait) for claim in claims]
        late = tuple(
            each for state in states for each in state.awaited if state.left <= 0 and isinstance(each, DeviceCondition)
        )
        if late:
            return self._fail(late, f"binding timeout: {listed(late)} was not True within {self._timeout_seconds:g} s")
        timeout = self._timeout_seconds
        until, left = wait.started_wall + timeout, wait.started + timeout - self._clock()
        if volumes.awaited and left <= 0:
            message = f"binding volumes: {listed(volumes.awaited)} was not bound within {self._timeout_seconds:g} s"
            return WaitFailed(reason=Reason(code=ReasonCode.VOLUME_BINDING_FAILED, message=message))
        states.append(_NotReady(awaited=volumes.awaited, since=wait.started_wall, until=until, left=left))
        open_states = [state for state in states if state.awaited]
        if not open_states:
            return DevicesReady()
        return _NotReady(
            awaited=tuple(each for state in open_states for each in state.awaited),
            since=min(state.since for state in open_states),
            until=min(state.until for state in open_states),
            left=min(state.left for state in open_states),
        )

    def _objection(self, placement: Placement) -> str:
        """Say why a pod must not be bound any more, whatever the state of its devices; empty where it may."""
        pod = self._cluster.observed_pod(placement.pod)
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
        """Return the claim as the watch shows it, or as it was written where the watch lags behind."""
        key, seen = written.id, self._cluster.observed_claim(written.id)
        if seen is None or seen.uid != written.uid:
            return Reason(code=ReasonCode.CLAIM_MISSING, message=f"claim {key} was deleted meanwhile")
        if seen.is_deleting:
            return Reason(code=ReasonCode.CLAIM_DELETING, message=f"claim {key} is being deleted")
        if seen.allocation is not None and written.allocation is not None:
            if is_same(written.allocation, seen.allocation):
                return seen
            return Reason(code=ReasonCode.CONFLICT, message=f"claim {key} was allocated again meanwhile")
        if not is_at_least(seen.resource_version, written.resource_version):
            return written
        return Reason(code=ReasonCode.CONFLICT, message=f"claim {key} was deallocated meanwhile")

    def _not_ready(self, claim: Claim, wait: _Wait) -> _NotReady:
        """Only the age of the allocation at the beginning of the wait is by `wall`, which may be set at any time."""
        at = allocated_at(claim)
        since = at.timestamp() if at is not None else wait.started_wall
        timeout = self._timeout_seconds
        timeout_left = timeout - min(max(0.0, wait.started_wall - since), timeout)
        left = wait.started + timeout_left - self._clock()
        until = wait.started_wall + timeout_left
        return _NotReady(awaited=readiness(claim).awaited, since=since, until=until, left=left)

    def _fail(self, conditions: tuple[DeviceCondition, ...], message: str) -> WaitFailed:
        self._failed_devices.failed(each.device for each in conditions)
        return WaitFailed(reason=Reason(code=ReasonCode.BINDING_FAILED, message=message))

    @staticmethod
    def _log(unit: Unit, state: _NotReady) -> None:
        _log.info(
            logs.UNIT_WAITING,
            pods=[str(each.pod) for each in unit.placements],
            conditions=[str(each) for each in state.awaited],
            until=_time(state.until),
        )

    def _report(self, unit: Unit, state: _NotReady, *, is_first: bool) -> None:
        for placement in unit.placements:
            pod = self._cluster.observed_pod(placement.pod)
            own = [each for each in state.awaited if _is_of(each, placement)]
            if pod is not None:
                awaited, where = own or state.awaited, f"is to run on node {placement.node} and "
                named = listed(awaited) if self._reports.tells_inventory else f"{len(awaited)} binding conditions"
                message = (
                    f"the pod {where if self._reports.tells_inventory else ''}waits for {named}, "
                    f"since {_time(state.since)} and until {_time(state.until)}"
                )
                self._reports.report_prebind(pod, placement.node, message, is_first=is_first)

    @contextlib.contextmanager
    def _registered(self, wait: _Wait) -> Iterator[asyncio.Event]:
        """Return the event that changes of the unit's pods, claims and volume claims set."""
        changed = asyncio.Event()
        keys = [(Kind.PODS, str(each.pod)) for each in wait.unit.placements]
        keys += [(Kind.CLAIMS, str(claim.id)) for claim in wait.claims]
        keys += [(Kind.VOLUME_CLAIMS, str(each.binding.claim)) for each in wait.volumes]
        for key in keys:
            self._waiters[key].append(changed)
        try:
            with self.counted():
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

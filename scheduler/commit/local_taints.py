"""
Device taints that only this process knows: for devices that failed, and for suspect ones.

Cluster cache, queue and the worker's replica see a local taint as a DeviceTaintRule. It is written nowhere, and ends
with this process. It outlives the cluster cache: where the scheduler starts again in its process, because the API
server was upgraded, the taints that still last go into the new cache (`LocalTaints.followed_by`).

`FailedDevices`: binding conditions of the device failed (KEP-5007). It gets a NoSchedule taint, so that not even a
request that tolerates everything takes it again at once; only a toleration of its key covers it. The time doubles with
each failure, because the device may work the next time and may be the only one that fits. Then it is used last for a
while (effect None).

`SuspectDevices`: a pod that a controller replaces ended as Failed on the device, or was deleted after it could not
start there, or the kubelet reports the device Unhealthy (status.containerStatuses[].allocatedResourcesStatus,
KEP-4680). It gets a taint of effect None, so that the solver prefers every other device. Otherwise a deterministic best
fit would give the bad device to every replacement. Pods that were evicted or preempted do not count.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from scheduler.backoff import doubled
from scheduler.change import Change, Kind, split_key
from scheduler.cluster import Cluster
from scheduler.observe import logs
from scheduler.observe.metrics import Metrics, Subsystem
from scheduler.observe.unexpected_errors import Confined
from solver.domain import (
    BINDING_FAILED_TAINT,
    SUSPECT_TAINT,
    Claim,
    ClaimId,
    DeviceId,
    DeviceTaintRule,
    Pod,
    Taint,
    TaintEffect,
)

See = Callable[[Sequence[Change]], None]
"""Applies changes as those of a watch."""
OnEnd = Callable[[DeviceId], tuple[Change, ...]]
"""Gives changes that are applied together with the end of a taint."""

_PREPARE_SECONDS: Final = 30
"""By then a kubelet has tried to prepare the claims; the next try comes after 60 to 90 s (`syncFrequency`)."""
_FIRST_SECONDS: Final = 1.0
"""The time of a device's first taint."""

_log: Final = logs.logger()


class LocalTaint(NamedTuple):
    """A taint, and what names its rules (`failed NODE/DEVICE`): no object of the API can have a blank in its name."""

    prefix: str
    taint: Taint


_FAILED: Final = LocalTaint("failed", Taint(key=BINDING_FAILED_TAINT, effect=TaintEffect.NO_SCHEDULE))
_FAILED_BEFORE: Final = LocalTaint("failed-before", Taint(key=SUSPECT_TAINT, effect=TaintEffect.NONE))
_SUSPECT: Final = LocalTaint("suspect", Taint(key=SUSPECT_TAINT, effect=TaintEffect.NONE))


class LocalTaints:
    """The local taints of devices, each for its own time, and the cluster caches that follow them: one, or none."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics: Final = metrics
        self._timers: Final[dict[tuple[LocalTaint, DeviceId], asyncio.TimerHandle]] = {}
        self._followers: Final[list[See]] = []

    @contextlib.contextmanager
    def followed_by(self, see: See) -> Iterator[None]:
        """Give `see` the taints that last, and for the block every change; taints go on after it."""
        if self._timers:
            see([_change(*key, is_tainted=True) for key in self._timers])
        self._followers.append(see)
        try:
            yield
        finally:
            self._followers.remove(see)

    def tell(self, changes: Sequence[Change]) -> None:
        """Have changes applied together."""
        if changes:
            for see in self._followers:
                see(changes)

    def add(
        self, taint: LocalTaint, device: DeviceId, seconds: float, on_end: OnEnd = lambda _: ()
    ) -> tuple[Change, ...]:
        """Taint a device, or start its time again; return the change for the caller to tell."""
        timer = self._timers.pop((taint, device), None)
        if timer is not None:
            timer.cancel()
        loop = asyncio.get_running_loop()
        self._timers[taint, device] = loop.call_later(seconds, self._end, taint, device, on_end)
        return () if timer is not None else (_change(taint, device, is_tainted=True),)

    def remove(self, taint: LocalTaint, device: DeviceId) -> tuple[Change, ...]:
        """Remove a taint of a device, if it has it; return the change for the caller to tell."""
        timer = self._timers.pop((taint, device), None)
        if timer is None:
            return ()
        timer.cancel()
        return (_change(taint, device, is_tainted=False),)

    def _end(self, taint: LocalTaint, device: DeviceId, on_end: OnEnd) -> None:
        with Confined(self._metrics, Subsystem.FAILED_DEVICES, device=str(device)):
            self.tell((*on_end(device), *self.remove(taint, device)))


def _change(taint: LocalTaint, device: DeviceId, *, is_tainted: bool) -> Change:
    name = f"{taint.prefix} {device}"
    rule = DeviceTaintRule(name=name, taint=taint.taint, driver=device.driver, pool=device.pool, device=device.device)
    return Change(kind=Kind.TAINT_RULES, key=name, value=rule if is_tainted else None)


class FailedDevices:
    """
    Keeps failed devices out of new allocations, for `seconds` at most at a time, and then last for `seconds`.

    A failure counts until the device got ready, or did not fail in the whole time.
    """

    def __init__(self, taints: LocalTaints, seconds: float) -> None:
        self._seconds: Final = seconds
        self._taints: Final = taints
        self._failures: Final[dict[DeviceId, int]] = {}

    @property
    def count(self) -> int:
        """Devices with a failure that still counts."""
        return len(self._failures)

    def failed(self, devices: Iterable[DeviceId]) -> None:
        """Taint devices that failed, each for longer than the last time."""
        for device in dict.fromkeys(devices):
            failures = self._failures.get(device, 0)
            seconds = doubled(min(_FIRST_SECONDS, self._seconds), self._seconds, failures)
            self._failures[device] = failures + 1
            _log.warning(logs.DEVICE_AVOIDED, device=str(device), seconds=seconds, failures=failures + 1)
            failed = self._taints.add(_FAILED, device, seconds, self._use_last)
            self._taints.tell((*failed, *self._taints.remove(_FAILED_BEFORE, device)))

    def recovered(self, devices: Iterable[DeviceId]) -> None:
        """Forget the failures of devices that got ready."""
        for device in dict.fromkeys(devices):
            if self._failures.pop(device, None) is not None:
                failed = self._taints.remove(_FAILED, device)
                self._taints.tell((*failed, *self._taints.remove(_FAILED_BEFORE, device)))

    def _use_last(self, device: DeviceId) -> tuple[Change, ...]:
        return self._taints.add(_FAILED_BEFORE, device, self._seconds, self._forget)

    def _forget(self, device: DeviceId) -> tuple[Change, ...]:
        self._failures.pop(device, None)
        return ()


class _Released(NamedTuple):
    """The claims of a pod as they were before they lost their allocations; a pod of the same name has another uid."""

    uid: str
    claims: dict[ClaimId, Claim]


class SuspectDevices:
    """Taints devices for some time after a pod failed or did not start on them, or was told that they are unhealthy."""

    def __init__(self, taints: LocalTaints, cluster: Cluster, seconds: float) -> None:
        self._taints: Final = taints
        self._cluster: Final = cluster
        self._seconds: Final = seconds
        self._failed: Final[dict[str, str]] = {}
        self._released: Final[dict[str, _Released]] = {}

    def before(self, changes: Sequence[Change]) -> None:
        """
        Remember the allocations that claims lose by `changes`; call this before the cluster cache applies them.

        Pods and claims have separate watches. The resource claim controller deletes the generated claims of a failed
        pod at once. So a claim can be gone before the failure of its pod is seen.
        """
        for change in changes:
            if change.kind is Kind.CLAIMS and (not isinstance(change.value, Claim) or change.value.allocation is None):
                self._remember(self._cluster.observed_claim(ClaimId(*split_key(change.key))))

    def _remember(self, claim: Claim | None) -> None:
        if claim is None or claim.allocation is None:
            return
        for each in self._cluster.pods_using(claim.id):
            pod = self._cluster.observed_pod(each.id)  # one that is only assumed to be bound can get other devices yet
            if pod is not None and pod.node_name and pod.controller is not None:
                released = self._released.get(str(pod.id))
                if released is None or released.uid != pod.uid:
                    released = self._released[str(pod.id)] = _Released(pod.uid, {})
                released.claims[claim.id] = claim

    def see(self, changes: Sequence[Change]) -> None:
        """Look at the statuses of pods."""
        for change in changes:
            if change.kind is Kind.PODS:
                self._look_at(change.key, change.value if isinstance(change.value, Pod) else None)

    def _look_at(self, key: str, pod: Pod | None) -> None:
        # A pod that is deleted ends as Failed where its containers do not heed SIGTERM: no fault of its devices.
        has_waited = pod is not None and pod.unstarted_seconds >= _PREPARE_SECONDS
        failed = has_waited or (pod is not None and pod.has_failed and not pod.is_deleting)
        if not failed:
            self._failed.pop(key, None)
        released = self._released.get(key)
        lost = released.claims if released is not None and pod is not None and released.uid == pod.uid else {}
        if pod is None or pod.is_terminal or not lost:
            self._released.pop(key, None)
        if pod is None or not pod.claims:
            return
        claims = [claim for each in pod.claim_ids if (claim := lost.get(each) or self._cluster.claim(each))]
        self._suspect(_unhealthy_devices(pod, claims))
        if failed and pod.controller is not None and self._failed.get(key) != pod.uid:
            self._failed[key] = pod.uid
            self._suspect(_devices(claims))

    def _suspect(self, devices: Iterator[DeviceId]) -> None:
        for device in dict.fromkeys(devices):
            if changes := self._taints.add(_SUSPECT, device, self._seconds):
                self._taints.tell(changes)
                _log.warning(logs.DEVICE_SUSPECTED, device=str(device), seconds=self._seconds)


def _devices(claims: Sequence[Claim]) -> Iterator[DeviceId]:
    """Return the devices of claims, without those of admin access."""
    for claim in claims:
        for result in claim.allocation.results if claim.allocation is not None else ():
            if not result.admin_access:
                yield result.device


def _unhealthy_devices(pod: Pod, claims: Sequence[Claim]) -> Iterator[DeviceId]:
    """
    Return the devices that a pod's status calls unhealthy.

    An entry names the pod's claim, the request where the container names one, and the device by an id that may be the
    driver's own. Where that id does not name one device of the request or claim, all of them count.
    """
    by_id = {claim.id: claim for claim in claims}
    entries = {entry.entry: by_id[entry.claim] for entry in pod.claims if entry.claim in by_id}
    for report in pod.unhealthy:
        claim = entries.get(report.entry)
        if claim is None or claim.allocation is None:
            continue
        requests = {each.request: each.request.partition("/")[0] for each in claim.allocation.results}
        given = [
            each.device
            for each in claim.allocation.results
            if report.request in {"", each.request, requests[each.request]} and not each.admin_access
        ]
        named = [each for each in given if report.resource_id in {str(each), each.device}]
        yield from named or given

"""
Device taints that only this process knows: for devices that failed, and for suspect ones.

Cluster cache, queue and the worker's replica see a local taint as a DeviceTaintRule. It is written nowhere, and ends
with this process's leadership. It outlives the cluster cache: where the scheduler starts again in its process, because
the API server was upgraded, the taints that still last go into the new cache.

`FailedDevices`: binding conditions of the device failed (KEP-5007). It gets a NoSchedule taint, so that not even a
request that tolerates everything takes it again at once; only a toleration of its key covers it. The time doubles with
each failure, because the device may work the next time and may be the only one that fits. Then it is used last for a
while (effect None).

`SuspectDevices`: a pod that a controller replaces ended as Failed on the device, or the kubelet reports it Unhealthy
(status.containerStatuses[].allocatedResourcesStatus, KEP-4680). It gets a taint of effect None, so that the solver
prefers every other device. Otherwise a deterministic best fit would give the bad device to every replacement. Pods that
were evicted or preempted do not count.
"""

import asyncio
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

_FIRST_SECONDS: Final = 1.0
"""The time of a device's first taint."""

_log: Final = logs.logger()


def _ignore(_: Sequence[Change]) -> None:
    """Receive changes while there is no cluster cache."""


class LocalTaints:
    """
    Puts one taint on devices, each for its own time.

    `prefix` begins the names of its rules, as `failed NODE/DEVICE`: no object of the API can have a blank in its name.
    """

    def __init__(self, prefix: str, taint: Taint, metrics: Metrics, on_end: OnEnd = lambda _: ()) -> None:
        self._prefix: Final = prefix
        self._taint: Final = taint
        self._metrics: Final = metrics
        self._on_end: Final = on_end
        self._see: See = _ignore
        self._timers: Final[dict[DeviceId, asyncio.TimerHandle]] = {}

    def connect(self, see: See) -> None:
        """Connect the receiver of changes, and give it the taints that last."""
        self._see = see
        if self._timers:
            see([self._change(device, is_tainted=True) for device in self._timers])

    def disconnect(self) -> None:
        """Let go of the receiver, which is the whole cluster cache; taints go on, and end by themselves."""
        self._see = _ignore

    def add(self, device: DeviceId, seconds: float) -> tuple[Change, ...]:
        """Taint a device, or start its time again; return the change for the caller to apply."""
        timer = self._timers.pop(device, None)
        if timer is not None:
            timer.cancel()
        self._timers[device] = asyncio.get_running_loop().call_later(seconds, self._end, device)
        return () if timer is not None else (self._change(device, is_tainted=True),)

    def remove(self, device: DeviceId) -> tuple[Change, ...]:
        """Remove the taint of a device, if it has one; return the change for the caller to apply."""
        timer = self._timers.pop(device, None)
        if timer is None:
            return ()
        timer.cancel()
        return (self._change(device, is_tainted=False),)

    def _end(self, device: DeviceId) -> None:
        with Confined(self._metrics, Subsystem.FAILED_DEVICES, device=str(device)):
            self._see((*self._on_end(device), *self.remove(device)))

    def _change(self, device: DeviceId, *, is_tainted: bool) -> Change:
        name = f"{self._prefix} {device}"
        rule = DeviceTaintRule(
            name=name, taint=self._taint, driver=device.driver, pool=device.pool, device=device.device
        )
        return Change(kind=Kind.TAINT_RULES, key=name, value=rule if is_tainted else None)


class FailedDevices:
    """
    Keeps failed devices out of new allocations, for `seconds` at most at a time, and then last for `seconds`.

    A failure counts until the device got ready, or did not fail in the whole time.
    """

    def __init__(self, seconds: float, metrics: Metrics) -> None:
        self.seconds: Final = seconds
        self._failures: Final[dict[DeviceId, int]] = {}
        out = Taint(key=BINDING_FAILED_TAINT, effect=TaintEffect.NO_SCHEDULE)
        last = Taint(key=SUSPECT_TAINT, effect=TaintEffect.NONE)
        self._out: Final = LocalTaints("failed", out, metrics, lambda device: self._last.add(device, self.seconds))
        self._last: Final = LocalTaints("failed-before", last, metrics, self._forget)
        self._see: See = _ignore

    @property
    def count(self) -> int:
        """Devices with a failure that still counts."""
        return len(self._failures)

    def connect(self, see: See) -> None:
        """Connect the receiver of changes, and give it the taints that last."""
        self._see = see
        self._out.connect(see)
        self._last.connect(see)

    def disconnect(self) -> None:
        """Let go of the receiver of changes."""
        self._see = _ignore
        self._out.disconnect()
        self._last.disconnect()

    def failed(self, devices: Iterable[DeviceId]) -> None:
        """Taint devices that failed, each for longer than the last time."""
        for device in dict.fromkeys(devices):
            failures = self._failures.get(device, 0)
            seconds = doubled(min(_FIRST_SECONDS, self.seconds), self.seconds, failures)
            self._failures[device] = failures + 1
            _log.warning(logs.DEVICE_AVOIDED, device=str(device), seconds=seconds, failures=failures + 1)
            self._apply((*self._out.add(device, seconds), *self._last.remove(device)))

    def recovered(self, devices: Iterable[DeviceId]) -> None:
        """Forget the failures of devices that got ready."""
        for device in dict.fromkeys(devices):
            if self._failures.pop(device, None) is not None:
                self._apply((*self._out.remove(device), *self._last.remove(device)))

    def _apply(self, changes: tuple[Change, ...]) -> None:
        if changes:
            self._see(changes)

    def _forget(self, device: DeviceId) -> tuple[Change, ...]:
        self._failures.pop(device, None)
        return ()


class _Released(NamedTuple):
    """The claims of a pod as they were before they lost their allocations; a pod of the same name has another uid."""

    uid: str
    claims: dict[ClaimId, Claim]


class SuspectDevices:
    """Taints devices for some time after a pod failed on them, or the kubelet reported them unhealthy."""

    def __init__(self, seconds: float, metrics: Metrics) -> None:
        self._cluster = Cluster()
        self._seconds: Final = seconds
        self._taints: Final = LocalTaints("suspect", Taint(key=SUSPECT_TAINT, effect=TaintEffect.NONE), metrics)
        self._see: See = _ignore
        self._failed: Final[dict[str, str]] = {}
        self._released: Final[dict[str, _Released]] = {}

    def connect(self, cluster: Cluster, see: See) -> None:
        """Connect the cluster cache and the receiver of changes, and give it the taints that last."""
        self._cluster, self._see = cluster, see
        self._taints.connect(see)

    def disconnect(self) -> None:
        """Let go of the cluster cache and of what it showed; pods and claims are listed anew."""
        self._cluster, self._see = Cluster(), _ignore
        self._failed.clear()
        self._released.clear()
        self._taints.disconnect()

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
        if pod is None or not pod.has_failed:
            self._failed.pop(key, None)
        released = self._released.get(key)
        lost = released.claims if released is not None and pod is not None and released.uid == pod.uid else {}
        if pod is None or pod.is_terminal or not lost:
            self._released.pop(key, None)
        if pod is None or not pod.claims:
            return
        claims = [claim for each in pod.claim_ids if (claim := lost.get(each) or self._cluster.claim(each))]
        self._suspect(_unhealthy_devices(pod, claims))
        if pod.has_failed and pod.controller is not None and self._failed.get(key) != pod.uid:
            self._failed[key] = pod.uid
            self._suspect(_devices(claims))

    def _suspect(self, devices: Iterator[DeviceId]) -> None:
        for device in dict.fromkeys(devices):
            if changes := self._taints.add(device, self._seconds):
                self._see(changes)
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

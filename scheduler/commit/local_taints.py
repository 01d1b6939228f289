"""Taints of our own on devices, for a while: what this process alone knows of them.

To the mirror, the queue and the solver's process such a device is one with a DeviceTaintRule, which is written nowhere
and lasts as long as this process leads.

Devices that failed to get ready: kept out of new allocations for a while, and given last for a while after that.

What fails once may well work the next time, and may be the only device that does for a pod. So it is tried again, last,
after a rest that doubles with each failure. While it rests it has a taint of our own; no toleration but one that names
its key covers that, so that a request that tolerates everything does not choose the same device again at once.

Devices on which work failed, or that the kubelet reports unhealthy: given to others last, for a while.

A best fit that is deterministic would give the same bad card to every replacement of a pod that failed on it. So the
devices of a pod that ended as Failed, and that a controller replaces, and those that a running pod's status calls
Unhealthy (status.containerStatuses[].allocatedResourcesStatus, KEP-4680) get a taint of our own that forbids nothing:
the solver prefers every other device. A pod that was evicted or preempted did not fail by its devices.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from scheduler.backoff import doubled
from scheduler.change import Change, Kind
from scheduler.cluster import Cluster
from scheduler.observe import logs
from scheduler.observe.metrics import Metrics, Subsystem
from scheduler.observe.unexpected_errors import Confined
from solver.domain import BINDING_FAILED_TAINT, SUSPECT_TAINT, Claim, DeviceId, DeviceTaintRule, Pod, Taint, TaintEffect

See = Callable[[Sequence[Change]], None]
"""Takes changes as everything that a watch tells is taken."""
Follow = Callable[[DeviceId], tuple[Change, ...]]
"""Gives what takes the place of a taint whose time is over."""


class LocalTaints:
    """
    Puts one taint on devices, each for so many seconds.

    `word` names the rules: `avoided NODE/DEVICE`. No object of the API can have a name with a space in it.
    """

    def __init__(self, word: str, taint: Taint, metrics: Metrics, follow: Follow = lambda _: ()) -> None:
        """`follow` gives the changes that come in one with the end of a taint."""
        self._word: Final = word
        self._taint: Final = taint
        self._metrics: Final = metrics
        self._follow: Final = follow
        self._see: See = lambda _: None
        self._timers: Final[dict[DeviceId, asyncio.TimerHandle]] = {}

    def __contains__(self, device: object) -> bool:
        return device in self._timers

    def connect(self, see: See) -> None:
        """Say who takes changes."""
        self._see = see

    def put(self, device: DeviceId, seconds: float) -> bool:
        """Taint a device, or let the time of one that is tainted start again; give whether it was not yet."""
        changes = self.begin(device, seconds)
        if changes:
            self._see(changes)
        return bool(changes)

    def begin(self, device: DeviceId, seconds: float) -> tuple[Change, ...]:
        """Do as `put` does, and give the changes instead of telling them."""
        timer = self._timers.pop(device, None)
        if timer is not None:
            timer.cancel()
        self._timers[device] = asyncio.get_running_loop().call_later(seconds, self._end, device)
        return () if timer is not None else (self._change(device, is_tainted=True),)

    def end(self, device: DeviceId) -> tuple[Change, ...]:
        """Take the taint from a device, if it has it, and give the changes instead of telling them."""
        timer = self._timers.pop(device, None)
        if timer is None:
            return ()
        timer.cancel()
        return (self._change(device, is_tainted=False),)

    def _end(self, device: DeviceId) -> None:
        with Confined(self._metrics, Subsystem.AVOIDANCE, device=str(device)):
            self._see((*self._follow(device), *self.end(device)))

    def _change(self, device: DeviceId, *, is_tainted: bool) -> Change:
        name = f"{self._word} {device}"
        rule = DeviceTaintRule(
            name=name, taint=self._taint, driver=device.driver, pool=device.pool, device=device.device
        )
        return Change(kind=Kind.TAINT_RULES, key=name, value=rule if is_tainted else None)


_FIRST_SECONDS: Final = 15.0
"""How long a device rests after its first failure."""

_log: Final = logs.logger()


class FailedDevices:
    """
    Avoids devices, for `seconds` at most at a time; what it does goes the way of everything that a watch tells.

    A failure counts for the next rest until the device got ready, or did not fail for `seconds` after its last rest.
    """

    def __init__(self, seconds: float, metrics: Metrics) -> None:
        self.seconds: Final = seconds
        self._failures: Final[dict[DeviceId, int]] = {}
        resting = Taint(key=BINDING_FAILED_TAINT, effect=TaintEffect.NO_SCHEDULE)
        last = Taint(key=SUSPECT_TAINT, effect=TaintEffect.NONE)
        self._resting: Final = LocalTaints("avoided", resting, metrics, self._try_again)
        self._given_last: Final = LocalTaints("given-last", last, metrics, self._forget)
        self._see: See = lambda _: None

    @property
    def count(self) -> int:
        """Devices of which a failure is remembered."""
        return len(self._failures)

    def connect(self, see: See) -> None:
        """Say who takes changes."""
        self._see = see
        self._resting.connect(see)
        self._given_last.connect(see)

    def avoid(self, devices: Iterable[DeviceId]) -> None:
        """Avoid these devices, each longer than the last time; for one that rests already the rest starts again."""
        for device in dict.fromkeys(devices):
            failures = self._failures.get(device, 0)
            seconds = doubled(min(_FIRST_SECONDS, self.seconds), self.seconds, failures)
            self._failures[device] = failures + 1
            _log.warning(logs.DEVICE_AVOIDED, device=str(device), seconds=seconds, failures=failures + 1)
            self._tell((*self._resting.begin(device, seconds), *self._given_last.end(device)))

    def worked(self, devices: Iterable[DeviceId]) -> None:
        """Forget the failures of devices that got ready."""
        for device in dict.fromkeys(devices):
            if self._failures.pop(device, None) is not None:
                self._tell((*self._resting.end(device), *self._given_last.end(device)))

    def _tell(self, changes: tuple[Change, ...]) -> None:
        if changes:
            self._see(changes)

    def _try_again(self, device: DeviceId) -> tuple[Change, ...]:
        return self._given_last.begin(device, self.seconds)

    def _forget(self, device: DeviceId) -> tuple[Change, ...]:
        self._failures.pop(device, None)
        return ()


class SuspectDevices:
    """Suspects devices for so many seconds; what it does goes the way of everything that a watch tells."""

    def __init__(self, cluster: Cluster, seconds: float, metrics: Metrics) -> None:
        self._cluster: Final = cluster
        self._seconds: Final = seconds
        self._taints: Final = LocalTaints("suspected", Taint(key=SUSPECT_TAINT, effect=TaintEffect.NONE), metrics)
        self._failed: Final[dict[str, str]] = {}

    def connect(self, see: See) -> None:
        """Say who takes changes."""
        self._taints.connect(see)

    def see(self, changes: Sequence[Change]) -> None:
        """Look at pods that ended, and at what the kubelet says of their devices."""
        for change in changes:
            if change.kind is Kind.PODS:
                self._look_at(change.key, change.value if isinstance(change.value, Pod) else None)

    def _look_at(self, key: str, pod: Pod | None) -> None:
        if pod is None or not pod.has_failed:
            self._failed.pop(key, None)
        if pod is None or not pod.claims:
            return
        claims = [claim for each in pod.claim_ids if (claim := self._cluster.claim(each)) is not None]
        self._suspect(_devices_of_unhealthy(pod, claims))
        if pod.has_failed and pod.controller is not None and self._failed.get(key) != pod.uid:
            self._failed[key] = pod.uid
            self._suspect(_devices_of(claims))

    def _suspect(self, devices: Iterator[DeviceId]) -> None:
        """Suspect these devices; for one that is suspected already the time starts again."""
        for device in dict.fromkeys(devices):
            if self._taints.put(device, self._seconds):
                _log.warning(logs.DEVICE_SUSPECTED, device=str(device), seconds=self._seconds)


def _devices_of(claims: Sequence[Claim]) -> Iterator[DeviceId]:
    """Give the devices that claims hold, those of admin access not among them."""
    for claim in claims:
        for result in claim.allocation.results if claim.allocation is not None else ():
            if not result.admin_access:
                yield result.device


def _devices_of_unhealthy(pod: Pod, claims: Sequence[Claim]) -> Iterator[DeviceId]:
    """
    Give the devices that a pod's status calls unhealthy.

    An entry names the pod's claim, the request where the container names one, and the device by an id that may be the
    driver's own. Where that id does not name one device of the request, or of the claim, all of them are meant.
    """
    by_id = {claim.id: claim for claim in claims}
    entries = {entry.entry: by_id[entry.claim] for entry in pod.claims if entry.claim in by_id}
    for report in pod.unhealthy:
        claim = entries.get(report.entry)
        if claim is None or claim.allocation is None:
            continue
        asked = {each.request: each.request.partition("/")[0] for each in claim.allocation.results}
        given = [
            each.device
            for each in claim.allocation.results
            if report.request in {"", each.request, asked[each.request]} and not each.admin_access
        ]
        named = [each for each in given if report.resource_id in {str(each), each.device}]
        yield from named or given

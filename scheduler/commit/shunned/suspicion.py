"""
Devices on which work failed, or that the kubelet reports unhealthy: given to others last, for a while.

A best fit that is deterministic would give the same bad card to every replacement of a pod that failed on it. So the
devices of a pod that ended as Failed, and that a controller replaces, and those that a running pod's status calls
Unhealthy (status.containerStatuses[].allocatedResourcesStatus, KEP-4680) get a taint of our own that forbids nothing:
the solver prefers every other device. A pod that was evicted or preempted did not fail by its devices.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from scheduler.change import Change, Kind
from scheduler.cluster import Cluster
from scheduler.commit.shunned.own_taints import OwnTaints, See
from scheduler.observe import logs
from scheduler.observe.metrics import Metrics
from solver.domain import SUSPECT_TAINT, Claim, DeviceId, Pod, Taint, TaintEffect

_log: Final = logs.logger()


class Suspicion:
    """Suspects devices for so many seconds; what it does goes the way of everything that a watch tells."""

    def __init__(self, cluster: Cluster, seconds: float, metrics: Metrics) -> None:
        self._cluster: Final = cluster
        self._seconds: Final = seconds
        self._taints: Final = OwnTaints("suspected", Taint(key=SUSPECT_TAINT, effect=TaintEffect.NONE), metrics)
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
        self._suspect(devices_of_unhealthy(pod, claims))
        if pod.has_failed and pod.controller is not None and self._failed.get(key) != pod.uid:
            self._failed[key] = pod.uid
            self._suspect(devices_of(claims))

    def _suspect(self, devices: Iterator[DeviceId]) -> None:
        """Suspect these devices; for one that is suspected already the time starts again."""
        for device in dict.fromkeys(devices):
            if self._taints.put(device, self._seconds):
                _log.warning(logs.DEVICE_SUSPECTED, device=str(device), seconds=self._seconds)


def devices_of(claims: Sequence[Claim]) -> Iterator[DeviceId]:
    """Give the devices that claims hold, those of admin access not among them."""
    for claim in claims:
        for result in claim.allocation.results if claim.allocation is not None else ():
            if not result.admin_access:
                yield result.device


def devices_of_unhealthy(pod: Pod, claims: Sequence[Claim]) -> Iterator[DeviceId]:
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

"""The series about DeviceQuotas."""

from collections.abc import Iterable
from typing import Final, Protocol

from prometheus_client import Gauge

from solver.domain import QuotaState
from solver.domain.quantity import NANO


class _Make(Protocol):
    def __call__(self, name: str, text: str, labels: tuple[str, ...]) -> Gauge: ...


class QuotaSeries:
    """What is held, guaranteed, lent and waited for; label `counts` is `devices`, `wholeNodes` or a capacity's name."""

    def __init__(self, make: _Make) -> None:
        labels = ("quota", "device_class", "counts")
        self._held: Final = make(
            "dovetail_quota_held",
            "What the namespaces of a DeviceQuota hold: devices, nodes (wholeNodes), or of a capacity.",
            labels,
        )
        self._guarantee: Final = make(
            "dovetail_quota_guarantee", "What a DeviceQuota guarantees; at least what those below it do.", labels
        )
        self._limit: Final = make("dovetail_quota_limit", "The limit of a DeviceQuota, where it has one.", labels)
        self._lent: Final = make(
            "dovetail_quota_lent", "What the namespaces of a DeviceQuota hold beyond its guarantee.", labels
        )
        self._waiting: Final = make(
            "dovetail_quota_waiting_pods",
            "Pods of a DeviceQuota's namespaces that wait and ask for such devices, whatever they wait for.",
            labels,
        )
        self._findings: Final = make(
            "dovetail_quota_findings",
            "What contradicts in a DeviceQuota, by the reason of its condition.",
            ("quota", "reason"),
        )

    def show(self, states: Iterable[QuotaState]) -> None:
        """Replace all values at once: quotas that are gone have none."""
        for gauge in (self._held, self._guarantee, self._limit, self._lent, self._waiting, self._findings):
            gauge.clear()
        for state in states:
            for finding in state.findings:
                self._findings.labels(state.quota, finding.reason).set(1)
            for each in state.resources:
                key, unit = each.key, NANO if each.key.capacity else 1
                labels = (state.quota, key.device_class, key.capacity or key.shape)
                self._held.labels(*labels).set(each.held / unit)
                self._lent.labels(*labels).set(each.lent / unit)
                self._waiting.labels(*labels).set(each.waiting)
                if each.guarantee:
                    self._guarantee.labels(*labels).set(each.guarantee / unit)
                if each.resource.limit is not None:
                    self._limit.labels(*labels).set(each.resource.limit / unit)

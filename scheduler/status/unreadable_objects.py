"""
Reports objects that cannot be decoded or applied: log line per version, event per ten minutes, series per kind.

Nothing is decided here: the cluster cache has already what counts of such an object (`kube.decode.partial_objects`).
"""

import time
from collections.abc import Callable, Sequence
from enum import Flag, auto
from typing import Final

from scheduler.backoff import Cooldown
from scheduler.change import Change, Kind
from scheduler.kube.encode import ObjectReference
from scheduler.kube.errors import DecodeError
from scheduler.observe import logs
from scheduler.observe.metrics import Metrics
from scheduler.unreadable import cut

RecordEvent = Callable[[ObjectReference, str], None]

_EVENT_SECONDS: Final = 600.0
"""Least time between two events on one object."""
_MOST_EVENTS: Final = 1000
_MOST_OF_NAMESPACE: Final = 100
"""Events within that time, in all and of one namespace."""
_REFERENCES: Final[dict[Kind, tuple[str, str]]] = {
    Kind.PODS: ("v1", "Pod"),
    Kind.NODES: ("v1", "Node"),
    Kind.VOLUMES: ("v1", "PersistentVolume"),
    Kind.VOLUME_CLAIMS: ("v1", "PersistentVolumeClaim"),
    Kind.CLAIMS: ("resource.k8s.io/v1", "ResourceClaim"),
    Kind.SLICES: ("resource.k8s.io/v1", "ResourceSlice"),
    Kind.CLASSES: ("resource.k8s.io/v1", "DeviceClass"),
    Kind.TAINT_RULES: ("resource.k8s.io/v1", "DeviceTaintRule"),
    Kind.BUDGETS: ("policy/v1", "PodDisruptionBudget"),
    Kind.POD_GROUPS: ("scheduling.k8s.io/v1beta1", "PodGroup"),
    Kind.COSCHEDULING_GROUPS: ("scheduling.x-k8s.io/v1alpha1", "PodGroup"),
    Kind.QUOTAS: ("dovetail.dev/v1alpha1", "DeviceQuota"),
}
"""apiVersion and kind of objects that get events."""

_log: Final = logs.logger()


def _namespace(key: str) -> str:
    """Return the namespace of an object; empty where it has none."""
    return key.rpartition("/")[0]


class _Problem(Flag):
    UNREADABLE = auto()
    UNUSABLE = auto()


class Quarantine:
    """Counts and reports: `unreadable` objects failed in decoding, `unusable` ones where they were applied."""

    def __init__(self, metrics: Metrics, record: RecordEvent, clock: Callable[[], float] = time.monotonic) -> None:
        self._metrics: Final = metrics
        self._record: Final = record
        self._problems: Final[dict[Kind, dict[str, _Problem]]] = {}
        self._recorded: Final[Cooldown[tuple[Kind, str]]] = Cooldown(
            _EVENT_SECONDS, clock, group_of=lambda recorded: _namespace(recorded[1])
        )

    def unreadable(self, kind: Kind, problem: DecodeError) -> None:
        """Note a version of an object that cannot be read."""
        self._note(kind, problem.key, _Problem.UNREADABLE)
        self._put(kind, problem.key, problem.uid, f"{problem.field}: {problem.message}")

    def readable(self, kind: Kind, key: str) -> None:
        """Note that an object can be read again, or is deleted."""
        self._release(kind, key, _Problem.UNREADABLE)

    def unusable(self, change: Change, why: str) -> None:
        """Note a version of an object that raised an exception where it was applied."""
        self._note(change.kind, change.key, _Problem.UNUSABLE)
        self._put(change.kind, change.key, str(getattr(change.value, "uid", "")), why)

    def usable(self, change: Change) -> None:
        """Note that an object was applied."""
        problems = self._problems.get(change.kind)
        if problems and _Problem.UNUSABLE in problems.get(change.key, _Problem(0)):
            self._release(change.kind, change.key, _Problem.UNUSABLE)

    def isolate(self, change: Change, see: Callable[[Sequence[Change]], None]) -> None:
        """Hand one change to a receiver; an exception there counts as the object's own problem."""
        try:
            see((change,))
        except Exception as error:  # noqa: BLE001 - whatever one object raises, the others are seen
            self.unusable(change, f"{type(error).__name__}: {error}")

    def _note(self, kind: Kind, key: str, problem: _Problem) -> None:
        problems = self._problems.setdefault(kind, {})
        problems[key] = problems.get(key, _Problem(0)) | problem
        self._metrics.quarantined_objects.labels(kind).set(len(problems))

    def _put(self, kind: Kind, key: str, uid: str, why: str) -> None:
        _log.warning(logs.OBJECT_UNREADABLE, kind=kind, key=key, error=cut(why))
        if kind in _REFERENCES and self._may_record(kind, key):
            api_version, name_of_kind = _REFERENCES[kind]
            namespace, _, name = key.rpartition("/")
            reference = ObjectReference(
                api_version=api_version, kind=name_of_kind, namespace=namespace, name=name, uid=uid
            )
            self._record(
                reference, f"Dovetail cannot read this object, and does not use it until it changes: {cut(why)}"
            )

    def _release(self, kind: Kind, key: str, problem: _Problem) -> None:
        problems = self._problems.setdefault(kind, {})
        left = problems.pop(key, _Problem(0)) & ~problem
        if left:
            problems[key] = left
            return
        _log.info(logs.OBJECT_READABLE, kind=kind, key=key)
        self._metrics.quarantined_objects.labels(kind).set(len(problems))

    def _may_record(self, kind: Kind, key: str) -> bool:
        namespace = _namespace(key)
        of_namespace = self._recorded.count(namespace) if namespace else 0
        if len(self._recorded) >= _MOST_EVENTS or of_namespace >= _MOST_OF_NAMESPACE:
            return False
        return self._recorded.try_start((kind, key))

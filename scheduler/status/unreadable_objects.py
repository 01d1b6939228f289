"""
The objects that are in quarantine: how many of each kind, and what is told of them.

An object that cannot be read is told by a line in the log for each of its versions, and by an event on it at most every
ten minutes. A series counts them by kind. Nothing here decides: what counts of them is in the mirror already.
"""

import time
from collections.abc import Callable, Sequence
from typing import Final

from scheduler.change import Change, Kind
from scheduler.kube.encode import ObjectReference
from scheduler.kube.errors import DecodeError
from scheduler.observe import logs
from scheduler.observe.metrics import Metrics
from scheduler.unreadable import cut

Tell = Callable[[ObjectReference, str], None]

_EVENT_SECONDS: Final = 600.0
"""An object is told about by events this often at most, however often it changes."""
_MOST_TOLD: Final = 1000
_MOST_OF_NAMESPACE: Final = 100
"""Objects that were told about lately, in all and of a namespace; beyond that no more events until some are over."""
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
    Kind.POD_GROUPS: ("scheduling.k8s.io/v1alpha2", "PodGroup"),
    Kind.COSCHEDULING_GROUPS: ("scheduling.x-k8s.io/v1alpha1", "PodGroup"),
}
"""apiVersion and kind of those that events are written on."""

_log: Final = logs.logger()


def _namespace(key: str) -> str:
    """Give the namespace of an object; empty where it has none."""
    return key.rpartition("/")[0]


class Quarantine:
    """Counts and tells; `unreadable` objects failed at the edge, `unusable` ones where they were to be used."""

    def __init__(self, metrics: Metrics, tell: Tell, clock: Callable[[], float] = time.monotonic) -> None:
        self._metrics: Final = metrics
        self._tell: Final = tell
        self._clock: Final = clock
        self._unreadable: Final[dict[Kind, set[str]]] = {}
        self._unusable: Final[dict[Kind, set[str]]] = {}
        self._told: Final[dict[tuple[Kind, str], float]] = {}

    def unreadable(self, kind: Kind, problem: DecodeError) -> None:
        """Note a version of an object that cannot be read."""
        self._unreadable.setdefault(kind, set()).add(problem.key)
        self._put(kind, problem.key, problem.uid, f"{problem.field}: {problem.message}")

    def readable(self, kind: Kind, key: str) -> None:
        """Note that an object can be read again, or is gone."""
        self._unreadable.get(kind, set()).discard(key)
        self._release(kind, key)

    def unusable(self, change: Change, why: str) -> None:
        """Note a version of an object that raised where it was applied."""
        self._unusable.setdefault(change.kind, set()).add(change.key)
        self._put(change.kind, change.key, str(getattr(change.value, "uid", "")), why)

    def usable(self, change: Change) -> None:
        """Note that an object was applied; nearly always nothing is to be done then."""
        keys = self._unusable.get(change.kind)
        if keys and change.key in keys:
            keys.remove(change.key)
            self._release(change.kind, change.key)

    def isolate(self, change: Change, see: Callable[[Sequence[Change]], None]) -> None:
        """Show somebody one change; what that raises is the object's own problem."""
        try:
            see((change,))
        except Exception as error:  # noqa: BLE001 - whatever one object raises, the others are seen
            self.unusable(change, f"{type(error).__name__}: {error}")

    def _put(self, kind: Kind, key: str, uid: str, why: str) -> None:
        _log.warning(logs.OBJECT_UNREADABLE, kind=kind, key=key, error=cut(why))
        self._count(kind)
        if kind in _REFERENCES and self._may_tell(kind, key):
            api_version, name_of_kind = _REFERENCES[kind]
            namespace, _, name = key.rpartition("/")
            reference = ObjectReference(
                api_version=api_version, kind=name_of_kind, namespace=namespace, name=name, uid=uid
            )
            self._tell(reference, f"Dovetail cannot read this object, and does not use it until it changes: {cut(why)}")

    def _release(self, kind: Kind, key: str) -> None:
        if key in self._unreadable.get(kind, ()) or key in self._unusable.get(kind, ()):
            return
        _log.info(logs.OBJECT_READABLE, kind=kind, key=key)
        self._count(kind)

    def _count(self, kind: Kind) -> None:
        unreadable = self._unreadable.get(kind, set())
        others = sum(key not in unreadable for key in self._unusable.get(kind, ()))
        self._metrics.quarantined_objects.labels(kind).set(len(unreadable) + others)

    def _may_tell(self, kind: Kind, key: str) -> bool:
        now = self._clock()
        for known in [known for known, until in self._told.items() if until <= now]:
            del self._told[known]
        namespace = _namespace(key)
        told = sum(_namespace(known) == namespace for _, known in self._told) if namespace else 0
        if (kind, key) in self._told or len(self._told) >= _MOST_TOLD or told >= _MOST_OF_NAMESPACE:
            return False
        self._told[kind, key] = now + _EVENT_SECONDS
        return True

"""
What the worker's replica has not received yet: changes of objects, and the pods of a batch.

`ChangeLog` is the shell's side: every change since the last one sent, or all objects after a restart of the worker. A
batch is sent with the id and uid alone of the pods that the replica has (`without_known_pods`); the worker puts its own
copies back (`with_known_pods`).
"""

from collections.abc import Callable
from typing import Final

import msgspec

from scheduler.change import Change, Kind
from solver.domain import Batch, Pod, PodId


class ChangeLog:
    """
    The last change of every object, and which of them the present replica has not received.

    A replica needs only the last state of an object, so an object waits once, however often it changes during a solve.
    The log refers to the objects of the shell's `Cluster`; it copies none.
    """

    def __init__(self) -> None:
        self._last: Final[dict[tuple[Kind, str], Change]] = {}
        self._unsent: Final[dict[tuple[Kind, str], None]] = {}
        self._has_replica = False
        self.appended = 0
        """How many changes were added: while it stays, the objects stay as they are."""

    def __len__(self) -> int:
        """Return the number of changes that `take_unsent` would give."""
        return len(self._unsent)

    @property
    def object_count(self) -> int:
        """The number of objects in a complete replica."""
        return len(self._last)

    def append(self, change: Change) -> None:
        """Add a change that the shell's `Cluster` has applied."""
        self.appended += 1
        key = (change.kind, change.key)
        self._unsent.pop(key, None)
        if change.value is None and not self._has_replica:
            self._last.pop(key, None)  # an empty replica needs no deletion
            return
        self._unsent[key] = None
        self._last[key] = change

    def is_sent(self, kind: Kind, key: str, value: object) -> bool:
        """Whether the replica has exactly this value of an object, and no newer one waits."""
        last = self._last.get((kind, key))
        return last is not None and last.value is value and (kind, key) not in self._unsent

    def take_unsent(self) -> tuple[Change, ...]:
        """Return the changes that the replica lacks, ordered by their last change, and count them as sent."""
        changes = tuple(self._last[key] for key in self._unsent)
        self._unsent.clear()
        for change in changes:
            if change.value is None:
                self._last.pop((change.kind, change.key), None)
        return changes

    def detach(self) -> None:
        """Note that there is no replica until `attach`: deletions are not kept meanwhile."""
        self._has_replica = False
        self._drop_deleted()

    def attach(self) -> None:
        """Note that there is a new, empty replica: every object is unsent."""
        self._has_replica = True
        self._drop_deleted()
        self._unsent.clear()
        self._unsent.update(dict.fromkeys(self._last))

    def _drop_deleted(self) -> None:
        for key in [key for key, change in self._last.items() if change.value is None]:
            del self._last[key]
            self._unsent.pop(key, None)


def without_known_pods(batch: Batch, known: frozenset[PodId]) -> Batch:
    """Reduce the pods that the replica has to id and uid. Pods may be large, and JSON repeats shared parts."""
    pods = (Pod(id=pod.id, uid=pod.uid) if pod.id in known else pod for pod in batch.pods)
    return msgspec.structs.replace(batch, pods=tuple(pods))


def with_known_pods(batch: Batch, known: frozenset[PodId], find: Callable[[PodId], Pod | None]) -> Batch:
    """Complete the pods of a received batch from the replica; a pod that the replica lacks is left out."""
    pods = list[Pod]()
    for pod in batch.pods:
        whole = find(pod.id) if pod.id in known else pod
        if whole is not None and whole.uid == pod.uid:
            pods.append(whole)
    return msgspec.structs.replace(batch, pods=tuple(pods))

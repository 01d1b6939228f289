"""
Applies changes to a cache and isolates an object that raises.

When an object raises, the indexes are rebuilt and an unreadable placeholder of the object is applied instead
(`scheduler.unreadable`). The rebuild costs time for all objects. So after the first failure, each object of that kind
is first applied to an empty cache. One that raises there never reaches the real cache.
"""

from typing import Final, NamedTuple

from scheduler.change import Change, Kind, Object, Transition
from scheduler.cluster.cluster import Cluster
from scheduler.unreadable import closed, cut
from solver.domain import Claim, Pod


class IntakeResult(NamedTuple):
    """The result of a change: `change` is what the cache applied; `problem` says why it differs from the input."""

    change: Change
    transitions: tuple[Transition, ...]
    problem: str = ""


class Intake:
    """Applies changes to one cache: the shell's, or the worker's replica."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster: Final = cluster
        self._suspected: Final[set[Kind]] = set()

    def take(self, change: Change) -> IntakeResult:
        """Apply a change, or a placeholder. Raise only `MemoryError`, which no single object causes."""
        last = self._cluster.seen(change.kind, change.key)
        try:
            if change.kind in self._suspected:
                _try(change)
            return IntakeResult(change, self._apply(change, last))
        except MemoryError:
            raise
        except Exception as error:  # noqa: BLE001 - an error on one object must not stop the others
            return self._take_closed(change, last, cut(f"{type(error).__name__}: {error}"))

    def _take_closed(self, change: Change, last: Object | None, why: str) -> IntakeResult:
        if change.value is None:
            return self._remove(change, last, why)
        for base, make in ((change.value, closed), (change.value, _bare), (last, closed)):
            try:
                instead = Change(kind=change.kind, key=change.key, value=make(base, why) if base is not None else None)
                if instead.value is None:
                    continue
                _try(instead)
                return IntakeResult(instead, self._apply(instead, last), why)
            except MemoryError:
                raise
            except Exception:  # noqa: BLE001, S112 - the next placeholder has fewer fields
                continue
        return IntakeResult(Change(kind=change.kind, key=change.key, value=last), (), why)

    def _remove(self, change: Change, last: Object | None, why: str) -> IntakeResult:
        """Delete an object whose deletion raises: the indexes are rebuilt without it."""
        self._cluster.reindex(change.kind, change.key, None)
        deleted = Transition(kind=change.kind, key=change.key, before=last, after=None)
        return IntakeResult(change, (deleted,) if last is not None else (), why)

    def _apply(self, change: Change, last: Object | None) -> tuple[Transition, ...]:
        try:
            return self._cluster.apply(change)
        except MemoryError:
            raise
        except Exception:
            self._suspected.add(change.kind)
            self._cluster.reindex(change.kind, change.key, last)
            raise


def _try(change: Change) -> None:
    """Apply a change to an empty cache and remove it again."""
    scratch = Cluster()
    scratch.apply(change)
    scratch.snapshot()
    scratch.apply(Change(kind=change.kind, key=change.key, value=None))


def _bare(value: Object, why: str) -> Object | None:
    """Keep only the fields that say what an object uses; None for kinds without such fields."""
    match value:
        case Pod():
            return Pod(
                id=value.id,
                uid=value.uid,
                scheduler_name=value.scheduler_name,
                node_name=value.node_name,
                priority=value.priority,
                requests=value.requests,
                is_preemptible=False,
                is_deleting=value.is_deleting,
                is_terminal=value.is_terminal,
                invalid=why,
            )
        case Claim():
            return Claim(
                id=value.id,
                uid=value.uid,
                resource_version=value.resource_version,
                allocation=value.allocation,
                reserved_for=value.reserved_for,
                finalizers=value.finalizers,
                is_deleting=value.is_deleting,
                invalid=why,
            )
        case _:
            return None

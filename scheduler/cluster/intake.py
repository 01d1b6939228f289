"""
Changes into the mirror, each by itself: an object that raises while it is applied is its own problem.

Then the mirror's indexes are made again, and what stands for the object is applied instead
(`scheduler.unreadable`). That costs the work of all objects, so after the first time objects of that kind are tried on
an empty mirror first: one that raises there does not reach the real one.
"""

from typing import Final, NamedTuple

from scheduler.change import Change, Kind, Object, Transition
from scheduler.cluster.cluster import Cluster
from scheduler.unreadable import closed, cut
from solver.domain import Claim, Pod


class IntakeResult(NamedTuple):
    """What became of a change: `change` is what the mirror took; `problem` says why that is not what was told."""

    change: Change
    transitions: tuple[Transition, ...]
    problem: str = ""


class Intake:
    """Applies changes to one mirror, of the shell or of the worker's replica."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster: Final = cluster
        self._suspected: Final[set[Kind]] = set()

    def take(self, change: Change) -> IntakeResult:
        """Apply a change, or what stands for it. Raises MemoryError, which is no object's problem, and nothing else."""
        last = self._cluster.seen(change.kind, change.key)
        try:
            if change.kind in self._suspected:
                _try(change)
            return IntakeResult(change, self._apply(change, last))
        except MemoryError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever one object raises is its own problem
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
            except Exception:  # noqa: BLE001, S112 - the next one says less
                continue
        return IntakeResult(Change(kind=change.kind, key=change.key, value=last), (), why)

    def _remove(self, change: Change, last: Object | None, why: str) -> IntakeResult:
        """Take an object away that raises even then: it is left out when the indexes are made again."""
        self._cluster.mend(change.kind, change.key, None)
        gone = Transition(kind=change.kind, key=change.key, before=last, after=None)
        return IntakeResult(change, (gone,) if last is not None else (), why)

    def _apply(self, change: Change, last: Object | None) -> tuple[Transition, ...]:
        try:
            return self._cluster.apply(change)
        except MemoryError:
            raise
        except Exception:
            self._suspected.add(change.kind)
            self._cluster.mend(change.kind, change.key, last)
            raise


def _try(change: Change) -> None:
    """Apply a change where it can do no harm, and take it away again."""
    scratch = Cluster()
    scratch.apply(change)
    scratch.snapshot()
    scratch.apply(Change(kind=change.kind, key=change.key, value=None))


def _bare(value: Object, why: str) -> Object | None:
    """Give what an object takes, and nothing else of it; None for kinds of which nothing is left then."""
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

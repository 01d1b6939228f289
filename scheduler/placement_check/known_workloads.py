"""What is remembered of Workloads, by key, as long as their uids and duties stay."""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import msgspec

from scheduler.placement_check.check_states import CheckMemory, Duty
from scheduler.placement_check.kueue_objects import KueueWorkload

MOST_ADMITTED: Final = 10_000
"""Workloads that are remembered as let in."""


class KnownWorkload(NamedTuple):
    """What is known of a Workload while its uid and duty stay, and since when these are so."""

    uid: str
    duty: Duty
    since: float
    memory: CheckMemory = CheckMemory()


class KnownWorkloads(dict[str, KnownWorkload]):
    """Workloads by key; what is noted of one that is not known is forgotten at once."""

    def __init__(self, clock: Callable[[], float]) -> None:
        super().__init__()
        self._clock: Final = clock
        self.admitted: Final[dict[str, None]] = {}
        """Keys of those that were let in when they were seen last, the latest at the end."""

    def see(self, workload: KueueWorkload) -> None:
        """Remember whether a Workload is let in, also when it is gone."""
        self.admitted.pop(workload.key, None)
        if workload.is_admitted:
            self.admitted[workload.key] = None
            if len(self.admitted) > MOST_ADMITTED:
                del self.admitted[next(iter(self.admitted))]

    def note(self, key: str, **fields: Any) -> None:
        """Set fields of what is remembered."""
        if (known := self.get(key)) is not None:
            self[key] = known._replace(memory=msgspec.structs.replace(known.memory, **fields))

    def refuse(self, key: str, reason: str) -> None:
        """Remember why a decision has no room."""
        if (known := self.get(key)) is not None:
            self[key] = known._replace(memory=known.memory.refused(reason, self._clock()))

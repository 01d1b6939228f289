"""
Changes of the leader in an audit log: when the former one wrote last, and when the new one took the Lease and wrote.

Pure. Times are when the API server answered, by its clock; `renewed` is the former leader's renewTime. All processes
run on one machine, so the times can be compared.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from e2e.audit.leader_writes import is_placing
from e2e.audit.reading import Key
from e2e.audit.writes import Write


@dataclass(frozen=True, slots=True, kw_only=True)
class Handover:
    """
    One change of the leader; times in seconds.

    `placed` is when the former leader's last write that places or evicts was answered, 0 for none; `released` when it
    gave the Lease up, 0 where it did not. `first` is when the new leader's first such write was answered, 0 for none.
    """

    renewed: float
    lease_seconds: float
    placed: float
    released: float
    taken: float
    first: float = 0.0

    @property
    def is_clean(self) -> bool:
        """Whether the former leader gave the Lease up."""
        return self.released > 0

    @property
    def since(self) -> float:
        """From when the delay counts: the end of the lease, or of the last write before it was given up."""
        return (self.placed or self.released) if self.is_clean else self.renewed + self.lease_seconds

    @property
    def lease_delay(self) -> float:
        """The seconds until the Lease had a new holder."""
        return self.taken - self.since

    @property
    def write_delay(self) -> float:
        """The seconds until the new leader had written; only where it has."""
        return self.first - self.since

    @property
    def is_early(self) -> bool:
        """Whether the Lease was taken while the former leader could hold it."""
        return not self.is_clean and self.taken < self.renewed + self.lease_seconds


@dataclass(slots=True)
class _Leader:
    """The leader so far: its token, and when it renewed the Lease, wrote and gave the Lease up."""

    credential: str
    identity: str
    renewed: float
    lease_seconds: float
    placed: float = 0.0
    released: float = 0.0


def handovers(writes: Iterable[Write], lease: Key) -> tuple[Handover, ...]:
    """Return the changes of the leader, in order; `writes` are in the order of their versions."""
    leader: _Leader | None = None
    found: list[Handover] = []
    for write in writes:
        if write.resource == "leases" and write.key == lease and write.stored:
            leader, change = _see_lease(leader, write)
            found += change
        elif leader is not None and is_placing(write) and write.credential == leader.credential:
            leader.placed = max(leader.placed, write.seconds)
            if found and not found[-1].first:
                found[-1] = replace(found[-1], first=write.seconds)
    return tuple(found)


_NONE: Final[tuple[Handover, ...]] = ()


def _see_lease(leader: _Leader | None, write: Write) -> tuple[_Leader | None, tuple[Handover, ...]]:
    """Return the leader after a write of the Lease, and the change of the leader that it is, if it is one."""
    spec = write.stored["spec"]
    holder = spec.get("holderIdentity") or ""
    if leader is not None and not holder:
        leader.released = write.seconds
        return leader, _NONE
    renewed = datetime.fromisoformat(spec["renewTime"]).timestamp()
    if leader is not None and holder == leader.identity:
        leader.renewed = renewed
        return leader, _NONE
    new = _Leader(write.credential, holder, renewed, float(spec["leaseDurationSeconds"]))
    if leader is None:
        return new, _NONE
    return new, (
        Handover(
            renewed=leader.renewed,
            lease_seconds=leader.lease_seconds,
            placed=leader.placed,
            released=leader.released,
            taken=write.seconds,
        ),
    )

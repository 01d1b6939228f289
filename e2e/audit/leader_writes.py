"""
Only the leader's writes count.

The Lease names the leader: the token that wrote a new holder into it is the leader's. Three kinds of writes are
findings: of a former leader after the first one of the new leader, of a leader that has given up the Lease, and of a
process that never led. Writes that place or evict count: claims, bindings, evictions and volumes. A late event or
condition does no harm. Nor does a late creation of a claim: it holds nothing, and the leader deletes it.
"""

from dataclasses import dataclass, field
from typing import Final

from e2e.audit.reading import Finding, Key
from e2e.audit.writes import Write

_PLACING: Final = frozenset(
    {
        ("resourceclaims", ""),
        ("resourceclaims", "status"),
        ("pods", "binding"),
        ("pods", "eviction"),
        ("persistentvolumes", ""),
        ("persistentvolumeclaims", ""),
    }
)


def is_placing(write: Write) -> bool:
    """Whether a write places or evicts, and has acted."""
    return (write.resource, write.subresource) in _PLACING and write.is_known and not _is_bare_claim(write)


def _is_bare_claim(write: Write) -> bool:
    """Whether a claim has just been made: it has neither finalizers nor an allocation."""
    if (write.resource, write.subresource) != ("resourceclaims", "") or write.is_gone or not write.stored:
        return False
    return not write.stored["metadata"].get("finalizers") and not write.stored.get("status", {}).get("allocation")


@dataclass(slots=True)
class LeaderWrites:
    """The leader and those before it, by the ids of their tokens."""

    lease: Key
    leaders: list[str] = field(default_factory=list)
    """One for each term, the newest last."""
    _holder: str = ""
    _user: str = ""
    _has_written: bool = False

    def is_ours(self, write: Write) -> bool:
        """Whether the scheduler's account made a write."""
        return bool(self._user) and write.user == self._user

    def see(self, write: Write) -> list[Finding]:
        """See the next write, in the order of versions."""
        if write.resource == "leases" and write.key == self.lease and write.stored:
            self._see_lease(write)
            return []
        if not self.leaders or not is_placing(write) or write.user != self._user:
            return []
        writer = self._wrong_writer(write.credential)
        self._has_written |= write.credential == self.leaders[-1]
        what = "/".join(filter(None, (write.resource, write.subresource)))
        message = f"{writer} wrote {what} at version {write.version}"
        return [Finding("former", str(write.key), message)] if writer else []

    def _wrong_writer(self, credential: str) -> str:
        """Say what is wrong with the writer; empty for the leader, and for the one before it until that one writes."""
        if credential == self.leaders[-1]:
            return "" if self._holder else "the leader that had given up the Lease"
        if credential in self.leaders:
            return "a former leader" if self._has_written else ""
        return "a process that never led"

    def _see_lease(self, write: Write) -> None:
        holder = write.stored["spec"].get("holderIdentity") or ""
        if holder and holder != self._holder:
            self.leaders.append(write.credential)
            self._user, self._has_written = write.user, False
        self._holder = holder

"""
The claims that this process has written after any release of them that was sent before.

A release may act long after its answer was lost, also one of a former leader. It is guarded by the resourceVersion that
it has read, so any later write of the claim makes it fail (see `claims`).
"""

from typing import Final

from solver.domain import Claim

_MOST_REMEMBERED: Final = 20_000
"""Of more claims, those written longest ago are forgotten, at the cost of one more write each."""


class OwnWrites:
    """Uids of such claims."""

    def __init__(self) -> None:
        self._uids: Final[dict[str, None]] = {}

    def add(self, claim: Claim) -> None:
        """Note that a write of the claim was answered."""
        self._uids.pop(claim.uid, None)
        self._uids[claim.uid] = None
        if len(self._uids) > _MOST_REMEMBERED:
            del self._uids[next(iter(self._uids))]

    def discard(self, claim: Claim) -> None:
        """Note that a release of the claim is sent."""
        self._uids.pop(claim.uid, None)

    def __contains__(self, claim: Claim) -> bool:
        return claim.uid in self._uids

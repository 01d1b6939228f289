"""Claims whose newest version this process has written: no release is under way that could still undo them."""

from typing import Final

from solver.domain import Claim

_MOST: Final = 20_000
"""Of more, those that were written longest ago are forgotten: it costs a request each to write them again."""


class Own:
    """
    Claims, by uid, that were written here after any release of them that was sent before.

    A release rests on the version that it has read. One that no answer came to may act long afterwards, of this process
    or of a former leader, unless somebody has written the claim since.
    """

    def __init__(self) -> None:
        self._uids: Final[dict[str, None]] = {}

    def add(self, claim: Claim) -> None:
        """Note that a write of the claim was answered."""
        self._uids.pop(claim.uid, None)
        self._uids[claim.uid] = None
        if len(self._uids) > _MOST:
            del self._uids[next(iter(self._uids))]

    def discard(self, claim: Claim) -> None:
        """Note that a release of the claim is sent."""
        self._uids.pop(claim.uid, None)

    def __contains__(self, claim: Claim) -> bool:
        return claim.uid in self._uids

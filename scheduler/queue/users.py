"""Which pods of the queue a claim concerns."""

from typing import Final

from solver.domain import ClaimId, Pod, PodId, VolumeClaimId

AnyClaim = ClaimId | VolumeClaimId
"""A claim for devices and one for a volume may have the same name."""


class Users:
    """Pods by the claims that they reference."""

    def __init__(self) -> None:
        self._users: Final[dict[AnyClaim, dict[PodId, None]]] = {}

    def of(self, claim: AnyClaim) -> tuple[PodId, ...]:
        """Give the pods that reference a claim, in the order in which they came."""
        return tuple(self._users.get(claim, ()))

    def enter(self, pod: Pod) -> None:
        """Note what a pod references."""
        for claim in _referenced(pod):
            self._users.setdefault(claim, {})[pod.id] = None

    def leave(self, pod: Pod) -> None:
        """Forget what a pod references, as it was entered."""
        for claim in _referenced(pod):
            users = self._users[claim]
            del users[pod.id]
            if not users:
                del self._users[claim]

    def change(self, before: Pod, after: Pod) -> None:
        """Note what a pod references now."""
        if _referenced(before) != _referenced(after):
            self.leave(before)
            self.enter(after)


def _referenced(pod: Pod) -> tuple[AnyClaim, ...]:
    return tuple(dict.fromkeys((*pod.claim_ids, *pod.volume_claims)))

"""How many devices pods may take at most, by what their claims and extended resources ask for."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from solver.domain import AllocationMode, Claim, ClaimId, Pod, Request
from solver.feasibility.claims import MAX_RESULTS

_EXTENDED: Final = "/"


@dataclass(slots=True)
class MostDevices:
    """
    Counts pods one by one; a claim counts for each of its pods, which is never too few.

    What pods and claims ask for is counted once: claims of one template share the object that says it
    (`cluster.interning`).
    """

    claims: Mapping[ClaimId, Claim]
    _of_resources: dict[tuple[tuple[str, int], ...], int] = field(default_factory=dict)
    _of_claims: dict[int, int] = field(default_factory=dict)
    """By the identity of the requests of a claim."""

    def of(self, pod: Pod) -> int:
        """Return the most devices of a pod."""
        count = self._of_resources.get(pod.requests)
        if count is None:
            count = sum(amount for name, amount in pod.requests if _EXTENDED in name)
            self._of_resources[pod.requests] = count
        for claim_id in pod.claim_ids:
            claim = self.claims.get(claim_id)
            if claim is not None and claim.allocation is None:
                asked = self._of_claims.get(id(claim.requests))
                if asked is None:
                    asked = self._of_claims[id(claim.requests)] = sum(map(_most_of_request, claim.requests))
                count += asked
        return count


def _most_of_request(request: Request) -> int:
    taking = [each for each in request.alternatives if not each.admin_access]
    return max(
        (MAX_RESULTS if each.allocation_mode == AllocationMode.ALL else each.count for each in taking), default=0
    )

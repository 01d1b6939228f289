"""Extended resources that claims serve (KEP-5004): what is made for a pod, and for which of its containers."""

import msgspec

from solver.domain.claim import Claim, Request
from solver.domain.ids import ClaimId


class RequestMapping(msgspec.Struct, frozen=True, kw_only=True):
    """ContainerExtendedResourceRequest: a container gets an extended resource from a request's devices."""

    container: str
    resource: str
    request: str


class SpecialClaim(msgspec.Struct, frozen=True, kw_only=True):
    """
    The claim that has to be made for the extended resources of one pod on one node.

    `id` stands for it in a plan until the API server has named it; no object can have that name. `requests` are
    sorted by name, each of one class and count; `mappings` are what goes into the pod's status.
    """

    id: ClaimId
    requests: tuple[Request, ...]
    mappings: tuple[RequestMapping, ...]

    @property
    def resources(self) -> frozenset[str]:
        """The extended resources that it serves."""
        return frozenset(mapping.resource for mapping in self.mappings)

    def stand_in(self, pod_uid: str) -> Claim:
        """Give the claim as if it were there; its uid follows from the pod's, so that share ids are repeatable."""
        return Claim(
            id=self.id,
            uid=f"{pod_uid}/{self.id.name}",
            requests=self.requests,
            owner_pod_uid=pod_uid,
            is_special=True,
        )

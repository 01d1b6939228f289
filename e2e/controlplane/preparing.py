"""What happens on a node before a pod's containers start: the kubelet looks at its claims, drivers prepare them."""

from collections import Counter
from collections.abc import Mapping
from typing import Final

from e2e.controlplane.api import Api
from e2e.controlplane.wire import Claim, Metadata, Pod

PREPARE_FAILS: Final = "dovetail.dev/prepare-fails"
"""Annotation of a claim, or of a pod with claims: so many times its preparation fails, or `always`."""
ALWAYS: Final = "always"
CAUSE: Final = "no power"
"""What the driver says of a preparation that is to fail."""


class PreparationError(Exception):
    """A pod cannot start; but for request mappings the message is that of the kubelet of Kubernetes 1.37."""


class Preparation:
    """The preparations on all nodes; `claims` are those that a watch has shown."""

    def __init__(self, api: Api, claims: Mapping[tuple[str, str], Claim]) -> None:
        self._api = api
        self._claims = claims
        self._failures: Counter[str] = Counter()

    async def prepare(self, pod: Pod) -> dict[str, Claim]:
        """Prepare all claims of a pod and return them by their names. Raises PreparationError."""
        if not pod.knows_its_claims():
            raise PreparationError(f'pod "{pod.metadata.namespace}/{pod.metadata.name}": ResourceClaim not created yet')
        claims = {name: await self._usable(pod, name) for name in pod.claim_names()}
        for name, claim in claims.items():
            if self._fails(claim.metadata) or self._fails(pod.metadata):
                raise PreparationError(f"NodePrepareResources failed for ResourceClaim {name}: {CAUSE}")
        _check_mappings(pod, claims)
        return claims

    def forget(self, uid: str) -> None:
        """Forget a pod or claim that is gone."""
        self._failures.pop(uid, None)

    async def _usable(self, pod: Pod, name: str) -> Claim:
        """Return a claim that the pod may use; a kubelet reads it itself, so a watch that is late refuses none."""
        claim = self._claims.get((pod.metadata.namespace, name))
        if claim is None or claim.status.allocation is None or not claim.is_reserved_for(pod):
            path = f"/apis/resource.k8s.io/v1/namespaces/{pod.metadata.namespace}/resourceclaims/{name}"
            claim = await self._api.read(path, Claim)
        if claim is None:
            raise PreparationError(f'fetch ResourceClaim {name}: resourceclaims.resource.k8s.io "{name}" not found')
        if not claim.is_reserved_for(pod):
            who = f"pod {pod.metadata.name} ({pod.metadata.uid})"
            raise PreparationError(f"{who} is not allowed to use ResourceClaim {name} ({claim.metadata.uid})")
        if claim.status.allocation is None:
            raise PreparationError(f"ResourceClaim {name}: not allocated")
        return claim

    def _fails(self, metadata: Metadata) -> bool:
        wanted = metadata.annotations.get(PREPARE_FAILS, "0")
        if wanted == ALWAYS:
            return True
        if self._failures[metadata.uid] >= int(wanted):
            return False
        self._failures[metadata.uid] += 1
        return True


def _check_mappings(pod: Pod, claims: Mapping[str, Claim]) -> None:
    """
    Refuse a pod whose scheduler mapped a container to a request that its claim does not have.

    A kubelet starts such a container without devices: nobody but the container would notice.
    """
    made = pod.status.extended_resource_claim_status
    if made is None:
        return
    requests = {device.top_request for device in claims[made.resource_claim_name].results}
    for mapping in made.request_mappings:
        if mapping.request_name not in requests:
            where = f"container {mapping.container_name}: ResourceClaim {made.resource_claim_name}"
            raise PreparationError(f"{where} has no device for request {mapping.request_name}")

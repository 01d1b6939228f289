"""What a pod's claims take of its node's own resources, on top of what the pod requests (KEP-5517)."""

from collections.abc import Iterable

import msgspec

from solver.domain.ids import ClaimId
from solver.domain.pod import Pod
from solver.domain.quantity import unit_of


class ClaimBurden(msgspec.Struct, frozen=True, kw_only=True):
    """What a claim's devices take of the node's own resources, in nano-units, and for which containers."""

    claim: ClaimId
    containers: tuple[str, ...]
    resources: tuple[tuple[str, int], ...]


def with_burdens(pod: Pod, burdens: Iterable[ClaimBurden]) -> Pod:
    """Give a pod whose requests hold what its claims take; where pod-level requests are set they hold it already."""
    more: dict[str, int] = {}
    for resource, nano in (pair for each in burdens for pair in each.resources):
        more[resource] = more.get(resource, 0) + nano
    inside = {name for name, _ in pod.level_slack}
    requests = dict(pod.requests)
    for resource, nano in more.items():
        if resource not in inside:
            requests[resource] = requests.get(resource, 0) - (-nano // unit_of(resource))
    return msgspec.structs.replace(pod, requests=tuple(sorted(requests.items()))) if more else pod

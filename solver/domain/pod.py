"""Pods, as far as they decide where a pod may run (core/v1 Pod)."""

import msgspec

from solver.domain.ids import ClaimId, PodId
from solver.domain.selection import NodeSelector, Toleration


class PodClaim(msgspec.Struct, frozen=True, kw_only=True):
    """
    One entry of spec.resourceClaims, resolved through status.resourceClaimStatuses.

    Exactly one case holds: `claim` is set (its ResourceClaim's key); `is_skipped` (the claim controller decided
    that none is needed); neither: the claim made from `template` does not exist yet.
    """

    entry: str
    claim: ClaimId | None = None
    template: str = ""
    is_skipped: bool = False


class ContainerRequests(msgspec.Struct, frozen=True, kw_only=True):
    """Requests of one container: cpu in millicores, everything else in whole units."""

    name: str
    requests: tuple[tuple[str, int], ...] = ()
    is_init: bool = False
    is_sidecar: bool = False


class Pod(msgspec.Struct, frozen=True, kw_only=True):
    """
    A pod.

    `requests` is what the pod takes from a node (containers, init containers, sidecars, overhead, pod-level
    resources as kube-scheduler sums them), sorted by resource: cpu in millicores, everything else in whole
    units; the one pod that it counts as is not in it. `creation` is the RFC 3339 creation timestamp.
    `invalid` says what is wrong with an object that could not be read whole; it is never placed then. `unhonoured`
    names fields that demand something of the pod's place that no rule knows yet: it is never placed either, rather
    than placed where it must not run.
    """

    id: PodId
    uid: str
    scheduler_name: str = "default-scheduler"
    node_name: str = ""
    nominated_node_name: str = ""
    labels: tuple[tuple[str, str], ...] = ()
    priority: int = 0
    preemption_policy: str = "PreemptLowerPriority"
    creation: str = ""
    requests: tuple[tuple[str, int], ...] = ()
    containers: tuple[ContainerRequests, ...] = ()
    node_selector: tuple[tuple[str, str], ...] = ()
    required_affinity: NodeSelector | None = None
    tolerations: tuple[Toleration, ...] = ()
    claims: tuple[PodClaim, ...] = ()
    pod_group: str = ""
    scheduling_gates: tuple[str, ...] = ()
    is_deleting: bool = False
    is_terminal: bool = False
    unhonoured: tuple[str, ...] = ()
    invalid: str = ""

    @property
    def claim_ids(self) -> tuple[ClaimId, ...]:
        """The claims that it uses, each once, in the order of its entries."""
        return tuple(dict.fromkeys(entry.claim for entry in self.claims if entry.claim is not None))

"""Pods, as far as they decide where a pod may run (core/v1 Pod).

What a pod asks of the pods around it: host ports, affinity to other pods and against them, spreading (core/v1).
"""

from typing import Final

import msgspec

from solver.domain.gang import GangNote
from solver.domain.ids import ClaimId, GangId, PodId, VolumeClaimId
from solver.domain.label_selectors import LabelSelector, NodeSelector, NodeSelectorTerm, Toleration
from solver.domain.volumes import PodVolume

ANY_ADDRESS = "0.0.0.0"


class HostPort(msgspec.Struct, frozen=True, kw_only=True):
    """A port of its node that a pod takes (ContainerPort.hostPort); `address` is `ANY_ADDRESS` where none is named."""

    address: str = ANY_ADDRESS
    protocol: str = "TCP"
    port: int


EVERY_PORT: Final = HostPort(protocol="", port=0)
"""Of a pod whose host ports cannot be read: no other one that wants any is put beside it."""


class PodTerm(msgspec.Struct, frozen=True, kw_only=True, cache_hash=True):
    """
    core/v1 PodAffinityTerm: pods that `selector` selects, seen from one domain of `topology_key`.

    Pods of `namespaces` count and of those that `namespace_selector` selects; the term's own pod's namespace is in
    `namespaces` where the API object names neither. `matchLabelKeys` and `mismatchLabelKeys` are merged into
    `selector`, as the API server does. An absent selector selects nothing.
    """

    topology_key: str
    selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None


class WeightedPodTerm(msgspec.Struct, frozen=True, kw_only=True):
    """core/v1 WeightedPodAffinityTerm; `weight` is 1 to 100."""

    weight: int
    term: PodTerm


class SpreadConstraint(msgspec.Struct, frozen=True, kw_only=True):
    """
    core/v1 TopologySpreadConstraint: pods that `selector` selects in the pod's namespace, counted per domain.

    `is_required` says DoNotSchedule, otherwise ScheduleAnyway. `min_domains` is 1 where none is set. `honours_affinity`
    and `honours_taints` say whether only nodes count that match the pod's node selector and affinity, and whose taints
    it tolerates (nodeAffinityPolicy, nodeTaintsPolicy; KEP-3094). `matchLabelKeys` is merged into `selector`.
    """

    topology_key: str
    max_skew: int
    is_required: bool = True
    selector: LabelSelector | None = None
    min_domains: int = 1
    honours_affinity: bool = True
    honours_taints: bool = False


PREEMPTIBLE: Final = "dovetail.dev/preemptible"
"""Annotation of a pod: with the value `false` no pod of higher priority has it evicted."""


FILLS_NODE: Final = (("pods", 2**52),)
"""Requests of a pod of which is not known what it takes of its node: every place for pods that there is."""


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


class Unhealthy(msgspec.Struct, frozen=True, kw_only=True):
    """A device that the kubelet reports unhealthy: the entry of the pod's claim, the request, an id (KEP-4680)."""

    entry: str
    request: str
    resource_id: str = ""


class Controller(msgspec.Struct, frozen=True, kw_only=True):
    """The owner that manages a pod and replaces it (metadata.ownerReferences with `controller`)."""

    kind: str
    uid: str


class ContainerRequests(msgspec.Struct, frozen=True, kw_only=True):
    """Requests of one container: cpu in millicores, everything else in whole units."""

    name: str
    requests: tuple[tuple[str, int], ...] = ()
    is_init: bool = False
    is_sidecar: bool = False
    claims: tuple[str, ...] = ()
    """Entries of the pod's claims that it uses."""


class Pod(msgspec.Struct, frozen=True, kw_only=True):
    """
    A pod.

    `requests` is what the pod takes from a node (containers, init containers, sidecars, overhead, pod-level
    resources as kube-scheduler sums them), sorted by resource: cpu in millicores, everything else in whole
    units; the one pod that it counts as is not in it. `creation` is the RFC 3339 creation timestamp.
    `gang` is the gang that it belongs to, by its PodGroup, its coscheduling label or our own; `gang_note` what its own
    annotations say of that. `pod_group` is the name of its PodGroup of scheduling.k8s.io, if it has one.
    `affinity` and `anti_affinity` are the required terms; what is preferred carries a weight of 1 to 100. `images` are
    the names of its containers' images.
    `invalid` says what is wrong with an object that could not be read whole; it is never placed then. One with a node
    whose requests cannot be read has `FILLS_NODE` for them: no pod is put beside it.
    `started` is when the kubelet took it up, in seconds since the epoch (0: not yet). `is_preemptible` is false where
    its annotation dovetail.dev/preemptible says so: no pod of higher priority has it evicted.
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
    controller: Controller | None = None
    requests: tuple[tuple[str, int], ...] = ()
    containers: tuple[ContainerRequests, ...] = ()
    node_selector: tuple[tuple[str, str], ...] = ()
    required_affinity: NodeSelector | None = None
    required_features: tuple[str, ...] = ()
    """Features of the kubelet that the pod's spec uses and its node has to declare (KEP-5328), sorted."""
    preferred_node_affinity: tuple[tuple[int, NodeSelectorTerm], ...] = ()
    host_ports: tuple[HostPort, ...] = ()
    affinity: tuple[PodTerm, ...] = ()
    anti_affinity: tuple[PodTerm, ...] = ()
    preferred_affinity: tuple[WeightedPodTerm, ...] = ()
    preferred_anti_affinity: tuple[WeightedPodTerm, ...] = ()
    spread: tuple[SpreadConstraint, ...] = ()
    images: tuple[str, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    claims: tuple[PodClaim, ...] = ()
    level_slack: tuple[tuple[str, int], ...] = ()
    """For resources with pod-level requests: what these leave for claims (KEP-5517), in the units of `requests`."""
    volumes: tuple[PodVolume, ...] = ()
    pod_group: str = ""
    gang: GangId | None = None
    gang_note: GangNote | None = None
    scheduling_gates: tuple[str, ...] = ()
    started: int = 0
    is_preemptible: bool = True
    is_deleting: bool = False
    is_terminal: bool = False
    has_failed: bool = False
    """Whether it ended as Failed by its own doing: not evicted, preempted or the like (condition DisruptionTarget)."""
    unhealthy: tuple[Unhealthy, ...] = ()
    invalid: str = ""

    @property
    def claim_ids(self) -> tuple[ClaimId, ...]:
        """The claims that it uses, each once, in the order of its entries."""
        if len(self.claims) < 2:  # noqa: PLR2004 -- nearly always, and asked for often
            only = self.claims[0].claim if self.claims else None
            return () if only is None else (only,)
        return tuple(dict.fromkeys(entry.claim for entry in self.claims if entry.claim is not None))

    @property
    def volume_claims(self) -> tuple[VolumeClaimId, ...]:
        """The persistent volume claims that it uses, each once, in the order of its volumes."""
        if not self.volumes:
            return ()
        return tuple(dict.fromkeys(each.claim for each in self.volumes if each.claim is not None))

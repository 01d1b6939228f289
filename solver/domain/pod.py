"""
Pods (core/v1 Pod): the fields that decide where a pod may run.

Resource requests, node and pod affinity, topology spread, host ports, tolerations, claims, volumes and the gang.
"""

import datetime as dt
from collections.abc import Collection, Iterable
from typing import Final

import msgspec

from solver.domain.device import NodeAllocatableOverhead
from solver.domain.gang import GangAnnotations
from solver.domain.ids import ClaimId, GangId, PodId, VolumeClaimId
from solver.domain.label_selectors import LabelSelector, NodeSelector, NodeSelectorTerm, Toleration
from solver.domain.quantity import Quantity, unit_of
from solver.domain.volumes import PodVolume

ANY_ADDRESS: Final = "0.0.0.0"
NEVER_PREEMPT: Final = "Never"
"""The preemptionPolicy of a pod for which no other pod is evicted."""


_OWNERS_PER_NODE: Final = frozenset({"DaemonSet", "Node"})


class HostPort(msgspec.Struct, frozen=True, kw_only=True):
    """ContainerPort.hostPort; `address` is `ANY_ADDRESS` where the container names no hostIP."""

    address: str = ANY_ADDRESS
    protocol: str = "TCP"
    port: int


EVERY_PORT: Final = HostPort(protocol="", port=0)
"""The port of a pod whose host ports cannot be decoded: it conflicts with every other host port."""


class PodAffinityTerm(msgspec.Struct, frozen=True, kw_only=True, cache_hash=True):
    """
    core/v1 PodAffinityTerm: the pods that `selector` selects, in one domain of `topology_key`.

    The term selects pods of `namespaces` and of the namespaces that `namespace_selector` selects. Where the API object
    has neither, `namespaces` is the namespace of the term's pod. `matchLabelKeys` and `mismatchLabelKeys` are merged
    into `selector`, as the API server does. An absent selector selects nothing.
    """

    topology_key: str
    selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None


class WeightedPodAffinityTerm(msgspec.Struct, frozen=True, kw_only=True):
    """core/v1 WeightedPodAffinityTerm; `weight` is 1 to 100."""

    weight: int
    term: PodAffinityTerm


class TopologySpreadConstraint(msgspec.Struct, frozen=True, kw_only=True):
    """
    core/v1 TopologySpreadConstraint: pods that `selector` selects in the pod's namespace, counted per domain.

    `is_required` is DoNotSchedule, otherwise ScheduleAnyway. `min_domains` is 1 where the API object has none.
    `honours_affinity` and `honours_taints` are nodeAffinityPolicy and nodeTaintsPolicy (KEP-3094): whether nodes count
    that the pod's node affinity excludes, or whose taints it does not tolerate. `matchLabelKeys` is merged into
    `selector`.
    """

    topology_key: str
    max_skew: int
    is_required: bool = True
    selector: LabelSelector | None = None
    min_domains: int = 1
    honours_affinity: bool = True
    honours_taints: bool = False


PREEMPTIBLE: Final = "dovetail.dev/preemptible"
"""Annotation of a pod: with the value `false`, the pod is never a victim of preemption."""


RESTARTS_ALONE: Final = "pod"
RESTARTS_WHOLE: Final = "gang"
"""Values of the annotation dovetail.dev/restarts."""


class RepairNote(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """
    What the annotations of a pod say about moving it.

    `kept_by` is the annotation that forbids it: `karpenter.sh/do-not-disrupt`, or the cluster autoscaler's
    `safe-to-evict: "false"`. `checkpointed` is the time of the last checkpoint (dovetail.dev/checkpointed-at) in
    seconds since the epoch, 0 where none is declared. `restarts` says whether the end of the pod restarts it alone
    (`RESTARTS_ALONE`) or all pods of its gang (`RESTARTS_WHOLE`); empty where the pod does not say.
    """

    kept_by: str = ""
    checkpointed: int = 0
    restarts: str = ""


ALL_POD_SLOTS: Final = (("pods", 2**52),)
"""Requests of a pod whose requests cannot be decoded: it takes every pod slot of its node."""


class PodClaim(msgspec.Struct, frozen=True, kw_only=True):
    """
    One entry of spec.resourceClaims, resolved through status.resourceClaimStatuses.

    Exactly one case holds: `claim` is set (the key of the ResourceClaim); `is_skipped` is true (the claim controller
    needs none); or neither, because the claim from `template` does not exist yet. `lacks_template` says that then the
    template is known not to exist either. `refusal` says why the API server refuses to create the claim, if it is
    known: a ResourceQuota is used up.
    """

    entry: str
    claim: ClaimId | None = None
    template: str = ""
    is_skipped: bool = False
    lacks_template: bool = False
    refusal: str = ""

    def checked(self, templates: Collection[str]) -> "PodClaim":
        """Return the entry with what is known of its template, given those that exist in the pod's namespace."""
        if self.claim is not None or not self.template or self.template in templates:
            return self
        return msgspec.structs.replace(self, lacks_template=True)


class UnhealthyDevice(msgspec.Struct, frozen=True, kw_only=True):
    """A device that the kubelet reports unhealthy (KEP-4680): the pod's claim entry, the request, the resource id."""

    entry: str
    request: str
    resource_id: str = ""


_WORKLOAD_LABELS: Final = (
    ("jobset.sigs.k8s.io/jobset-name", "JobSet"),
    ("leaderworkerset.sigs.k8s.io/name", "LeaderWorkerSet"),
    ("ray.io/cluster", "RayCluster"),
    ("training.kubeflow.org/job-name", ""),
    ("batch.kubernetes.io/job-name", "Job"),
)
"""
Labels with which controllers name the object that a person made, and its kind; "": that of the pod's controller.

The Jobs of a JobSet have a label of their own, so the outer objects come first.
"""


class Controller(msgspec.Struct, frozen=True, kw_only=True):
    """The controller of a pod (metadata.ownerReferences with `controller: true`)."""

    kind: str
    uid: str


class ContainerRequests(msgspec.Struct, frozen=True, kw_only=True):
    """Requests of one container: cpu in millicores, everything else in whole units."""

    name: str
    requests: tuple[tuple[str, int], ...] = ()
    is_init: bool = False
    is_sidecar: bool = False
    claims: tuple[str, ...] = ()
    """Names of the entries of spec.resourceClaims that the container uses."""
    limit_slack: tuple[tuple[str, int], ...] = ()
    """
    For resources that the container and the pod limit: what the pod-level limit leaves for its claims (KEP-5517).

    In the units of `requests`. Init containers and huge pages have none.
    """


class Pod(msgspec.Struct, frozen=True, kw_only=True):
    """
    A pod.

    `requests` is what the pod takes from a node, sorted by resource: cpu in millicores, everything else in whole
    units. It sums containers, init containers, sidecars, overhead and pod-level resources as kube-scheduler does, and
    leaves out the resource `pods`. `creation` is the RFC 3339 creation timestamp. `generation` is
    metadata.generation: it decides nothing, conditions name it as their observedGeneration.
    `gang` is the pod's gang, from its PodGroup, its coscheduling label or Dovetail's label. `gang_note` holds the
    gang annotations of the pod. `pod_group` is the name of its PodGroup of scheduling.k8s.io, if it has one.
    `pod_group_uid` is set in a batch only: the uid of the PodGroup that had this name when the batch was formed.
    `affinity` and `anti_affinity` are the required terms; preferred terms have a weight of 1 to 100. `images` are the
    images of its containers.
    `invalid` is the decoding error of an object that cannot be decoded; such a pod is never placed. If it is bound and
    its requests cannot be decoded, they are `FILLS_NODE`.
    `started` is status.startTime in seconds since the epoch, 0 before the kubelet has started it. `is_preemptible` is
    false where the annotation dovetail.dev/preemptible is `false`. `repair_note` is what other annotations say about
    moving the pod.
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
    generation: int = 0
    controller: Controller | None = None
    requests: tuple[tuple[str, int], ...] = ()
    containers: tuple[ContainerRequests, ...] = ()
    node_selector: tuple[tuple[str, str], ...] = ()
    required_affinity: NodeSelector | None = None
    required_features: tuple[str, ...] = ()
    """Features of the kubelet that the pod's spec uses and its node has to declare (KEP-5328), sorted."""
    preferred_node_affinity: tuple[tuple[int, NodeSelectorTerm], ...] = ()
    host_ports: tuple[HostPort, ...] = ()
    affinity: tuple[PodAffinityTerm, ...] = ()
    anti_affinity: tuple[PodAffinityTerm, ...] = ()
    preferred_affinity: tuple[WeightedPodAffinityTerm, ...] = ()
    preferred_anti_affinity: tuple[WeightedPodAffinityTerm, ...] = ()
    spread: tuple[TopologySpreadConstraint, ...] = ()
    images: tuple[str, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    claims: tuple[PodClaim, ...] = ()
    level_slack: tuple[tuple[str, int], ...] = ()
    """For resources with pod-level requests: the rest that claims may take (KEP-5517), in the units of `requests`."""
    volumes: tuple[PodVolume, ...] = ()
    pod_group: str = ""
    pod_group_uid: str = ""
    gang: GangId | None = None
    gang_note: GangAnnotations | None = None
    scheduling_gates: tuple[str, ...] = ()
    started: int = 0
    annotations: tuple[tuple[str, str], ...] = ()
    """Those of `MATCHED_ANNOTATIONS`, by which holds recognise pods to come, sorted."""
    place: str = ""
    """The place of a hold that it has used up (`PLACE_ANNOTATION`), where it is bound or assumed to be."""
    is_preemptible: bool = True
    repair_note: RepairNote | None = None
    is_deleting: bool = False
    is_terminal: bool = False
    has_failed: bool = False
    """Whether its phase is Failed and no disruption (condition DisruptionTarget) is the cause."""
    is_preempted: bool = False
    """Whether a scheduler evicts it for a pod of higher priority (DisruptionTarget, PreemptionByScheduler)."""
    unhealthy: tuple[UnhealthyDevice, ...] = ()
    unstarted_seconds: int = 0
    """
    Of a pod with claims that is being deleted: the seconds in which its kubelet had it and got no sandbox for it
    (PodReadyToStartContainers), because its claims could not be prepared or its volumes not mounted. Else 0.
    """
    invalid: str = ""

    @property
    def created_at(self) -> int:
        """When the pod was created, in seconds since the epoch; 0 where that is not known."""
        try:
            return int(dt.datetime.fromisoformat(self.creation).timestamp())
        except (ValueError, OverflowError):
            return 0

    @property
    def workload(self) -> str:
        """The object that a person made and a controller made the pod for, such as `Job train`; "" if not known."""
        if self.controller is None:
            return ""
        labels = dict(self.labels)
        found = ((kind or self.controller.kind, labels[label]) for label, kind in _WORKLOAD_LABELS if labels.get(label))
        return " ".join(next(found, ()))

    @property
    def is_pending(self) -> bool:
        """Whether it has no node, has not ended and is not being deleted; it may have scheduling gates."""
        return not (self.node_name or self.is_terminal or self.is_deleting)

    @property
    def belongs_to_node(self) -> bool:
        """Whether the pod stays while its node does: pods of DaemonSets, and static pods."""
        return self.controller is not None and self.controller.kind in _OWNERS_PER_NODE

    @property
    def claim_ids(self) -> tuple[ClaimId, ...]:
        """The claims that the pod uses, each once, in the order of its entries."""
        if len(self.claims) < 2:  # noqa: PLR2004 -- nearly always, and asked for often
            only = self.claims[0].claim if self.claims else None
            return () if only is None else (only,)
        return tuple(dict.fromkeys(entry.claim for entry in self.claims if entry.claim is not None))

    @property
    def volume_claims(self) -> tuple[VolumeClaimId, ...]:
        """The persistent volume claims that the pod uses, each once, in the order of its volumes."""
        if not self.volumes:
            return ()
        return tuple(dict.fromkeys(each.claim for each in self.volumes if each.claim is not None))


class NodeAllocatableClaimStatus(msgspec.Struct, frozen=True, kw_only=True):
    """
    NodeAllocatableResourceClaimStatus (KEP-5517): the native node resources that a claim's devices take.

    `containers` are those that use the claim; `mapping` and `overhead` are sorted by resource. With `is_legacy` it is
    written as Kubernetes 1.36 has it, with one field `resources`.
    """

    claim: ClaimId
    containers: tuple[str, ...]
    mapping: tuple[tuple[str, Quantity], ...] = ()
    overhead: tuple[NodeAllocatableOverhead, ...] = ()
    is_legacy: bool = False

    @property
    def taken(self) -> dict[str, int]:
        """The nano-units that the pod takes, by resource."""
        found = {resource: amount.nano for resource, amount in self.mapping}
        for each in self.overhead:
            found[each.resource] = found.get(each.resource, 0) + each.taken(len(self.containers))
        return found


def with_node_allocatable(pod: Pod, statuses: Iterable[NodeAllocatableClaimStatus]) -> Pod:
    """Add what the pod's claims take of the node to its requests; pod-level requests contain it already."""
    more: dict[str, int] = {}
    for resource, nano in (pair for each in statuses for pair in each.taken.items()):
        more[resource] = more.get(resource, 0) + nano
    inside = {name for name, _ in pod.level_slack}
    requests = dict(pod.requests)
    for resource, nano in more.items():
        if resource not in inside:
            requests[resource] = requests.get(resource, 0) - (-nano // unit_of(resource))
    return msgspec.structs.replace(pod, requests=tuple(sorted(requests.items()))) if more else pod

"""API paths of the objects that the scheduler reads and writes."""

from typing import Final

from scheduler.change import Kind
from scheduler.kube.api_versions import OWN_VERSION
from solver.domain import DOVETAIL_GROUP, ClaimId, PodId, VolumeClaimId

RESOURCE_GROUP: Final = "resource.k8s.io"
CORE: Final = "/api/v1"
RESOURCE: Final = f"/apis/{RESOURCE_GROUP}/v1"
STORAGE: Final = "/apis/storage.k8s.io/v1"
POLICY: Final = "/apis/policy/v1"
COORDINATION: Final = "/apis/coordination.k8s.io/v1"
EVENTS: Final = "/apis/events.k8s.io/v1"

HOLDS: Final = f"/apis/{DOVETAIL_GROUP}/{OWN_VERSION}/deviceholds"

COLLECTIONS: Final[dict[Kind, str]] = {
    Kind.NODES: f"{CORE}/nodes",
    Kind.PODS: f"{CORE}/pods",
    Kind.NAMESPACES: f"{CORE}/namespaces",
    Kind.SLICES: f"{RESOURCE}/resourceslices",
    Kind.CLASSES: f"{RESOURCE}/deviceclasses",
    Kind.CLAIMS: f"{RESOURCE}/resourceclaims",
    Kind.VOLUMES: f"{CORE}/persistentvolumes",
    Kind.VOLUME_CLAIMS: f"{CORE}/persistentvolumeclaims",
    Kind.STORAGE_CLASSES: f"{STORAGE}/storageclasses",
    Kind.NODE_DRIVERS: f"{STORAGE}/csinodes",
    Kind.STORAGE_CAPACITIES: f"{STORAGE}/csistoragecapacities",
    Kind.STORAGE_DRIVERS: f"{STORAGE}/csidrivers",
    Kind.ATTACHMENTS: f"{STORAGE}/volumeattachments",
    Kind.BUDGETS: f"{POLICY}/poddisruptionbudgets",
}
"""The kinds that every supported API server has; `discovery` finds the others."""

FIELD_SELECTORS: Final[dict[Kind, str]] = {Kind.PODS: "status.phase!=Succeeded"}
"""
Selectors of watches. A pod that succeeds then arrives as deleted. A failed pod has to arrive with its status: a
deletion would carry the state before it.
"""


def collection(group: str, version: str, resource: str) -> str:
    """Path of all objects of a resource of a named group."""
    return f"/apis/{group}/{version}/{resource}"


def resource_quotas(namespace: str) -> str:
    """Path of the ResourceQuotas of a namespace."""
    return f"/api/v1/namespaces/{namespace}/resourcequotas"


def hold(name: str, subresource: str = "") -> str:
    """Path of a DeviceHold, or of its `status`."""
    return _below(f"{HOLDS}/{name}", subresource)


def in_namespace(collection: str, namespace: str, name: str, subresource: str = "") -> str:
    """Path of one object (or a subresource of it), by the path of all objects of its resource."""
    base, _, resource = collection.rpartition("/")
    return _below(f"{base}/namespaces/{namespace}/{resource}/{name}", subresource)


def claim(claim_id: ClaimId, subresource: str = "") -> str:
    """Path of a ResourceClaim, or of its `status`."""
    return _below(f"{claims(claim_id.namespace)}/{claim_id.name}", subresource)


def claim_template(namespace: str, name: str) -> str:
    """Path of a ResourceClaimTemplate."""
    return in_namespace(f"{RESOURCE}/resourceclaimtemplates", namespace, name)


def claims(namespace: str) -> str:
    """Path of all ResourceClaims of a namespace."""
    return f"{RESOURCE}/namespaces/{namespace}/resourceclaims"


def pod(pod_id: PodId, subresource: str = "") -> str:
    """Path of a pod, or of its `status` or `binding`."""
    return _below(f"{CORE}/namespaces/{pod_id.namespace}/pods/{pod_id.name}", subresource)


def volume(name: str) -> str:
    """Path of a PersistentVolume."""
    return f"{CORE}/persistentvolumes/{name}"


def volume_claim(claim_id: VolumeClaimId) -> str:
    """Path of a PersistentVolumeClaim."""
    return f"{CORE}/namespaces/{claim_id.namespace}/persistentvolumeclaims/{claim_id.name}"


def leases(namespace: str, name: str = "") -> str:
    """Path of a Lease, or of all in the namespace."""
    return _below(f"{COORDINATION}/namespaces/{namespace}/leases", name)


def events(namespace: str, name: str = "") -> str:
    """Path of an Event, or of all in the namespace."""
    return _below(f"{EVENTS}/namespaces/{namespace}/events", name)


def _below(path: str, part: str) -> str:
    return f"{path}/{part}" if part else path

"""Extended resources in a world of its own: classes that stand for them, nodes whose plugins offer them, pods."""

from collections.abc import Sequence
from typing import Any

from e2e.controlplane.plane import ControlPlane
from tests.support.shell_world import RESOURCE, Json, World

ANNOTATION = "resource.kubernetes.io/extended-resource-claim"
MERGE = "application/merge-patch+json"


def resource_of(world: World) -> str:
    """The extended resource that the world's class stands for."""
    return f"gpu.{world.driver}/card"


def map_class(world: World) -> None:
    """Make the world's class stand for its extended resource."""
    body = {"spec": {"extendedResourceName": resource_of(world)}}
    world.plane.request("PATCH", f"{RESOURCE}/deviceclasses/{world.driver}", body, content=MERGE)


def offer(world: World, node: str, count: int) -> None:
    """Let a node offer the resource itself, as a kubelet with a device plugin does."""
    amounts = {resource_of(world): str(count)}
    body = {"status": {"capacity": amounts, "allocatable": amounts}}
    world.plane.request("PATCH", f"/api/v1/nodes/{node}/status", body, content=MERGE)


def container(name: str, resource: str, count: int, **more: Any) -> Json:
    """A container that asks for an extended resource."""
    amounts = {resource: str(count)}
    return {
        "name": name,
        "image": "example.com/none",
        "resources": {"requests": {"cpu": "10m", **amounts}, "limits": amounts},
        **more,
    }


def pod(world: World, name: str, *containers: Json, init: Sequence[Json] = (), **spec: Any) -> Json:
    """Create a pod of the world without claims of its own; by default one container asks for one."""
    containers = containers or (container("main", resource_of(world), 1),)
    body = {
        "metadata": {"name": name},
        "spec": {
            "schedulerName": world.scheduler,
            "nodeSelector": {"world": world.word},
            "terminationGracePeriodSeconds": 0,
            "initContainers": list(init),
            "containers": list(containers),
            "tolerations": [{"operator": "Exists"}],
            **spec,
        },
    }
    made: Json = world.plane.request("POST", f"/api/v1/namespaces/{world.namespace}/pods", body)
    return made


def status(world: World, name: str) -> Json:
    """What a pod's status says of its claim, empty where it has none."""
    found: Json = (world.get_pod(name) or {}).get("status", {}).get("extendedResourceClaimStatus", {})
    return found


def requests(claim: Json) -> dict[str, tuple[str, int]]:
    """Class and count of every request."""
    found = {}
    for each in claim["spec"]["devices"]["requests"]:
        exactly = each["exactly"]
        found[each["name"]] = (exactly["deviceClassName"], exactly["count"])
    return found


def users(pod_status: Json) -> dict[str, list[str]]:
    """The requests that every container is mapped to."""
    found: dict[str, list[str]] = {}
    for each in pod_status["requestMappings"]:
        found.setdefault(each["containerName"], []).append(each["requestName"])
    return found


def special_claims(world: World) -> list[Json]:
    """The claims that a scheduler made."""
    return [each for each in world.claims() if each["metadata"].get("annotations", {}).get(ANNOTATION) == "true"]


def make_claim(world: World, owner: Json, count: int = 1) -> Json:
    """Make a claim for a pod's extended resources, as a scheduler does before anything else."""
    request = {"name": "devices", "exactly": {"deviceClassName": world.driver, "count": count}}
    reference = {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
    }
    body = {
        "metadata": {
            "generateName": f"{owner['metadata']['name']}-extended-resources-",
            "annotations": {ANNOTATION: "true"},
            "ownerReferences": [reference],
        },
        "spec": {"devices": {"requests": [request]}},
    }
    path = f"{RESOURCE}/namespaces/{world.namespace}/resourceclaims"
    made: Json = world.plane.request("POST", path, body)
    return made


def phase(world: World, name: str) -> str:
    """The pod's phase."""
    found: str = (world.get_pod(name) or {}).get("status", {}).get("phase", "")
    return found


def kube_scheduler(plane: ControlPlane) -> Any:
    """Start the peer beside us, for pods that name it."""
    return plane.start_kube_scheduler(config=None)

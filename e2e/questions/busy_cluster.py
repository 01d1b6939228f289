"""A large cluster in use, as its drivers, its users and a scheduler have left it: objects for a real API server."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import aiohttp

from e2e import objects
from e2e.fleet import publish
from e2e.fleet.fleets import gpu_fleet
from e2e.fleet.nvidia import DRIVER
from e2e.objects import Manifest
from e2e.scenarios.workload import IMAGE

NAMESPACES: Final = ("team-a", "team-b", "team-c", "team-d")
WAITING: Final = ("team-a", "waiting-00")
"""One of the pods that wait."""
WAITING_COUNT: Final = 40
_GPUS: Final = 8
_SIZES: Final = (4, 2, 1)
_SINCE: Final = "2026-11-20T08:00:00Z"
_AT_ONCE: Final = 2000


async def is_filled(session: aiohttp.ClientSession, nodes: int) -> bool:
    """Say whether `fill` has made so many nodes and their last pod already. Raises RequestError."""
    paths = f"/api/v1/nodes/gpu-{nodes - 1:04}", f"/api/v1/namespaces/{WAITING[0]}/pods/{WAITING[1]}"
    return all([await objects.exists(session, path) for path in paths])


async def fill(session: aiohttp.ClientSession, nodes: int) -> int:
    """
    Create nodes with eight GPUs of which pods hold 1 to 7, and pods that wait for eight; return how many pods run.

    Raises RequestError.
    """
    await publish.publish(session, gpu_fleet(nodes, gpus=_GPUS))
    await objects.create(session, namespaces())
    await objects.create(session, [template(namespace, _GPUS) for namespace in NAMESPACES])
    running = [each for node in range(nodes) for each in holders(node)]
    await run(session, running)
    await objects.create(session, [_waiting(number) for number in range(WAITING_COUNT)])
    return len(running)


def one_pod(gpus: int) -> list[Manifest]:
    """Make what a user asks about: a template and a pod that takes so many GPUs."""
    return [template("team-a", gpus), waiting_pod("asked", "team-a", {"resourceClaimTemplateName": f"gpus-{gpus}"})]


Holder = tuple[Manifest, Manifest, Manifest]
"""A running pod, its claim, and the claim's allocation."""


async def run(session: aiohttp.ClientSession, running: Sequence[Holder]) -> None:
    """Create running pods and their allocated claims, some thousands at once. Raises RequestError."""
    for start in range(0, len(running), _AT_ONCE):
        await _run(session, running[start : start + _AT_ONCE])


async def _run(session: aiohttp.ClientSession, running: Sequence[Holder]) -> None:
    pods = await objects.create(session, (pod for pod, _, _ in running))
    claims = await objects.create(session, (claim for _, claim, _ in running))
    updates = []
    for pod, claim, (_, _, allocation) in zip(pods, claims, running, strict=True):
        user = {"resource": "pods", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}
        status = {"allocation": allocation, "reservedFor": [user]}
        updates.append(
            objects.request(session, "PUT", f"{objects.object_path(claim)}/status", claim | {"status": status})
        )
    await asyncio.gather(*updates)


def namespaces() -> list[Manifest]:
    """Make the namespaces of the pods."""
    return [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in NAMESPACES]


def holders(node: int) -> Iterator[Holder]:
    """Make the pods of a node: of 4, 2 and 1 GPUs, 1 to 7 together."""
    held = node % (_GPUS - 1) + 1
    return holders_of(node, {str(size): size for size in _SIZES if held & size})


def holders_of(node: int, sizes: Mapping[str, int]) -> Iterator[Holder]:
    """Make pods of so many GPUs each, by the ends of their names."""
    name, first = f"gpu-{node:04}", 0
    for end, size in sizes.items():
        namespace, own = NAMESPACES[(node + size) % len(NAMESPACES)], f"run-{node:04}-{end}"
        pod = waiting_pod(own, namespace, {"resourceClaimName": own})
        pod["spec"]["nodeName"] = name
        claim = {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": {"name": own, "namespace": namespace},
            "spec": template(namespace, size)["spec"]["spec"],
        }
        yield pod, claim, _allocation(name, range(first, first + size))
        first += size


def _allocation(node: str, gpus: range) -> Manifest:
    results = [{"request": "gpus", "driver": DRIVER, "pool": node, "device": f"gpu-{gpu}"} for gpu in gpus]
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    selector = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    return {"devices": {"results": results}, "nodeSelector": selector, "allocationTimestamp": _SINCE}


def _waiting(number: int) -> Manifest:
    """Make a pod that wants a whole node."""
    namespace = NAMESPACES[number % len(NAMESPACES)]
    return waiting_pod(f"waiting-{number:02}", namespace, {"resourceClaimTemplateName": f"gpus-{_GPUS}"})


def template(namespace: str, gpus: int) -> Manifest:
    """Make a template of claims for so many GPUs."""
    request = {"name": "gpus", "exactly": {"deviceClassName": "gpu.nvidia.com", "count": gpus}}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": f"gpus-{gpus}", "namespace": namespace},
        "spec": {"spec": {"devices": {"requests": [request]}}},
    }


def waiting_pod(name: str, namespace: str, claim: Manifest) -> Manifest:
    """Make a pod with one claim, which a name or a template gives."""
    resources = {"requests": {"cpu": "4", "memory": "16Gi"}, "claims": [{"name": "gpus"}]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": {"app": name.partition("-")[0]}},
        "spec": {
            "schedulerName": "dovetail",
            "containers": [{"name": "main", "image": IMAGE, "resources": resources}],
            "resourceClaims": [{"name": "gpus", **claim}],
        },
    }

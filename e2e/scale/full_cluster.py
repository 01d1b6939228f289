"""A cluster of which every device is held: four running pods on each node of eight GPUs, and pods that wait."""

from typing import Final

import aiohttp

from e2e import objects
from e2e.fleet import publish
from e2e.fleet.fleets import gpu_fleet
from e2e.fleet.shape import images
from e2e.objects import Manifest
from e2e.questions import busy_cluster
from e2e.questions.busy_cluster import NAMESPACES

NODES_PATH: Final = "/api/v1/nodes"
WAITING_PODS: Final = 10_000
SPECS: Final = 100
_SIZES: Final = {"0": 3, "3": 2, "5": 2, "7": 1}
"""GPUs of the pods of a node, by the first of them."""
_MOST_GPUS: Final = 8
_AT_ONCE: Final = 2000


async def fill(session: aiohttp.ClientSession, nodes: int) -> None:
    """Create nodes and running pods, unless an earlier run has. Raises RequestError."""
    if await objects.exists(session, objects.object_path(last_holder(nodes - 1)[0])):
        return
    fleet = gpu_fleet(nodes)
    for node in fleet.nodes:
        node["status"]["images"] = list(images())
    await publish.publish(session, fleet)
    await objects.create(session, busy_cluster.namespaces())
    sizes = range(1, _MOST_GPUS + 1)
    await objects.create(session, [busy_cluster.template(each, size) for each in NAMESPACES for size in sizes])
    await busy_cluster.run(session, [each for node in range(nodes) for each in busy_cluster.holders_of(node, _SIZES)])


async def add_waiting_pods(session: aiohttp.ClientSession, count: int) -> None:
    """Create the pods that wait, in queue order of all specs, unless an earlier run has. Raises RequestError."""
    waiting = [waiting_pod(number) for number in range(count)]
    if await objects.exists(session, objects.object_path(waiting[-1])):
        return
    for start in range(0, count, _AT_ONCE):
        await objects.create(session, waiting[start : start + _AT_ONCE])


def waiting_pod(number: int) -> Manifest:
    """Make a pod that waits: specs differ in cpu, and the second half of them asks for 2 to 8 GPUs."""
    spec = number % SPECS
    gpus = 1 if spec < SPECS // 2 else 2 + spec % (_MOST_GPUS - 1)
    template = {"resourceClaimTemplateName": f"gpus-{gpus}"}
    pod = busy_cluster.waiting_pod(f"waiting-{number:05}", NAMESPACES[number % len(NAMESPACES)], template)
    pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = f"{1000 + spec}m"
    return pod


def last_holder(node: int) -> busy_cluster.Holder:
    """Make a node's pod with one GPU, with its claim."""
    *_, last = busy_cluster.holders_of(node, _SIZES)
    return last

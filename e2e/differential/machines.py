"""Nodes of all kinds."""

from e2e.differential.chance import Chance
from e2e.differential.shapes import Json
from e2e.objects import Manifest

ZONE = "topology.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"
EXTENDED = "example.com/dongle"
HUGE = "hugepages-2Mi"
RESTART_ALL = "RestartAllContainersOnContainerExits"
"""A feature that nodes declare and pods with the rule `RestartAllContainers` require (1.36 and newer)."""
TAINTS: tuple[Json, ...] = (
    {"key": "dedicated", "value": "ml", "effect": "NoSchedule"},
    {"key": "dedicated", "value": "web", "effect": "NoSchedule"},
    {"key": "old", "effect": "PreferNoSchedule"},
    {"key": "ending", "value": "5", "effect": "NoExecute"},
    {"key": "level", "value": "3", "effect": "NoSchedule"},
)


def nodes(chance: Chance, prefix: str, count: int) -> list[Manifest]:
    """Make nodes whose names begin with a prefix."""
    return [_node(chance, f"{prefix}-n{index}") for index in range(count)]


def _node(chance: Chance, name: str) -> Manifest:
    labels = {HOST: name}
    for key, values, share in (
        (ZONE, ("a", "b", "c"), 0.9),
        ("disk", ("ssd", "hdd", ""), 0.7),
        ("generation", ("1", "2", "03", "7", "007x", "new"), 0.7),
        ("rack", ("r1", "r2"), 0.6),
    ):
        if chance.often(share):
            labels[key] = chance.pick(values)
    spec: Json = {}
    if chance.some("taints", 0.5):
        taints = {(each["key"], each["effect"]): each for each in chance.picks(TAINTS, 1, 2)}
        spec["taints"] = list(taints.values())
    if chance.some("unschedulable", 0.25):
        spec["unschedulable"] = True
    features = ["DRANodeAllocatableResources"]  # the API server asks for it where a slice has such devices
    features += [RESTART_ALL] if chance.some("declared features", 0.5) else []
    features += ["DRAOptionalNodeOperations"] if chance.some("node operations", 0.7) else []
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": spec,
        "status": {
            "capacity": (amounts := _allocatable(chance)),
            "allocatable": amounts,
            "conditions": [{"type": "Ready", "status": "True"}],
            "declaredFeatures": sorted(features),  # the API server wants them so
        },
    }


def _allocatable(chance: Chance) -> dict[str, str]:
    amounts = {
        "cpu": chance.pick(("1", "2", "4", "3500m")),
        "memory": chance.pick(("1Gi", "2Gi", "4Gi", "2500000k")),
        "pods": chance.pick(("2", "4", "110", "110")),
    }
    if chance.often(0.7):
        amounts["ephemeral-storage"] = chance.pick(("10Gi", "20G"))
    if chance.some("extended", 0.6):
        amounts[EXTENDED] = chance.pick(("0", "1", "2", "4"))
    if chance.some("hugepages", 0.6):
        amounts[HUGE] = chance.pick(("0", "64Mi", "128Mi"))
    return amounts


def container(name: str, requests: dict[str, str]) -> Json:
    """Make a container; what may not be overcommitted is its limit too."""
    limits = {each: amount for each, amount in requests.items() if "/" in each or each.startswith("hugepages-")}
    resources: Json = {"requests": requests} | ({"limits": limits} if limits else {})
    return {"name": name, "image": "none", "resources": resources}

"""Clusters for the page, as manifests: one of every kind of hardware in use, an empty one, and a large one."""

import datetime as dt
import random
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from e2e.fleet import amd, dranet, hami, nvidia, nvidia_partitions
from e2e.fleet.fleets import PLAIN, gpu_fleet, together
from e2e.fleet.shape import Fleet, Manifest, node, stable_uuid
from e2e.questions import busy_cluster
from e2e.scenarios.workload import IMAGE

NAMESPACES = ("research", "vision", "speech", "ranking", "platform", "notebooks")
GANG = "research/pretraining"
WAITING = ("research", "pretraining-2-0")
HINT = "7 of 8 would fit now"
GONE = ("speech", "align-gone")
SHARED_NODE = "l40s-01"
CARD_NODE = "a100-cut-01"
_SEED = 23
_GPUS = 8
_CUT = ("3g20gb-9-0", "2g10gb-14-4", "1g5gb-19-6")
_WAITS = (
    ("research", "pretraining-2-0", "pretraining-2", 6000),
    ("research", "pretraining-2-1", "pretraining-2", 6000),
    ("vision", "segment-large", "", 1500),
    ("notebooks", "notebook-kim", "", 300),
)
_NODES = (
    "0/32 nodes are available: 8 node(s) had untolerated taint {nvidia.com/nvlink-domain: }, 1 node(s) were "
    "unschedulable, 23 cannot allocate all claims. "
)
_MESSAGES = {
    "research": f"{_NODES}Hint: {HINT}; to ask for so many, write a new template, as a claim cannot be changed. Gang "
    "pretraining-2: 2 pods must run together, but only 1 fits now; alone, its pods fit on 1 of 32 nodes. Request gpus: "
    "needs 8 devices, 80 match, 22 free, 57 in use, 1 tainted with ecc=failing:NoSchedule, at most 7 of them on one "
    "node.",
    "vision": f"{_NODES}Hint: the largest memory is 81559Mi, 361Mi less than 80Gi (gpu.nvidia.com/h100-01/gpu-0): "
    'write quantity("79Gi"). Request gpu: needs 1 device, none matches.',
}
"""What Dovetail says in this cluster to a gang of two with eight H100 each, and to a pod with 80Gi of device memory."""


def empty() -> list[Manifest]:
    """Make a cluster without a node."""
    return [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}}]


def asking(devices: int, pods: int) -> str:
    """Write a Job of pods in namespace research that ask for so many GPUs each."""
    return f"""\
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata:
  name: gpus
  namespace: research
spec:
  spec:
    devices:
      requests:
        - name: gpu
          exactly:
            deviceClassName: gpu.nvidia.com
            count: {devices}
---
apiVersion: batch/v1
kind: Job
metadata:
  name: train
  namespace: research
spec:
  parallelism: {pods}
  completions: {pods}
  template:
    spec:
      schedulerName: dovetail
      restartPolicy: Never
      resourceClaims:
        - name: gpu
          resourceClaimTemplateName: gpus
      containers:
        - name: train
          image: {IMAGE}
          resources:
            claims:
              - name: gpu
"""


def large(nodes: int) -> list[Manifest]:
    """Make nodes of eight GPUs, half of them held."""
    fleet = gpu_fleet(nodes, gpus=_GPUS)
    found: list[Manifest] = [*fleet.nodes, *fleet.classes, *fleet.slices]
    for at in range(nodes):
        zone = {"topology.kubernetes.io/zone": f"region-1-zone-{'abcd'[at * 4 // nodes]}", "rack": f"r{at // 40:03}"}
        fleet.nodes[at]["metadata"]["labels"].update(zone)
        for pod, claim, allocation in busy_cluster.holders(at):
            found += _held(pod, claim, allocation)
    return found


def mixed(now: dt.datetime) -> list[Manifest]:
    """Make a cluster with gangs, partitions, shares, taints and pods that wait; `now` is when it is looked at."""
    fleet, chance = _mixed_fleet(), random.Random(_SEED)  # noqa: S311 - the same cluster each time
    holder = partial(_holder, now, chance)
    found: list[Manifest] = [*fleet.nodes, *fleet.classes, *fleet.slices, _taint_rule()]
    for at in range(1, 13):
        found += _jobs(holder, chance, f"h100-{at:02}")
    for at in range(1, 5):
        members = {"dovetail.dev/gang": "pretraining"}
        devices = [(nvidia.DRIVER, f"nvl-{at:02}", f"gpu-{gpu}", None) for gpu in range(_GPUS)]
        found += holder("research", f"pretraining-{at - 1}", devices, labels=members)
    for at in range(3):
        for gpu in range(4 - at):
            for number, cut in enumerate(_CUT[: 3 - at]):
                place = (nvidia.DRIVER, f"a100-cut-{at + 1:02}", f"gpu-{gpu}-mig-{cut}", None)
                found += holder(NAMESPACES[(gpu + number) % 6], f"part-{at}-{gpu}-{number}", [place])
    for gpu in range(4):
        for share in range(1 + gpu % 3):
            amount = {"memory": f"{6 * (share + 1)}Gi", "cores": "20"}
            name = f"lab-{gpu}-{share}"
            found += holder("notebooks", name, [(hami.DRIVER, SHARED_NODE, f"hami-gpu-{gpu}", amount)])
    for gpu in range(3):
        place = (nvidia.DRIVER, "a100-mig-01", f"gpu-{gpu}-mig-3g20gb-9-4", None)
        found += holder(NAMESPACES[gpu], f"cut-{gpu}", [place])
    for card in range(5):
        found += holder("ranking", f"rank-{card}", [("gpu.amd.com", "mi300x-01", f"gpu-{card}-{128 + card}", None)])
    found += holder(GONE[0], GONE[1], [(nvidia.DRIVER, "h100-12", "gpu-7", None)], has_pod=False)
    return [*found, *(_waiting(now, *each) for each in _WAITS)]


def _mixed_fleet() -> Fleet:
    zones = ("a", "b")
    fleet = together(
        *(nvidia.gpu_node(f"h100-{at:02}") for at in range(1, 13)),
        *(dranet.rdma_nics(f"h100-{at:02}") for at in range(1, 5)),
        *(nvidia.nvlink_node(f"nvl-{at:02}", f"5b1a.{(at - 1) // 4}") for at in range(1, 9)),
        *(nvidia_partitions.partitionable_node(f"a100-cut-{at:02}", gpus=4) for at in range(1, 4)),
        nvidia.mig_node("a100-mig-01", gpus=4),
        amd.gpu_node("mi300x-01"),
        amd.partition_node("mi300x-cpx-01"),
        *(hami.gpu_node(f"l40s-{at:02}") for at in range(1, 4)),
        Fleet(nodes=tuple(node(f"cpu-{at}", PLAIN) for at in range(1, 4))),
    )
    for at, each in enumerate(fleet.nodes):
        each["metadata"]["labels"]["topology.kubernetes.io/zone"] = f"region-1-zone-{zones[at % 2]}"
        if each["metadata"]["name"] == "h100-11":
            each["spec"] = {"unschedulable": True}
    return fleet


_Place = tuple[str, str, str, Mapping[str, str] | None]
"""Driver, pool, device, and what a share takes."""


def _jobs(holder: "partial[list[Manifest]]", chance: random.Random, name: str) -> Iterator[Manifest]:
    """Fill a node with jobs of 1, 2 or 4 GPUs until chance ends it."""
    first = 0
    while first < _GPUS - 1 and chance.random() > 0.12:
        size = min(chance.choice((1, 2, 2, 4, 4, 8)), _GPUS - 1 - first)
        places = [(nvidia.DRIVER, name, f"gpu-{gpu}", None) for gpu in range(first, first + size)]
        yield from holder(chance.choice(NAMESPACES[:5]), f"job-{name[-2:]}-{first}", places)
        first += size


def _holder(
    now: dt.datetime,
    chance: random.Random,
    namespace: str,
    name: str,
    places: Sequence[_Place],
    *,
    labels: Mapping[str, str] | None = None,
    has_pod: bool = True,
) -> list[Manifest]:
    """Make a pod that runs, its claim, and the allocation."""
    results = []
    for driver, pool, device, amount in places:
        share = {"shareID": stable_uuid(name, device), "consumedCapacity": dict(amount)} if amount else {}
        results.append({"request": "gpu", "driver": driver, "pool": pool, "device": device, **share})
    since = now - dt.timedelta(minutes=chance.choice((7, 40, 300, 900, 4000, 9000, 30000, 70000)))
    allocation = {"devices": {"results": results}, "allocationTimestamp": since.strftime("%Y-%m-%dT%H:%M:%SZ")}
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com", "count": len(places)}}
    claim: Manifest = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": f"{name}-gpu", "namespace": namespace},
        "spec": {"devices": {"requests": [request]}},
    }
    pod = _pod(namespace, name, labels or {})
    pod["spec"] |= {"nodeName": places[0][1], "resourceClaims": [{"name": "gpu", "resourceClaimName": f"{name}-gpu"}]}
    return _held(pod, claim, allocation)[0 if has_pod else 1 :]


def _held(pod: Manifest, claim: Manifest, allocation: Manifest) -> list[Manifest]:
    name, uid = pod["metadata"]["name"], stable_uuid(pod["metadata"]["name"], "pod")
    pod["metadata"]["uid"] = uid
    reserved = [{"resource": "pods", "name": name, "uid": uid}]
    return [pod, claim | {"status": {"allocation": allocation, "reservedFor": reserved}}]


def _pod(namespace: str, name: str, labels: Mapping[str, str]) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": dict(labels)},
        "spec": {"schedulerName": "dovetail", "containers": [{"name": "main", "image": IMAGE}]},
    }


def _waiting(now: dt.datetime, namespace: str, name: str, gang: str, seconds: int) -> Manifest:
    moment = (now - dt.timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")
    pod = _pod(namespace, name, {"dovetail.dev/gang": gang} if gang else {})
    pod["metadata"]["creationTimestamp"] = moment
    message = _MESSAGES.get(namespace)
    if message:
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
        pod["status"] = {"conditions": [condition | {"lastTransitionTime": moment}]}
    return pod


def _taint_rule() -> Manifest:
    return {
        "apiVersion": "resource.k8s.io/v1beta2",
        "kind": "DeviceTaintRule",
        "metadata": {"name": "repair"},
        "spec": {
            "deviceSelector": {"driver": nvidia.DRIVER, "pool": "h100-03", "device": "gpu-7"},
            "taint": {"key": "ecc", "value": "failing", "effect": "NoSchedule"},
        },
    }

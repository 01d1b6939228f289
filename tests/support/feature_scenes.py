"""
The features of DRA as scenes: the dra-example-driver's demos first, then what people ask for that they lack.

A scene's docstring says what it shows. Where kube-scheduler is known to answer otherwise, the scene is marked with the
reason, and says for either side where its pods end.
"""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from tests.support.feature_objects import (
    AMD,
    EXAMPLE,
    NIC,
    NVIDIA,
    PCIE_ROOT,
    amd,
    card_counters,
    claim,
    device_class,
    exactly,
    first_available,
    gpu,
    gpus,
    mig_counters,
    migs,
    namespace,
    nic,
    node,
    nvidia,
    on,
    partitions,
    pod,
    resource_slice,
    taint_rule,
    template,
    wanted,
)
from tests.support.feature_stage import ANY, Json, Scene, Side, Stage


class Feature(NamedTuple):
    """A scene by its name; `differs` says why kube-scheduler's answer is another one, empty where it is the same."""

    name: str
    play: Scene
    differs: str


FEATURES: Final[list[Feature]] = []


def scene(differs: str = "") -> Callable[[Scene], Scene]:
    """Put a function on the list."""

    def listed(play: Scene) -> Scene:
        FEATURES.append(Feature(play.__name__.replace("_", "-"), play, differs))
        return play

    return listed


def cluster(side: Side, *devices: Json, is_admin: bool = False, counters: Sequence[Json] = ()) -> list[Json]:
    """One node with devices of the dra-example-driver, and their class."""
    count = 1 + bool(counters)
    slices = [resource_slice(side, "n1", devices, count=count)]
    if counters:
        slices.append(resource_slice(side, "n1", counters=counters, part="-counters", count=count))
    return [namespace(side, is_admin=is_admin), node(side, "n1"), device_class(side), *slices]


def opaque(driver: str, **parameters: str) -> Json:
    return {"opaque": {"driver": driver, "parameters": parameters}}


def consumption(**amounts: str) -> Json:
    return {"shareID": ANY, "consumedCapacity": amounts}


# The dra-example-driver's demos


@scene()
def basic_resourceclaimtemplate(side: Side) -> Sequence[Stage]:
    """Two pods, a card of its own for each; a third has to wait."""
    objects = [*cluster(side, *gpus(2)), template("gpu", exactly(side))]
    pods = [pod(side, "pod0", "gpu"), pod(side, "pod1", "gpu")]
    third = Stage(create=[pod(side, "pod2", "gpu")], ends={"pod2": "pending"})
    return [Stage(create=[*objects, *pods], ends={"pod0": "n1", "pod1": "n1"}), third]


@scene()
def basic_multiple_requests(side: Side) -> Sequence[Stage]:
    """One pod, one claim, two requests."""
    asked = template("gpus", exactly(side, "gpu0"), exactly(side, "gpu1"))
    results = {"pod0": ["gpu0=n1/gpu-0", "gpu1=n1/gpu-1"]}
    made = [*cluster(side, *gpus(2)), asked, pod(side, "pod0", "gpus")]
    return [Stage(create=made, ends={"pod0": "n1"}, results=results if side.is_peer else {})]


@scene()
def basic_shared_claim_across_containers(side: Side) -> Sequence[Stage]:
    """One pod, two containers that use one card."""
    made = [*cluster(side, *gpus(1)), template("gpu", exactly(side)), pod(side, "pod0", "gpu", containers=2)]
    return [Stage(create=made, ends={"pod0": "n1"}, results={"pod0": ["gpu=n1/gpu-0"]})]


@scene()
def basic_shared_claim_across_pods(side: Side) -> Sequence[Stage]:
    """Two pods that use one card through one claim."""
    made = [*cluster(side, *gpus(1)), claim("gpu", exactly(side))]
    made += [pod(side, each, claims=["gpu"]) for each in ("pod0", "pod1")]
    return [Stage(create=made, ends={"pod0": "n1", "pod1": "n1"}, results={"gpu": ["gpu=n1/gpu-0"]})]


@scene()
def basic_resourceclaim_opaque_config(side: Side) -> Sequence[Stage]:
    """Configuration of the class and of the claim come together in the allocation, the class's first."""
    of_class, of_claim = opaque(EXAMPLE, sharing="TimeSlicing"), opaque(EXAMPLE, sharing="SpacePartitioning")
    objects = cluster(side, *gpus(1))
    objects[2]["spec"]["config"] = [of_class]
    asked = template("gpu", exactly(side), config=[{**of_claim, "requests": ["gpu"]}])
    config = [
        {**of_class, "source": "FromClass"},
        {**of_claim, "source": "FromClaim"},
    ]
    allocation = {
        "devices": {"config": config},
        "nodeSelector": {
            "nodeSelectorTerms": [
                {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [side.name("n1")]}]}
            ]
        },
        "allocationTimestamp": ANY,
    }
    made = [*objects, asked, pod(side, "pod0", "gpu")]
    return [Stage(create=made, ends={"pod0": "n1"}, allocations={"pod0": allocation})]


@scene()
def admin_access(side: Side) -> Sequence[Stage]:
    """A monitor sees a card that a pod has, and keeps it from no pod."""
    objects = [*cluster(side, gpu(0), is_admin=True), template("gpu", exactly(side))]
    asked = template("admin", exactly(side, adminAccess=True))
    given = {"devices": {"results": [{"adminAccess": True, "device": "gpu-0"}]}}
    return [
        Stage(create=[*objects, asked, pod(side, "monitor", "admin")], ends={"monitor": "n1"}),
        Stage(create=[pod(side, "pod0", "gpu")], ends={"pod0": "n1"}),
        Stage(create=[pod(side, "again", "admin")], ends={"again": "n1"}, allocations={"again": given}),
    ]


@scene()
def binding_conditions(side: Side) -> Sequence[Stage]:
    """A device that is made ready on demand: what is waited for is written into the allocation."""
    conditions = {"bindingConditions": ["AttachedToNode"], "bindingFailureConditions": ["AttachFailed"]}
    device = gpu(0, bindsToNode=True) | conditions
    objects = [namespace(side), node(side, "n1"), device_class(side)]
    objects.append(resource_slice(side, "fabric", [device], at=on(side)))
    result = {"devices": {"results": [{"device": "gpu-0", **conditions}]}, "allocationTimestamp": ANY}
    made = [*objects, template("gpu", exactly(side)), pod(side, "pod0", "gpu")]
    return [Stage(create=made, ends={"pod0": "n1"}, allocations={"pod0": result})]


@scene()
def cel_selector(side: Side) -> Sequence[Stage]:
    """A model, an amount of memory and a version at least."""
    cel = [
        f"device.attributes['{EXAMPLE}'].model == 'LATEST-GPU-MODEL'",
        f"device.capacity['{EXAMPLE}'].memory.compareTo(quantity('64Gi')) >= 0",
        f"device.attributes['{EXAMPLE}'].driverVersion.isGreaterThan(semver('0.9.0'))",
    ]
    devices = [gpu(0, model="OLD"), gpu(1, memory="40Gi"), gpu(2)]
    made = [*cluster(side, *devices), template("gpu", exactly(side, cel=cel)), pod(side, "pod0", "gpu")]
    more = Stage(create=[pod(side, "pod1", "gpu")], ends={"pod1": "pending"})
    return [Stage(create=made, ends={"pod0": "n1"}, results={"pod0": ["gpu=n1/gpu-2"]}), more]


TAINT: Final = {"key": "example.com/unhealthy", "effect": "NoSchedule"}


@scene()
def device_taint_not_tolerated(side: Side) -> Sequence[Stage]:
    """A tainted card is left alone, its neighbour is not."""
    made = [*cluster(side, gpu(0, taints=[TAINT]), gpu(1)), template("gpu", exactly(side)), pod(side, "pod0", "gpu")]
    more = Stage(create=[pod(side, "pod1", "gpu")], ends={"pod1": "pending"})
    return [Stage(create=made, ends={"pod0": "n1"}, results={"pod0": ["gpu=n1/gpu-1"]}), more]


@scene()
def device_taint_tolerated(side: Side) -> Sequence[Stage]:
    """A request that tolerates the taint gets the card; the toleration is written into the result."""
    toleration = {"key": TAINT["key"], "operator": "Exists", "effect": "NoSchedule"}
    asked = template("gpu", exactly(side, tolerations=[toleration]))
    result = {"devices": {"results": [{"device": "gpu-0", "tolerations": [toleration]}]}}
    made = [*cluster(side, gpu(0, taints=[TAINT])), asked, pod(side, "pod0", "gpu")]
    return [Stage(create=made, ends={"pod0": "n1"}, allocations={"pod0": result})]


@scene()
def device_taint_without_effect(side: Side) -> Sequence[Stage]:
    """The effect None only informs."""
    device = gpu(0, taints=[{**TAINT, "effect": "None"}])
    made = [*cluster(side, device), template("gpu", exactly(side)), pod(side, "pod0", "gpu")]
    return [Stage(create=made, ends={"pod0": "n1"})]


@scene()
def device_taint_rule(side: Side) -> Sequence[Stage]:
    """A DeviceTaintRule of an administrator taints one card."""
    rule = taint_rule(side, "rule", "n1", "gpu-0")
    made = [*cluster(side, *gpus(2)), rule, template("gpu", exactly(side))]
    return [
        Stage(create=made),
        Stage(create=[pod(side, "pod0", "gpu")], ends={"pod0": "n1"}, results={"pod0": ["gpu=n1/gpu-1"]}),
        Stage(create=[pod(side, "pod1", "gpu")], ends={"pod1": "pending"}),
        Stage(delete=[rule], ends={"pod1": "n1"}),
    ]


@scene()
def gpu_allow_multiple_allocations(side: Side) -> Sequence[Stage]:
    """Shares of one card's memory; what is not asked for is taken by its default."""
    policy = {"default": "10Gi", "validRange": {"min": "10Gi", "step": "10Gi"}}
    capacity = {
        "memory": {"value": "80Gi", "requestPolicy": policy},
        "compute": {"value": "100", "requestPolicy": {"default": "10"}},
    }
    device = gpu(0, allowMultipleAllocations=True) | {"capacity": capacity}
    asked = template("share", exactly(side, capacity={"requests": {"memory": "35Gi"}}))
    given = {"devices": {"results": [consumption(memory="40Gi", compute="10")]}}
    return [
        # One after the other: kube-scheduler counts a share twice while its write is under way.
        Stage(create=[*cluster(side, device), asked, pod(side, "pod0", "share")], ends={"pod0": "n1"}),
        Stage(create=[pod(side, "pod1", "share")], ends={"pod1": "n1"}),
        Stage(create=[pod(side, "pod2", "share")], ends={"pod2": "pending"}, allocations={"pod0": given}),
    ]


@scene()
def gpu_allow_multiple_allocations_partitionable(side: Side) -> Sequence[Stage]:
    """Shares of partitions: a partition takes its part of the card once, however many share it."""
    devices = [each | {"allowMultipleAllocations": True} for each in partitions(0, 2)]
    for each in devices:
        each["capacity"] = {
            name: {**amount, "requestPolicy": {"default": "10"}} for name, amount in each["capacity"].items()
        }
    ask = {"requests": {"memory": "20Gi"}}
    cel = [f"has(device.attributes['{EXAMPLE}'].partition)"]
    whole = exactly(side, cel=[f"has(device.attributes['{EXAMPLE}'].full)"])
    objects = [*cluster(side, *devices, counters=card_counters(0)), template("full", whole)]
    objects.append(template("share", exactly(side, cel=cel, capacity=ask)))
    return [
        Stage(create=[*objects, pod(side, "pod0", "share")], ends={"pod0": "n1"}),
        *(Stage(create=[pod(side, each, "share")], ends={each: "n1"}) for each in ("pod1", "pod2", "pod3")),
        Stage(create=[pod(side, "full", "full")], ends={"full": "pending"}),
    ]


@scene()
def initcontainer_shared_gpu(side: Side) -> Sequence[Stage]:
    """An init container and a container use one card, one after the other."""
    made = [*cluster(side, *gpus(1)), template("gpu", exactly(side)), pod(side, "pod0", "gpu", init=True)]
    return [Stage(create=made, ends={"pod0": "n1"}, results={"pod0": ["gpu=n1/gpu-0"]})]


@scene()
def net_consumable_capacity(side: Side) -> Sequence[Stage]:
    """Bandwidth of a network card by policy: rounded up to a step, never less than the minimum, a default else."""
    objects = [namespace(side), node(side, "n1"), device_class(side, NIC)]
    objects.append(resource_slice(side, "n1", [nic(0)], driver=NIC))
    much = exactly(side, "nic", of=NIC, capacity={"requests": {"egressBandwidth": "60000500k"}})
    little = exactly(side, "nic", of=NIC, capacity={"requests": {"egressBandwidth": "1M"}})
    given = {"devices": {"results": [consumption(vfs="1", ingressBandwidth="1G", egressBandwidth="60001M")]}}
    least = {"devices": {"results": [consumption(vfs="1", ingressBandwidth="1G", egressBandwidth="100M")]}}
    objects += [template("much", much), template("little", little), pod(side, "pod0", "much")]
    return [
        Stage(create=objects, ends={"pod0": "n1"}, allocations={"pod0": given}),
        Stage(create=[pod(side, "pod1", "much")], ends={"pod1": "pending"}),
        Stage(create=[pod(side, "pod2", "little")], ends={"pod2": "n1"}, allocations={"pod2": least}),
    ]


@scene()
def partitionable_devices(side: Side) -> Sequence[Stage]:
    """A whole card goes only while none of its partitions is in use, and the other way round."""
    part = exactly(side, cel=[f"has(device.attributes['{EXAMPLE}'].partition)"])
    whole = exactly(side, cel=[f"has(device.attributes['{EXAMPLE}'].full)"])
    objects = cluster(side, *partitions(0, 4), counters=card_counters(0))
    objects += [template("part", part), template("whole", whole)]
    names = ("pod0", "pod1", "pod2", "pod3")
    pods = [pod(side, each, "part") for each in names]
    return [
        Stage(create=[*objects, *pods], ends=dict.fromkeys(names, "n1")),
        Stage(create=[pod(side, "whole", "whole")], ends={"whole": "pending"}),
        Stage(delete=pods, ends={"whole": "n1"}, results={"whole": ["gpu=n1/gpu-0-full"]}),
        Stage(create=[pod(side, "pod4", "part")], ends={"pod4": "pending"}),
    ]


@scene()
def prioritized_alternatives(side: Side) -> Sequence[Stage]:
    """A card of the latest model, else one of the older; the result names the alternative."""
    latest = wanted(side, cel=[f"device.attributes['{EXAMPLE}'].model == 'LATEST-GPU-MODEL'"])
    older = wanted(side, cel=[f"device.attributes['{EXAMPLE}'].model == 'OLDER'"])
    asked = template("gpu", first_available("gpu", latest=latest, older=older))
    made = [*cluster(side, gpu(0, model="OLDER"), gpu(1)), asked, pod(side, "pod0", "gpu")]
    return [
        Stage(create=made, ends={"pod0": "n1"}, results={"pod0": ["gpu/latest=n1/gpu-1"]}),
        Stage(create=[pod(side, "pod1", "gpu")], ends={"pod1": "n1"}, results={"pod1": ["gpu/older=n1/gpu-0"]}),
    ]


# What people ask for


@scene()
def h100_else_two_a100_else_amd(side: Side) -> Sequence[Stage]:
    """One H100, else two A100, else an AMD card, on three nodes of two vendors."""
    objects = [namespace(side), *(node(side, each) for each in ("h", "a", "m"))]
    objects += [device_class(side, NVIDIA), device_class(side, AMD)]
    objects.append(resource_slice(side, "h", [nvidia(0, "NVIDIA H100 80GB HBM3", "81559Mi")], driver=NVIDIA))
    a100 = [nvidia(index, "NVIDIA A100-SXM4-40GB", "40Gi") for index in range(2)]
    objects += [resource_slice(side, "a", a100, driver=NVIDIA), resource_slice(side, "m", [amd(1)], driver=AMD)]
    product = f"device.attributes['{NVIDIA}'].productName"
    asked = first_available(
        "gpu",
        h100=wanted(side, of=NVIDIA, cel=[f"{product}.contains('H100')"]),
        a100=wanted(side, of=NVIDIA, cel=[f"{product}.contains('A100')"], count=2),
        amd=wanted(side, of=AMD),
    )
    objects.append(template("gpu", asked))
    two = ["gpu/a100=a/gpu-0", "gpu/a100=a/gpu-1"]
    return [
        Stage(create=[*objects, pod(side, "p0", "gpu")], ends={"p0": "h"}, results={"p0": ["gpu/h100=h/gpu-0"]}),
        Stage(create=[pod(side, "p1", "gpu")], ends={"p1": "a"}, results={"p1": two}),
        Stage(create=[pod(side, "p2", "gpu")], ends={"p2": "m"}, results={"p2": ["gpu/amd=m/gpu-1-129"]}),
        Stage(create=[pod(side, "p3", "gpu")], ends={"p3": "pending"}),
    ]


@scene()
def admin_daemon_set(side: Side) -> Sequence[Stage]:
    """A monitor on every node sees all cards: of a full node, of a tainted one, and takes nothing away."""
    full = [namespace(side, is_admin=True), node(side, "full"), node(side, "tainted"), device_class(side)]
    full.append(resource_slice(side, "full", gpus(2)))
    full += [template("gpus", exactly(side, count=2)), pod(side, "user", "gpus")]
    tainted = resource_slice(side, "tainted", [gpu(index, taints=[TAINT]) for index in range(2)])
    monitor = exactly(side, allocationMode="All", adminAccess=True, tolerations=[{"operator": "Exists"}])
    monitors = [pod(side, f"monitor-{each}", "monitor", on_node=each) for each in ("full", "tainted")]
    for each in full[1:3]:
        each["metadata"]["labels"]["kubernetes.io/hostname"] = each["metadata"]["name"]
    return [
        Stage(create=full, ends={"user": "full"}),
        Stage(
            create=[tainted, template("monitor", monitor), *monitors],
            ends={"monitor-full": "full", "monitor-tainted": "tainted"},
            results={
                f"monitor-{each}": [f"gpu={each}/gpu-{index}" for index in range(2)] for each in ("full", "tainted")
            },
        ),
    ]


@scene()
def maintenance_of_one_card(side: Side) -> Sequence[Stage]:
    """A card is tainted: its pod ends by itself, nothing new comes to it. Untainted, the waiting pod wakes."""
    rule = taint_rule(side, "maintenance", "n1", "gpu-0")
    objects = [*cluster(side, *gpus(1)), template("gpu", exactly(side))]
    return [
        Stage(create=[*objects, pod(side, "job", "gpu", run_seconds=2.0)], ends={"job": "n1"}),
        Stage(create=[rule, pod(side, "next", "gpu")], ends={"next": "pending"}),
        Stage(ends={"job": "ended", "next": "pending"}),
        Stage(delete=[rule], ends={"next": "n1"}, results={"next": ["gpu=n1/gpu-0"]}),
    ]


@scene()
def list_attributes(side: Side) -> Sequence[Stage]:
    """A processor near two roots and a card behind one of them: they match when their lists meet."""
    roots = {"near": {PCIE_ROOT: {"strings": ["pci0000:00", "pci0000:80"]}}}
    card = gpu(0) | {"attributes": {PCIE_ROOT: {"string": "pci0000:80"}}}
    other = gpu(1) | {"attributes": {PCIE_ROOT: {"string": "pci0000:c0"}}}
    objects = [*cluster(side, other, card), device_class(side, "dra.cpu")]
    objects.append(
        resource_slice(side, "n1", [{"name": "cpudevnuma000", "attributes": roots["near"]}], driver="dra.cpu")
    )
    asked = template(
        "both", exactly(side), exactly(side, "cpu", of="dra.cpu"), constraints=[{"matchAttribute": PCIE_ROOT}]
    )
    made = [*objects, asked, pod(side, "pod0", "both")]
    return [Stage(create=made, ends={"pod0": "n1"}, results={"pod0": ["gpu=n1/gpu-0", "cpu=n1/cpudevnuma000"]})]


@scene()
def distinct_attribute_of_three(side: Side) -> Sequence[Stage]:
    """Three cards of different models: A, B, A is not enough, A, B, C is."""
    devices = [gpu(0, model="A"), gpu(1, model="B"), gpu(2, model="A")]
    asked = template("gpus", exactly(side, count=3), constraints=[{"distinctAttribute": f"{EXAMPLE}/model"}])
    objects = [*cluster(side, *devices), asked, pod(side, "pod0", "gpus")]
    more = [node(side, "n2"), resource_slice(side, "n2", [*devices, gpu(3, model="C")])]
    return [Stage(create=objects, ends={"pod0": "pending"}), Stage(create=more, ends={"pod0": "n2"})]


@scene()
def match_attribute_across_drivers(side: Side) -> Sequence[Stage]:
    """A card of each of two drivers behind one PCIe root, and two cards more anywhere."""
    cards = [nvidia(index, "NVIDIA H100 80GB HBM3", "81559Mi", root=f"pci0000:{index}0") for index in range(4)]
    near = {"name": "pci-0000-30-00-0", "attributes": {PCIE_ROOT: {"string": "pci0000:30"}, "rdma": {"bool": True}}}
    objects = [namespace(side), node(side, "n1"), device_class(side, NVIDIA), device_class(side, "dra.net")]
    objects += [resource_slice(side, "n1", cards, driver=NVIDIA), resource_slice(side, "n1", [near], driver="dra.net")]
    asked = template(
        "both",
        exactly(side, "gpu", of=NVIDIA),
        exactly(side, "nic", of="dra.net", cel=["device.attributes['dra.net'].rdma"]),
        exactly(side, "more", of=NVIDIA, count=2),
        constraints=[{"matchAttribute": PCIE_ROOT, "requests": ["gpu", "nic"]}],
    )
    stage = Stage(create=[*objects, asked, pod(side, "pod0", "both")], ends={"pod0": "n1"})
    more = Stage(create=[pod(side, "pod1", "both")], ends={"pod1": "pending"})
    return [stage, more]


@scene("kube-scheduler takes pods one by one and placements in the order in which they are published")
def mig_placements_in_unlucky_order(side: Side) -> Sequence[Stage]:
    """Pods that wait for a card become one question: two of 10 GB, one of 20 and one of 40 just fit, if placed well."""
    objects = [namespace(side), node(side, "n1"), device_class(side, NVIDIA, short="mig")]
    profiles = {"p0": "1g.10gb", "p1": "1g.10gb", "p2": "2g.20gb", "p3": "3g.40gb"}
    for profile in set(profiles.values()):
        cel = [f"device.attributes['{NVIDIA}'].profile == '{profile}'"]
        objects.append(template(profile.replace(".", "-"), exactly(side, "mig", of="mig", cel=cel)))
    objects += [pod(side, name, profile.replace(".", "-")) for name, profile in profiles.items()]
    objects.append(resource_slice(side, "n1", counters=mig_counters(), driver=NVIDIA, part="-counters", count=2))
    card = resource_slice(side, "n1", migs(), driver=NVIDIA, count=2)
    ends = dict.fromkeys(profiles, "?" if side.is_peer else "n1")
    return [
        Stage(create=objects, ends=dict.fromkeys(profiles, "pending")),
        # Pods rest for a while after each failure: those that still do would come one by one.
        Stage(after_seconds=5.0, create=[card], ends=ends),
    ]


@scene("kube-scheduler refuses All for any pool in its view that is not whole, here the counters of another node")
def all_beside_an_incomplete_pool(side: Side) -> Sequence[Stage]:
    """All cards of a node, while another node's pool is being published."""
    objects = [*cluster(side, *gpus(2)), node(side, "n2")]
    objects.append(resource_slice(side, "n2", counters=card_counters(0), count=2, part="-counters"))
    asked = template("all", exactly(side, allocationMode="All"))
    made = [*objects, asked, pod(side, "pod0", "all")]
    if side.is_peer:
        return [Stage(create=made, ends={"pod0": "pending"})]
    return [Stage(create=made, ends={"pod0": "n1"}, results={"pod0": ["gpu=n1/gpu-0", "gpu=n1/gpu-1"]})]


@scene()
def fabric_of_several_nodes(side: Side) -> Sequence[Stage]:
    """A device that a rack reaches, and a claim of it that pods on two nodes share; a third rack's node is out."""
    objects = [namespace(side), device_class(side, "fabric.example.com")]
    objects += [node(side, each, rack="r1") for each in ("n1", "n2")] + [node(side, "n3", rack="r2")]
    objects.append(
        resource_slice(side, "rack", [{"name": "channel-0"}], driver="fabric.example.com", at=on(side, rack="r1"))
    )
    objects.append(claim("channel", exactly(side, "channel", of="fabric.example.com")))
    for each in objects[2:5]:
        each["metadata"]["labels"]["kubernetes.io/hostname"] = each["metadata"]["name"]
    allocation = {"nodeSelector": on(side, rack="r1")["nodeSelector"]}
    pods = {f"on-{each}": pod(side, f"on-{each}", claims=["channel"], on_node=each) for each in ("n1", "n2", "n3")}
    return [
        Stage(create=[*objects, pods["on-n1"]], ends={"on-n1": "n1"}, allocations={"channel": allocation}),
        Stage(create=[pods["on-n2"], pods["on-n3"]], ends={"on-n2": "n2", "on-n3": "pending"}),
    ]


@scene()
def devices_of_all_nodes(side: Side) -> Sequence[Stage]:
    """A device that every node reaches: its allocation binds to no node."""
    driver = f"{side.word}.example.com"
    objects = [namespace(side), node(side, "n1"), device_class(side, driver, short="anywhere")]
    objects.append(resource_slice(side, "anywhere", [{"name": "licence-0"}], driver=driver, at={"allNodes": True}))
    asked = template("licence", exactly(side, "licence", of="anywhere"))
    made = [*objects, asked, pod(side, "pod0", "licence")]
    results = {"pod0": ["licence=anywhere/licence-0"]}
    return [Stage(create=made, ends={"pod0": "n1"}, results=results, allocations={"pod0": {"nodeSelector": None}})]


@scene()
def generations_of_a_pool(side: Side) -> Sequence[Stage]:
    """Of a pool that is published anew only the newest generation counts, and only when it is whole."""
    objects = [namespace(side), node(side, "n1"), device_class(side), template("gpu", exactly(side))]
    old = resource_slice(side, "n1", [gpu(0)], part="-old")
    new = [resource_slice(side, "n1", [gpu(1)], part=f"-new-{part}", generation=2, count=2) for part in range(2)]
    new[1]["spec"]["devices"] = [gpu(2)]
    return [
        Stage(create=[*objects, old, new[0], pod(side, "pod0", "gpu")], ends={"pod0": "pending"}),
        Stage(create=[new[1]], ends={"pod0": "n1"}),
        Stage(create=[pod(side, "pod1", "gpu")], ends={"pod1": "n1"}),
        Stage(create=[pod(side, "pod2", "gpu")], ends={"pod2": "pending"}),
    ]


@scene()
def capacity_of_an_exclusive_device(side: Side) -> Sequence[Stage]:
    """A request for capacity is a least amount where a card is not shared, and consumes nothing of it."""
    asked = template("gpu", exactly(side, capacity={"requests": {"memory": "64Gi"}}))
    made = [*cluster(side, gpu(0, memory="40Gi"), gpu(1)), asked, pod(side, "pod0", "gpu")]
    return [Stage(create=made, ends={"pod0": "n1"}, results={"pod0": ["gpu=n1/gpu-1"]})]


@scene("kube-scheduler looks at taints only when it allocates, not when a pod joins a claim that is allocated")
def joining_a_claim_on_a_tainted_card(side: Side) -> Sequence[Stage]:
    """A card is tainted while one pod uses it: a second pod of the same claim waits until the taint is gone."""
    rule = taint_rule(side, "maintenance", "n1", "gpu-0")
    objects = [*cluster(side, *gpus(1)), claim("gpu", exactly(side))]
    first = Stage(create=[*objects, pod(side, "first", claims=["gpu"])], ends={"first": "n1"})
    joins = pod(side, "second", claims=["gpu"])
    if side.is_peer:
        return [first, Stage(create=[rule]), Stage(create=[joins], ends={"second": "n1"})]
    return [
        first,
        Stage(create=[rule]),
        Stage(create=[joins], ends={"second": "pending"}),
        Stage(delete=[rule], ends={"second": "n1"}),
    ]


@scene("kube-scheduler's admin access takes the card from what comes after it in the same pod")
def admin_access_before_a_card_of_ones_own(side: Side) -> Sequence[Stage]:
    """A pod that monitors all cards of its node and works on one."""
    objects = [*cluster(side, *gpus(1), is_admin=True), template("gpu", exactly(side))]
    objects.append(template("admin", exactly(side, allocationMode="All", adminAccess=True)))
    made = [*objects, pod(side, "pod0", "admin", "gpu")]
    if side.is_peer:
        return [Stage(create=made, ends={"pod0": "pending"})]
    return [Stage(create=made, ends={"pod0": "n1"}, results={"pod0": ["gpu=n1/gpu-0", "gpu=n1/gpu-0"]})]


@scene("kube-scheduler gives up the pod for an error of a selector on any device that it looks at")
def selector_that_fails_on_one_device(side: Side) -> Sequence[Stage]:
    """A device that lacks the attribute is passed over; the next one has it."""
    bare = gpu(0) | {"attributes": {"index": {"int": 0}}}
    asked = template("gpu", exactly(side, cel=[f"device.attributes['{EXAMPLE}'].model == 'LATEST-GPU-MODEL'"]))
    made = [*cluster(side, bare, gpu(1)), asked, pod(side, "pod0", "gpu")]
    if side.is_peer:
        return [Stage(create=made, ends={"pod0": "pending"})]
    return [Stage(create=made, ends={"pod0": "n1"}, results={"pod0": ["gpu=n1/gpu-1"]})]


@scene()
def partitions_of_two_drivers_in_pools_of_one_name(side: Side) -> Sequence[Stage]:
    """A partition of a small card and one of a large card of another driver: both call their pool as the node."""
    large = "large.example.com"
    half = {"memory": {"value": "120Gi"}, "compute": {"value": "200"}}
    whole = {"memory": {"value": "240Gi"}, "compute": {"value": "400"}}
    card = {"name": "gpu-0-half", "consumesCounters": [{"counterSet": "gpu-0-counters", "counters": half}]}
    budget = [{"name": "gpu-0-counters", "counters": whole}]
    objects = [*cluster(side, *partitions(0, 2), counters=card_counters(0)), device_class(side, large)]
    objects.append(resource_slice(side, "n1", counters=budget, driver=large, part="-counters", count=2))
    objects.append(resource_slice(side, "n1", [card], driver=large, count=2))
    asked = template("both", exactly(side), exactly(side, "large", of=large))
    made = [*objects, asked, pod(side, "pod0", "both")]
    return [Stage(create=made, ends={"pod0": "n1"})]

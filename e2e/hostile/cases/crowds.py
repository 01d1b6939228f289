"""Many pods that wait, are different from each other, or ask for what takes long to look for."""

from typing import Any

from e2e.hostile.cases.case import Hands, Manifest, case, claim, pod, request
from e2e.hostile.objects.kinds import GPU_CLASS, NAMESPACE

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


@case("control", "nothing is done: how much the measurement itself varies")
async def control(hands: Hands) -> None:
    """Do nothing."""
    del hands


@case("other-scheduler", "2,000 pods of another scheduler: what the API server alone costs")
async def other_scheduler(hands: Hands) -> None:
    """Create pods that are nothing to Dovetail."""
    await hands.many(2000, lambda index: pod(f"other-{index}", schedulerName="another"))


@case("waiting", "1,500 equal pods that fit nowhere")
async def waiting(hands: Hands) -> None:
    """Ask for nine GPUs of one node."""
    await hands.many(1500, lambda index: claim(f"w{index}", request("r0", count=9)))
    await hands.many(1500, lambda index: pod(f"w{index}", claims=(f"w{index}",)))


@case("waiting-shapes", "1,500 pods of ten kinds that fit nowhere")
async def waiting_shapes(hands: Hands) -> None:
    """Ask for nine GPUs and more."""
    await hands.many(1500, lambda index: claim(f"w{index}", request("r0", count=9 + index % 10)))
    await hands.many(1500, lambda index: pod(f"w{index}", claims=(f"w{index}",)))


@case("large-pods", "pods of 500 labels and annotations each, fifty a second")
async def large_pods(hands: Hands) -> None:
    """Create them: more of them, and the API server alone has all processors of a small machine (the next case)."""
    await _create_large(hands)


@case("other-large-pods", "the same of another scheduler: what the API server alone costs")
async def other_large_pods(hands: Hands) -> None:
    """Create them."""
    await _create_large(hands, schedulerName="nobody")


async def _create_large(hands: Hands, **spec: Any) -> None:
    labels = {f"label-{number}": f"{'v' * 50}-{number}" for number in range(250)}
    annotations = {f"annotation-{number}": "a" * 100 for number in range(250)}

    def one(index: int) -> Manifest:
        own = {**labels, "own": f"own-{index}"}
        return pod(f"large-{index}", requests={"cpu": "900"}, labels=own, annotations=annotations, **spec)

    async def step(number: int) -> None:
        await hands.make(one(number))

    await hands.repeat(50, step)


@case("impossible-gangs", "100 gangs of 8, none of which fits")
async def impossible_gangs(hands: Hands) -> None:
    """Ask for nine GPUs with every member."""
    await hands.many(800, lambda index: claim(f"g{index}", request("r0", count=9)))
    await hands.many(800, lambda index: _member(f"g{index}", f"gang-{index // 8}", 8, (f"g{index}",)))


@case("large-gang", "gangs of 500 that wait for more room than there is")
async def large_gang(hands: Hands) -> None:
    """Ask for cpu that only some get."""
    requests = {"cpu": "120"}
    await hands.many(1000, lambda index: _member(f"l{index}", f"large-{index // 500}", 500, (), requests))


def _member(name: str, gang: str, size: int, claims: tuple[str, ...], requests: Manifest | None = None) -> Manifest:
    labels, annotations = {"dovetail.dev/gang": gang}, {"dovetail.dev/gang-minimum": str(size)}
    return pod(name, claims=claims, requests=requests, labels=labels, annotations=annotations)


@case("distinct-affinity", "1,000 waiting pods, each with node affinity of its own")
async def distinct_affinity(hands: Hands) -> None:
    """Select nodes that are not there."""

    def one(index: int) -> Manifest:
        expression = {"key": "kubernetes.io/hostname", "operator": "In", "values": [f"none-{index}"]}
        affinity = {"nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}}
        return pod(f"a{index}", affinity=affinity)

    await hands.many(1000, one)


@case("distinct-sizes", "1,000 waiting pods, each of another size")
async def distinct_sizes(hands: Hands) -> None:
    """Ask for more than any node has."""
    await hands.many(1000, lambda index: pod(f"s{index}", requests={"cpu": f"{900_000 + index}m"}))


@case("anti-affinity", "500 pods with required anti-affinity against everything of their namespace")
async def anti_affinity(hands: Hands) -> None:
    """As many run as there are nodes; the others wait for one."""
    terms = [{"topologyKey": "kubernetes.io/hostname", "labelSelector": {}}]
    await hands.many(500, lambda index: pod(f"anti-{index}", affinity={"podAntiAffinity": {_REQUIRED: terms}}))


@case("anti-affinity-zone", "300 pods with required anti-affinity by zone, 50 terms each")
async def anti_affinity_zone(hands: Hands) -> None:
    """One runs, the others wait for it."""
    expressions = [{"key": f"none-{index}", "operator": "DoesNotExist"} for index in range(50)]
    terms = [
        {"topologyKey": "topology.kubernetes.io/zone", "labelSelector": {"matchExpressions": [each]}}
        for each in expressions
    ]
    await hands.many(300, lambda index: pod(f"zone-{index}", affinity={"podAntiAffinity": {_REQUIRED: terms}}))


@case("running-terms", "200 running pods with 16 terms of anti-affinity each, which mean pods of every namespace")
async def running_terms(hands: Hands) -> None:
    """No other pod has the labels that they mean: all of them have to be looked at for nothing."""

    def terms(index: int) -> list[Manifest]:
        expressions = ({"key": f"none-{index}-{number}", "operator": "Exists"} for number in range(16))
        return [
            {
                "topologyKey": "kubernetes.io/hostname",
                "namespaceSelector": {},
                "labelSelector": {"matchExpressions": [each]},
            }
            for each in expressions
        ]

    await hands.many(200, lambda index: pod(f"term-{index}", affinity={"podAntiAffinity": {_REQUIRED: terms(index)}}))


@case("spread", "300 pods with ten topology spread constraints each")
async def spread(hands: Hands) -> None:
    """Spread over labels that every node, or none, has."""
    keys = ("kubernetes.io/hostname", "topology.kubernetes.io/zone", "kubernetes.io/arch", "none")
    constraints: list[Any] = [
        {
            "topologyKey": key,
            "maxSkew": skew,
            "whenUnsatisfiable": how,
            "labelSelector": {"matchLabels": {"app": "spread"}},
        }
        for key in keys
        for skew, how in ((1, "DoNotSchedule"), (2, "ScheduleAnyway"))
    ]
    constraints = [*constraints, *({**constraints[1], "topologyKey": f"more-{index}"} for index in range(2))]
    labels = {"app": "spread"}
    await hands.many(300, lambda index: pod(f"t{index}", labels=labels, topologySpreadConstraints=constraints))


@case("shared-claim", "a claim that 256 pods share, and some more that want to")
async def shared_claim(hands: Hands) -> None:
    """Create the claim and 300 pods."""
    await hands.make(claim("shared"))
    await hands.many(300, lambda index: pod(f"sharer-{index}", claims=("shared",)))


@case("extended-resources", "1,000 waiting pods that ask for devices by the extended resource")
async def extended_resources(hands: Hands) -> None:
    """Ask for nine and more."""
    await hands.many(1000, lambda index: pod(f"x{index}", requests={"nvidia.com/gpu": str(9 + index % 20)}))


@case("volumes", "2,000 pods whose volume claims wait for their first consumer, and no volume is there")
async def volumes(hands: Hands) -> None:
    """Create claims of the class that the stage has, and pods that mount them."""
    await hands.many(2000, _volume_claim)
    await hands.many(2000, lambda index: pod(f"v{index}", volumes=[_mount(index)]))


def _mount(index: int) -> Manifest:
    return {"name": "disk", "persistentVolumeClaim": {"claimName": f"v{index}"}}


def _volume_claim(index: int) -> Manifest:
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "waiting",
        "resources": {"requests": {"storage": f"{1 + index}Mi"}},
    }
    metadata = {"name": f"v{index}", "namespace": NAMESPACE}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}


@case("ephemeral-volumes", "500 pods with ten ephemeral volumes each")
async def ephemeral_volumes(hands: Hands) -> None:
    """Their claims are made by a controller, and no volume is there for them."""
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "waiting",
        "resources": {"requests": {"storage": "1Gi"}},
    }
    mounts = [{"name": f"e{index}", "ephemeral": {"volumeClaimTemplate": {"spec": spec}}} for index in range(10)]
    await hands.many(500, lambda index: pod(f"e{index}", volumes=mounts))


@case("templates", "1,000 waiting pods whose claims come from templates, some of which are not there")
async def templates(hands: Hands) -> None:
    """Create the templates, and pods that name them or others."""
    spec = {"spec": {"devices": {"requests": [request("r0", count=9)]}}}
    metadata = {"name": "nine", "namespace": NAMESPACE}
    version = "resource.k8s.io/v1"
    await hands.make({"apiVersion": version, "kind": "ResourceClaimTemplate", "metadata": metadata, "spec": spec})

    def one(index: int) -> Manifest:
        made = pod(f"made-{index}")
        name = "nine" if index % 3 else f"missing-{index}"
        made["spec"]["resourceClaims"] = [{"name": "r", "resourceClaimTemplateName": name}]
        return made

    await hands.many(1000, one)


@case("all-devices", "50 claims for all devices of a node, and of a class that is not there")
async def all_devices(hands: Hands) -> None:
    """Ask for all devices of which one is missing: none is left over that would be whole."""
    classes = (GPU_CLASS, "none")
    expression = 'device.attributes["gpu.nvidia.com"].uuid == "none"'

    def one(index: int) -> Manifest:
        wanted = request("r0", expression, device_class=classes[index % 2], allocationMode="All")
        return claim(f"all-{index}", wanted)

    await hands.many(50, one)
    await hands.many(50, lambda index: pod(f"all-{index}", claims=(f"all-{index}",)))


@case("gates", "1,000 gated pods, whose gates go one by one")
async def gates(hands: Hands) -> None:
    """Create them, then take a gate away twenty times a second."""
    two = [{"name": "example.com/a"}, {"name": "example.com/b"}]
    pods = [pod(f"gated-{index}", requests={"cpu": "900"}, schedulingGates=two) for index in range(1000)]
    await hands.many(1000, lambda index: pods[index])

    async def step(number: int) -> None:
        each, left = pods[number % 1000], two[1:] if number < 1000 else []
        await hands.patch(each, {"spec": {"schedulingGates": left}})

    await hands.repeat(20, step)

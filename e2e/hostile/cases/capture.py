"""What takes a place that is another's, by words that cost nothing."""

from typing import Any, Final

from e2e.hostile.cases.case import SPECIAL, Hands, Manifest, case, claim, pod
from e2e.hostile.objects.kinds import NAMESPACE

SPECIAL_NODE: Final = "special-0"
_ON_SPECIAL: Final[dict[str, Any]] = {"nodeSelector": {"pool": SPECIAL}, "tolerations": [{"operator": "Exists"}]}
GANG_AFTER_SECONDS: Final = 8.0


@case("reservations", "an annotation reserve-node for every node, by pods that fit nowhere")
async def reservations(hands: Hands) -> None:
    """Ask for a million processors, and reserve all nodes."""

    def one(index: int) -> Manifest:
        annotations = {"dovetail.dev/reserve-node": f"gpu-{index:04}"}
        return pod(f"reserve-{index}", requests={"cpu": "1000000"}, annotations=annotations)

    await hands.many(hands.nodes, one)


@case(
    "dummy-gang",
    "a gang one member of which names its node: does its next member go before an older pod?",
    probe="order",
)
async def dummy_gang(hands: Hands) -> None:
    """Wait until the probe has a pod that waits for the only GPU, then come with one of a gang that runs in part."""
    await hands.pause(GANG_AFTER_SECONDS)
    labels, annotations = {"dovetail.dev/gang": "dummy"}, {"dovetail.dev/gang-minimum": "2"}
    await hands.make(pod("dummy", labels=labels, annotations=annotations, nodeName=SPECIAL_NODE))
    newer = pod("newer", claims=("newer",), labels=labels, annotations=annotations, **_ON_SPECIAL)
    await hands.make(claim("newer"), newer)


@case("shields", "pods of the lowest priority that say they must not be evicted", probe="priority")
async def shields(hands: Hands) -> None:
    """Take the only GPU with an annotation, budgets and a gang, and stay."""
    for number in range(2):
        spec = {"minAvailable": "100%", "selector": {"matchLabels": {"app": "shield"}}}
        metadata = {"name": f"shield-{number}", "namespace": NAMESPACE}
        await hands.make({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata, "spec": spec})
    labels = {"app": "shield", "dovetail.dev/gang": "shields"}
    annotations = {"dovetail.dev/preemptible": "false", "dovetail.dev/gang-minimum": "1"}
    low: dict[str, Any] = {"priorityClassName": "mallory-low", **_ON_SPECIAL}
    await hands.make(claim("shield"), pod("shield", claims=("shield",), labels=labels, annotations=annotations, **low))


@case("names", "pods with telling names wait beside good ones for one GPU, and hold it", probe="names")
async def names(hands: Hands) -> None:
    """Take the GPU, and wait for it with others of each priority."""
    await hands.make(claim("secret-0"), pod("secret-0", claims=("secret-0",), **_ON_SPECIAL))
    await hands.pause(2)
    for number in range(1, 6):
        name = f"secret-{number}"
        importance: dict[str, Any] = {"priorityClassName": "mallory-high"} if number % 2 else {}
        await hands.make(claim(name), pod(name, claims=(name,), **importance, **_ON_SPECIAL))


@case("nominations", "nominatedNodeName of every node, written into pods' statuses", rights="driver")
async def nominations(hands: Hands) -> None:
    """Nominate pods that fit nowhere."""
    pods = [pod(f"n{index}", requests={"cpu": "1000000"}) for index in range(hands.nodes)]
    await hands.many(hands.nodes, lambda index: pods[index])

    async def step(number: int) -> None:
        index = number % hands.nodes
        await hands.patch(pods[index], {"status": {"nominatedNodeName": f"gpu-{index:04}"}}, "status")

    await hands.repeat(50, step)


@case("own-node", "2,000 pods that name a node themselves, the same one and one that is not there")
async def own_node(hands: Hands) -> None:
    """Bind pods without any scheduler."""
    where = (SPECIAL_NODE, "no-such-node")
    await hands.many(2000, lambda index: pod(f"o{index}", nodeName=where[index % 2]))


@case("escapes", "terminal escapes and odd characters wherever a text is free")
async def escapes(hands: Hands) -> None:
    """Write them into annotations, groups and selectors."""
    text = "\x1b]0;owned\x07\x1b[2J\u202e\r\n{}%s"

    def one(index: int) -> Manifest:
        keys = ("gang-minimum", "gang-topology", "reserve-node", "preemptible")
        annotations = {f"dovetail.dev/{keys[index % 4]}": text * (1 + index)}
        labels = {"dovetail.dev/gang": f"escape-{index}"}
        return pod(f"escape-{index}", labels=labels, annotations=annotations)

    await hands.many(200, one)

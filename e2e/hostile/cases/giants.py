"""
The largest objects that the API server admits: each is as many bytes as etcd takes, and edited again and again.

Every case comes three times: beside good pods, with a restart of Dovetail while the objects exist, and with relists of
everything (`Case.disturbance`).
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from e2e.hostile.cases.case import Hands, Manifest, case, claim, pod
from e2e.hostile.extremes.bases import base
from e2e.hostile.extremes.pod_entries import container, port
from e2e.hostile.extremes.refused import with_many_terms
from e2e.hostile.extremes.wide import filled
from e2e.hostile.objects.kinds import DRIVER
from scheduler.change import Kind

_EACH: Final = ("restart", "relist")
_PER_SECOND: Final = 5.0
_ANNOTATION_BYTES: Final = 250_000
_PARAMETERS: Final = 32
_SURROGATES: Final = 1_600
_LEVELS: Final = 2_400


def _giant(kind: Kind, index: int, path: str, counts: Sequence[int]) -> Manifest:
    """Make an object with so many entries in the lists of a path."""
    made = filled(kind, path, counts, base(kind, f"mallory-giant-{index}"))
    made.pop("status", None)
    return made


def _pod(index: int, path: str, *counts: int) -> Manifest:
    """Make a pod of the hostile namespace; it fits nowhere, so that it waits."""
    made = _giant(Kind.PODS, index, path, counts)
    made["spec"] |= {"terminationGracePeriodSeconds": 0, "nodeSelector": {"mallory": "none"}}
    if not path.startswith("spec.resourceClaims"):
        made["spec"].pop("resourceClaims")
    return made


def _relabelling(hands: Hands, made: Sequence[Manifest]) -> Callable[[int], Awaitable[None]]:
    """Give the step that changes a label of one after the other."""

    async def step(number: int) -> None:
        await hands.patch(made[number % len(made)], {"metadata": {"labels": {"edited": str(number)}}})

    return step


async def _edited(hands: Hands, made: Sequence[Manifest]) -> None:
    await hands.make(*made)
    await hands.repeat(_PER_SECOND, _relabelling(hands, made))


@case(
    "refused-containers",
    "three pods with 65 affinity terms and 6,000 containers, relabelled 5 times a second",
    also=_EACH,
)
async def refused_containers(hands: Hands) -> None:
    """Write more terms than Dovetail evaluates."""
    await _edited(hands, [with_many_terms(_pod(index, "spec.containers[]", 6_000)) for index in range(3)])


@case("refused-env", "three pods with 65 affinity terms and 16,000 env, relabelled 5 times a second", also=_EACH)
async def refused_env(hands: Hands) -> None:
    """Write more terms than Dovetail evaluates."""
    await _edited(hands, [with_many_terms(_pod(index, "spec.containers[].env[]", 1, 16_000)) for index in range(3)])


@case("host-ports", "ten pods with 10,000 host ports each", also=_EACH)
async def host_ports(hands: Hands) -> None:
    """Write more ports than Dovetail keeps."""
    ports = [port(index) for index in range(10_000)]
    containers = [container(0) | {"ports": ports}]
    await hands.make(*(pod(f"ports-{index}", containers=containers) for index in range(10)))


@case("containers", "three pods with 6,000 containers, each with requests of its own, relabelled", also=_EACH)
async def containers(hands: Hands) -> None:
    """Let Dovetail read all of them."""
    made = [_pod(index, "spec.containers[]", 6_000) for index in range(3)]
    for each in made:
        for index, one in enumerate(each["spec"]["containers"]):
            one["resources"] = {"requests": {"cpu": f"{index + 1}m", "memory": f"{index + 1}Ki"}}
    await _edited(hands, made)


@case("deep-claims", "50 claims with 32 configurations of parameters that are nested 2,400 deep, edited", also=_EACH)
async def deep_claims(hands: Hands) -> None:
    """Create them with `written`'s mark for nested lists, and edit them."""
    await _configured(hands, f"nested values: [{_LEVELS}")


@case("surrogate-claims", "50 claims with 32 configurations of lone surrogates, edited", also=_EACH)
async def surrogate_claims(hands: Hands) -> None:
    """Create and edit them."""
    await _configured(hands, "\ud800" * _SURROGATES)


async def _configured(hands: Hands, value: Any) -> None:
    made = [claim(f"configured-{index}", config=_opaque(value)) for index in range(50)]
    await hands.many(len(made), lambda index: made[index])
    await hands.repeat(_PER_SECOND, _relabelling(hands, made))


def _opaque(value: Any) -> list[Manifest]:
    return [{"opaque": {"driver": DRIVER, "parameters": {"a": value}}} for _ in range(_PARAMETERS)]


@case("wide-labels", "ten pods with 30,000 labels each, relabelled", also=_EACH)
async def wide_labels(hands: Hands) -> None:
    """Label waiting pods."""
    await _edited(hands, [_pod(index, "metadata.labels{}", 30_000) for index in range(10)])


@case("wide-tolerations", "three pods with 80,000 tolerations each, relabelled", also=_EACH)
async def wide_tolerations(hands: Hands) -> None:
    """Tolerate everything, again and again."""
    await _edited(hands, [_pod(index, "spec.tolerations[]", 80_000) for index in range(3)])


@case("wide-terms", "three pods with 20,000 preferred affinity terms each, relabelled", also=_EACH)
async def wide_terms(hands: Hands) -> None:
    """Prefer more than is evaluated."""
    path = "spec.affinity.podAffinity.preferredDuringSchedulingIgnoredDuringExecution[]"
    made = [_pod(index, path, 20_000) for index in range(3)]
    await _edited(hands, made)


@case("wide-owners", "three pods with 10,000 owners each, relabelled", also=_EACH)
async def wide_owners(hands: Hands) -> None:
    """Name owners that are not there."""
    await _edited(hands, [_pod(index, "metadata.ownerReferences[]", 10_000) for index in range(3)])


@case("wide-selectors", "node affinity of 60,000 values in each of three pods, relabelled", also=_EACH)
async def wide_selectors(hands: Hands) -> None:
    """Select nodes that are not there."""
    terms = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[]"
    await _edited(hands, [_pod(index, f"{terms}.matchExpressions[].values[]", 1, 1, 60_000) for index in range(3)])


@case("giant-annotations", "20 pods with an annotation of 250,000 escaped characters, relabelled", also=_EACH)
async def giant_annotations(hands: Hands) -> None:
    """Write what the API server serves as six times as many bytes."""
    text = {"a": "<" * _ANNOTATION_BYTES}
    made = [pod(f"text-{index}", requests={"cpu": "900"}, annotations=text) for index in range(20)]
    await _edited(hands, made)


@case("giant-env", "three pods with an environment variable of a million escaped characters, relabelled", also=_EACH)
async def giant_env(hands: Hands) -> None:
    """Write what the API server serves as six times as many bytes."""
    made = [_pod(index, "spec.containers[].env[]", 1, 1) for index in range(3)]
    for each in made:
        each["spec"]["containers"][0]["env"] = [{"name": "a", "value": "<" * 1_000_000}]
    await _edited(hands, made)


@case("group-remade", "a PodGroup that is made again under its name, with pods that belong to it", also=_EACH)
async def group_remade(hands: Hands) -> None:
    """Delete and create it ten times a second."""
    group = base(Kind.POD_GROUPS, "remade")
    group["spec"]["schedulingPolicy"]["gang"]["minCount"] = 2
    members = [pod(f"member-{index}", schedulingGroup={"podGroupName": "remade"}) for index in range(2)]
    await hands.make(group, *members)

    async def step(number: int) -> None:
        await hands.remove(group)
        await hands.make(group)
        if number % 10 == 0:
            await hands.remove(members[number // 10 % 2])
            await hands.make(members[number // 10 % 2])

    await hands.repeat(10, step)


@case("deep-groups", "20 PodGroups of coscheduling with fields that are nested 2,400 deep, relabelled", also=_EACH)
async def deep_groups(hands: Hands) -> None:
    """Write fields that no schema forbids."""
    made = [base(Kind.COSCHEDULING_GROUPS, f"deep-{index}") for index in range(20)]
    for each in made:
        each["spec"]["more"] = [f"nested values: [{_LEVELS}"] * 100
    await _edited(hands, made)


@case("wide-budgets", "five disruption budgets with a selector of 60,000 values, relabelled", also=_EACH)
async def wide_budgets(hands: Hands) -> None:
    """Select pods that are not there."""
    path, counts = "spec.selector.matchExpressions[].values[]", (1, 60_000)
    await _edited(hands, [_giant(Kind.BUDGETS, index, path, counts) for index in range(5)])


@case("wide-volume-claims", "five volume claims with a selector of 60,000 values, relabelled", also=_EACH)
async def wide_volume_claims(hands: Hands) -> None:
    """Select volumes that are not there."""
    path, counts = "spec.selector.matchExpressions[].values[]", (1, 60_000)
    await _edited(hands, [_giant(Kind.VOLUME_CLAIMS, index, path, counts) for index in range(5)])


@case(
    "wide-slices",
    "20 slices with as many devices, attributes and values as allowed, relabelled",
    also=_EACH,
    rights="driver",
)
async def wide_slices(hands: Hands) -> None:
    """Publish devices that nobody asks for."""
    made = [_giant(Kind.SLICES, index, "spec.devices[].attributes{}", (128, 32)) for index in range(20)]
    for index, each in enumerate(made):
        each["spec"]["pool"]["name"] = f"mallory-{index}"
    await _edited(hands, made)


@case(
    "wide-nodes",
    "three nodes with 30,000 labels, and three with 15,000 taints, relabelled",
    also=_EACH,
    rights="driver",
)
async def wide_nodes(hands: Hands) -> None:
    """Register nodes that no pod goes to."""
    made = [_giant(Kind.NODES, index, "metadata.labels{}", (30_000,)) for index in range(3)]
    made += [_giant(Kind.NODES, index, "spec.taints[]", (15_000,)) for index in range(3, 6)]
    for each in made:
        each["spec"]["unschedulable"] = True
    await _edited(hands, made)


@case("wide-volumes", "three volumes with node affinity of 60,000 values, relabelled", also=_EACH, rights="driver")
async def wide_volumes(hands: Hands) -> None:
    """Offer volumes that no claim takes."""
    path = "spec.nodeAffinity.required.nodeSelectorTerms[].matchExpressions[].values[]"
    await _edited(hands, [_giant(Kind.VOLUMES, index, path, (1, 1, 60_000)) for index in range(3)])


def giants(index: int) -> Manifest:
    """Make one of the objects that tenants write, another one for each index; `make chaos` creates and edits them."""
    makers: tuple[Callable[[], Manifest], ...] = (
        lambda: with_many_terms(_pod(index, "spec.containers[]", 2_000)),
        lambda: with_many_terms(_pod(index, "spec.containers[].env[]", 1, 16_000)),
        lambda: pod(f"ports-{index}", containers=[container(0) | {"ports": [port(at) for at in range(10_000)]}]),
        lambda: _pod(index, "metadata.labels{}", 30_000),
        lambda: claim(f"configured-{index}", config=_opaque("\ud800" * _SURROGATES)),
        lambda: pod(f"text-{index}", requests={"cpu": "900"}, annotations={"a": "<" * _ANNOTATION_BYTES}),
        lambda: _giant(Kind.BUDGETS, index, "spec.selector.matchExpressions[].values[]", (1, 60_000)),
    )
    return makers[index % len(makers)]()

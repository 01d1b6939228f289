"""Small random clusters in which quotas bind: made of a seed, so that thousands cost little more than deciding them."""

from random import Random

from msgspec.structs import replace

from solver.domain import (
    AllocationMode,
    Claim,
    Device,
    DeviceQuota,
    LabelRequirement,
    LabelSelector,
    Namespace,
    Pod,
    QuotaResource,
    QuotaShape,
    Request,
    ResourceSlice,
)
from solver.domain.quantity import NANO
from tests.support import builders as b
from tests.support.strategies import Situation

TEAMS = ("red", "blue", "green")
CLASSES = (
    b.device_class("gpu", driver=b.GPU_DRIVER),
    b.device_class("model-a", "device.attributes['gpu.example.com'].?model.orValue('B') == 'A'"),
    b.device_class("any"),
)
_KEYS = (
    ("gpu", "", QuotaShape.DEVICES),
    ("model-a", "", QuotaShape.DEVICES),
    ("any", "memory", QuotaShape.DEVICES),
    ("gpu", "", QuotaShape.WHOLE_NODES),
)


def quota(name: str, *resources: QuotaResource, parent: str = "", team: str = "", created: str = "") -> DeviceQuota:
    """A quota; `team` is the value of the label of its namespaces."""
    requirement = LabelRequirement(key="team", operator="In", values=(team,))
    selector = LabelSelector(requirements=(requirement,)) if team else None
    return DeviceQuota(
        name=name, uid=f"uid-{name}", parent=parent, selector=selector, resources=resources, created=created
    )


def devices(
    limit: int | None = None, device_class: str = "gpu", *, guarantee: int = 0, weight: int = 1
) -> QuotaResource:
    """A resource that counts devices."""
    return QuotaResource(device_class=device_class, limit=limit, guarantee=guarantee, weight=weight)


def memory(limit: int | None = None, device_class: str = "gpu") -> QuotaResource:
    """A resource that counts a capacity, in whole units."""
    most = None if limit is None else limit * NANO
    return QuotaResource(device_class=device_class, capacity="memory", limit=most)


def whole_nodes(limit: int | None = None, device_class: str = "gpu") -> QuotaResource:
    """A resource that counts nodes."""
    return QuotaResource(device_class=device_class, shape=QuotaShape.WHOLE_NODES.value, limit=limit)


def namespaces(*teams: str) -> tuple[Namespace, ...]:
    """Namespaces that carry their names as the label of their team."""
    return tuple(Namespace(name=each, labels=(("team", each),)) for each in sorted(teams or TEAMS))


def generated(seed: int, *, guarantees: bool = False) -> Situation:
    """Make a cluster of up to three nodes, up to five pods, and a tree of quotas of up to three levels."""
    rng = Random(seed)  # noqa: S311 - reproducible, no secret
    nodes = [b.node(f"n{index}", cpu=8, pods=8) for index in range(rng.randint(1, 3))]
    slices = [each for node in nodes for each in _pool(rng, node.name)]
    published = [(each, device) for each in slices for device in each.devices]
    claims: list[Claim] = []
    pods: list[Pod] = []
    for index in range(rng.randint(2, 5)):
        team = rng.choice(TEAMS[: rng.randint(1, 3)])
        if claims and rng.random() < 0.15:
            shared = rng.choice(claims)
            pods.append(b.pod(f"p{index}", shared.id.name, namespace=shared.id.namespace))
            continue
        claims.append(b.claim(f"c{index}", _request(rng), namespace=team))
        pods.append(b.pod(f"p{index}", f"c{index}", namespace=team, priority=rng.choice((0, 0, 0, 1))))
    held = [
        b.held(f"held-{index}", _held(rng, index, device, each.pool), node_name=each.pool, namespace=rng.choice(TEAMS))
        for index, (each, device) in enumerate(rng.sample(published, min(len(published), rng.randint(0, 2))))
    ]
    snapshot = b.snapshot(nodes, slices, CLASSES, claims, held, namespaces())
    quotas = _tree(rng, guarantees=guarantees)
    return Situation(replace(snapshot, quotas=quotas), b.batch(*sorted(pods, key=lambda pod: -pod.priority)))


def _tree(rng: Random, *, guarantees: bool) -> tuple[DeviceQuota, ...]:
    found = [
        quota(each, *_resources(rng, guarantees), parent=rng.choice(("", "root", "middle")), team=each)
        for each in TEAMS
    ]
    found += [quota("middle", *_resources(rng, guarantees), parent="root"), quota("root", *_resources(rng, guarantees))]
    return tuple(sorted((each for each in found if rng.random() < 0.85), key=lambda each: each.name))


def _resources(rng: Random, guarantees: bool) -> tuple[QuotaResource, ...]:  # noqa: FBT001 - private
    found = []
    for name, capacity, shape in rng.sample(_KEYS, rng.choice((0, 1, 1, 2))):
        unit = NANO if capacity else 1
        limit = rng.randint(0, 6 if capacity else 3) * unit if not guarantees or rng.random() < 0.4 else None
        guarantee = rng.randint(0, 3) * unit if guarantees else 0
        found.append(
            QuotaResource(
                device_class=name,
                capacity=capacity,
                shape=shape.value,
                limit=limit,
                guarantee=guarantee if limit is None else min(guarantee, limit),
                weight=rng.randint(1, 3),
            )
        )
    return tuple(found)


def _pool(rng: Random, node: str) -> list[ResourceSlice]:
    kind = rng.choice(("plain", "plain", "shared", "partitions"))
    made: list[Device] = []
    for index in range(rng.randint(1, 3)):
        attributes: dict[str, b.Attribute] = {"model": rng.choice("AB")}
        if kind == "partitions":
            size = rng.randint(1, 2)
            made.append(
                b.device(
                    f"d{index}", attributes=attributes, capacities={"memory": size}, consumes={"card": {"slices": size}}
                )
            )
        else:
            made.append(
                b.device(
                    f"d{index}",
                    attributes=attributes,
                    capacities={"memory": b.capacity(4, default=1) if kind == "shared" else rng.randint(1, 3)},
                    is_shareable=kind == "shared",
                )
            )
    if kind != "partitions":
        return [b.resource_slice(node, *made)]
    budget = {"card": {"slices": rng.randint(2, 4)}}
    return [
        b.resource_slice(node, *made, slice_count=2),
        b.resource_slice(node, slice_count=2, counter_sets=budget, name=f"{node}-counters"),
    ]


def _request(rng: Random) -> Request:
    kind = rng.choice(("count", "count", "alternatives", "alternatives", "all", "memory"))
    if kind == "all":
        return b.request("r", rng.choice(("gpu", "model-a")), mode=AllocationMode.ALL)
    if kind == "memory":
        return b.request("r", "gpu", capacity={"memory": rng.randint(1, 2)})
    if kind == "count":
        return b.request("r", rng.choice(("gpu", "gpu", "model-a", "any")), count=rng.choice((1, 1, 2)))
    return b.first_available(
        "r",
        b.alternative("first", rng.choice(("model-a", "gpu")), count=rng.randint(1, 2)),
        b.alternative("second", "gpu", count=rng.randint(1, 2)),
    )


def _held(rng: Random, index: int, device: Device, pool: str):  # type: ignore[no-untyped-def] # noqa: ANN202
    is_share = device.allow_multiple_allocations
    return b.result(
        "r",
        device.name,
        pool,
        share_id=b.share_id(1000 + index) if is_share else "",
        consumed={"memory": rng.randint(1, 2)} if is_share else {},
    )

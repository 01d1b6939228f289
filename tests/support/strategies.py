"""
Hypothesis strategies for small random clusters with pods that want devices in them.

`situations()` draws a snapshot and a batch. Everything is small on purpose (at most three nodes, a few devices each,
four pods) so that `tests.support.bruteforce` can find the optimum; within that, every feature of
`resource.k8s.io/v1` appears and meets the others. `situations(features=...)` narrows it to some of them, for a property
about one feature or a pair.
"""

from collections.abc import Callable
from enum import StrEnum
from typing import Final, NamedTuple

from hypothesis import strategies as st
from msgspec.structs import replace

from solver.domain import (
    OPTIONAL_NODE_OPERATIONS,
    AllocationMode,
    Batch,
    Capacity,
    Claim,
    Constraint,
    CounterConsumption,
    DerivedAttribute,
    Device,
    DeviceId,
    DeviceResult,
    DeviceTaintRule,
    Node,
    NodeScope,
    Pod,
    PodClaim,
    Request,
    ResourceSlice,
    Snapshot,
    SubRequest,
    Taint,
)
from tests.support import builders as b

Draw = st.DrawFn


class Feature(StrEnum):
    """What a situation may contain beyond exclusive node-local devices and ExactCount requests."""

    SELECTORS = "selectors"
    FAILING_SELECTORS = "failing selectors"
    CONSTRAINTS = "constraints"
    LISTS = "list attributes"
    ALTERNATIVES = "firstAvailable"
    ALL = "allocationMode All"
    ADMIN = "adminAccess"
    TAINTS = "device taints"
    CAPACITY = "consumable capacity"
    COUNTERS = "shared counters"
    GROUPS = "compatibility groups"
    WIDE = "devices of several nodes"
    GENERATIONS = "generations, incomplete and invalid pools"
    USAGE = "devices in use"
    SHARED_CLAIMS = "claims of several pods"
    ALLOCATED_CLAIMS = "claims allocated already"
    BROKEN_CLAIMS = "claims that cannot be used"
    NODE_FIT = "node resources, taints and affinity"
    PRIORITIES = "priorities"
    BINDING = "binding conditions and bindsToNode"
    NODE_OPERATIONS = "skipNodeOperations"
    DERIVED = "derivedAttributes"


ALL_FEATURES: Final = frozenset(Feature)


class Situation(NamedTuple):
    """What `solve` is asked."""

    snapshot: Snapshot
    batch: Batch


DRIVERS: Final = ("gpu.example.com", "nic.example.com")
NUMA: Final = "resource.example.com/numa"
MODELS: Final = ("A", "B")
GROUPS: Final = ((), ("a",), ("b",), ("a", "b"), ("b", "c"), ("c", "a"))
AMOUNTS: Final[tuple[b.Amount, ...]] = (0, 1, 2, 3, 4, "250m", "600m", "1700m", "500u")
_SELDOM: Final[st.SearchStrategy[bool]] = st.sampled_from((False, False, False, False, False, True))
"""True in one of six."""
_CAPACITY: Final[st.SearchStrategy[Capacity]] = st.sampled_from(
    (
        b.capacity(4),
        b.capacity(4, default=1),
        b.capacity(6, default=2, minimum=2, step=2),
        b.capacity(6, default=1, minimum=1, maximum=3),
        b.capacity(6, default=1, valid_values=(1, 3)),
        b.capacity(3, default="500m", minimum="250m", maximum="2500m", step="250m"),
        b.capacity(4, default="1500m", minimum="500m", step="500m", counts_whole_units=True),
    )
)
_TAINTS: Final[st.SearchStrategy[tuple[Taint, ...]]] = st.sampled_from(
    ((), (), (), (b.taint("hot"),), (b.taint("hot", effect="NoExecute"),), (b.taint("note", effect="None"),))
)


@st.composite
def situations(draw: Draw, features: frozenset[Feature] = ALL_FEATURES, *, most_pods: int = 4) -> Situation:
    """Draw a cluster and a batch; each feature is left out of half of the situations, so that pairs stand out."""
    chosen = frozenset(each for each in sorted(features) if draw(st.booleans()))
    nodes = _nodes(draw, chosen)
    slices = _slices(draw, nodes, chosen)
    published = [
        (DeviceId(each.driver, each.pool, device.name), device, _home(each, device))
        for each in slices
        for device in each.devices
        if each.generation == 1
    ]
    claims = _claims(draw, chosen, most_pods)
    pods = _pods(draw, claims, chosen, most_pods)
    held = _held(draw, published, chosen) if Feature.USAGE in chosen else []
    if Feature.ALLOCATED_CLAIMS in chosen:
        claims = [_allocated(draw, each, published) for each in claims]
    running = _running(draw, nodes) if Feature.NODE_FIT in chosen else []
    rules = _rules(draw) if Feature.TAINTS in chosen else []
    classes = (
        b.device_class("gpu", driver=DRIVERS[0]),
        b.device_class("nic", driver=DRIVERS[1]),
        b.device_class("any"),
    )
    snapshot = b.snapshot(nodes, slices, classes, claims, held, running, rules, draws=_draws(draw, held, chosen))
    return Situation(snapshot, b.batch(*pods))


def _draws(draw: Draw, held: list[Claim], features: frozenset[Feature]) -> dict[DeviceId, dict[str, b.Amount]]:
    """What some of the devices in use drew of counters when they were allocated, whatever their slices say now."""
    if Feature.COUNTERS not in features:
        return {}
    devices = [result.device for each in held if each.allocation is not None for result in each.allocation.results]
    return {each: {"card/slices": draw(st.integers(1, 3))} for each in devices if draw(_SELDOM)}


def _home(each: ResourceSlice, device: Device) -> str:
    return (device.scope or NodeScope()).node_name if each.scope.per_device else each.scope.node_name


# Nodes


def _nodes(draw: Draw, features: frozenset[Feature]) -> list[Node]:
    names = [f"n{index}" for index in range(draw(st.integers(1, 3)))]
    nodes = [b.node(name, cpu=3, pods=3, labels={"rack": draw(st.sampled_from("ab"))}) for name in names]
    if Feature.NODE_OPERATIONS in features:
        declared = (OPTIONAL_NODE_OPERATIONS,)
        nodes = [replace(each, declared_features=declared) if draw(st.booleans()) else each for each in nodes]
    if Feature.NODE_FIT not in features:
        return nodes
    return [
        replace(
            each,
            is_unschedulable=draw(_SELDOM),
            taints=(b.taint("dedicated"),) if draw(_SELDOM) else (),
            declared_features=(*each.declared_features, *(("Declared",) if draw(st.booleans()) else ())),
            allocatable=tuple(sorted({"cpu": 1000 * draw(st.integers(1, 3)), "pods": draw(st.integers(1, 3))}.items())),
        )
        for each in nodes
    ]


def _running(draw: Draw, nodes: list[Node]) -> list[Pod]:
    return [
        b.pod(f"running-{node.name}", node_name=node.name, cpu=draw(st.integers(0, 2)))
        for node in nodes
        if draw(st.booleans())
    ]


# Devices


def _slices(draw: Draw, nodes: list[Node], features: frozenset[Feature]) -> list[ResourceSlice]:
    slices: list[ResourceSlice] = []
    for node in nodes:
        for driver in DRIVERS:
            if driver == DRIVERS[0] or draw(st.booleans()):
                slices += _pool(draw, node.name, driver, b.scope(node.name), features)
    if Feature.WIDE in features:
        slices += _wide(draw, nodes, features)
    return slices


def _wide(draw: Draw, nodes: list[Node], features: frozenset[Feature]) -> list[ResourceSlice]:
    driver = draw(st.sampled_from(DRIVERS))
    scopes = (
        b.scope(all_nodes=True),
        b.scope(selector=b.node_selector(rack="a")),
        b.scope(selector=b.on_node(nodes[0].name)),
        b.scope(),
    )
    if not draw(st.booleans()):
        return _pool(draw, "wide", driver, draw(st.sampled_from(scopes)), features)
    own = (*scopes, b.scope(nodes[-1].name))
    pool = _pool(draw, "wide", driver, b.scope(per_device=True), features)
    return [
        replace(each, devices=tuple(replace(one, scope=draw(st.sampled_from(own))) for one in each.devices))
        for each in pool
    ]


def _pool(draw: Draw, name: str, driver: str, scope: NodeScope, features: frozenset[Feature]) -> list[ResourceSlice]:
    devices = [_device(draw, f"d{index}", features) for index in range(draw(st.integers(0, 3)))]
    has_counters = Feature.COUNTERS in features and draw(st.booleans())
    parts, skipped = 1 + has_counters, Feature.NODE_OPERATIONS in features and draw(st.booleans())
    if has_counters:
        groups = st.sampled_from(GROUPS if Feature.GROUPS in features else ((),))
        devices = [replace(each, consumes_counters=draw(_consumption(draw(groups)))) for each in devices]
    slices = [b.resource_slice(name, *devices, driver=driver, at=scope, slice_count=parts)]
    slices = [replace(each, skip_node_operations=("*",) if skipped else ()) for each in slices]
    if has_counters:
        budget = {"card": {"slices": draw(st.integers(1, 4))}}
        slices.append(b.resource_slice(name, driver=driver, at=scope, slice_count=parts, counter_sets=budget))
    if Feature.GENERATIONS in features and draw(_SELDOM):
        slices = _disturbed(draw, slices, b.scope(name) if name != "wide" else scope)
    return slices


def _consumption(groups: tuple[str, ...]) -> st.SearchStrategy[tuple[CounterConsumption, ...]]:
    def made(amount: int) -> tuple[CounterConsumption, ...]:
        consumes = {"card": {"slices": amount}} if amount or groups else {}
        return b.device("", consumes=consumes, groups=groups).consumes_counters

    return st.integers(0, 3).map(made)


def _disturbed(draw: Draw, slices: list[ResourceSlice], scope: NodeScope) -> list[ResourceSlice]:
    """An older or newer generation beside it, a slice missing, a device twice, slices that disagree."""
    first = slices[0]
    extra = b.device("extra", attributes={"model": "A"})
    other = b.resource_slice(first.pool, extra, driver=first.driver, name=f"{first.name}-x", at=scope)
    kind = draw(st.sampled_from(("older", "newer", "newer and incomplete", "missing", "twice", "disagreeing")))
    match kind:
        case "older":
            return [*slices, replace(other, generation=0)]
        case "newer":
            return [*slices, replace(other, generation=2)]
        case "newer and incomplete":
            return [*slices, replace(other, generation=2, slice_count=2)]
        case "missing":
            return [replace(each, slice_count=each.slice_count + 1) for each in slices]
        case "twice":
            again = replace(other, devices=first.devices[:1], slice_count=first.slice_count + 1)
            return [*(replace(each, slice_count=again.slice_count) for each in slices), again]
        case _:
            return [*slices, replace(other, slice_count=first.slice_count + 1)]


def _device(draw: Draw, name: str, features: frozenset[Feature]) -> Device:
    attributes: dict[str, b.Attribute] = {"model": draw(st.sampled_from(MODELS))}
    if draw(st.integers(0, 3)):
        attributes[NUMA] = draw(_numa(features))
    is_shareable = Feature.CAPACITY in features and draw(st.booleans())
    capacities: dict[str, b.Amount | Capacity] = {}
    if Feature.CAPACITY in features:
        capacities["memory"] = draw(_CAPACITY) if is_shareable else draw(st.integers(1, 4))
        if is_shareable and draw(_SELDOM):
            capacities = {}
    has_conditions = Feature.BINDING in features and draw(_SELDOM)
    return b.device(
        name,
        attributes=attributes,
        capacities=capacities,
        is_shareable=is_shareable,
        taints=draw(_TAINTS) if Feature.TAINTS in features else (),
        binds_to_node=Feature.BINDING in features and draw(_SELDOM),
        binding_conditions=("Ready",) if has_conditions else (),
        binding_failure_conditions=("Failed",) if has_conditions else (),
    )


def _numa(features: frozenset[Feature]) -> st.SearchStrategy[b.Attribute]:
    scalars: st.SearchStrategy[b.Attribute] = st.integers(0, 1)
    if Feature.LISTS not in features:
        return scalars
    lists: st.SearchStrategy[b.Attribute] = st.sampled_from(((), (0,), (0, 1), (1, 2)))
    return scalars | lists | st.just("0")


def _rules(draw: Draw) -> list[DeviceTaintRule]:
    rules = (
        b.taint_rule("hot", b.taint("hot"), driver=DRIVERS[0], device_name="d0"),
        b.taint_rule("pool", b.taint("cold"), pool="n0"),
        b.taint_rule("nothing", b.taint("all"), selects_nothing=True),
    )
    return draw(st.lists(st.sampled_from(rules), max_size=1))


# Claims


def _claims(draw: Draw, features: frozenset[Feature], most: int) -> list[Claim]:
    return [_claim(draw, f"c{index}", features) for index in range(draw(st.integers(1, most)))]


def _claim(draw: Draw, name: str, features: frozenset[Feature]) -> Claim:
    requests = [_request(draw, f"r{index}", features) for index in range(draw(st.sampled_from((1, 1, 1, 2))))]
    made = b.claim(name, *requests)
    if Feature.CONSTRAINTS in features:
        made = replace(made, constraints=_constraints(draw, requests))
    if Feature.DERIVED in features and made.constraints:
        derived = [_deriving(draw, each, made.constraints[0].attribute) for each in made.requests]
        made = replace(made, requests=tuple(derived))
    if draw(_SELDOM):
        made = replace(made, config=(b.config("r0"), b.config()))
    if Feature.BROKEN_CLAIMS in features and draw(_SELDOM):
        broken = (replace(made, is_deleting=True), replace(made, invalid="broken"), replace(made, requests=()))
        made = draw(st.sampled_from(broken))
    return made


def _deriving(draw: Draw, request: Request, attribute: str) -> Request:
    """Derive an attribute for some alternatives of a request, by expressions that fail on no device."""
    expressions = (
        "device.driver",
        "'A'",
        "device.attributes['resource.example.com'].?numa.orValue(0) == 0",
        f"device.attributes['{DRIVERS[0]}'].?model.orValue('B')",
        "[0, 1]",
    )
    alternatives = [
        replace(each, derived_attributes=(DerivedAttribute(name=attribute, expression=expression),))
        if (expression := draw(st.none() | st.sampled_from(expressions))) is not None
        else each
        for each in request.alternatives
    ]
    return replace(request, alternatives=tuple(alternatives))


def _request(draw: Draw, name: str, features: frozenset[Feature]) -> Request:
    if Feature.ALTERNATIVES in features and draw(st.booleans()):
        count = draw(st.integers(1, 2))
        return b.first_available(name, *(_wanted(draw, f"s{index}", features) for index in range(count)))
    return Request(name=name, alternatives=(_wanted(draw, "", features),))


def _wanted(draw: Draw, name: str, features: frozenset[Feature]) -> SubRequest:
    takes_all = Feature.ALL in features and draw(_SELDOM)
    return b.alternative(
        name,
        draw(st.sampled_from(("gpu", "gpu", "nic", "any"))),
        count=1 if takes_all else draw(st.sampled_from((1, 1, 2))),
        mode=AllocationMode.ALL if takes_all else AllocationMode.EXACT_COUNT,
        selectors=_selectors(draw, features),
        is_admin=not name and Feature.ADMIN in features and draw(_SELDOM),
        tolerations=(b.toleration("hot"),) if Feature.TAINTS in features and draw(st.booleans()) else (),
        capacity={"memory": draw(st.sampled_from(AMOUNTS))}
        if Feature.CAPACITY in features and draw(st.booleans())
        else {},
    )


def _selectors(draw: Draw, features: frozenset[Feature]) -> tuple[str, ...]:
    palette: list[str] = []
    if Feature.SELECTORS in features:
        palette += [
            f"device.attributes['{DRIVERS[0]}'].model == 'A'",
            f"device.driver == '{DRIVERS[0]}' && device.attributes['{DRIVERS[0]}'].model == 'B'",
            "true",
        ]
    if Feature.FAILING_SELECTORS in features:
        palette += ["device.attributes['resource.example.com'].numa == 0", "device.attributes['x.example.com'].y"]
    return tuple(draw(st.lists(st.sampled_from(palette), max_size=1))) if palette else ()


def _constraints(draw: Draw, requests: list[Request]) -> tuple[Constraint, ...]:
    names = [str(each.result_name(i)) for each in requests for i in range(len(each.alternatives))]
    names += [each.name for each in requests]
    covered = st.lists(st.sampled_from(sorted(set(names))), max_size=2, unique=True)
    makers: tuple[Callable[..., Constraint], ...] = (b.match, b.distinct)
    attribute = st.sampled_from((NUMA, NUMA, f"{DRIVERS[0]}/model"))
    return tuple(
        draw(st.sampled_from(makers))(draw(attribute), *draw(covered))
        for _ in range(draw(st.sampled_from((0, 1, 1, 2))))
    )


_Published = tuple[DeviceId, Device, str]


def _held(draw: Draw, published: list[_Published], features: frozenset[Feature]) -> list[Claim]:
    """Claims of others: exclusive or a share as the device says, now and then the other way round, or by admins."""
    chosen = draw(st.lists(st.sampled_from(published), max_size=3, unique_by=lambda each: each[0])) if published else []
    held = [
        b.held(f"held-{index}", _result(draw, index, each, flips=Feature.CAPACITY in features), node_name=each[2])
        for index, each in enumerate(chosen)
    ]
    if draw(_SELDOM) and chosen:
        device_id, _, home = chosen[0]
        gone = b.result("r0", "gone", device_id.pool, driver=device_id.driver)
        held.append(b.held("held-gone", gone, node_name=home))
    return held


def _result(draw: Draw, index: int, published: _Published, *, flips: bool) -> DeviceResult:
    device_id, device, _ = published
    is_share = device.allow_multiple_allocations != (flips and draw(_SELDOM))
    consumed: dict[str, b.Amount] = {}
    if is_share:
        consumed = {name: draw(st.integers(0, 4)) for name, _ in device.capacities}
    return b.result(
        "r0",
        device_id.device,
        device_id.pool,
        driver=device_id.driver,
        is_admin=draw(_SELDOM),
        share_id=b.share_id(1000 + index) if is_share else "",
        consumed=consumed,
    )


def _allocated(draw: Draw, made: Claim, published: list[_Published]) -> Claim:
    """Now and then a claim that has its device already (by admin access, so that no device is double-booked)."""
    if not published or not draw(_SELDOM):
        return made
    device_id, _, home = draw(st.sampled_from(published))
    given = b.result("r0", device_id.device, device_id.pool, driver=device_id.driver, is_admin=True)
    consumers = tuple(b.consumer(f"old-{index}") for index in range(draw(st.sampled_from((0, 1, 250, 256)))))
    return replace(made, allocation=b.allocation(given, node_name=home), reserved_for=consumers)


# Pods


def _pods(draw: Draw, claims: list[Claim], features: frozenset[Feature], most: int) -> list[Pod]:
    names = [each.id.name for each in claims]
    pods = [_pod(draw, f"p{index}", name, features) for index, name in enumerate(names)]
    if Feature.SHARED_CLAIMS in features:
        shareable = [each.id.name for each in claims if not _takes_all(each)]
        if draw(st.booleans()) and shareable and len(pods) < most:
            pods.append(_pod(draw, "again", draw(st.sampled_from(shareable)), features))
        if draw(st.booleans()) and shareable:
            entry = PodClaim(entry="second", claim=b.claim(draw(st.sampled_from(shareable))).id)
            pods[0] = replace(pods[0], claims=(*pods[0].claims, entry))
    return sorted(pods, key=lambda each: -each.priority)


def _takes_all(claim: Claim) -> bool:
    return any(
        each.allocation_mode == AllocationMode.ALL for request in claim.requests for each in request.alternatives
    )


def _pod(draw: Draw, name: str, claim: str, features: frozenset[Feature]) -> Pod:
    made = b.pod(name, claim, cpu=1)
    if Feature.BROKEN_CLAIMS in features and draw(_SELDOM):
        entries = (b.waiting_entry(), b.entry("absent"), b.skipped_entry(), b.entry(claim, template="t"))
        made = replace(made, claims=(*made.claims, draw(st.sampled_from(entries))))
    if Feature.PRIORITIES in features:
        made = replace(made, priority=draw(st.sampled_from((0, 0, 10, -5))))
    if Feature.NODE_FIT in features:
        made = replace(
            made,
            requests=(("cpu", 500 * draw(st.integers(1, 4))),),
            tolerations=(b.toleration("dedicated"),) if draw(st.booleans()) else (),
            node_selector=(("rack", draw(st.sampled_from("ab"))),) if draw(_SELDOM) else (),
            required_affinity=b.node_selector(b.expressions(b.requirement("rack", "NotIn", "a")))
            if draw(_SELDOM)
            else None,
            required_features=("Declared",) if draw(_SELDOM) else (),
        )
    return made

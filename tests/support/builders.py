"""
Short builders with defaults for every object of the domain.

Each reads as the manifest it stands for and takes plain Python: quantities as text, attributes as Python values
(`version("1.2.3")` for versions, a tuple for a list attribute), claims of a pod by name. `snapshot(...)` takes any
objects in any order and sorts them into place.

    snapshot(node("n1"), gpu_slice("n1", count=8), gpu_class(), claim("c", request("gpus", count=2)))
    batch(pod("p", "c", cpu=2))
"""

from collections.abc import Iterable, Mapping, Sequence

from msgspec.structs import replace

from solver.domain import (
    Allocation,
    AllocationMode,
    AttributeKind,
    AttributeValue,
    Batch,
    Capacity,
    Claim,
    ClaimAllocation,
    ClaimId,
    Constraint,
    ConstraintKind,
    ConsumerReference,
    CounterConsumption,
    CounterId,
    CounterSet,
    Device,
    DeviceClass,
    DeviceId,
    DeviceResult,
    DeviceStatus,
    DeviceTaintRule,
    Gang,
    GangId,
    GangLevel,
    Namespace,
    Node,
    NodeScope,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    OpaqueConfig,
    Placement,
    Plan,
    Pod,
    PodClaim,
    PodId,
    Quantity,
    Reason,
    ReasonCode,
    Request,
    RequestPolicy,
    ResourceSlice,
    SearchReport,
    SearchStatus,
    Snapshot,
    SubRequest,
    Taint,
    Toleration,
    Unplaced,
    ValidRange,
)
from solver.domain.quantity import milli_rounded_up, parse, units_rounded_up

GPU_DRIVER = "gpu.example.com"
GPU_CLASS = "gpu"
NAMESPACE = "default"
TIMESTAMP = "2026-01-01T00:00:00Z"

Scalar = int | bool | str
Attribute = Scalar | tuple[Scalar, ...] | AttributeValue
Amount = int | str


# Values


def quantity(amount: Amount) -> Quantity:
    """`16Gi` or a number."""
    return parse(str(amount))


def quantities(amounts: Mapping[str, Amount] | None) -> tuple[tuple[str, Quantity], ...]:
    return tuple(sorted((name, quantity(amount)) for name, amount in (amounts or {}).items()))


def whole(resource: str, amount: Amount) -> int:
    """As nodes and pods count: cpu in millicores, everything else in whole units."""
    return milli_rounded_up(quantity(amount)) if resource == "cpu" else units_rounded_up(quantity(amount))


def version(*texts: str) -> AttributeValue:
    """One version, or a list of them."""
    if len(texts) == 1:
        return AttributeValue(kind=AttributeKind.VERSION, value=texts[0])
    return AttributeValue(kind=AttributeKind.VERSIONS, value=texts)


def attribute(value: Attribute) -> AttributeValue:
    if isinstance(value, AttributeValue):
        return value
    scalar = (value[0] if value else "") if isinstance(value, tuple) else value
    kinds = {bool: "bool", int: "int", str: "string"}
    kind = kinds[type(scalar)] + ("s" if isinstance(value, tuple) else "")
    return AttributeValue(kind=AttributeKind(kind), value=value)


def taint(key: str, value: str = "", effect: str = "NoSchedule") -> Taint:
    return Taint(key=key, value=value, effect=effect)


def toleration(key: str = "", operator: str = "Exists", value: str = "", effect: str = "") -> Toleration:
    return Toleration(key=key, operator=operator, value=value, effect=effect)


def requirement(key: str, operator: str, *values: str) -> NodeSelectorRequirement:
    return NodeSelectorRequirement(key=key, operator=operator, values=values)


def expressions(*requirements: NodeSelectorRequirement) -> NodeSelectorTerm:
    """One term of matchExpressions."""
    return NodeSelectorTerm(match_expressions=requirements)


def node_selector(*terms: NodeSelectorTerm, **labels: str) -> NodeSelector:
    """Terms as given, or one term that demands these labels."""
    if labels:
        terms = (*terms, expressions(*(requirement(key, "In", value) for key, value in labels.items())))
    return NodeSelector(terms=terms)


def on_node(name: str) -> NodeSelector:
    """The node selector of an allocation with a device that is local to a node."""
    return NodeSelector(terms=(NodeSelectorTerm(match_fields=(requirement("metadata.name", "In", name),)),))


# Nodes


def node(
    name: str,
    *,
    cpu: Amount = 64,
    memory: Amount = "256Gi",
    pods: int = 110,
    labels: Mapping[str, str] | None = None,
    taints: Sequence[Taint] = (),
    is_unschedulable: bool = False,
    extended: Mapping[str, Amount] | None = None,
) -> Node:
    allocatable = {"cpu": cpu, "memory": memory, "pods": pods, **(extended or {})}
    return Node(
        name=name,
        uid=f"uid-{name}",
        labels=tuple(sorted({"kubernetes.io/hostname": name, **(labels or {})}.items())),
        taints=tuple(taints),
        is_unschedulable=is_unschedulable,
        allocatable=tuple(sorted((resource, whole(resource, amount)) for resource, amount in allocatable.items())),
    )


# Devices and slices


def capacity(
    value: Amount,
    *,
    default: Amount | None = None,
    valid_values: Sequence[Amount] = (),
    minimum: Amount | None = None,
    maximum: Amount | None = None,
    step: Amount | None = None,
    counts_whole_units: bool = False,
) -> Capacity:
    valid_range = None
    if minimum is not None:
        valid_range = ValidRange(
            min=quantity(minimum),
            max=None if maximum is None else quantity(maximum),
            step=None if step is None else quantity(step),
            counts_whole_units=counts_whole_units,
        )
    policy = None
    if default is not None or valid_values or valid_range is not None:
        policy = RequestPolicy(
            default=None if default is None else quantity(default),
            valid_values=tuple(quantity(each) for each in valid_values),
            valid_range=valid_range,
        )
    return Capacity(value=quantity(value), request_policy=policy)


def device(
    name: str,
    *,
    attributes: Mapping[str, Attribute] | None = None,
    capacities: Mapping[str, Amount | Capacity] | None = None,
    consumes: Mapping[str, Mapping[str, Amount]] | None = None,
    groups: Sequence[str] = (),
    scope: NodeScope | None = None,
    taints: Sequence[Taint] = (),
    is_shareable: bool = False,
    binds_to_node: bool = False,
    binding_conditions: Sequence[str] = (),
    binding_failure_conditions: Sequence[str] = (),
) -> Device:
    """`consumes` is {counter set: {counter: amount}}, `groups` are the compatibility groups of each of them."""
    return Device(
        name=name,
        attributes=tuple(sorted((key, attribute(value)) for key, value in (attributes or {}).items())),
        capacities=tuple(
            sorted(
                ((key, value if isinstance(value, Capacity) else capacity(value)) for key, value in capacities.items()),
                key=lambda pair: pair[0],
            )
            if capacities
            else ()
        ),
        consumes_counters=tuple(
            CounterConsumption(
                counter_set=counter_set, counters=quantities(counters), compatibility_groups=tuple(groups)
            )
            for counter_set, counters in (consumes or {}).items()
        ),
        scope=scope,
        taints=tuple(taints),
        binds_to_node=binds_to_node,
        binding_conditions=tuple(binding_conditions),
        binding_failure_conditions=tuple(binding_failure_conditions),
        allow_multiple_allocations=is_shareable,
    )


def scope(
    node_name: str = "", *, selector: NodeSelector | None = None, all_nodes: bool = False, per_device: bool = False
) -> NodeScope:
    return NodeScope(node_name=node_name, node_selector=selector, all_nodes=all_nodes, per_device=per_device)


def resource_slice(
    pool: str,
    *devices: Device,
    driver: str = GPU_DRIVER,
    name: str = "",
    at: NodeScope | None = None,
    generation: int = 1,
    slice_count: int = 1,
    counter_sets: Mapping[str, Mapping[str, Amount]] | None = None,
) -> ResourceSlice:
    """One slice; without `at` it is local to the node of the pool's name. `counter_sets`: {set: {counter: value}}."""
    return ResourceSlice(
        name=name or f"{pool}-{driver}-{generation}{'-counters' if counter_sets else ''}",
        driver=driver,
        pool=pool,
        generation=generation,
        slice_count=slice_count,
        scope=at or scope(pool),
        devices=devices,
        counter_sets=tuple(
            CounterSet(name=each, counters=quantities(counters)) for each, counters in (counter_sets or {}).items()
        ),
    )


def gpu_slice(
    node_name: str, *, count: int = 8, model: str = "H100", memory: Amount = "81559Mi", taints: Sequence[Taint] = ()
) -> ResourceSlice:
    """Whole cards `gpu-0`, `gpu-1`, … local to a node, four to a PCIe root, named as drivers publish them."""
    return resource_slice(
        node_name,
        *(
            device(
                f"gpu-{index}",
                attributes={
                    "model": model,
                    "index": index,
                    "resource.kubernetes.io/pcieRoot": f"{node_name}-pci{index // 4}",
                },
                capacities={"memory": memory},
                taints=taints,
            )
            for index in range(count)
        ),
    )


def device_class(
    name: str,
    *selectors: str,
    driver: str = "",
    config: Sequence[OpaqueConfig] = (),
    extended_resource_name: str = "",
) -> DeviceClass:
    """A class of all devices of `driver`, or of what `selectors` say."""
    by_driver = (f"device.driver == '{driver}'",) if driver else ()
    return DeviceClass(
        name=name,
        selectors=(*by_driver, *selectors),
        config=tuple(config),
        extended_resource_name=extended_resource_name,
    )


def gpu_class() -> DeviceClass:
    """The class that `request(...)` asks for by default: the devices of `gpu_slice`."""
    return device_class(GPU_CLASS, driver=GPU_DRIVER)


def taint_rule(
    name: str,
    tainted_with: Taint,
    *,
    driver: str | None = None,
    pool: str | None = None,
    device_name: str | None = None,
    selects_nothing: bool = False,
) -> DeviceTaintRule:
    return DeviceTaintRule(
        name=name,
        taint=tainted_with,
        driver=driver,
        pool=pool,
        device=device_name,
        selects_nothing=selects_nothing,
    )


# Claims


def alternative(
    name: str = "",
    device_class: str = GPU_CLASS,
    *,
    count: int = 1,
    selectors: Sequence[str] = (),
    mode: str = AllocationMode.EXACT_COUNT,
    is_admin: bool = False,
    tolerations: Sequence[Toleration] = (),
    capacity: Mapping[str, Amount] | None = None,
) -> SubRequest:
    """One entry of firstAvailable."""
    return SubRequest(
        name=name,
        device_class=device_class,
        selectors=tuple(selectors),
        allocation_mode=mode,
        count=count,
        admin_access=is_admin,
        tolerations=tuple(tolerations),
        capacity_requests=quantities(capacity),
    )


def request(
    name: str = "gpu",
    device_class: str = GPU_CLASS,
    *,
    count: int = 1,
    selectors: Sequence[str] = (),
    mode: str = AllocationMode.EXACT_COUNT,
    is_admin: bool = False,
    tolerations: Sequence[Toleration] = (),
    capacity: Mapping[str, Amount] | None = None,
) -> Request:
    """A request with `exactly`."""
    exactly = alternative(
        "",
        device_class,
        count=count,
        selectors=selectors,
        mode=mode,
        is_admin=is_admin,
        tolerations=tolerations,
        capacity=capacity,
    )
    return Request(name=name, alternatives=(exactly,))


def first_available(name: str, *alternatives: SubRequest) -> Request:
    return Request(name=name, alternatives=alternatives)


def match(attribute_name: str, *requests: str) -> Constraint:
    return Constraint(kind=ConstraintKind.MATCH, attribute=attribute_name, requests=requests)


def distinct(attribute_name: str, *requests: str) -> Constraint:
    return Constraint(kind=ConstraintKind.DISTINCT, attribute=attribute_name, requests=requests)


def config(*requests: str, driver: str = GPU_DRIVER, parameters: str = "{}", source: str = "") -> OpaqueConfig:
    return OpaqueConfig(driver=driver, parameters=parameters, requests=requests, source=source)


def claim(
    name: str,
    *requests: Request,
    namespace: str = NAMESPACE,
    constraints: Sequence[Constraint] = (),
    config: Sequence[OpaqueConfig] = (),
    allocation: Allocation | None = None,
    reserved_for: Sequence[ConsumerReference] = (),
    device_status: Sequence[DeviceStatus] = (),
    finalizers: Sequence[str] = (),
    owner_pod_uid: str = "",
    is_deleting: bool = False,
    invalid: str = "",
) -> Claim:
    """A claim; without requests it asks for one GPU, as `request()` does."""
    return Claim(
        id=ClaimId(namespace, name),
        uid=f"uid-{namespace}-{name}",
        resource_version="1",
        requests=requests or (request(),),
        constraints=tuple(constraints),
        config=tuple(config),
        allocation=allocation,
        reserved_for=tuple(reserved_for),
        device_status=tuple(device_status),
        finalizers=tuple(finalizers),
        owner_pod_uid=owner_pod_uid,
        is_deleting=is_deleting,
        invalid=invalid,
    )


def device_id(device_name: str, pool: str, driver: str = GPU_DRIVER) -> DeviceId:
    return DeviceId(driver, pool, device_name)


def result(
    request_name: str,
    device_name: str,
    pool: str,
    *,
    driver: str = GPU_DRIVER,
    is_admin: bool = False,
    tolerations: Sequence[Toleration] = (),
    binding_conditions: Sequence[str] = (),
    binding_failure_conditions: Sequence[str] = (),
    share_id: str = "",
    consumed: Mapping[str, Amount] | None = None,
) -> DeviceResult:
    return DeviceResult(
        request=request_name,
        device=DeviceId(driver, pool, device_name),
        admin_access=is_admin,
        tolerations=tuple(tolerations),
        binding_conditions=tuple(binding_conditions),
        binding_failure_conditions=tuple(binding_failure_conditions),
        share_id=share_id,
        consumed_capacity=quantities(consumed),
    )


def allocation(
    *results: DeviceResult,
    node_name: str = "",
    selector: NodeSelector | None = None,
    config: Sequence[OpaqueConfig] = (),
    timestamp: str = "",
) -> Allocation:
    """An allocation that is bound to a node, to a selector's nodes, or (neither) to none."""
    return Allocation(
        results=results,
        config=tuple(config),
        node_selector=on_node(node_name) if node_name else selector,
        allocation_timestamp=timestamp,
    )


def held(name: str, *results: DeviceResult, node_name: str = "", namespace: str = NAMESPACE) -> Claim:
    """Usage: a claim that holds these devices, reserved for a pod of the same name."""
    return claim(
        name,
        *(request(each.request) for each in results),
        namespace=namespace,
        allocation=allocation(*results, node_name=node_name, timestamp=TIMESTAMP),
        reserved_for=(consumer(name),),
    )


def share_id(number: int) -> str:
    """A share's id as the API server accepts it."""
    return f"00000000-0000-4000-8000-{number:012x}"


def consumer(pod_name: str, namespace: str = NAMESPACE) -> ConsumerReference:
    """The reference to `pod(pod_name)`."""
    return ConsumerReference(resource="pods", name=pod_name, uid=f"uid-{namespace}-{pod_name}")


# Pods


def pod(
    name: str,
    *claims: str | PodClaim,
    namespace: str = NAMESPACE,
    uid: str = "",
    node_name: str = "",
    cpu: Amount = 0,
    memory: Amount = 0,
    extended: Mapping[str, Amount] | None = None,
    priority: int = 0,
    labels: Mapping[str, str] | None = None,
    node_selector: Mapping[str, str] | None = None,
    affinity: NodeSelector | None = None,
    tolerations: Sequence[Toleration] = (),
    scheduling_gates: Sequence[str] = (),
    creation: str = TIMESTAMP,
    is_deleting: bool = False,
    invalid: str = "",
) -> Pod:
    """A pod; its claims are named, or `PodClaim` entries. Resources that are zero are left out, as in a manifest."""
    requests = {"cpu": cpu, "memory": memory, **(extended or {})}
    wholes = sorted((resource, whole(resource, amount)) for resource, amount in requests.items())
    return Pod(
        id=PodId(namespace, name),
        uid=uid or f"uid-{namespace}-{name}",
        scheduler_name="dovetail",
        node_name=node_name,
        labels=tuple(sorted((labels or {}).items())),
        priority=priority,
        creation=creation,
        requests=tuple((resource, amount) for resource, amount in wholes if amount),
        node_selector=tuple(sorted((node_selector or {}).items())),
        required_affinity=affinity,
        tolerations=tuple(tolerations),
        claims=tuple(
            PodClaim(entry=f"entry-{index}", claim=ClaimId(namespace, each)) if isinstance(each, str) else each
            for index, each in enumerate(claims)
        ),
        scheduling_gates=tuple(scheduling_gates),
        is_deleting=is_deleting,
        invalid=invalid,
    )


def gang_id(name: str, namespace: str = NAMESPACE, source: str = "dovetail.dev") -> GangId:
    return GangId(namespace, name, source)


def gang(
    name: str,
    minimum: int,
    *levels: GangLevel,
    claims: Sequence[str] = (),
    members: int = 0,
    invalid: str = "",
    is_absent: bool = False,
    namespace: str = NAMESPACE,
) -> Gang:
    """A gang of our label; pods join with `member(pod, name)`."""
    return Gang(
        id=gang_id(name, namespace),
        uid=f"uid-{namespace}-{name}",
        min_count=minimum,
        member_count=members,
        levels=levels,
        claims=tuple((each, ClaimId(namespace, each), "") for each in claims),
        invalid=invalid,
        is_absent=is_absent,
    )


def member(pod: Pod, gang_name: str) -> Pod:
    """The pod as a member of a gang."""
    return replace(pod, gang=gang_id(gang_name, pod.id.namespace))


def by_label(key: str, *, is_required: bool = True) -> GangLevel:
    return GangLevel(node_label=key, is_required=is_required)


def by_device(attribute_name: str, *, is_required: bool = True) -> GangLevel:
    return GangLevel(device_attribute=attribute_name, is_required=is_required)


def entry(claim_name: str, *, namespace: str = NAMESPACE, template: str = "", name: str = "") -> PodClaim:
    """An entry that is resolved to a claim; with `template` the claim has to belong to the pod."""
    return PodClaim(entry=name or claim_name, claim=ClaimId(namespace, claim_name), template=template)


def waiting_entry(template: str = "template") -> PodClaim:
    """An entry whose claim the claim controller has not made yet."""
    return PodClaim(entry="waiting", template=template)


def skipped_entry() -> PodClaim:
    """An entry that the claim controller decided to need no claim."""
    return PodClaim(entry="skipped", template="template", is_skipped=True)


# What goes in and what comes out


SnapshotObject = Node | Namespace | ResourceSlice | DeviceClass | DeviceTaintRule | Claim | Pod


def snapshot(
    *objects: SnapshotObject | Iterable[SnapshotObject], draws: Mapping[DeviceId, Mapping[str, Amount]] | None = None
) -> Snapshot:
    """Sort objects (or iterables of them) into a snapshot, in any order; `draws`: {device: {"set/counter": amount}}."""
    flat: list[SnapshotObject] = []
    for each in objects:
        if isinstance(each, SnapshotObject):
            flat.append(each)
        else:
            flat.extend(each)
    return Snapshot(
        nodes=tuple(sorted((o for o in flat if isinstance(o, Node)), key=lambda o: o.name)),
        slices=tuple(sorted((o for o in flat if isinstance(o, ResourceSlice)), key=lambda o: o.name)),
        classes=tuple(sorted((o for o in flat if isinstance(o, DeviceClass)), key=lambda o: o.name)),
        taint_rules=tuple(sorted((o for o in flat if isinstance(o, DeviceTaintRule)), key=lambda o: o.name)),
        claims=tuple(sorted((o for o in flat if isinstance(o, Claim)), key=lambda o: o.id)),
        pods=tuple(sorted((o for o in flat if isinstance(o, Pod)), key=lambda o: o.id)),
        namespaces=tuple(sorted((o for o in flat if isinstance(o, Namespace)), key=lambda o: o.name)),
        draws=tuple(
            (device, tuple((_counter(device, name), quantity(amount).nano) for name, amount in drawn.items()))
            for device, drawn in sorted((draws or {}).items())
        ),
    )


def _counter(device: DeviceId, name: str) -> CounterId:
    counter_set, _, counter = name.partition("/")
    return CounterId(device.driver, device.pool, counter_set, counter)


def batch(*pods: Pod, gangs: Sequence[Gang] = ()) -> Batch:
    return Batch(pods=pods, gangs=tuple(gangs))


def placement(placed: Pod, node_name: str) -> Placement:
    """The pod on the node, with all its claims, which have the uids of `claim`."""
    uids = tuple(f"uid-{each.namespace}-{each.name}" for each in placed.claim_ids)
    return Placement(pod=placed.id, pod_uid=placed.uid, node=node_name, claims=placed.claim_ids, claim_uids=uids)


def claim_allocation(allocated: Claim, *results: DeviceResult, node_name: str = "") -> ClaimAllocation:
    return ClaimAllocation(
        claim=allocated.id, claim_uid=allocated.uid, allocation=allocation(*results, node_name=node_name)
    )


def unplaced(waiting: Pod, code: ReasonCode = ReasonCode.DEVICES_NONE, message: str = "because") -> Unplaced:
    return Unplaced(pod=waiting.id, pod_uid=waiting.uid, reasons=(Reason(code=code, message=message),))


def plan(*parts: Placement | ClaimAllocation | Unplaced, status: SearchStatus = SearchStatus.OPTIMAL) -> Plan:
    return Plan(
        placements=tuple(each for each in parts if isinstance(each, Placement)),
        allocations=tuple(each for each in parts if isinstance(each, ClaimAllocation)),
        unplaced=tuple(each for each in parts if isinstance(each, Unplaced)),
        report=SearchReport(status=status),
    )

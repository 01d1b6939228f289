"""Valid plans for the checker's tests, and ways to break them: a `Case` goes in, a changed `Case` comes out."""

from collections.abc import Callable
from functools import reduce
from typing import Any, NamedTuple

from msgspec.structs import replace

from solver.domain import (
    OPTIONAL_NODE_OPERATIONS,
    AllocationMode,
    Batch,
    Claim,
    ClaimId,
    ContainerExtendedResourceRequest,
    DeviceId,
    DeviceQuota,
    DeviceResult,
    ExtendedResourceClaim,
    Gang,
    HeldPlace,
    LabelSelector,
    Namespace,
    NodeReservation,
    NodeSelector,
    OwnedDevices,
    Plan,
    Pod,
    PodId,
    Policy,
    QuotaResource,
    Snapshot,
)
from tests.support import builders as b
from tests.support import extended_builders as x
from tests.support import hold_builders as h


class Case(NamedTuple):
    snapshot: Snapshot
    batch: Batch
    plan: Plan
    policy: Policy = Policy()


Change = Callable[[Case], Case]

ROOT = "resource.kubernetes.io/pcieRoot"
SHARED = "shared.example.com"
PARTS = "parts.example.com"
FABRIC = "fabric.example.com"


# Valid plans


def skipped_operations() -> Case:
    """A device whose driver is not called on the node, which declares that its kubelet knows that."""
    wanted, placed = b.claim("c", b.request("gpu")), b.pod("placed", "c")
    pool = replace(b.gpu_slice("n1", count=1), skip_node_operations=("*",))
    node = replace(b.node("n1"), declared_features=(OPTIONAL_NODE_OPERATIONS,))
    result = replace(b.result("gpu", "gpu-0", "n1"), skip_node_operations=("*",))
    granted = b.claim_allocation(wanted, result, node_name="n1")
    return Case(
        b.snapshot(node, pool, b.gpu_class(), wanted), b.batch(placed), b.plan(b.placement(placed, "n1"), granted)
    )


def whole_cards() -> Case:
    """Two GPUs of one PCIe root beside one that is held; a pod that stays; configuration; a tolerated taint."""
    tolerations = (b.toleration("maintenance"),)
    class_config = b.config(parameters='{"class": 1}')
    claim_config = b.config("gpus", parameters='{"claim": 1}')
    wanted = b.claim(
        "two",
        b.request(
            "gpus", count=2, tolerations=tolerations, selectors=("device.attributes['gpu.example.com'].index < 6",)
        ),
        constraints=(b.match(ROOT),),
        config=(claim_config,),
    )
    placed, waiting, running = (
        b.pod("placed", "two", cpu=2, memory="1Gi", node_selector={"zone": "a"}),
        b.pod("waiting", "absent"),
        b.pod("running", node_name="n1", cpu=60),
    )
    results = (
        b.result("gpus", "gpu-0", "n1", tolerations=tolerations),
        b.result("gpus", "gpu-1", "n1", tolerations=tolerations),
    )
    granted = b.claim_allocation(wanted, *results, node_name="n1")
    config = (
        replace(class_config, requests=("gpus",), source="FromClass"),
        replace(claim_config, source="FromClaim"),
    )
    granted = replace(granted, allocation=replace(granted.allocation, config=config))
    return Case(
        b.snapshot(
            b.node("n1", labels={"zone": "a"}),
            b.node("n2", labels={"zone": "a"}),
            b.gpu_slice("n1", taints=(b.taint("maintenance"),)),
            b.gpu_slice("n2"),
            b.device_class("gpu", driver=b.GPU_DRIVER, config=(class_config,)),
            b.held("holder", b.result("gpu", "gpu-2", "n1"), node_name="n1"),
            wanted,
            running,
        ),
        b.batch(placed, waiting),
        b.plan(b.placement(placed, "n1"), granted, b.unplaced(waiting)),
    )


def shares() -> Case:
    """A 10Gi share (of 8Gi asked) beside one of 20Gi that exists; the device draws on a counter, once."""
    card = b.device(
        "card",
        is_shareable=True,
        capacities={
            "memory": b.capacity("40Gi", default="10Gi", minimum="10Gi", step="10Gi"),
            "engines": b.capacity(4, default=1),
        },
        consumes={"set": {"slots": 1}},
    )
    wanted = b.claim("part", b.request("share", "shared", capacity={"memory": "8Gi"}))
    placed = b.pod("placed", "part")
    taken: dict[str, int | str] = {"memory": "20Gi", "engines": 1}
    return Case(
        b.snapshot(
            b.node("n1"),
            b.resource_slice(
                "n1", card, b.device("other", consumes={"set": {"slots": 1}}), driver=SHARED, slice_count=2
            ),
            b.resource_slice("n1", driver=SHARED, slice_count=2, counter_sets={"set": {"slots": 1}}),
            b.device_class("shared", driver=SHARED),
            b.held("holder", b.result("share", "card", "n1", driver=SHARED, share_id=b.share_id(1), consumed=taken)),
            wanted,
        ),
        b.batch(placed),
        b.plan(
            b.placement(placed, "n1"),
            b.claim_allocation(
                wanted,
                b.result(
                    "share",
                    "card",
                    "n1",
                    driver=SHARED,
                    share_id=b.share_id(2),
                    consumed={"memory": "10Gi", "engines": 1},
                ),
                node_name="n1",
            ),
        ),
    )


def partitions() -> Case:
    """Two of three halves of a card whose counter holds two; one half is in use."""
    wanted = b.claim("half", b.request("half", "parts"))
    placed = b.pod("placed", "half")
    return Case(
        b.snapshot(
            b.node("n1"),
            b.resource_slice(
                "n1",
                *(b.device(f"half-{i}", consumes={"card": {"slices": 4}}) for i in range(3)),
                driver=PARTS,
                slice_count=2,
            ),
            b.resource_slice("n1", driver=PARTS, slice_count=2, counter_sets={"card": {"slices": 8}}),
            # Another driver's pool of the same name, all taken: it must not be charged here.
            b.resource_slice(
                "n1", b.device("half-0", consumes={"card": {"slices": 8}}), driver="else.example.com", slice_count=2
            ),
            b.resource_slice("n1", driver="else.example.com", slice_count=2, counter_sets={"card": {"slices": 8}}),
            b.device_class("parts", driver=PARTS),
            b.held("holder", b.result("half", "half-0", "n1", driver=PARTS), node_name="n1"),
            b.held("foreign", b.result("half", "half-0", "n1", driver="else.example.com"), node_name="n1"),
            wanted,
        ),
        b.batch(placed),
        b.plan(
            b.placement(placed, "n1"),
            b.claim_allocation(wanted, b.result("half", "half-1", "n1", driver=PARTS), node_name="n1"),
        ),
    )


def fabric() -> Case:
    """One claim of two devices with node selectors, shared by pods on two nodes of the rack, one skipping an entry."""
    rack, row = b.node_selector(rack="r1"), b.node_selector(row="w1")
    wanted = b.claim("shared", b.request("port", "fabric", count=2), constraints=(b.distinct(f"{FABRIC}/switch"),))
    first = b.pod("first", "shared", b.skipped_entry())
    second = b.pod("second", "shared", "shared")
    joined = NodeSelector(terms=(b.expressions(b.requirement("row", "In", "w1"), b.requirement("rack", "In", "r1")),))
    granted = b.claim_allocation(
        wanted, b.result("port", "rack-port", "rack", driver=FABRIC), b.result("port", "row-port", "row", driver=FABRIC)
    )
    return Case(
        b.snapshot(
            *(b.node(f"n{i}", labels={"rack": "r1", "row": "w1"}) for i in (1, 2)),
            b.node("n3", labels={"row": "w1"}),
            b.resource_slice(
                "rack", b.device("rack-port", attributes={"switch": 1}), driver=FABRIC, at=b.scope(selector=rack)
            ),
            b.resource_slice(
                "row",
                b.device("row-port", attributes={"switch": 2}, scope=b.scope(selector=row)),
                b.device("any-port", attributes={"switch": 3}, scope=b.scope(all_nodes=True)),
                driver=FABRIC,
                at=b.scope(per_device=True),
            ),
            b.device_class("fabric", driver=FABRIC),
            wanted,
        ),
        b.batch(first, second),
        b.plan(
            b.placement(first, "n1"),
            b.placement(second, "n2"),
            replace(granted, allocation=replace(granted.allocation, node_selector=joined)),
        ),
    )


def choices() -> Case:
    """The second of two alternatives, all devices with admin access (in use or not), and a binding condition."""
    wanted = b.claim(
        "choice",
        b.first_available("gpu", b.alternative("big", selectors=("false",)), b.alternative("any", count=2)),
        b.request(
            "watch", mode=AllocationMode.ALL, is_admin=True, selectors=("device.attributes['gpu.example.com'].seen",)
        ),
        constraints=(b.distinct(f"{b.GPU_DRIVER}/slot", "gpu/any"), b.match(f"{b.GPU_DRIVER}/none", "gpu/big")),
        config=(b.config("gpu/any", "watch"), b.config("gpu/big"), b.config()),
    )
    placed = b.pod("placed", "choice")
    devices = (
        b.device(
            "a",
            attributes={"slot": 1, "seen": False},
            binding_conditions=("Ready",),
            binding_failure_conditions=("Bad",),
        ),
        b.device("b", attributes={"slot": 2, "seen": False}),
        b.device("c", attributes={"slot": 2, "seen": False}),
        b.device("d", attributes={"slot": 4, "seen": True}),
        b.device("e", attributes={"slot": 5, "seen": True}),
    )
    granted = b.claim_allocation(
        wanted,
        b.result("gpu/any", "a", "n1", binding_conditions=("Ready",), binding_failure_conditions=("Bad",)),
        b.result("gpu/any", "b", "n1"),
        b.result("watch", "d", "n1", is_admin=True),
        b.result("watch", "e", "n1", is_admin=True),
        node_name="n1",
    )
    config = (b.config("gpu/any", "watch", source="FromClaim"), b.config(source="FromClaim"))
    return Case(
        b.snapshot(
            b.node("n1"),
            b.resource_slice("n1", *devices),
            # An incomplete pool of another node, and an outdated generation here: neither is in the way.
            b.resource_slice("n2", b.device("x"), slice_count=2),
            b.resource_slice("n1", b.device("old"), generation=0),
            b.gpu_class(),
            b.held("holder", b.result("gpu", "d", "n1"), node_name="n1"),
            b.taint_rule("nothing", b.taint("all"), selects_nothing=True),
            b.taint_rule("elsewhere", b.taint("all"), driver=b.GPU_DRIVER, pool="n2"),
            wanted,
        ),
        b.batch(placed),
        b.plan(b.placement(placed, "n1"), replace(granted, allocation=replace(granted.allocation, config=config))),
    )


def joined() -> Case:
    """A new consumer of a claim that is allocated already, made from a template for it."""
    placed = b.pod("placed", b.entry("given", template="template"))
    given = replace(b.held("given", b.result("gpu", "gpu-0", "n1"), node_name="n1"), owner_pod_uid=placed.uid)
    return Case(
        b.snapshot(b.node("n1"), b.node("n2"), b.gpu_slice("n1"), b.gpu_class(), given),
        b.batch(placed),
        b.plan(b.placement(placed, "n1")),
    )


def special() -> Case:
    """A pod that asks for two extended resources, which devices serve by a claim that is yet to be made."""
    placed = x.pod("placed", x.container(gpu=2))
    made = ExtendedResourceClaim(
        id=ClaimId("default", "placed-devices"),
        requests=(b.request("container-0-request-0", count=2),),
        mappings=(
            ContainerExtendedResourceRequest(container="main", resource=x.RESOURCE, request="container-0-request-0"),
        ),
    )
    results = tuple(b.result("container-0-request-0", f"gpu-{i}", "n1") for i in range(2))
    return Case(
        b.snapshot(b.node("n1"), b.gpu_slice("n1"), x.gpu_class()),
        b.batch(placed),
        b.plan(
            replace(b.placement(placed, "n1"), extended_resource_claim=made, claims=(made.id,)),
            b.claim_allocation(made.as_claim(placed.uid), *results, node_name="n1"),
        ),
    )


VALID = (whole_cards, skipped_operations, shares, partitions, fabric, choices, joined, special)


# Changes


def pod(name: str, **changes: Any) -> Change:
    """Change a pod of the batch."""

    def change(case: Case) -> Case:
        pods = tuple(replace(each, **changes) if each.id.name == name else each for each in case.batch.pods)
        return case._replace(batch=Batch(pods=pods))

    return change


def member(name: str, group: str, uid: str) -> Change:
    """Make a pod of the batch a member of a PodGroup with this uid."""

    def change(case: Case) -> Case:
        made = Gang(id=b.gang_id(group, source="scheduling.k8s.io"), uid=uid)
        changed = pod(name, pod_group=group)(case)
        return changed._replace(batch=replace(changed.batch, gangs=(made,)))

    return change


def claim(name: str, **changes: Any) -> Change:
    return _in_snapshot("claims", lambda each: bool(each.id.name == name), changes)


def node(name: str, **changes: Any) -> Change:
    return _in_snapshot("nodes", lambda each: bool(each.name == name), changes)


def running(name: str, **changes: Any) -> Change:
    """Change a pod that holds a node."""
    return _in_snapshot("pods", lambda each: bool(each.id.name == name), changes)


def device_class(**changes: Any) -> Change:
    return _in_snapshot("classes", lambda _: True, changes)


def slices(pool: str, **changes: Any) -> Change:
    """Change every slice of a pool that has devices."""
    return _in_snapshot("slices", lambda each: each.pool == pool and bool(each.devices), changes)


def counters(**changes: Any) -> Change:
    """Change every slice that has counters."""
    return _in_snapshot("slices", lambda each: bool(each.counter_sets), changes)


def device(name: str, **changes: Any) -> Change:
    """Change a device wherever it is published."""

    def change(case: Case) -> Case:
        found = tuple(
            replace(each, devices=tuple(replace(one, **changes) if one.name == name else one for one in each.devices))
            for each in case.snapshot.slices
        )
        return case._replace(snapshot=replace(case.snapshot, slices=found))

    return change


def added(*objects: b.SnapshotObject) -> Change:
    """Put more into the snapshot."""

    def change(case: Case) -> Case:
        old = case.snapshot
        everything = (*old.nodes, *old.slices, *old.classes, *old.taint_rules, *old.claims, *old.pods, *objects)
        return case._replace(snapshot=b.snapshot(everything))

    return change


def remembered(device_name: str, drawn: dict[str, b.Amount]) -> Change:
    """Let the snapshot remember what a partition on n1 drew when it was allocated."""
    draws = b.snapshot(draws={b.device_id(device_name, "n1", PARTS): drawn}).draws
    return lambda case: case._replace(snapshot=replace(case.snapshot, draws=draws))


def removed(field: str, name: str) -> Change:
    """Take an object out of the snapshot's `field`; claims and pods go by their name alone."""

    def change(case: Case) -> Case:
        kept = tuple(each for each in getattr(case.snapshot, field) if _name(each) != name)
        return case._replace(snapshot=replace(case.snapshot, **{field: kept}))

    return change


def placement(name: str, **changes: Any) -> Change:
    def edit(old: Plan) -> Plan:
        return replace(
            old,
            placements=tuple(replace(each, **changes) if each.pod.name == name else each for each in old.placements),
        )

    return plan(edit)


def special_claim(**changes: Any) -> Change:
    """Change the claim that is to be made for the pod's extended resources."""

    def edit(old: Plan) -> Plan:
        (only,) = old.placements
        if only.extended_resource_claim is None:
            raise LookupError("the placement makes no claim")
        return replace(
            old, placements=(replace(only, extended_resource_claim=replace(only.extended_resource_claim, **changes)),)
        )

    return plan(edit)


def plan(edit: Callable[[Plan], Plan]) -> Change:
    return lambda case: case._replace(plan=edit(case.plan))


def granted(**changes: Any) -> Change:
    """Change the plan's only ClaimAllocation."""
    return plan(lambda old: replace(old, allocations=(replace(old.allocations[0], **changes),)))


def allocation(**changes: Any) -> Change:
    """Change what the plan's only ClaimAllocation allocates."""
    return lambda case: granted(allocation=replace(case.plan.allocations[0].allocation, **changes))(case)


def results(edit: Callable[[tuple[DeviceResult, ...]], tuple[DeviceResult, ...]]) -> Change:
    """Change the results of the plan's only allocation."""
    return lambda case: allocation(results=edit(case.plan.allocations[0].allocation.results))(case)


def result(index: int, **changes: Any) -> Change:
    """Change one result of the plan's only allocation."""

    def edit(old: tuple[DeviceResult, ...]) -> tuple[DeviceResult, ...]:
        return (*old[:index], replace(old[index], **changes), *old[index + 1 :])

    return results(edit)


def moved(index: int, device_name: str, pool: str = "n1", driver: str = b.GPU_DRIVER) -> Change:
    """Let a result have another device."""
    return result(index, device=DeviceId(driver, pool, device_name))


def owned(*, drivers: tuple[str, ...] = (), **labels: str) -> Change:
    """Let the policy own these drivers, and nodes with these labels."""
    terms = b.node_selector(**labels).terms if labels else ()
    return lambda case: case._replace(policy=Policy(owned=OwnedDevices(drivers=drivers, node_terms=terms)))


def kept(*places: HeldPlace) -> Change:
    """A hold with some places, of the priority 0."""
    return lambda case: case._replace(snapshot=h.holding(case.snapshot, h.hold("h", *places)))


def held(*overdue: str, **fields: Any) -> Change:
    """Hold node n1 for a pod that is not there; these pods of the batch are overdue as well."""
    fields = {"priority": 0, **fields}
    hold = NodeReservation(pod=PodId("default", "long"), uids=("uid-long",), nodes=("n1",), **fields)
    ids = tuple(PodId("default", name) for name in overdue)
    return lambda case: case._replace(batch=replace(case.batch, node_reservations=(hold,), overdue=ids))


def limited(most: int) -> Change:
    """Let the namespace of the pods hold at most so many devices of class gpu, by a DeviceQuota."""
    resources = (QuotaResource(device_class="gpu", limit=most),)
    quota = DeviceQuota(name="team", uid="uid-team", selector=LabelSelector(), resources=resources)
    more = {"quotas": (quota,), "namespaces": (Namespace(name="default"),)}
    return lambda case: case._replace(snapshot=replace(case.snapshot, **more))


def both(*changes: Change) -> Change:
    """One change after the other."""

    def change(case: Case) -> Case:
        return reduce(lambda so_far, each: each(so_far), changes, case)

    return change


def _in_snapshot(field: str, is_meant: Callable[[Any], bool], changes: dict[str, Any]) -> Change:
    def change(case: Case) -> Case:
        objects = getattr(case.snapshot, field)
        if not any(is_meant(each) for each in objects):
            raise LookupError(f"nothing to change among the {field}")
        changed = tuple(replace(each, **changes) if is_meant(each) else each for each in objects)
        return case._replace(snapshot=replace(case.snapshot, **{field: changed}))

    return change


def _name(value: Any) -> str:
    return str(value.id.name if isinstance(value, Claim | Pod) else value.name)

"""The checker names every rule that a changed plan breaks."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from solver.domain import (
    BINDING_FAILED_TAINT,
    AddedNode,
    AllocationMode,
    ConstraintKind,
    ConsumerReference,
    ContainerExtendedResourceRequest,
    NodeLimit,
    NodeShape,
)
from solver.verify import Rule, check_added
from tests.solver.verify import cases as c
from tests.solver.verify import gang_cases, inter_pod_cases, node_allocatable_cases, preemption_cases, volume_cases
from tests.solver.verify.both_ways import check
from tests.support import builders as b
from tests.support import extended_builders as x
from tests.support import hold_builders as h

ON_N2 = b.on_node("n2")
GROUP = ConsumerReference(api_group="scheduling.k8s.io", resource="podgroups", name="g", uid="uid-g")
OTHERS = tuple(b.consumer(f"p{i}") for i in range(255))

BROKEN: tuple[tuple[str, Callable[[], c.Case], c.Change, set[Rule]], ...] = (
    # Pods
    (
        "a pod of the batch is forgotten",
        c.whole_cards,
        c.plan(lambda old: replace(old, unplaced=())),
        {Rule.POD_UNDECIDED},
    ),
    (
        "a pod is placed and unplaced",
        c.whole_cards,
        c.plan(lambda old: replace(old, unplaced=(*old.unplaced, b.unplaced(b.pod("placed"))))),
        {Rule.POD_TWICE},
    ),
    (
        "a pod is placed twice",
        c.joined,
        c.plan(lambda old: replace(old, placements=old.placements * 2)),
        {Rule.POD_TWICE},
    ),
    (
        "a pod outside the batch is decided",
        c.whole_cards,
        c.plan(lambda old: replace(old, unplaced=(*old.unplaced, b.unplaced(b.pod("stranger"))))),
        {Rule.POD_UNKNOWN},
    ),
    ("a placement means a namesake", c.whole_cards, c.placement("placed", pod_uid="other"), {Rule.POD_UID}),
    (
        "an unplaced pod means a namesake",
        c.whole_cards,
        c.plan(lambda old: replace(old, unplaced=(replace(old.unplaced[0], pod_uid="other"),))),
        {Rule.POD_UID},
    ),
    (
        "a pod waits without a reason",
        c.whole_cards,
        c.plan(lambda old: replace(old, unplaced=(replace(old.unplaced[0], reasons=()),))),
        {Rule.POD_UNREASONED},
    ),
    ("an invalid pod is placed", c.whole_cards, c.pod("placed", invalid="no containers"), {Rule.POD_UNSCHEDULABLE}),
    ("a gated pod is placed", c.whole_cards, c.pod("placed", scheduling_gates=("g",)), {Rule.POD_UNSCHEDULABLE}),
    ("a pod under deletion is placed", c.whole_cards, c.pod("placed", is_deleting=True), {Rule.POD_UNSCHEDULABLE}),
    ("a finished pod is placed", c.whole_cards, c.pod("placed", is_terminal=True), {Rule.POD_UNSCHEDULABLE}),
    ("a bound pod is placed", c.whole_cards, c.pod("placed", node_name="n2"), {Rule.POD_UNSCHEDULABLE}),
    ("a placement leaves a claim out", c.whole_cards, c.placement("placed", claims=()), {Rule.POD_CLAIMS}),
    (
        "a placement lists a claim twice",
        c.fabric,
        c.placement("second", claims=(b.claim("shared").id, b.claim("shared").id)),
        {Rule.POD_CLAIMS},
    ),
    # Nodes
    ("the node does not exist", c.joined, c.placement("placed", node="n9"), {Rule.NODE_UNKNOWN}),
    ("the node is cordoned", c.whole_cards, c.node("n1", is_unschedulable=True), {Rule.NODE_UNSCHEDULABLE}),
    (
        "the node has a NoSchedule taint",
        c.whole_cards,
        c.node("n1", taints=(b.taint("k", "v"),)),
        {Rule.NODE_TAINT},
    ),
    (
        "the toleration is of another value",
        c.whole_cards,
        c.both(
            c.node("n1", taints=(b.taint("k", "v", "NoExecute"),)),
            c.pod("placed", tolerations=(b.toleration("k", "Equal", "w"),)),
        ),
        {Rule.NODE_TAINT},
    ),
    (
        "the toleration is of another effect",
        c.whole_cards,
        c.both(
            c.node("n1", taints=(b.taint("k", "v", "NoExecute"),)),
            c.pod("placed", tolerations=(b.toleration("k", effect="NoSchedule"),)),
        ),
        {Rule.NODE_TAINT},
    ),
    (
        "the node does not declare a feature",
        c.whole_cards,
        c.both(c.node("n1", declared_features=("One",)), c.pod("placed", required_features=("One", "Two"))),
        {Rule.NODE_FEATURES},
    ),
    (
        "nodeSelector does not match",
        c.whole_cards,
        c.pod("placed", node_selector=(("zone", "b"),)),
        {Rule.NODE_AFFINITY},
    ),
    (
        "no term of the affinity matches",
        c.whole_cards,
        c.pod("placed", required_affinity=b.node_selector(zone="b")),
        {Rule.NODE_AFFINITY},
    ),
    (
        "the only term of the affinity is empty",
        c.whole_cards,
        c.pod("placed", required_affinity=b.node_selector(b.expressions())),
        {Rule.NODE_AFFINITY},
    ),
    (
        "cpu runs out beside what runs there",
        c.whole_cards,
        c.pod("placed", requests=(("cpu", 4001),)),
        {Rule.NODE_RESOURCES},
    ),
    (
        "the node does not have an extended resource",
        c.whole_cards,
        c.pod("placed", requests=(("example.com/nic", 1),)),
        {Rule.NODE_RESOURCES},
    ),
    (
        "the node is full of pods",
        c.whole_cards,
        c.node("n1", allocatable=(("cpu", 99000), ("memory", 1 << 40), ("pods", 1))),
        {Rule.NODE_PODS},
    ),
    (
        "pods of one plan overfill a node together",
        c.fabric,
        c.both(
            c.placement("second", node="n1"),
            c.pod("first", requests=(("cpu", 40000),)),
            c.pod("second", requests=(("cpu", 40000),)),
        ),
        {Rule.NODE_RESOURCES},
    ),
    # Claims
    ("a claim does not exist", c.joined, c.removed("claims", "given"), {Rule.CLAIM_MISSING}),
    (
        "a template's claim does not exist yet",
        c.joined,
        c.both(c.pod("placed", claims=(b.waiting_entry(),)), c.placement("placed", claims=())),
        {Rule.CLAIM_MISSING},
    ),
    ("a claim could not be read", c.whole_cards, c.claim("two", invalid="no spec"), {Rule.CLAIM_INVALID}),
    ("a claim is being deleted", c.whole_cards, c.claim("two", is_deleting=True), {Rule.CLAIM_DELETING}),
    ("an allocated claim is being deleted", c.joined, c.claim("given", is_deleting=True), {Rule.CLAIM_DELETING}),
    ("a claim belongs to another pod", c.joined, c.claim("given", owner_pod_uid="other"), {Rule.CLAIM_NOT_OWNED}),
    (
        "a claim has 256 consumers already",
        c.joined,
        c.claim("given", reserved_for=tuple(b.consumer(f"p{i}") for i in range(256))),
        {Rule.CLAIM_FULL},
    ),
    (
        "a full claim is reserved for another group",
        c.joined,
        c.both(
            c.claim("given", reserved_for=tuple(b.consumer(f"p{i}") for i in range(256))),
            c.member("placed", "g", "uid-g"),
        ),
        {Rule.CLAIM_FULL},
    ),
    (
        "a full claim is reserved for the group that had the name",
        c.joined,
        c.both(c.claim("given", reserved_for=(GROUP, *OTHERS)), c.member("placed", "g", "uid-g-again")),
        {Rule.CLAIM_FULL},
    ),
    (
        "a full claim is reserved for the group of another API that has the uid",
        c.joined,
        c.both(
            c.claim("given", reserved_for=(*OTHERS, replace(GROUP, api_group="x-k8s.io"))),
            c.member("placed", "g", "uid-g"),
        ),
        {Rule.CLAIM_FULL},
    ),
    (
        "a claim belongs to the group that had the name",
        c.joined,
        c.both(c.claim("given", owner_pod_uid="", owner_group_uid="uid-g"), c.member("placed", "g", "uid-g-again")),
        {Rule.CLAIM_NOT_OWNED},
    ),
    (
        "a claim that it joins was made again",
        c.joined,
        c.claim("given", uid="again"),
        {Rule.POD_CLAIMS},
    ),
    (
        "the placement does not say which claim it joins",
        c.joined,
        c.placement("placed", claim_uids=()),
        {Rule.POD_CLAIMS},
    ),
    (
        "two pods of a plan are consumers 256 and 257",
        c.fabric,
        c.claim("shared", reserved_for=tuple(b.consumer(f"p{i}") for i in range(255))),
        {Rule.CLAIM_FULL},
    ),
    (
        "a placed pod's claim stays without allocation",
        c.whole_cards,
        c.plan(lambda old: replace(old, allocations=())),
        {Rule.CLAIM_UNALLOCATED},
    ),
    ("an allocated claim is used on another node", c.joined, c.placement("placed", node="n2"), {Rule.CLAIM_ELSEWHERE}),
    (
        "a rule taints an allocated claim's device that is gone",
        c.joined,
        c.both(
            c.slices("n1", devices=()),
            c.added(b.taint_rule("r", b.taint("broken"), driver=b.GPU_DRIVER, pool="n1", device_name="gpu-0")),
        ),
        {Rule.CLAIM_TAINTED},
    ),
    (
        "an allocated claim's device got a taint",
        c.joined,
        c.device("gpu-0", taints=(b.taint("broken", effect="NoExecute"),)),
        {Rule.CLAIM_TAINTED},
    ),
    (
        "an allocated claim's device got a taint by a rule",
        c.joined,
        c.added(b.taint_rule("r", b.taint("broken"), driver=b.GPU_DRIVER, pool="n1", device_name="gpu-0")),
        {Rule.CLAIM_TAINTED},
    ),
    (
        "a shared claim is used where its devices do not reach",
        c.fabric,
        c.placement("second", node="n3"),
        {Rule.CLAIM_ELSEWHERE, Rule.DEVICE_SCOPE},
    ),
    # Allocations
    (
        "a claim is allocated twice in the plan",
        c.fabric,
        c.plan(lambda old: replace(old, allocations=old.allocations * 2)),
        {Rule.ALLOCATION_TWICE, Rule.DEVICE_TWICE},
    ),
    (
        "an allocated claim is allocated again",
        c.whole_cards,
        c.claim("two", allocation=b.allocation()),
        {Rule.ALLOCATION_TWICE},
    ),
    (
        "a claim is allocated for no pod",
        c.whole_cards,
        c.plan(lambda old: replace(old, placements=(), unplaced=(*old.unplaced, b.unplaced(b.pod("placed"))))),
        {Rule.ALLOCATION_UNUSED},
    ),
    ("the allocation means a namesake", c.whole_cards, c.granted(claim_uid="other"), {Rule.ALLOCATION_UID}),
    (
        "the allocated claim does not exist",
        c.whole_cards,
        c.removed("claims", "two"),
        {Rule.ALLOCATION_UID, Rule.CLAIM_MISSING},
    ),
    (
        "33 devices are allocated",
        c.choices,
        c.both(
            c.slices("n1", devices=tuple(b.device(f"gpu-{i}", attributes={"slot": i}) for i in range(33))),
            c.claim("choice", requests=(b.request("gpu", count=33),), config=(), constraints=()),
            c.removed("claims", "holder"),
            c.allocation(config=(), results=tuple(b.result("gpu", f"gpu-{i}", "n1") for i in range(33))),
        ),
        {Rule.ALLOCATION_SIZE},
    ),
    ("configuration is left out", c.whole_cards, c.allocation(config=()), {Rule.ALLOCATION_CONFIG}),
    (
        "configuration of an alternative that was not chosen is kept",
        c.choices,
        lambda case: c.allocation(
            config=(*case.plan.allocations[0].allocation.config, b.config("gpu/big", source="FromClaim"))
        )(case),
        {Rule.ALLOCATION_CONFIG},
    ),
    (
        "an entry that names two requests is kept twice",
        c.choices,
        lambda case: c.allocation(
            config=(
                case.plan.allocations[0].allocation.config[0],
                *case.plan.allocations[0].allocation.config,
            )
        )(case),
        {Rule.ALLOCATION_CONFIG},
    ),
    (
        "the class's configuration comes after the claim's",
        c.whole_cards,
        lambda case: c.allocation(config=case.plan.allocations[0].allocation.config[::-1])(case),
        {Rule.ALLOCATION_CONFIG},
    ),
    (
        "node-local devices can be used anywhere",
        c.whole_cards,
        c.allocation(node_selector=None),
        {Rule.ALLOCATION_NODES},
    ),
    (
        "the node selector is another node's",
        c.whole_cards,
        c.allocation(node_selector=ON_N2),
        {Rule.ALLOCATION_NODES, Rule.CLAIM_ELSEWHERE},
    ),
    (
        "only one of two device selectors is kept",
        c.fabric,
        c.allocation(node_selector=b.node_selector(rack="r1")),
        {Rule.ALLOCATION_NODES},
    ),
    (
        "device selectors are ORed",
        c.fabric,
        c.allocation(
            node_selector=b.node_selector(
                b.expressions(b.requirement("rack", "In", "r1")), b.expressions(b.requirement("row", "In", "w1"))
            )
        ),
        {Rule.ALLOCATION_NODES},
    ),
    (
        "a device binds to the node",
        c.fabric,
        c.device("row-port", binds_to_node=True),
        {Rule.ALLOCATION_NODES},
    ),
    # Extended resources
    (
        "nothing serves an extended resource",
        c.special,
        c.plan(
            lambda old: replace(
                old, placements=(replace(old.placements[0], extended_resource_claim=None, claims=()),), allocations=()
            )
        ),
        {Rule.EXTENDED_RESOURCE_MISSING},
    ),
    (
        "a claim is made for what the node serves",
        c.special,
        c.both(c.node("n1", allocatable=((x.RESOURCE, 2), ("pods", 9))), c.device_class(extended_resource_name="")),
        {Rule.EXTENDED_RESOURCE_RESOURCES},
    ),
    (
        "the claim asks for fewer devices than the containers",
        c.special,
        c.both(
            c.special_claim(requests=(b.request("container-0-request-0"),)),
            c.results(lambda old: old[:1]),
        ),
        {Rule.EXTENDED_RESOURCE_REQUESTS, Rule.EXTENDED_RESOURCE_MAPPINGS},
    ),
    (
        "the claim asks for more than the class",
        c.special,
        c.special_claim(requests=(b.request("container-0-request-0", count=2, selectors=("true",)),)),
        {Rule.EXTENDED_RESOURCE_REQUESTS},
    ),
    (
        "a container that asks for nothing gets the devices",
        c.special,
        c.special_claim(
            mappings=(
                ContainerExtendedResourceRequest(
                    container="other", resource=x.RESOURCE, request="container-0-request-0"
                ),
            )
        ),
        {Rule.EXTENDED_RESOURCE_MAPPINGS},
    ),
    (
        "the node's device plugin offers the devices of a class as well",
        c.whole_cards,
        c.both(
            c.device_class(extended_resource_name=x.RESOURCE),
            c.node("n1", allocatable=(("cpu", 99000), (x.RESOURCE, 8), ("memory", 1 << 40), ("pods", 9))),
        ),
        {Rule.DEVICE_OFFERED_TWICE},
    ),
    # Requests
    (
        "a result names no request",
        c.partitions,
        c.result(0, request="quarter"),
        {Rule.REQUEST_UNKNOWN, Rule.REQUEST_COUNT},
    ),
    (
        "a result names the main request of alternatives",
        c.choices,
        c.both(c.result(0, request="gpu"), c.result(1, request="gpu"), c.allocation(config=())),
        {Rule.REQUEST_UNKNOWN, Rule.REQUEST_COUNT, Rule.ALLOCATION_CONFIG},
    ),
    (
        "alternatives are mixed",
        c.choices,
        c.both(
            c.result(0, request="gpu/big"),
            c.claim("choice", constraints=(), config=()),
            c.allocation(config=()),
        ),
        {Rule.REQUEST_MIXED, Rule.REQUEST_COUNT, Rule.DEVICE_SELECTOR},
    ),
    ("a request has too few devices", c.whole_cards, c.results(lambda old: old[:1]), {Rule.REQUEST_COUNT}),
    (
        "a request has no devices",
        c.choices,
        c.both(
            c.results(lambda old: old[2:]),
            c.allocation(config=(b.config("gpu/any", "watch", source="FromClaim"), b.config(source="FromClaim"))),
        ),
        {Rule.REQUEST_COUNT},
    ),
    ("all devices lacks one", c.choices, c.results(lambda old: old[:3]), {Rule.REQUEST_ALL}),
    (
        "all devices has one too many",
        c.choices,
        c.both(
            c.device("e", attributes=(("seen", b.attribute(value=False)), ("slot", b.attribute(5)))),
        ),
        {Rule.REQUEST_ALL, Rule.DEVICE_SELECTOR},
    ),
    (
        "all devices, and a selector fails on another one",
        c.choices,
        c.device("c", attributes=(("slot", b.attribute(3)),)),
        {Rule.REQUEST_ALL},
    ),
    (
        "all devices, and one of them is too small",
        c.choices,
        c.both(
            c.claim(
                "choice",
                requests=(
                    b.first_available("gpu", b.alternative("big", selectors=("false",)), b.alternative("any", count=2)),
                    b.request(
                        "watch",
                        mode=AllocationMode.ALL,
                        is_admin=True,
                        selectors=("device.attributes['gpu.example.com'].seen",),
                        capacity={"memory": "8Gi"},
                    ),
                ),
            ),
            c.device("d", capacities=(("memory", b.capacity("8Gi")),)),
            c.device("e", capacities=(("memory", b.capacity("4Gi")),)),
        ),
        {Rule.REQUEST_ALL, Rule.DEVICE_CAPACITY},
    ),
    (
        "all devices where a pool in view is incomplete",
        c.choices,
        c.added(
            b.resource_slice(
                "wide", b.device("x"), driver="else.example.com", at=b.scope(all_nodes=True), slice_count=2
            )
        ),
        {Rule.REQUEST_UNSETTLED},
    ),
    (
        "all devices where one slice of an incomplete pool is in view",
        c.choices,
        c.added(
            b.resource_slice("wide", b.device("x"), driver="else.example.com", at=b.scope("n1"), slice_count=3),
            b.resource_slice(
                "wide", b.device("y"), driver="else.example.com", name="y", at=b.scope("n2"), slice_count=3
            ),
        ),
        {Rule.REQUEST_UNSETTLED},
    ),
    (
        "all devices where one device of an incomplete pool is in view",
        c.choices,
        c.added(
            b.resource_slice(
                "wide",
                b.device("x", scope=b.scope("n1")),
                b.device("y", scope=b.scope("n2")),
                driver="else.example.com",
                at=b.scope(per_device=True),
                slice_count=2,
            )
        ),
        {Rule.REQUEST_UNSETTLED},
    ),
    (
        "all devices where a pool in view is invalid",
        c.choices,
        c.added(b.resource_slice("odd", b.device("x"), b.device("x"), driver="else.example.com", at=b.scope("n1"))),
        {Rule.REQUEST_UNSETTLED},
    ),
    ("the class does not exist", c.partitions, c.removed("classes", "parts"), {Rule.REQUEST_CLASS}),
    (
        "the allocation mode is unknown",
        c.partitions,
        c.claim("half", requests=(b.request("half", "parts", mode="Most"),)),
        {Rule.CLAIM_INVALID},
    ),
    (
        "the kind of request is unknown",
        c.partitions,
        c.claim("half", requests=(b.request("half", "parts"), b.first_available("new"))),
        {Rule.CLAIM_INVALID},
    ),
    (
        "the kind of constraint is unknown",
        c.partitions,
        c.claim("half", constraints=(replace(b.match("a/b"), kind=ConstraintKind.UNKNOWN),)),
        {Rule.CLAIM_INVALID, Rule.CONSTRAINT_ATTRIBUTE},
    ),
    # Results
    ("tolerations are not copied", c.whole_cards, c.result(0, tolerations=()), {Rule.RESULT_COPIES}),
    ("admin access is not copied", c.choices, c.result(3, admin_access=False), {Rule.RESULT_COPIES}),
    ("admin access is claimed", c.partitions, c.result(0, admin_access=True), {Rule.RESULT_COPIES}),
    ("binding conditions are not copied", c.choices, c.result(0, binding_conditions=()), {Rule.RESULT_COPIES}),
    (
        "failure conditions are not copied",
        c.choices,
        c.result(0, binding_failure_conditions=()),
        {Rule.RESULT_COPIES},
    ),
    (
        "skipped node operations are not copied",
        c.skipped_operations,
        c.result(0, skip_node_operations=()),
        {Rule.RESULT_COPIES},
    ),
    (
        "the node of a device whose node operations are skipped does not declare the feature",
        c.skipped_operations,
        c.node("n1", declared_features=()),
        {Rule.NODE_FEATURES},
    ),
    ("a share has no id", c.shares, c.result(0, share_id=""), {Rule.RESULT_SHARE, Rule.DEVICE_TWICE}),
    (
        "a share id is in upper case",
        c.shares,
        c.result(0, share_id=b.share_id(2).replace("4", "A")),
        {Rule.RESULT_SHARE},
    ),
    ("a share id is taken", c.shares, c.result(0, share_id=b.share_id(1)), {Rule.RESULT_SHARE}),
    ("an exclusive device has a share id", c.partitions, c.result(0, share_id=b.share_id(1)), {Rule.RESULT_SHARE}),
    (
        "the consumption is not rounded",
        c.shares,
        c.result(0, consumed_capacity=b.quantities({"memory": "8Gi", "engines": 1})),
        {Rule.RESULT_CONSUMPTION},
    ),
    (
        "the consumption leaves out what was not asked for",
        c.shares,
        c.result(0, consumed_capacity=b.quantities({"memory": "10Gi"})),
        {Rule.RESULT_CONSUMPTION},
    ),
    (
        "an exclusive device has a consumption",
        c.partitions,
        c.both(
            c.device("half-1", capacities=(("memory", b.capacity("1Gi")),)),
            c.result(0, consumed_capacity=b.quantities({"memory": "1Gi"})),
        ),
        {Rule.RESULT_CONSUMPTION},
    ),
    # Devices
    ("the device does not exist", c.whole_cards, c.moved(0, "gpu-9"), {Rule.DEVICE_UNKNOWN}),
    (
        "the device is only in an older generation",
        c.choices,
        c.both(c.moved(1, "old"), c.slices("n2", devices=())),
        {Rule.DEVICE_UNKNOWN},
    ),
    (
        "a newer generation exists elsewhere",
        c.whole_cards,
        c.added(b.resource_slice("n1", b.device("new"), name="newer", generation=2, at=b.scope("n2"), slice_count=2)),
        {Rule.DEVICE_UNKNOWN},
    ),
    ("the pool is incomplete", c.whole_cards, c.slices("n1", slice_count=2), {Rule.DEVICE_POOL}),
    (
        "the pool publishes a device twice",
        c.whole_cards,
        c.both(
            c.slices("n1", slice_count=2),
            c.added(b.resource_slice("n1", b.device("gpu-7"), name="again", slice_count=2)),
        ),
        {Rule.DEVICE_POOL},
    ),
    (
        "the pool publishes a counter set twice",
        c.partitions,
        c.both(
            c.slices("n1", slice_count=3),
            c.counters(slice_count=3),
            c.added(
                b.resource_slice(
                    "n1", driver=c.PARTS, name="again", slice_count=3, counter_sets={"card": {"slices": 8}}
                )
            ),
        ),
        {Rule.DEVICE_POOL},
    ),
    (
        "a device of the pool consumes an unknown counter set",
        c.partitions,
        c.device("half-2", consumes_counters=b.device("", consumes={"other": {"slices": 1}}).consumes_counters),
        {Rule.DEVICE_POOL},
    ),
    (
        "a device of the pool consumes an unknown counter",
        c.partitions,
        c.device("half-2", consumes_counters=b.device("", consumes={"card": {"engines": 1}}).consumes_counters),
        {Rule.DEVICE_POOL},
    ),
    (
        "a device of the pool consumes less than nothing",
        c.partitions,
        c.device("half-2", consumes_counters=b.device("", consumes={"card": {"slices": -1}}).consumes_counters),
        {Rule.DEVICE_POOL},
    ),
    (
        "a device of the pool has less than nothing",
        c.partitions,
        c.device("half-2", capacities=(("memory", b.capacity(-1)),)),
        {Rule.DEVICE_POOL},
    ),
    (
        "a policy of the pool gives less than nothing",
        c.partitions,
        c.device("half-2", capacities=(("memory", b.capacity(4, default=1, minimum=-1)),)),
        {Rule.DEVICE_POOL},
    ),
    (
        "slices of the pool disagree on their number",
        c.whole_cards,
        c.both(
            c.slices("n1", slice_count=2),
            c.added(b.resource_slice("n1", b.device("more"), name="more", slice_count=3)),
        ),
        {Rule.DEVICE_POOL},
    ),
    ("the device is another node's", c.partitions, c.slices("n1", scope=b.scope("n2")), {Rule.DEVICE_SCOPE}),
    (
        "the scope is of an unknown kind",
        c.partitions,
        c.slices("n1", scope=b.scope()),
        {Rule.DEVICE_SCOPE, Rule.ALLOCATION_NODES},
    ),
    (
        "the device's own scope counts in a slice with per-device selection",
        c.fabric,
        c.device("row-port", scope=b.scope(selector=b.node_selector(row="w2"))),
        {Rule.DEVICE_SCOPE, Rule.ALLOCATION_NODES},
    ),
    (
        "a selector of the request says false",
        c.whole_cards,
        c.moved(0, "gpu-7"),
        {Rule.DEVICE_SELECTOR, Rule.CONSTRAINT_MATCH},
    ),
    ("a selector of the class says false", c.partitions, c.device_class(selectors=("false",)), {Rule.DEVICE_SELECTOR}),
    ("a selector does not compile", c.partitions, c.device_class(selectors=("!!",)), {Rule.DEVICE_SELECTOR}),
    (
        "a selector fails on the device",
        c.partitions,
        c.device_class(selectors=("device.attributes['parts.example.com'].model == 'x'",)),
        {Rule.DEVICE_SELECTOR},
    ),
    ("the device is tainted", c.partitions, c.device("half-1", taints=(b.taint("broken"),)), {Rule.DEVICE_TAINT}),
    (
        "the device is tainted by a rule for its whole driver",
        c.partitions,
        c.added(b.taint_rule("r", b.taint("broken", effect="NoExecute"), driver=c.PARTS)),
        {Rule.DEVICE_TAINT},
    ),
    (
        "a rule with an empty selector taints everything",
        c.partitions,
        c.added(b.taint_rule("r", b.taint("broken"))),
        {Rule.DEVICE_TAINT},
    ),
    (
        "a binding that failed is tolerated by its own key alone",
        c.partitions,
        c.both(
            c.device("half-1", taints=(b.taint(BINDING_FAILED_TAINT),)),
            c.claim("half", requests=(b.request("half", "parts", tolerations=(b.toleration(),)),)),
            c.result(0, tolerations=(b.toleration(),)),
        ),
        {Rule.DEVICE_TAINT},
    ),
    (
        "admin access does not tolerate taints",
        c.choices,
        c.device("d", taints=(b.taint("broken"),)),
        {Rule.DEVICE_TAINT},
    ),
    ("the driver is not owned", c.partitions, c.owned(drivers=("else.example.com",)), {Rule.DEVICE_NOT_OWNED}),
    ("the device's node is not owned", c.whole_cards, c.owned(zone="b"), {Rule.DEVICE_NOT_OWNED}),
    (
        "the exclusive device is too small",
        c.partitions,
        c.both(
            c.device("half-1", capacities=(("memory", b.capacity("39Gi")),)),
            c.claim("half", requests=(b.request("half", "parts", capacity={"memory": "40Gi"}),)),
        ),
        {Rule.DEVICE_CAPACITY},
    ),
    (
        "the device has no such capacity",
        c.partitions,
        c.claim("half", requests=(b.request("half", "parts", capacity={"memory": "1Gi"}),)),
        {Rule.DEVICE_CAPACITY},
    ),
    (
        "the policy refuses the amount",
        c.shares,
        c.device(
            "card",
            capacities=(
                ("engines", b.capacity(4, default=1)),
                ("memory", b.capacity("40Gi", default="1Gi", minimum="1Gi", maximum="4Gi")),
            ),
        ),
        {Rule.DEVICE_CAPACITY},
    ),
    ("a device is in use", c.whole_cards, c.moved(0, "gpu-2"), {Rule.DEVICE_TWICE}),
    ("a device is in one claim twice", c.whole_cards, c.moved(0, "gpu-1"), {Rule.DEVICE_TWICE}),
    (
        "a device is in one claim twice by admin access",
        c.choices,
        c.result(2, device=b.device_id("e", "n1")),
        {Rule.DEVICE_TWICE, Rule.REQUEST_ALL},
    ),
    (
        "a device that shares exist of is held alone",
        c.shares,
        c.both(c.device("card", allow_multiple_allocations=False), c.result(0, share_id="", consumed_capacity=())),
        {Rule.DEVICE_TWICE},
    ),
    (
        "a device that is held alone is shared",
        c.shares,
        c.claim("holder", allocation=b.allocation(b.result("share", "card", "n1", driver=c.SHARED), node_name="n1")),
        {Rule.DEVICE_TWICE},
    ),
    (
        "one request has two shares of a device",
        c.shares,
        c.both(
            c.claim("part", requests=(b.request("share", "shared", count=2, capacity={"memory": "8Gi"}),)),
            c.results(lambda old: (*old, replace(old[0], share_id=b.share_id(3)))),
        ),
        {Rule.DEVICE_SHARED_TWICE},
    ),
    (
        "shares take more than there is",
        c.shares,
        c.both(
            c.claim("part", requests=(b.request("share", "shared", capacity={"memory": "21Gi"}),)),
            c.result(0, consumed_capacity=b.quantities({"memory": "30Gi", "engines": 1})),
        ),
        {Rule.DEVICE_OVERCOMMITTED},
    ),
    (
        "the second capacity runs out",
        c.shares,
        c.claim(
            "holder",
            allocation=b.allocation(
                b.result(
                    "share",
                    "card",
                    "n1",
                    driver=c.SHARED,
                    share_id=b.share_id(1),
                    consumed={"memory": "1Gi", "engines": 4},
                )
            ),
        ),
        {Rule.DEVICE_OVERCOMMITTED},
    ),
    (
        "the counter runs out",
        c.partitions,
        c.device("half-1", consumes_counters=b.device("", consumes={"card": {"slices": 5}}).consumes_counters),
        {Rule.COUNTER_OVERCOMMITTED},
    ),
    (
        "a device has no compatibility group in common with one in use",
        c.partitions,
        c.device(
            "half-1", consumes_counters=b.device("", consumes={"card": {"slices": 4}}, groups="a").consumes_counters
        ),
        {Rule.DEVICE_INCOMPATIBLE},
    ),
    (
        "a shared device's counter is taken by another device",
        c.shares,
        c.both(
            c.removed("claims", "holder"), c.added(b.held("another", b.result("x", "other", "n1", driver=c.SHARED)))
        ),
        {Rule.COUNTER_OVERCOMMITTED},
    ),
    (
        "a device in use that is not published any more blocks its pool's counters",
        c.partitions,
        c.claim("holder", allocation=b.allocation(b.result("half", "half-9", "n1", driver=c.PARTS), node_name="n1")),
        {Rule.COUNTER_OVERCOMMITTED},
    ),
    (
        "a device in use drew more when it was allocated than its slice says now",
        c.partitions,
        c.remembered("half-0", {"card/slices": 5}),
        {Rule.COUNTER_OVERCOMMITTED},
    ),
    # Constraints
    (
        "matched devices differ",
        c.whole_cards,
        c.moved(1, "gpu-4"),
        {Rule.CONSTRAINT_MATCH},
    ),
    (
        "matched versions differ in build metadata",
        c.fabric,
        c.both(
            c.claim("shared", constraints=(b.match(f"{c.FABRIC}/switch"),)),
            c.device("rack-port", attributes=(("switch", b.version("1.0.0+a")),)),
            c.device("row-port", attributes=(("switch", b.version("1.0.0+b")),)),
        ),
        {Rule.CONSTRAINT_MATCH},
    ),
    (
        "matched values are of different types",
        c.fabric,
        c.both(
            c.claim("shared", constraints=(b.match(f"{c.FABRIC}/switch"),)),
            c.device("rack-port", attributes=(("switch", b.attribute(value=True)),)),
            c.device("row-port", attributes=(("switch", b.attribute(1)),)),
        ),
        {Rule.CONSTRAINT_MATCH},
    ),
    (
        "lists match pairwise but have nothing in common",
        c.fabric,
        c.both(
            c.claim(
                "shared", requests=(b.request("port", "fabric", count=3),), constraints=(b.match(f"{c.FABRIC}/switch"),)
            ),
            c.device("rack-port", attributes=(("switch", b.attribute((1, 2))),)),
            c.device("row-port", attributes=(("switch", b.attribute((2, 3))),)),
            c.device("any-port", attributes=(("switch", b.attribute((3, 1))),)),
            c.results(lambda old: (*old, b.result("port", "any-port", "row", driver=c.FABRIC))),
        ),
        {Rule.CONSTRAINT_MATCH},
    ),
    (
        "a bare attribute of another driver is not meant",
        c.whole_cards,
        c.claim("two", constraints=(b.match("else.example.com/model"),)),
        {Rule.CONSTRAINT_ATTRIBUTE, Rule.CONSTRAINT_MATCH},
    ),
    (
        "the only device lacks the attribute",
        c.partitions,
        c.claim("half", constraints=(b.distinct(f"{c.PARTS}/parent"),)),
        {Rule.CONSTRAINT_ATTRIBUTE},
    ),
    (
        "an empty list is no attribute",
        c.partitions,
        c.both(
            c.claim("half", constraints=(b.distinct(f"{c.PARTS}/parent"),)),
            c.device("half-1", attributes=(("parent", b.attribute(())),)),
        ),
        {Rule.CONSTRAINT_ATTRIBUTE},
    ),
    ("distinct devices have one value", c.choices, c.moved(0, "c"), {Rule.CONSTRAINT_DISTINCT, Rule.RESULT_COPIES}),
    (
        "distinct values repeat at a distance",
        c.fabric,
        c.both(
            c.claim(
                "shared",
                requests=(b.request("port", "fabric", count=3),),
            ),
            c.device("any-port", attributes=(("switch", b.attribute(1)),)),
            c.results(lambda old: (*old, b.result("port", "any-port", "row", driver=c.FABRIC))),
        ),
        {Rule.CONSTRAINT_DISTINCT},
    ),
    (
        "distinct lists overlap",
        c.fabric,
        c.both(
            c.device("rack-port", attributes=(("switch", b.attribute((1, 2))),)),
            c.device("row-port", attributes=(("switch", b.attribute((2, 3))),)),
        ),
        {Rule.CONSTRAINT_DISTINCT},
    ),
)


BROKEN = (
    *BROKEN,
    *node_allocatable_cases.BROKEN,
    *preemption_cases.BROKEN,
    ("devices of a held node are taken", c.whole_cards, c.held(), {Rule.NODE_RESERVED}),
    (
        "devices of a held node are taken by a lower priority",
        c.whole_cards,
        c.held("placed", priority=1),
        {Rule.NODE_RESERVED},
    ),
    ("a device is taken that is held", c.whole_cards, c.kept(h.place("later", "n1", "gpu-0")), {Rule.ROOM_HELD}),
    ("cpu is taken that is held", c.whole_cards, c.kept(h.place("later", "n1", cpu=3)), {Rule.ROOM_HELD}),
    (
        "a share is taken that is held",
        c.shares,
        c.kept(h.place("later", "n1", h.share("card", "n1", {"memory": "20Gi"}, number=7, driver=c.SHARED))),
        {Rule.ROOM_HELD},
    ),
    (
        "counters are taken that are held",
        c.partitions,
        c.kept(h.place("later", "n1", h.whole("half-2", "n1", c.PARTS))),
        {Rule.ROOM_HELD},
    ),
    (
        "a pod uses up a place that is for another one",
        c.whole_cards,
        c.both(c.kept(h.place("later", "n2", cpu=1)), c.placement("placed", place="uid-h/0")),
        {Rule.HOLD_PLACE},
    ),
    (
        "a pod uses up a place where nothing is held",
        c.whole_cards,
        c.placement("placed", place="uid-h/0"),
        {Rule.HOLD_PLACE},
    ),
    (
        "cpu beside a hold is taken",
        c.whole_cards,
        c.held(takes_devices=False, requests=(("cpu", 63_000),)),
        {Rule.NODE_RESERVED},
    ),
    ("more is given than a quota leaves", c.whole_cards, c.limited(2), {Rule.QUOTA_LIMIT}),
)


ELSEWHERE = (*gang_cases.BROKEN, *inter_pod_cases.BROKEN, *volume_cases.BROKEN)
"""Changes that other files here go through."""


@pytest.mark.parametrize(("case", "change", "rules"), [row[1:] for row in BROKEN], ids=[row[0] for row in BROKEN])
def test_a_broken_rule_is_noticed_by_its_name(case: Callable[[], c.Case], change: c.Change, rules: set[Rule]) -> None:
    assert {violation.rule for violation in check(*change(case()))} == rules


def test_every_rule_is_broken_by_one_of_the_changes() -> None:
    of_repairs = {rule for rule in Rule if rule.name.startswith("MOVE_")}  # tests/solver/repair/test_leaving.py
    of_nodes = {Rule.NODE_LIMIT}  # below
    assert set().union(*(row[-1] for row in (*BROKEN, *ELSEWHERE))) == set(Rule) - of_repairs - of_nodes


def test_nodes_to_add_are_held_to_limits() -> None:
    shapes = [NodeShape(name=name, node=b.node(name), most=most) for name, most in (("s", 1), ("t", None))]
    limit = NodeLimit(owner="pool", resource="cpu", limit="5", left=5, sizes=(("s", 2), ("t", 3)))

    def broken(*names: str) -> list[str]:
        added = [AddedNode(name=f"{name}-{number}", shape=name) for number, name in enumerate(names)]
        found = check_added(added, shapes, [limit])
        assert {each.rule for each in found} <= {Rule.NODE_LIMIT}
        return [each.subject for each in found]

    assert broken("s", "t") == []
    assert broken("t", "t") == ["pool"]
    assert broken("s", "s") == ["s"]


def test_a_violation_says_what_it_is_about() -> None:
    (violation,) = check(*c.moved(0, "gpu-2")(c.whole_cards()))
    assert violation.subject == "gpu.example.com/n1/gpu-2"
    assert violation.message == "device gpu.example.com/n1/gpu-2 is held by claim default/holder"

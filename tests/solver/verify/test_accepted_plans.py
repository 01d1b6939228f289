"""The checker accepts what the API allows: valid plans, and the ones next to a broken rule."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from solver.domain import AllocationMode, ConsumerReference, OwnedDevices, Policy
from tests.solver.verify import cases as c
from tests.solver.verify import node_allocatable_cases
from tests.solver.verify.both_ways import check
from tests.support import builders as b
from tests.support import hold_builders as h

ACCEPTED: tuple[tuple[str, Callable[[], c.Case], c.Change], ...] = (
    (
        "a cordon is tolerated",
        c.whole_cards,
        c.both(
            c.node("n1", is_unschedulable=True),
            c.pod("placed", tolerations=(b.toleration("node.kubernetes.io/unschedulable"),)),
        ),
    ),
    (
        "taints are tolerated by an empty key",
        c.whole_cards,
        c.both(c.node("n1", taints=(b.taint("k", "v", "NoExecute"),)), c.pod("placed", tolerations=(b.toleration(),))),
    ),
    ("a soft taint keeps no pod away", c.whole_cards, c.node("n1", taints=(b.taint("k", effect="PreferNoSchedule"),))),
    (
        "one of two terms of the affinity holds",
        c.whole_cards,
        c.pod(
            "placed",
            required_affinity=b.node_selector(
                b.expressions(b.requirement("zone", "In", "b")), b.expressions(b.requirement("zone", "Exists"))
            ),
        ),
    ),
    ("the node is filled beside held room", c.whole_cards, c.kept(h.place("later", "n1", "gpu-7", cpu=2))),
    (
        "a pod of a higher priority takes held room",
        c.whole_cards,
        c.both(c.kept(h.place("later", "n1", "gpu-0", cpu=4)), c.pod("placed", priority=1)),
    ),
    (
        "a pod takes what is held for it",
        c.whole_cards,
        c.both(c.kept(h.place("placed", "n1", "gpu-0", "gpu-1", cpu=4)), c.placement("placed", place="uid-h/0")),
    ),
    (
        "a pod takes more than is held for it, and elsewhere",
        c.whole_cards,
        c.both(c.kept(h.place("placed", "n2", "gpu-0")), c.placement("placed", place="uid-h/0")),
    ),
    ("the node is filled to the last millicore", c.whole_cards, c.pod("placed", requests=(("cpu", 4000),))),
    (
        "the node is filled to the last pod",
        c.whole_cards,
        c.node("n1", allocatable=(("cpu", 99000), ("memory", 1 << 40), ("pods", 2))),
    ),
    ("a pod and what its devices take fill the node", node_allocatable_cases.burdened, lambda case: case),
    (
        "pod-level requests cover what devices take, and hold it",
        node_allocatable_cases.burdened,
        c.both(c.pod("p", level_slack=(("cpu", 2000),)), c.node("n1", allocatable=b.node("n1", cpu=4).allocatable)),
    ),
    (
        "the pod-level limit covers a container and what its devices take",
        node_allocatable_cases.burdened,
        node_allocatable_cases.limited(2000),
    ),
    (
        "Kubernetes 1.36 does not compare limits",
        node_allocatable_cases.legacy,
        node_allocatable_cases.limited(0),
    ),
    (
        "nothing of an overcommitted resource is asked for",
        c.whole_cards,
        c.both(c.running("running", requests=(("memory", 1 << 50),)), c.pod("placed", requests=(("memory", 0),))),
    ),
    (
        "what a pod does not ask for may be overcommitted",
        c.whole_cards,
        c.both(c.running("running", requests=(("memory", 1 << 50),)), c.pod("placed", requests=(("cpu", 1),))),
    ),
    (
        "a pod that has reserved the claim is no new consumer",
        c.joined,
        c.both(c.claim("given", reserved_for=(b.consumer("placed"),)), c.device("gpu-0", taints=(b.taint("broken"),))),
    ),
    (
        "a claim gets its 256th consumer",
        c.joined,
        c.claim("given", reserved_for=tuple(b.consumer(f"p{i}") for i in range(255))),
    ),
    (
        "a group's entry covers its pods",
        c.joined,
        c.both(
            c.claim(
                "given",
                reserved_for=(
                    *(b.consumer(f"p{i}") for i in range(255)),
                    ConsumerReference(api_group="scheduling.k8s.io", resource="podgroups", name="g", uid="uid-g"),
                ),
            ),
            c.member("placed", "g", "uid-g"),
        ),
    ),
    (
        "a group's claim is its pods'",
        c.joined,
        c.both(c.claim("given", owner_pod_uid="", owner_group_uid="uid-g"), c.member("placed", "g", "uid-g")),
    ),
    (
        "a claim by its name has no owner",
        c.joined,
        c.both(c.claim("given", owner_pod_uid="other"), c.pod("placed", claims=b.pod("x", "given").claims)),
    ),
    ("an allocated claim's device vanished", c.joined, c.slices("n1", devices=())),
    (
        "a taint of an unknown effect blocks nothing",
        c.partitions,
        c.device("half-1", taints=(b.taint("k", effect="None"), b.taint("k", effect="NoTouch"))),
    ),
    ("a higher priority takes what is held", c.whole_cards, c.held(priority=-1)),
    ("another overdue pod takes what is held", c.whole_cards, c.held("placed")),
    ("devices are taken where none are held", c.whole_cards, c.held(takes_devices=False, requests=(("cpu", 1000),))),
    ("a device of a local slice is owned by its node", c.whole_cards, c.owned(drivers=(b.GPU_DRIVER,), zone="a")),
    (
        "a node is owned by one of two terms",
        c.whole_cards,
        lambda case: case._replace(
            policy=Policy(
                owned=OwnedDevices(
                    node_terms=(
                        b.expressions(b.requirement("zone", "In", "b")),
                        b.expressions(b.requirement("zone", "In", "a")),
                    )
                )
            )
        ),
    ),
    ("a device of no one node is owned by its driver", c.fabric, c.owned(drivers=(c.FABRIC,), zone="nowhere")),
    (
        "a capacity of an exclusive device is a least size",
        c.partitions,
        c.both(
            c.device("half-1", capacities=(("memory", b.capacity("40Gi")),)),
            c.claim("half", requests=(b.request("half", "parts", capacity={"memory": "40Gi"}),)),
        ),
    ),
    (
        "a capacity is asked for with the driver's domain",
        c.shares,
        c.claim("part", requests=(b.request("share", "shared", capacity={f"{c.SHARED}/memory": "8Gi"}),)),
    ),
    (
        "capacity is filled to the last byte",
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
                    consumed={"memory": "30Gi", "engines": 3},
                )
            ),
        ),
    ),
    (
        "two requests share one device",
        c.shares,
        c.both(
            c.claim(
                "part",
                requests=(
                    b.request("share", "shared", capacity={"memory": "8Gi"}),
                    b.request("more", "shared", capacity={"memory": "8Gi"}),
                ),
            ),
            c.results(lambda old: (*old, replace(old[0], request="more", share_id=b.share_id(3)))),
        ),
    ),
    (
        "a device in use that is not published any more drew what is remembered",
        c.partitions,
        c.both(
            c.claim(
                "holder", allocation=b.allocation(b.result("half", "half-9", "n1", driver=c.PARTS), node_name="n1")
            ),
            c.remembered("half-9", {"card/slices": 4}),
        ),
    ),
    (
        "one more share of a device whose counter is overdrawn",
        c.shares,
        c.added(b.held("another", b.result("x", "other", "n1", driver=c.SHARED))),
    ),
    (
        "a device that draws nothing of an overdrawn counter",
        c.partitions,
        c.both(
            c.remembered("half-0", {"card/slices": 9}),
            c.device("half-1", consumes_counters=b.device("", consumes={"card": {"slices": 0}}).consumes_counters),
        ),
    ),
    (
        "32 devices are allocated",
        c.choices,
        c.both(
            c.slices("n1", devices=tuple(b.device(f"gpu-{i}") for i in range(32))),
            c.claim("choice", requests=(b.request("gpu", count=32),), config=(), constraints=()),
            c.removed("claims", "holder"),
            c.allocation(config=(), results=tuple(b.result("gpu", f"gpu-{i}", "n1") for i in range(32))),
        ),
    ),
    (
        "what is remembered of a device that is free again is forgotten",
        c.partitions,
        c.remembered("half-1", {"card/slices": 8}),
    ),
    (
        "admin access ignores holders of the device, and counters",
        c.partitions,
        c.both(
            c.claim("half", requests=(b.request("half", "parts", is_admin=True),)),
            c.result(0, device=b.device_id("half-0", "n1", c.PARTS), admin_access=True),
        ),
    ),
    (
        "admin access to a free device draws on no counter",
        c.partitions,
        c.both(
            c.claim("half", requests=(b.request("half", "parts", is_admin=True),)),
            c.device("half-1", consumes_counters=b.device("", consumes={"card": {"slices": 9}}).consumes_counters),
            c.result(0, admin_access=True),
        ),
    ),
    (
        "admin access to a device that others hold twice and have overdrawn",
        c.shares,
        c.both(
            c.claim("part", requests=(b.request("share", "shared", is_admin=True),)),
            c.result(0, admin_access=True),
            c.added(
                b.held("one", b.result("x", "card", "n1", driver=c.SHARED)),
                b.held(
                    "two",
                    b.result("x", "card", "n1", driver=c.SHARED, share_id=b.share_id(9), consumed={"memory": 1 << 50}),
                ),
            ),
            c.result(0, consumed_capacity=()),
        ),
    ),
    (
        "a device of which others have shares of one id",
        c.shares,
        c.added(
            b.held(
                "again",
                b.result(
                    "x", "card", "n1", driver=c.SHARED, share_id=b.share_id(1), consumed={"memory": 0, "engines": 0}
                ),
            )
        ),
    ),
    (
        "admin access is no usage",
        c.partitions,
        c.claim("holder", allocation=b.allocation(b.result("half", "half-1", "n1", driver=c.PARTS, is_admin=True))),
    ),
    (
        "admin access names no share",
        c.shares,
        c.both(
            c.claim("part", requests=(b.request("share", "shared", is_admin=True),)),
            c.result(0, admin_access=True, share_id="", consumed_capacity=()),
        ),
    ),
    (
        "lists have a value in common",
        c.fabric,
        c.both(
            c.claim("shared", constraints=(b.match(f"{c.FABRIC}/switch"),)),
            c.device("rack-port", attributes=(("switch", b.attribute((1, 2))),)),
            c.device("row-port", attributes=(("switch", b.attribute(2)),)),
        ),
    ),
    (
        "distinct lists do not overlap",
        c.fabric,
        c.both(
            c.device("rack-port", attributes=(("switch", b.attribute((1, 2))),)),
            c.device("row-port", attributes=(("switch", b.attribute((3,))),)),
        ),
    ),
    (
        "the qualified attribute wins",
        c.fabric,
        c.both(
            c.claim("shared", constraints=(b.match(f"{c.FABRIC}/switch"),)),
            c.device("rack-port", attributes=((f"{c.FABRIC}/switch", b.attribute(2)), ("switch", b.attribute(1)))),
        ),
    ),
    (
        "an outdated generation is in no pod's way",
        c.whole_cards,
        c.added(b.resource_slice("n1", b.device("gpu-0"), name="old", generation=0, slice_count=5)),
    ),
    (
        "a device in no selector's way leaves the node selector out",
        c.fabric,
        c.both(
            c.device("row-port", scope=b.scope(all_nodes=True)),
            c.slices("rack", scope=b.scope(all_nodes=True)),
            c.allocation(node_selector=None),
        ),
    ),
    (
        "a device that binds gives the node",
        c.fabric,
        c.both(
            c.device("row-port", binds_to_node=True),
            c.placement("second", node="n1"),
            c.allocation(node_selector=b.on_node("n1")),
        ),
    ),
    (
        "a claim without requests has an empty allocation",
        c.partitions,
        c.both(c.claim("half", requests=()), c.allocation(results=(), node_selector=None)),
    ),
    (
        "all devices beside an incomplete pool that shows the node no device",
        c.choices,
        c.added(b.resource_slice("n1", driver="else.example.com", slice_count=2)),
    ),
    (
        "configuration for one of two requests",
        c.choices,
        c.both(
            c.claim("choice", config=(b.config("watch"),)),
            c.allocation(config=(b.config("watch", source="FromClaim"),)),
        ),
    ),
    (
        "all devices leaves out what could never serve",
        c.choices,
        c.both(
            c.device(
                "c",
                attributes=(("seen", b.attribute(value=True)), ("slot", b.attribute(3))),
                capacities=(("memory", b.capacity("1Gi")),),
            ),
            *(c.device(name, capacities=(("memory", b.capacity("8Gi")),)) for name in "de"),
            c.claim(
                "choice",
                requests=(
                    b.first_available("gpu", b.alternative("big", selectors=("false",)), b.alternative("any", count=2)),
                    b.request("watch", mode=AllocationMode.ALL, is_admin=True, capacity={"memory": "8Gi"}),
                ),
            ),
        ),
    ),
)


@pytest.mark.parametrize("case", c.VALID)
def test_a_valid_plan_breaks_no_rule(case: Callable[[], c.Case]) -> None:
    assert check(*case()) == ()


@pytest.mark.parametrize(("case", "change"), [row[1:] for row in ACCEPTED], ids=[row[0] for row in ACCEPTED])
def test_what_the_api_allows_is_accepted(case: Callable[[], c.Case], change: c.Change) -> None:
    assert check(*change(case())) == ()


def test_an_empty_plan_for_an_empty_batch_is_valid() -> None:
    assert check(b.snapshot(), b.batch(), b.plan()) == ()

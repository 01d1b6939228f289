"""The reasons of unplaced pods: code, message and node count."""

from collections.abc import Sequence

import pytest

from solver import solve
from solver.domain import (
    BINDING_FAILED_TAINT,
    AllocationMode,
    Constraint,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    OwnedDevices,
    Pod,
    Policy,
    ReasonCode,
)
from tests.support import builders as b
from tests.support import solver_problems as s

ROOT = "resource.kubernetes.io/pcieRoot"
GPU = b.gpu_class()
N1 = b.node("n1")
PARTITIONS = (
    b.resource_slice(
        "n1", b.device("half-0", consumes={"m": {"x": 2}}), b.device("half-1", consumes={"m": {"x": 2}}), slice_count=2
    ),
    b.resource_slice("n1", counter_sets={"m": {"x": 3}}, slice_count=2),
)
VGPU = f"'mode' in device.attributes['{b.GPU_DRIVER}']"
GROUPED = (
    b.resource_slice(
        "n1",
        b.device("half-0", consumes={"m": {"x": 1}}, groups=("mig",)),
        b.device("half-1", consumes={"m": {"x": 1}}, groups=("vgpu",), attributes={"mode": "vgpu"}),
        slice_count=2,
    ),
    b.resource_slice("n1", counter_sets={"m": {"x": 3}}, slice_count=2),
)
CLASHING = (
    b.resource_slice(
        "n1",
        b.device("half-0", consumes={"m": {"x": 1}}, groups=("mig",)),
        b.device("whole", consumes={"m": {"x": 1}}),
        b.device("other", consumes={"m": {"x": 1}}, attributes={"mode": "vgpu"}),
        slice_count=2,
    ),
    b.resource_slice("n1", counter_sets={"m": {"x": 9}}, slice_count=2),
)
OUTRANKED = (
    "the pod would fit alone, but pods of the same or a higher priority in its batch took the room; "
    "no plan placed more of them"
)
Told = tuple[ReasonCode, str, int]
Row = tuple[str, Sequence[s.Objects], Told]


def reasons(objects: Sequence[s.Objects], *pods: Pod, policy: Policy | None = None) -> list[Told]:
    """The reasons of the last pod, without the hints that lint adds."""
    decided = s.plan(*objects, pods=pods, policy=policy)
    found = s.unplaced(decided, pods[-1].id.name)
    return [(reason.code, reason.message.partition("; hint: ")[0], reason.node_count) for reason in found.reasons]


POD = b.pod("p", "c")

ONE_REASON: tuple[Row, ...] = (
    (
        "no device matches",
        (N1, b.gpu_slice("n1"), b.device_class("gpu", "false"), b.claim("c", b.request("r"))),
        (ReasonCode.DEVICES_NONE, "request r: needs 1 device, none matches", 1),
    ),
    (
        "every device is in use",
        (
            N1,
            b.gpu_slice("n1", count=1),
            GPU,
            b.held("h", b.result("gpu", "gpu-0", "n1")),
            b.claim("c", b.request("r")),
        ),
        (ReasonCode.DEVICES_IN_USE, "request r: needs 1 device, 1 matches, 0 free, 1 in use", 1),
    ),
    (
        "no node is large enough",
        (
            N1,
            b.node("n2"),
            b.gpu_slice("n1", count=2),
            b.gpu_slice("n2", count=1),
            GPU,
            b.claim("c", b.request("r", count=3)),
        ),
        (
            ReasonCode.DEVICES_NONE,
            "request r: needs 3 devices, 3 match, 3 free, no node has more than 2 of them",
            2,
        ),
    ),
    (
        "too few are free on one node",
        (
            N1,
            b.gpu_slice("n1", count=3),
            GPU,
            b.held("h", b.result("gpu", "gpu-0", "n1")),
            b.claim("c", b.request("r", count=3)),
        ),
        (ReasonCode.DEVICES_IN_USE, "request r: needs 3 devices, 3 match, 2 free, 1 in use", 1),
    ),
    (
        "too little capacity is left",
        (
            N1,
            b.resource_slice("n1", b.device("d", is_shareable=True, capacities={"memory": "80Gi"})),
            GPU,
            b.held("h", b.result("gpu", "d", "n1", share_id=b.share_id(1), consumed={"memory": "60Gi"})),
            b.claim("c", b.request("r", capacity={"memory": "40Gi"})),
        ),
        (
            ReasonCode.DEVICES_CAPACITY,
            (
                "request r: needs 1 device, 1 matches, 0 free, 1 with too little capacity left "
                "(memory: 40Gi asked, at most 20Gi left on one device)"
            ),
            1,
        ),
    ),
    (
        "the counters are used up",
        (
            N1,
            b.resource_slice("n1", *(b.device(name, consumes={"set": {"slots": 3}}) for name in "de"), slice_count=2),
            b.resource_slice("n1", slice_count=2, counter_sets={"set": {"slots": 4}}),
            GPU,
            b.held("h", b.result("gpu", "d", "n1")),
            b.claim("c", b.request("r")),
        ),
        (
            ReasonCode.DEVICES_IN_USE,
            "request r: needs 1 device, 2 match, 0 free, 1 in use, 1 with too little left of their shared counters",
            1,
        ),
    ),
    (
        "devices of the cluster are in use",
        (
            N1,
            b.resource_slice("wide", b.device("d"), b.device("e"), at=b.scope(all_nodes=True)),
            GPU,
            b.held("h", b.result("gpu", "d", "wide")),
            b.claim("c", b.request("r", count=2)),
        ),
        (ReasonCode.DEVICES_IN_USE, "request r: needs 2 devices, 2 match, 1 free, 1 in use", 1),
    ),
    (
        "every device is tainted",
        (N1, b.gpu_slice("n1", count=2, taints=(b.taint("t"),)), GPU, b.claim("c", b.request("r"))),
        (ReasonCode.DEVICES_TAINTED, "request r: needs 1 device, 2 match, 0 free, 2 tainted with t:NoSchedule", 1),
    ),
    (
        "every device is avoided, whatever is tolerated",
        (
            N1,
            b.gpu_slice("n1", count=2),
            GPU,
            b.taint_rule("avoided", b.taint(BINDING_FAILED_TAINT)),
            b.claim("c", b.request("r", tolerations=(b.toleration(),))),
        ),
        (
            ReasonCode.DEVICES_AVOIDED,
            (
                "request r: needs 1 device, 2 match, 0 free, 2 avoided because they did not get ready for a pod "
                "(retried later, as the last choice)"
            ),
            1,
        ),
    ),
    (
        "every device is too small",
        (N1, b.gpu_slice("n1", count=2), GPU, b.claim("c", b.request("r", capacity={"memory": "90Gi"}))),
        (
            ReasonCode.DEVICES_NONE,
            "request r: needs 1 device, 2 match, 0 free, 2 too small for the requested capacity",
            1,
        ),
    ),
    (
        "a selector fails on every device",
        (
            N1,
            b.gpu_slice("n1", count=2),
            GPU,
            b.claim("c", b.request("r", selectors=("device.attributes['a.b'].c == 1",))),
        ),
        (
            ReasonCode.SELECTOR_FAILED,
            "request r: needs 1 device, none matches, 2 could not be checked (CEL runtime error)",
            1,
        ),
    ),
    (
        "one of all devices is in use",
        (
            N1,
            b.gpu_slice("n1", count=3),
            GPU,
            b.held("h", b.result("gpu", "gpu-0", "n1")),
            b.claim("c", b.request("r", mode="All")),
        ),
        (ReasonCode.DEVICES_IN_USE, "request r: needs all devices, 3 match, 2 free, 1 in use", 1),
    ),
    (
        "all devices are too many",
        (N1, b.gpu_slice("n1", count=40), GPU, b.claim("c", b.request("r", mode="All"))),
        (
            ReasonCode.CLAIM_TOO_LARGE,
            (
                "request r: allocation mode All matches 40 devices on a node, and an allocation holds at most 32: "
                "narrow its selectors, or use a count"
            ),
            1,
        ),
    ),
    (
        "none of the alternatives fits",
        (
            N1,
            b.gpu_slice("n1", count=2),
            GPU,
            b.claim("c", b.first_available("r", b.alternative("big", count=8), b.alternative("mid", count=4))),
        ),
        (
            ReasonCode.DEVICES_NONE,
            "request r: none of its 2 alternatives fits; the nearest is mid: needs 4 devices, 2 match, 2 free",
            1,
        ),
    ),
    (
        "requests take each other's devices",
        (N1, b.gpu_slice("n1", count=3), GPU, b.claim("c", b.request("r", count=2), b.request("s", count=2))),
        (
            ReasonCode.DEVICES_CONSTRAINT,
            (
                "requests r, s: enough devices are free for each request, but not for all requests on one node: "
                "they need 4 together, and no node has more than 3 free for them"
            ),
            1,
        ),
    ),
    (
        "no root has enough",
        (N1, b.gpu_slice("n1", count=6), GPU, b.claim("c", b.request("r", count=5), constraints=(b.match(ROOT),))),
        (
            ReasonCode.DEVICES_CONSTRAINT,
            f"request r: enough devices are free, but no combination of them on one node has equal {ROOT}",
            1,
        ),
    ),
    (
        "all devices are free and disagree",
        (N1, b.gpu_slice("n1"), GPU, b.claim("c", b.request("r", mode="All"), constraints=(b.match(ROOT),))),
        (
            ReasonCode.DEVICES_CONSTRAINT,
            f"request r: enough devices are free, but no combination of them on one node has equal {ROOT}",
            1,
        ),
    ),
    (
        "all devices are free and share counters",
        (N1, PARTITIONS, GPU, b.claim("c", b.request("r", mode="All"))),
        (
            ReasonCode.DEVICES_COUNTERS,
            "request r: enough devices are free, but their shared counters do not suffice for all of them",
            1,
        ),
    ),
    (
        "a device in use excludes the free one",
        (
            N1,
            GROUPED,
            GPU,
            b.held("h", b.result("gpu", "half-0", "n1")),
            b.claim("c", b.request("r", selectors=(VGPU,))),
        ),
        (
            ReasonCode.DEVICES_INCOMPATIBLE,
            (
                "request r: needs 1 device, 1 matches, 0 free, "
                "1 without a compatibility group in common with devices in use"
            ),
            1,
        ),
    ),
    (
        "devices in use exclude each other, as after their groups have changed",
        (
            N1,
            *CLASHING,
            GPU,
            b.held("h", b.result("gpu", "half-0", "n1")),
            b.held("i", b.result("gpu", "whole", "n1")),
            b.claim("c", b.request("r", selectors=(VGPU,))),
        ),
        (
            ReasonCode.DEVICES_INCOMPATIBLE,
            (
                "request r: needs 1 device, 1 matches, 0 free, "
                "1 beside devices in use that have no compatibility group in common themselves"
            ),
            1,
        ),
    ),
    (
        "free devices exclude each other",
        (N1, GROUPED, GPU, b.claim("c", b.request("r", count=2))),
        (
            ReasonCode.DEVICES_COUNTERS,
            (
                "request r: enough devices are free, but their shared counters or compatibility groups do not suffice "
                "for all of them"
            ),
            1,
        ),
    ),
    (
        "devices of several requests exclude each other",
        (N1, GROUPED, GPU, b.claim("c", b.request("r"), b.request("s"))),
        (
            ReasonCode.DEVICES_CONSTRAINT,
            (
                "requests r, s: enough devices are free for each request, but not for all requests on one node, where "
                "some have no compatibility group in common"
            ),
            1,
        ),
    ),
    (
        "the models do not differ",
        (
            N1,
            b.gpu_slice("n1"),
            GPU,
            b.claim("c", b.request("r", count=2), constraints=(b.distinct("gpu.example.com/model"),)),
        ),
        (
            ReasonCode.DEVICES_CONSTRAINT,
            (
                "request r: enough devices are free, but no combination of them on one node has different "
                "gpu.example.com/model"
            ),
            1,
        ),
    ),
    (
        "an allocated claim has a tainted device",
        (
            N1,
            b.gpu_slice("n1", taints=(b.taint("t"),)),
            GPU,
            b.claim("c", allocation=b.allocation(b.result("gpu", "gpu-0", "n1"), node_name="n1")),
        ),
        (
            ReasonCode.CLAIM_TAINTED,
            "claim c holds device gpu.example.com/n1/gpu-0, which has taint t now",
            0,
        ),
    ),
    (
        "there is no node",
        (GPU, b.claim("c")),
        (ReasonCode.NO_NODES, "no nodes available to schedule pods", 0),
    ),
)


@pytest.mark.parametrize(("objects", "told"), [row[1:] for row in ONE_REASON], ids=[row[0] for row in ONE_REASON])
def test_a_pod_has_the_reason(objects: Sequence[s.Objects], told: Told) -> None:
    assert reasons(objects, POD) == [told]


def test_the_taints_of_most_devices_are_named_unless_the_inventory_is_secret() -> None:
    taints = (b.taint("a", "1"), b.taint("b", effect="NoExecute"), b.taint("b", effect="NoExecute"), b.taint("c"))
    devices = [b.device(f"d{number}", taints=(each,)) for number, each in enumerate(taints)]
    objects = (N1, b.resource_slice("n1", *devices), GPU, b.claim("c", b.request("r")))
    lead = "request r: needs 1 device, 4 match, 0 free, 4 tainted"
    ((_, told, _),) = reasons(objects, POD)
    ((_, untold, _),) = reasons(objects, POD, policy=Policy(tells_inventory=False))
    assert (told, untold) == (f"{lead} with b:NoExecute, a=1:NoSchedule and 1 more", lead)


def test_devices_that_another_scheduler_owns_are_named_so() -> None:
    policy = Policy(owned=OwnedDevices(drivers=("other",)))
    message = "request r: needs 1 device, 2 match, 0 free, 2 left to another scheduler by the configuration"
    objects = (N1, b.gpu_slice("n1", count=2), GPU, b.claim("c", b.request("r")))
    assert reasons(objects, POD, policy=policy) == [(ReasonCode.DEVICES_NOT_OWNED, message, 1)]


def test_the_label_that_nodes_lack_is_named_unless_the_inventory_is_secret() -> None:
    part = NodeSelectorRequirement(key="dovetail.dev/owned", operator="In", values=("true",))
    owned = OwnedDevices(node_terms=(NodeSelectorTerm(match_expressions=(part,)),))
    lead = "request r: needs 1 device, 2 match, 0 free, 2 left to another scheduler by the configuration"
    objects = (N1, b.gpu_slice("n1", count=2), GPU, b.claim("c", b.request("r")))
    ((_, told, _),) = reasons(objects, POD, policy=Policy(owned=owned))
    ((_, untold, _),) = reasons(objects, POD, policy=Policy(owned=owned, tells_inventory=False))
    assert (told, untold) == (f"{lead} (devices.owned wants nodes with dovetail.dev/owned=true)", lead)


def test_a_pool_that_is_not_whole_is_named_where_nothing_matches() -> None:
    objects = (N1, b.resource_slice("n1", b.device("d"), slice_count=2), GPU, b.claim("c"))
    message = "pool gpu.example.com/n1 is incomplete: 1 of 2 slices of generation 1 are published"
    assert reasons(objects, POD)[1:] == [(ReasonCode.POOL_INCOMPLETE, message, 0)]


ALL = b.request("r", mode=AllocationMode.ALL)
PARTIAL = b.resource_slice("n1", b.device("d"), slice_count=2)
INCOMPLETE = "pool gpu.example.com/n1 is incomplete: 1 of 2 slices of generation 1 are published"
USED = (b.node("n2"), b.gpu_slice("n2", count=2), b.held("h", b.result("gpu", "gpu-0", "n2")))


def test_a_request_for_all_devices_names_the_pool_that_is_not_whole_and_devices_in_use_elsewhere() -> None:
    """So that it is tried again when either changes."""
    assert reasons((N1, PARTIAL, *USED, GPU, b.claim("c", ALL)), POD) == [
        (ReasonCode.DEVICES_IN_USE, "request r: needs all devices, 2 match, 1 free, 1 in use", 2),
        (ReasonCode.POOL_INCOMPLETE, INCOMPLETE, 0),
    ]


def test_a_request_for_all_devices_names_only_the_pool_that_is_not_whole_if_every_node_sees_it() -> None:
    assert reasons((N1, PARTIAL, GPU, b.claim("c", ALL)), POD) == [(ReasonCode.POOL_INCOMPLETE, INCOMPLETE, 1)]


def test_an_alternative_with_devices_in_use_is_named_beside_one_for_all_devices_of_a_pool_that_is_not_whole() -> None:
    every = b.alternative("every", mode=AllocationMode.ALL)
    claim = b.claim("c", b.first_available("r", every, b.alternative("one", "old")))
    old, driver = b.device_class("old", driver="old.example.com"), "old.example.com"
    taken = (
        b.resource_slice("n1", b.device("d"), driver=driver),
        b.held("h", b.result("gpu", "d", "n1", driver=driver)),
    )
    told = reasons((N1, PARTIAL, *taken, GPU, old, claim), POD)
    assert {code for code, _, _ in told} == {ReasonCode.DEVICES_IN_USE, ReasonCode.POOL_INCOMPLETE}


def test_a_request_for_all_devices_that_are_free_names_a_pool_that_is_not_whole_and_the_constraint() -> None:
    devices = (b.device(f"d{number}", attributes={ROOT: f"pci{number}"}) for number in range(2))
    claim = b.claim("c", ALL, constraints=(b.match(ROOT),))
    told = reasons((N1, PARTIAL, b.node("n2"), b.resource_slice("n2", *devices), GPU, claim), POD)
    assert {code for code, _, _ in told} == {ReasonCode.DEVICES_CONSTRAINT, ReasonCode.POOL_INCOMPLETE}


def test_a_pool_that_contradicts_itself_is_named_with_its_contradiction() -> None:
    objects = (N1, b.resource_slice("n1", b.device("d"), b.device("d")), GPU, b.claim("c"))
    message = "pool gpu.example.com/n1 is not used: device d is published 2 times"
    assert reasons(objects, POD) == [
        (ReasonCode.DEVICES_NONE, "request gpu: needs 1 device, none matches", 0),
        (ReasonCode.POOL_INVALID, message, 1),
    ]


def test_the_claim_is_named_where_there_are_several() -> None:
    objects = (N1, b.gpu_slice("n1", count=2), GPU, b.claim("c"), b.claim("d", b.request("r", count=3)))
    pod = b.pod("p", b.entry("c", name="first"), b.entry("d", name="second"))
    assert [message for _, message, _ in reasons(objects, pod)] == [
        "claim second, request r: needs 3 devices, 2 match, 2 free"
    ]


def test_nodes_are_counted_by_what_each_fails_first() -> None:
    nodes = (
        b.node("n1", cpu=1),
        b.node("n2", cpu=1),
        b.node("n3", is_unschedulable=True),
        b.node("n4", taints=(b.taint("a", "b"),)),
        b.node("n5", labels={"zone": "b"}),
    )
    pod = b.pod("p", cpu=2, node_selector={"zone": "a"})
    labelled = [b.node(each.name, cpu=1, labels={"zone": "a"}) if each.name in {"n1", "n2"} else each for each in nodes]
    assert sorted(reasons([labelled], pod)) == [
        (ReasonCode.NODE_AFFINITY, "node(s) didn't match Pod's node affinity/selector", 1),
        (ReasonCode.NODE_TAINT, "node(s) had untolerated taint {a: b}", 1),
        (ReasonCode.NODE_TOO_SMALL, "Insufficient cpu", 2),
        (ReasonCode.NODE_TOO_SMALL, "the pod requests 2 cpu; the largest node that it may use (n1) has 1", 0),
        (ReasonCode.NODE_UNSCHEDULABLE, "node(s) were unschedulable", 1),
    ]


def test_every_insufficient_resource_is_a_reason() -> None:
    pod = b.pod("p", cpu=65, memory="1Ti", extended={"example.com/x": 1})
    assert [message for _, message, _ in reasons((N1,), pod)] == [
        "Insufficient cpu",
        "Insufficient example.com/x",
        "Insufficient memory",
        "the pod requests 65 cpu; the largest node that it may use (n1) has 64",
        "the pod requests 1 example.com/x; no node that it may use has any",
        "the pod requests 1Ti memory; the largest node that it may use (n1) has 256Gi",
    ]


def test_a_full_node_has_too_many_pods() -> None:
    running = b.pod("running", node_name="n1")
    assert reasons((b.node("n1", pods=1), running), b.pod("p")) == [(ReasonCode.NODE_RESOURCES, "Too many pods", 1)]


def test_an_outranked_pod_names_the_winners_of_its_namespace() -> None:
    winners = [b.pod("mine", cpu=4, priority=1), b.pod("foreign", namespace="team", cpu=4, priority=1)]
    told = reasons((b.node("n1", cpu=8),), *winners, b.pod("p", cpu=2))
    assert told[0] == (ReasonCode.OUTRANKED, OUTRANKED.replace("the room;", "the room (such as mine);"), 0)


def test_a_label_that_no_node_has_is_named_with_the_nearest() -> None:
    pod = b.pod("p", node_selector={"zone": "east-11"})
    told = reasons((b.node("n1", labels={"zone": "east-1"}), b.node("n2", labels={"zone": "west"})), pod)
    assert told[-1] == (
        ReasonCode.NODE_AFFINITY,
        "nodeSelector zone=east-11: no node has it: did you mean east-1?",
        0,
    )


def test_a_label_key_that_no_node_has_is_named_with_the_nearest() -> None:
    told = reasons((b.node("n1", labels={"gpu-model": "h100"}),), b.pod("p", node_selector={"gpu-modell": "h100"}))
    message = "nodeSelector gpu-modell=h100: no node has a label gpu-modell: did you mean gpu-model?"
    assert told[-1] == (ReasonCode.NODE_AFFINITY, message, 0)


def test_node_affinity_that_no_node_can_meet_is_named_with_the_nearest() -> None:
    wanted = b.node_selector(b.expressions(b.requirement("zone", "In", "east-11")))
    told = reasons((b.node("n1", labels={"zone": "east-1"}),), b.pod("p", affinity=wanted))
    message = "node affinity zone In east-11: no node has it: did you mean east-1?"
    assert told[-1] == (ReasonCode.NODE_AFFINITY, message, 0)


def test_node_affinity_of_which_one_term_could_be_met_is_no_mistake() -> None:
    terms = (b.expressions(b.requirement("zone", "In", value)) for value in ("east-11", "east-1"))
    node = b.node("n1", labels={"zone": "east-1"}, taints=(b.taint("special"),))
    assert len(reasons((node,), b.pod("p", affinity=b.node_selector(*terms)))) == 1


def test_a_label_that_some_node_has_is_no_mistake() -> None:
    node = b.node("n1", labels={"zone": "a"}, taints=(b.taint("special"),))
    assert len(reasons((node, b.node("n2")), b.pod("p", node_selector={"zone": "a"}))) == 2


def test_a_pod_that_is_larger_than_every_node_names_the_largest() -> None:
    told = reasons((b.node("n1", cpu=8), b.node("n2", cpu=12)), b.pod("p", cpu=900))
    assert told == [
        (ReasonCode.NODE_TOO_SMALL, "Insufficient cpu", 2),
        (ReasonCode.NODE_TOO_SMALL, "the pod requests 900 cpu; the largest node that it may use (n2) has 12", 0),
    ]


def test_a_pod_that_fits_an_empty_node_does_not_hear_of_its_size() -> None:
    running = b.pod("runs", cpu=8, node_name="n1")
    told = reasons((b.node("n1", cpu=8), running), b.pod("p", cpu=2))
    assert told == [(ReasonCode.NODE_RESOURCES, "Insufficient cpu", 1)]


def test_pods_that_leave_help_where_one_of_the_full_nodes_is_large_enough() -> None:
    running = b.pod("runs", cpu=8, node_name="n1")
    told = reasons((b.node("n1", cpu=8), b.node("n2", cpu=1), running), b.pod("p", cpu=2))
    assert told == [(ReasonCode.NODE_RESOURCES, "Insufficient cpu", 2)]


def test_a_pod_that_lost_to_a_higher_priority_is_outranked_and_says_what_the_plan_leaves() -> None:
    objects = (N1, b.gpu_slice("n1", count=1), GPU, b.claim("c"), b.claim("d"))
    left = "with these pods in place, request gpu: needs 1 device, 1 matches, 0 free, 1 in use"
    assert reasons(objects, b.pod("q", "d", priority=1), POD) == [
        (ReasonCode.OUTRANKED, OUTRANKED.replace("the room;", "the room (such as q);"), 0),
        (ReasonCode.DEVICES_IN_USE, left, 1),
    ]


def test_a_pod_that_lost_the_room_of_a_node_says_what_is_short_there() -> None:
    found = reasons((b.node("n1", cpu=3),), b.pod("q", cpu=2, priority=1), b.pod("p", cpu=2))
    assert found == [
        (ReasonCode.OUTRANKED, OUTRANKED.replace("the room;", "the room (such as q);"), 0),
        (ReasonCode.NODE_RESOURCES, "Insufficient cpu", 1),
    ]


@pytest.mark.parametrize(
    ("constraints", "template", "hint"),
    [
        ((), "", "6 of 7 would fit now; to ask for so many, write a new claim, as a claim cannot be changed"),
        ((), "t", "6 of 7 would fit now; to ask for so many, write a new template, as a claim cannot be changed"),
        (
            (b.match(ROOT),),
            "",
            "3 of 7 would fit now; to ask for so many, write a new claim, as a claim cannot be changed",
        ),
    ],
    ids=["free", "template", "root"],
)
def test_the_condition_says_how_many_would_fit(constraints: Sequence[Constraint], template: str, hint: str) -> None:
    pod = b.pod("p", b.entry("c", template=template))
    decided = s.plan(
        N1,
        b.gpu_slice("n1"),
        GPU,
        b.held("h", b.result("gpu", "gpu-0", "n1"), b.result("gpu", "gpu-4", "n1")),
        b.claim("c", b.request("r", count=7), constraints=constraints, owner_pod_uid=pod.uid if template else ""),
        pods=(pod,),
    )

    assert s.messages(decided, "p")[0].partition("; hint: ")[2] == hint


def test_a_pod_whose_claim_is_allocated_on_a_full_node_says_that_no_other_node_helps() -> None:
    decided = s.plan(
        b.node("n1", cpu=1),
        b.node("control", taints=(b.taint("control-plane"),)),
        b.gpu_slice("n1"),
        GPU,
        b.claim("c", allocation=b.allocation(b.result("gpu", "gpu-0", "n1"), node_name="n1")),
        pods=(b.pod("p", "c", cpu=2),),
    )

    assert sorted(s.codes(decided, "p")) == ["ClaimElsewhere", "NodeTaint", "NodeTooSmall", "NodeTooSmall"]


def test_the_nearest_alternative_is_one_that_freed_devices_help() -> None:
    """Its code says which events wake the pod: that one fewer device is missing of what no node has does not count."""
    nearest = b.first_available("r", b.alternative("absent", "none"), b.alternative("taken", count=2))
    holder = b.claim(
        "held",
        b.request("r", count=2),
        allocation=b.allocation(b.result("r", "gpu-0", "n1"), b.result("r", "gpu-1", "n1"), node_name="n1"),
        reserved_for=[b.consumer("holder")],
    )
    objects = (
        N1,
        b.gpu_slice("n1", count=2),
        GPU,
        b.device_class("none", "false"),
        b.claim("c", nearest),
        holder,
        b.pod("holder", "held", node_name="n1"),
    )

    assert [code for code, _, _ in reasons(objects, POD)] == [ReasonCode.DEVICES_IN_USE]


def test_a_pod_that_shares_a_claim_which_the_plan_allocates_is_bound_to_its_node() -> None:
    """The idle node has a cause of its own, and the claim's own device is not in the way."""
    nodes, slices = (b.node("n1", cpu=4), b.node("n2", cpu=4)), (b.gpu_slice("n1", count=1), b.gpu_slice("n2", count=1))
    pods = (b.pod("p0", "shared", cpu=3), b.pod("p1", "shared", cpu=3))
    decided = s.plan(*nodes, *slices, GPU, b.claim("shared"), pods=pods)

    found = [(each.code, each.node_count) for each in s.unplaced(decided, "p1").reasons]
    assert found == [
        (ReasonCode.OUTRANKED, 0),
        (ReasonCode.NODE_RESOURCES, 1),
        (ReasonCode.CLAIM_ELSEWHERE, 1),
    ]


def test_a_gang_that_lost_tells_one_story() -> None:
    """It would fit alone; beside the pods that are placed it does not, and nobody says "even alone" of that."""
    members = [b.member(b.pod(f"g-{number}", cpu=2), "g") for number in range(2)]
    pods = (b.pod("winner", cpu=3, priority=1), *members)
    objects = b.snapshot(b.node("n1", cpu=4))
    decided = solve(objects, b.batch(*pods, gangs=[b.gang("g", 2)]), Policy(), s.PATIENT)

    first, second = s.messages(decided, "g-0")[:2]
    assert first.startswith("gang g would fit alone, but pods of the same or a higher priority")
    assert second == (
        "gang g: 2 pods must run together, but none fits beside the pods that are placed; pod g-0 fits on no node then"
    )


def numbered(**more: str) -> list[b.SnapshotObject]:
    """A node with four devices that have an id each and two roots."""
    devices = [b.device(f"gpu-{n}", attributes={"uuid": f"u-{n}", "root": f"r-{n // 2}", **more}) for n in range(4)]
    return [b.node("n1"), b.resource_slice("n1", *devices), GPU]


@pytest.mark.parametrize(
    ("constraint", "count", "hint"),
    [
        (b.distinct("gpu.example.com/uid"), 2, "publishes gpu.example.com/uid: write gpu.example.com/uuid"),
        (b.match("gpu.example.com/rot"), 2, "publishes gpu.example.com/rot: write gpu.example.com/root"),
        (b.match("gpu.example.com/uid"), 2, "publishes gpu.example.com/uid"),
        (b.distinct("gpu.example.com/rot"), 3, "publishes gpu.example.com/rot"),
        (
            b.distinct("gpu.example.com/root"),
            3,
            "3 devices are to have different gpu.example.com/root, and it has 2 values on all that are selected",
        ),
        (
            b.match("gpu.example.com/root"),
            3,
            "3 devices are to have the same gpu.example.com/root, and no more than 2 have",
        ),
    ],
    ids=[
        "distinct",
        "match",
        "no two have one id",
        "no three have different roots",
        "two roots for three devices",
        "two devices for each root",
    ],
)
def test_the_attribute_that_was_meant_can_hold_the_count(constraint: Constraint, count: int, hint: str) -> None:
    decided = s.plan(*numbered(), b.claim("c", b.request("r", count=count), constraints=(constraint,)), pods=(POD,))
    assert s.messages(decided, "p")[0].endswith(hint)


def test_a_device_that_two_requests_select_counts_once_for_their_constraint() -> None:
    claim = b.claim("c", b.request("r", count=2), b.request("s"), constraints=(b.match("gpu.example.com/root"),))
    decided = s.plan(*numbered(), claim, pods=(POD,))
    assert s.messages(decided, "p")[0].endswith(
        "3 devices are to have the same gpu.example.com/root, and no more than 2 have"
    )


def test_two_requests_with_admin_access_need_a_device_each() -> None:
    requests = (b.request("a", is_admin=True), b.request("b", is_admin=True))
    decided = s.plan(N1, b.gpu_slice("n1", count=1), GPU, b.claim("c", *requests), pods=(POD,))
    assert s.messages(decided, "p")[0].endswith(
        "no node has more than 1 free for them; a claim gets a device once, also for admin access"
    )


def test_winners_of_another_namespace_are_counted() -> None:
    pods = (b.pod("w", namespace="secret", cpu=3, priority=1), b.pod("p", cpu=3))
    found = s.messages(s.plan(b.node("n1", cpu=4), pods=pods), "p")[0]
    assert "took the room (such as 1 of another namespace)" in found


def test_a_claim_that_is_allocated_on_a_node_that_is_gone_says_so() -> None:
    allocation = b.allocation(b.result("gpu", "gpu-0", "gone"), node_name="gone")
    decided = s.plan(N1, b.gpu_slice("n1"), GPU, b.claim("c", allocation=allocation), pods=(POD,))
    told = "claim c is on node gone, which is gone: delete its pods, then it"
    found = [(each.code, each.message.partition("; hint")[0]) for each in s.unplaced(decided, "p").reasons]
    assert found == [
        (ReasonCode.CLAIM_ELSEWHERE, "node(s) cannot use a claim that is allocated elsewhere"),
        (ReasonCode.CLAIM_ELSEWHERE, told),
    ]

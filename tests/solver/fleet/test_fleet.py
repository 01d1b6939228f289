"""Every device of a snapshot: its state and why, its holders, what is left of it."""

import pytest
from msgspec.structs import replace

from solver.domain import BINDING_FAILED_TAINT, SUSPECT_TAINT, Capacity, OwnedDevices, PodId, Policy, Snapshot, Taint
from solver.domain.fleet import DeviceState, FleetDevice, SinceSource, UnusableCause
from solver.fleet import fleet_of
from tests.support import builders as b

CLASSES = (b.gpu_class(), b.device_class("any"))


def devices(*objects: b.SnapshotObject, policy: Policy = Policy()) -> dict[str, FleetDevice]:  # noqa: B008 - a frozen value
    found = fleet_of(b.snapshot(*objects, *CLASSES), policy, node_group_label="node.kubernetes.io/instance-type")
    return {f"{each.id.pool}/{each.id.device}": each for each in found.devices}


def state(device: FleetDevice) -> tuple[DeviceState, tuple[UnusableCause, ...]]:
    return device.state, tuple(each.cause for each in device.problems)


def test_a_free_device_has_its_place_its_product_and_its_classes() -> None:
    node = b.node("n1", labels={"nvidia.com/gpu.clique": "clique-1", "node.kubernetes.io/instance-type": "big"})
    found = devices(node, b.gpu_slice("n1", count=1))["n1/gpu-0"]

    assert state(found) == (DeviceState.FREE, ())
    assert (found.node, found.nodes, found.node_group) == ("n1", ("n1",), "big")
    assert (found.domain, found.root, found.kind) == ("clique-1", "n1-pci0", "H100")
    assert found.classes == ("any", "gpu")


def test_a_partition_is_named_with_its_profile() -> None:
    attributes = {"productName": "A100", "type": "mig", "profile": "1g.5gb", "gpu.nvidia.com/parentUUID": "GPU-7"}
    found = devices(b.node("n1"), b.resource_slice("n1", b.device("mig-0", attributes=attributes)))["n1/mig-0"]
    assert (found.kind, found.parent) == ("A100 1g.5gb", "GPU-7")


def test_the_holder_of_a_device_and_since_when() -> None:
    claim = b.held("job", b.result("gpu", "gpu-0", "n1"), node_name="n1", namespace="team")
    claim = replace(claim, reserved_for=(b.consumer("job", "team"),))
    (holder,) = devices(b.node("n1"), b.gpu_slice("n1"), claim)["n1/gpu-0"].holders

    assert (str(holder.claim), holder.pods, holder.request) == ("team/job", (PodId("team", "job"),), "gpu")
    assert (holder.since, holder.since_source) == (b.TIMESTAMP, SinceSource.ALLOCATION)


def test_without_a_time_stamp_the_start_of_the_pod_is_known_or_nothing() -> None:
    def since(pod_started: int) -> tuple[str, SinceSource]:
        claim = b.claim(
            "job", allocation=b.allocation(b.result("gpu", "gpu-0", "n1")), reserved_for=(b.consumer("job"),)
        )
        pod = replace(b.pod("job", "job", node_name="n1"), started=pod_started)
        (holder,) = devices(b.node("n1"), b.gpu_slice("n1"), claim, pod)["n1/gpu-0"].holders
        return holder.since, holder.since_source

    assert since(60) == ("1970-01-01T00:01:00Z", SinceSource.POD)
    assert since(0) == ("", SinceSource.UNKNOWN)


def test_admin_access_holds_nothing() -> None:
    monitor = b.claim("m", allocation=b.allocation(b.result("gpu", "gpu-0", "n1", is_admin=True)))
    found = devices(b.node("n1"), b.gpu_slice("n1"), monitor)["n1/gpu-0"]

    assert state(found) == (DeviceState.FREE, ())
    assert found.holders[0].admin_access


def test_a_taint_is_named_with_its_rule_or_with_its_driver() -> None:
    of_driver, of_rule = b.taint("sick", "ecc"), b.taint("repair", effect="NoExecute")
    found = devices(
        b.node("n1"),
        b.node("n2"),
        b.gpu_slice("n1", taints=(of_driver,)),
        b.gpu_slice("n2"),
        b.taint_rule("maintenance", of_rule, pool="n2", device_name="gpu-0"),
        b.held("job", b.result("gpu", "gpu-1", "n1"), node_name="n1"),
    )
    by_driver, by_rule, untainted, held = (found[name] for name in ("n1/gpu-0", "n2/gpu-0", "n2/gpu-1", "n1/gpu-1"))

    assert state(by_driver) == (DeviceState.UNUSABLE, (UnusableCause.TAINTED,))
    assert by_driver.problems[0].message == "taint sick=ecc:NoSchedule of the driver"
    assert by_rule.problems[0].message == "taint repair:NoExecute of DeviceTaintRule maintenance"
    assert state(untainted) == (DeviceState.FREE, ())
    assert state(held) == (DeviceState.HELD, (UnusableCause.TAINTED,))
    assert held.is_tainted


@pytest.mark.parametrize(
    ("taint", "expected", "is_suspect"),
    [
        (b.taint(BINDING_FAILED_TAINT), (DeviceState.UNUSABLE, (UnusableCause.AVOIDED,)), False),
        (b.taint(SUSPECT_TAINT, effect="None"), (DeviceState.FREE, ()), True),
        (b.taint("note", effect="None"), (DeviceState.FREE, ()), False),
    ],
    ids=["binding failed", "suspect", "no effect"],
)
def test_what_the_scheduler_remembers_of_a_device(
    taint: Taint, expected: tuple[DeviceState, tuple[UnusableCause, ...]], *, is_suspect: bool
) -> None:
    found = devices(b.node("n1"), b.gpu_slice("n1", count=1), b.taint_rule("local", taint))["n1/gpu-0"]
    assert (state(found), found.is_suspect) == (expected, is_suspect)


NOT_READY = b.taint("node.kubernetes.io/not-ready")


@pytest.mark.parametrize(
    ("objects", "cause", "message"),
    [
        ((b.gpu_slice("n1"),), UnusableCause.NODE_GONE, "node n1 does not exist"),
        ((b.node("n1", is_unschedulable=True), b.gpu_slice("n1")), UnusableCause.NODE_CORDONED, "node n1 is cordoned"),
        ((b.node("n1", taints=(NOT_READY,)), b.gpu_slice("n1")), UnusableCause.NODE_NOT_READY, "node n1 is not ready"),
        (
            (b.node("n1"), replace(b.gpu_slice("n1"), slice_count=2)),
            UnusableCause.POOL_INCOMPLETE,
            "pool gpu.example.com/n1 is incomplete: 1 of 2 slices of generation 1 are published",
        ),
        (
            (b.node("n1"), b.resource_slice("n1", b.device("gpu-0"), b.device("gpu-0"))),
            UnusableCause.POOL_INVALID,
            "pool gpu.example.com/n1 is not used: device gpu-0 is published 2 times",
        ),
        (
            (
                b.node("n1", labels={"a": "b"}),
                b.resource_slice("p", b.device("gpu-0"), at=b.scope(selector=b.node_selector(a="c"))),
            ),
            UnusableCause.NODE_GONE,
            "no node matches its slice's nodeSelector",
        ),
    ],
    ids=["no node", "cordoned", "not ready", "incomplete", "invalid", "selector"],
)
def test_why_a_device_cannot_be_used(objects: tuple[b.SnapshotObject, ...], cause: UnusableCause, message: str) -> None:
    found = next(iter(devices(*objects).values()))

    assert state(found) == (DeviceState.UNUSABLE, (cause,))
    assert found.problems[0].message == message
    assert found.classes == ("any", "gpu")


def test_a_device_of_an_unusable_pool_can_still_be_held() -> None:
    snapshot = b.snapshot(
        b.node("n1"), replace(b.gpu_slice("n1", count=1), slice_count=2), b.held("job", b.result("gpu", "gpu-0", "n1"))
    )
    found = fleet_of(snapshot)

    assert state(found.devices[0]) == (DeviceState.HELD, (UnusableCause.POOL_INCOMPLETE,))
    assert [(str(each.id), each.published, each.slice_count) for each in found.pools] == [("gpu.example.com/n1", 1, 2)]


def test_a_held_device_that_no_slice_publishes_is_listed() -> None:
    found = devices(b.node("n1"), b.gpu_slice("n1", count=1), b.held("job", b.result("gpu", "gone", "n1")))
    assert state(found["n1/gone"]) == (DeviceState.HELD, (UnusableCause.UNPUBLISHED,))
    assert found["n1/gone"].node == ""


def test_a_held_device_whose_slices_are_away_is_on_the_node_that_its_allocation_names() -> None:
    held = b.claim("job", allocation=b.allocation(b.result("gpu", "gpu-0", "n1"), node_name="n1"))
    found = devices(b.node("n1", labels={"nvidia.com/gpu.clique": "c"}), held)["n1/gpu-0"]
    assert (found.node, found.domain, found.nodes) == ("n1", "c", ("n1",))
    assert found.problems[0].message == (
        "pool gpu.example.com/n1 has no ResourceSlice: its driver on node n1 does not run, or publishes nothing yet"
    )


def test_devices_of_another_scheduler_are_not_free() -> None:
    policy = Policy(owned=OwnedDevices(drivers=("other.example.com",)))
    found = devices(b.node("n1"), b.gpu_slice("n1", count=1), policy=policy)["n1/gpu-0"]
    assert state(found) == (DeviceState.UNUSABLE, (UnusableCause.NOT_OWNED,))


def test_shares_leave_the_rest_of_a_device() -> None:
    card = b.device("gpu-0", capacities={"memory": b.capacity("40Gi", default="10Gi")}, is_shareable=True)

    def shared(*amounts: str) -> FleetDevice:
        results = [
            b.result("gpu", "gpu-0", "n1", share_id=b.share_id(number), consumed={"memory": amount})
            for number, amount in enumerate(amounts)
        ]
        return devices(b.node("n1"), b.resource_slice("n1", card), b.held("job", *results))["n1/gpu-0"]

    some, most, all_of_it = shared("10Gi", "20Gi"), shared("10Gi", "29Gi"), shared("10Gi", "30Gi")
    assert [each.state for each in (some, most, all_of_it)] == [
        DeviceState.SHARED,
        DeviceState.SHARED,
        DeviceState.HELD,
    ]
    assert [(each.name, each.total, each.left) for each in some.capacities] == [
        ("memory", 40 * 2**30 * 10**9, 10 * 2**30 * 10**9)
    ]
    assert some.holders[1].consumed == (("memory", 20 * 2**30 * 10**9),)


def partitioned() -> tuple[b.SnapshotObject, ...]:
    parts = [b.device("whole", consumes={"card": {"slices": 4}})]
    parts += [b.device(f"part-{index}", consumes={"card": {"slices": 1}}) for index in range(4)]
    counters = b.resource_slice("n1", counter_sets={"card": {"slices": 4}}, slice_count=2)
    return b.node("n1"), counters, b.resource_slice("n1", *parts, slice_count=2)


def test_a_partition_in_use_blocks_the_whole_card() -> None:
    found = devices(*partitioned(), b.held("job", b.result("gpu", "part-0", "n1")))

    assert {name: each.state for name, each in found.items()} == {
        "n1/part-0": DeviceState.HELD,
        "n1/part-1": DeviceState.FREE,
        "n1/part-2": DeviceState.FREE,
        "n1/part-3": DeviceState.FREE,
        "n1/whole": DeviceState.BLOCKED,
    }
    (counter,) = found["n1/whole"].counters
    assert [each // 10**9 for each in (counter.takes, counter.left, counter.total)] == [4, 3, 4]


def test_a_class_that_cannot_be_compiled_matches_nothing_and_is_named() -> None:
    broken = b.device_class("broken", "device.driver ==")
    found = fleet_of(b.snapshot(b.node("n1"), b.gpu_slice("n1", count=1), b.gpu_class(), broken))
    assert (found.broken_classes, found.devices[0].classes) == (("broken",), ("gpu",))


def test_the_mix_of_requests_counts_waiting_and_running_claims() -> None:
    claims = (
        b.held("job", b.result("gpu", "gpu-0", "n1")),
        b.claim("big", b.request("r", count=4)),
        b.claim("either", b.first_available("r", b.alternative("a", count=4), b.alternative("b", count=1))),
        b.claim("all", b.request("r", mode="All")),
        b.claim("admin", b.request("r", is_admin=True)),
    )
    found = fleet_of(b.snapshot(b.node("n1"), b.gpu_slice("n1"), b.gpu_class(), *claims))
    assert [(each.device_class, each.count, each.requests) for each in found.sizes] == [("gpu", 1, 1), ("gpu", 4, 2)]


def test_an_empty_cluster_has_an_empty_fleet() -> None:
    assert fleet_of(Snapshot()).devices == ()


def test_a_share_that_no_request_policy_allows_is_not_left() -> None:
    def of(memory: Capacity) -> DeviceState:
        card = b.device("gpu-0", capacities={"memory": memory}, is_shareable=True)
        share = b.result("gpu", "gpu-0", "n1", share_id=b.share_id(1), consumed={"memory": "40Gi"})
        return devices(b.node("n1"), b.resource_slice("n1", card), b.held("job", share))["n1/gpu-0"].state

    assert of(b.capacity("48Gi", default="10Gi", valid_values=("10Gi", "40Gi"))) is DeviceState.HELD
    assert of(b.capacity("48Gi", default="16Gi", minimum="9Gi")) is DeviceState.HELD
    assert of(b.capacity("48Gi", default="16Gi", minimum="8Gi")) is DeviceState.SHARED


@pytest.mark.parametrize(
    ("nodes", "expected", "message"),
    [
        ((), (DeviceState.UNUSABLE, (UnusableCause.NODE_GONE,)), "the cluster has no node"),
        (
            (b.node("n1", is_unschedulable=True), b.node("n2", taints=(NOT_READY,))),
            (DeviceState.UNUSABLE, (UnusableCause.NODE_CORDONED,)),
            "node n1 is cordoned, and no other of its nodes takes pods",
        ),
        ((b.node("n1", is_unschedulable=True), b.node("n2")), (DeviceState.FREE, ()), ""),
    ],
    ids=["no node", "no node takes pods", "one does"],
)
def test_a_device_of_several_nodes_is_free_if_one_of_them_takes_pods(
    nodes: tuple[b.SnapshotObject, ...], expected: tuple[DeviceState, tuple[UnusableCause, ...]], message: str
) -> None:
    found = devices(*nodes, b.resource_slice("all", b.device("a"), at=b.scope(all_nodes=True)))["all/a"]
    assert state(found) == expected
    assert "; ".join(each.message for each in found.problems) == message

"""The numbers of a fleet for its series, with bounded labels."""

from solver.domain.fleet import DeviceState, FleetTotals
from solver.fleet import fleet_of, totals_of
from solver.fleet.supply import OTHER
from tests.support import builders as b


def totals(*objects: b.SnapshotObject, per_node: bool = False, most_namespaces: int = 0) -> FleetTotals:
    fleet = fleet_of(b.snapshot(*objects, b.gpu_class()), node_group_label="pool")
    return totals_of(fleet, per_node=per_node, most_namespaces=most_namespaces)


def test_devices_are_counted_by_driver_class_group_and_state() -> None:
    found = totals(
        b.node("n1", labels={"pool": "big"}),
        b.node("n2", is_unschedulable=True),
        b.gpu_slice("n1", count=4),
        b.gpu_slice("n2", count=2),
        b.resource_slice("n1", b.device("nic"), driver="nic.example.com"),
        b.held("job", b.result("gpu", "gpu-0", "n1"), namespace="red"),
        per_node=True,
        most_namespaces=1,
    )
    counts = {(each.driver, each.device_class, each.node_group, each.state): each.count for each in found.devices}
    assert counts == {
        (b.GPU_DRIVER, "gpu", "big", DeviceState.HELD): 1,
        (b.GPU_DRIVER, "gpu", "big", DeviceState.FREE): 3,
        (b.GPU_DRIVER, "gpu", "", DeviceState.UNUSABLE): 2,
        ("nic.example.com", "", "big", DeviceState.FREE): 1,
    }
    assert [(each.namespace, each.device_class, each.count) for each in found.namespaces] == [("red", "gpu", 1)]
    assert [(each.node, each.device_class, each.state, each.count) for each in found.nodes] == [
        ("n1", "", DeviceState.FREE, 1),
        ("n1", "gpu", DeviceState.FREE, 3),
        ("n1", "gpu", DeviceState.HELD, 1),
        ("n2", "gpu", DeviceState.UNUSABLE, 2),
    ]


def test_blocks_and_fragmentation_of_each_class() -> None:
    found = totals(
        b.node("n1"), b.gpu_slice("n1", count=4), b.claim("big", b.request(count=8)), b.claim("one", b.request())
    )
    (blocks,) = found.classes
    assert (blocks.device_class, blocks.largest.node, blocks.fragmentation) == ("gpu", 4, 0.5)
    assert found.fragmentation == 0.5
    assert found.nodes == ()


def test_many_groups_and_namespaces_are_counted_together() -> None:
    """A user who may label nodes or make namespaces does not decide how many series there are."""
    nodes = [b.node(f"n{number:03}", labels={"pool": f"p{number:03}"}) for number in range(60)]
    slices = [b.gpu_slice(node.name, count=2 if node.name == "n059" else 1) for node in nodes]
    held = [
        b.held(f"job-{number}", b.result("gpu", "gpu-0", f"n{number % 60:03}"), namespace=f"ns-{number}")
        for number in range(130)
    ]
    found = totals(*nodes, *slices, *held, most_namespaces=100)

    groups = {each.node_group for each in found.devices}
    assert len(groups) == 51
    assert {OTHER, "p059"} <= groups
    assert sum(each.count for each in found.devices) == 61
    assert len({each.namespace for each in found.namespaces}) == 101
    assert sum(each.count for each in found.namespaces) == 130


def test_no_namespace_is_named_unless_that_is_wanted() -> None:
    held = b.held("job", b.result("gpu", "gpu-0", "n1"), namespace="red")
    objects = (b.node("n1"), b.gpu_slice("n1", count=4), held)
    assert totals(*objects).namespaces == ()
    assert [each.namespace for each in totals(*objects, most_namespaces=1).namespaces] == ["red"]

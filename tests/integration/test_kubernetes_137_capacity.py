"""ResourceSlices as Kubernetes 1.37 has them: compatibility groups, partition types, fractional shares."""

import pytest

from e2e.controlplane import versions
from tests.support.controlplane import wait_until
from tests.support.shell_world import RESOURCE, Json, Start, World

pytestmark = pytest.mark.controlplane

FRACTIONAL = 37
"""The minor version from which on steps are fractions; before that, they are counted in whole units."""


def partition(world: World, name: str, mode: str) -> Json:
    """A partition that nothing but its compatibility group keeps from the others."""
    draws = {"counterSet": "card", "counters": {"slices": {"value": "1"}}, "compatibilityGroups": [mode]}
    return {"name": name, "attributes": {f"{world.driver}/mode": {"string": mode}}, "consumesCounters": [draws]}


def publish(world: World, *devices: Json, **spec: object) -> None:
    """Give the world's only node these partitions of one card."""
    world.add_nodes(1, devices=0)
    (node,) = world.nodes
    path = f"{RESOURCE}/resourceslices"
    world.plane.request("DELETE", f"{path}/{node}-{world.word}")
    pool = {"name": node, "generation": 1, "resourceSliceCount": 2}
    shared = {"driver": world.driver, "nodeName": node, "pool": pool}
    counters = [{"name": "card", "counters": {"slices": {"value": "7"}}}]
    for name, content in (("", {"devices": list(devices), **spec}), ("-counters", {"sharedCounters": counters})):
        owner = world.plane.request("GET", f"/api/v1/nodes/{node}")["metadata"]["uid"]
        references = [{"apiVersion": "v1", "kind": "Node", "name": node, "uid": owner}]
        metadata = {"name": f"{node}-{world.word}{name}", "ownerReferences": references}
        world.plane.request("POST", path, {"metadata": metadata, "spec": {**shared, **content}})


def template(world: World, name: str, **exactly: object) -> None:
    """Create a claim template of one request."""
    request = {"name": "devices", "exactly": {"deviceClassName": world.driver, **exactly}}
    body = {"metadata": {"name": name}, "spec": {"spec": {"devices": {"requests": [request]}}}}
    world.plane.request("POST", f"{RESOURCE}/namespaces/{world.namespace}/resourceclaimtemplates", body)


def of_mode(world: World, mode: str) -> None:
    """Create a claim template for a partition of a mode, by its name."""
    expression = f'device.attributes["{world.driver}"].mode == "{mode}"'
    template(world, mode, selectors=[{"cel": {"expression": expression}}])


@pytest.mark.kubernetes(since="1.37", gates=("DRADeviceCompatibilityGroups",))
def test_partitions_without_a_compatibility_group_in_common_are_not_given_out_together(
    world: World, start: Start
) -> None:
    publish(world, *(partition(world, name, name.partition("-")[0]) for name in ("mig-0", "mig-1", "vgpu-0")))
    for mode in ("mig", "vgpu"):
        of_mode(world, mode)
    start()
    world.pod("first", template="mig")
    wait_until(lambda: "first" in world.bound())

    world.pod("other", template="vgpu")
    world.pod("second", template="mig")
    wait_until(lambda: "second" in world.bound())
    said = "1 without a compatibility group in common with devices in use"
    wait_until(lambda: said in world.condition("other").get("message", ""))
    assert world.problems() == []

    world.delete_pod("first")
    world.delete_pod("second")
    wait_until(lambda: "other" in world.bound())


@pytest.mark.kubernetes(since="1.37", gates=("DRAPartitionableDevicesType",))
def test_partitions_with_a_type_are_given_out_as_others_are(world: World, start: Start) -> None:
    publish(
        world,
        *(partition(world, f"mig-{index}", "mig") for index in range(2)),
        partitionTypeAttribute=f"{world.driver}/mode",
    )
    of_mode(world, "mig")
    start()
    for name in ("a", "b", "c"):
        world.pod(name, template="mig")
    wait_until(lambda: len(world.bound()) == 2)
    wait_until(lambda: any(world.condition(name).get("message") for name in {"a", "b", "c"} - world.bound().keys()))
    assert world.problems() == []


@pytest.mark.kubernetes(since="1.34", gates=("DRAConsumableCapacity",))
def test_shares_cost_a_step_of_what_they_ask_for(world: World, start: Start) -> None:
    policy = {"default": "100m", "validRange": {"min": "100m", "step": "100m"}}
    is_fractional = versions.minor(versions.chosen()) >= FRACTIONAL
    value, step, count = ("1", "300m", 3) if is_fractional else ("2", "1", 2)
    world.device = {
        "allowMultipleAllocations": True,
        "capacity": {"cores": {"value": value, "requestPolicy": policy}},
    }
    world.add_nodes(1, devices=1)
    template(world, "share", capacity={"requests": {"cores": "250m"}})
    start()
    names = [f"p{number}" for number in range(count + 1)]
    for name in names:
        world.pod(name, template="share")
    wait_until(lambda: len(world.bound()) == count)
    (waiting,) = set(names) - world.bound().keys()
    wait_until(lambda: "with too little capacity left" in world.condition(waiting).get("message", ""))

    allocations = [each["status"]["allocation"] for each in world.claims() if each.get("status", {}).get("allocation")]
    consumed = [result["consumedCapacity"] for each in allocations for result in each["devices"]["results"]]
    assert consumed == [{"cores": step}] * count


@pytest.mark.kubernetes(since="1.36", gates=("DRAPartitionableDevices",))
def test_a_pod_is_not_bound_to_a_card_beside_its_partition_with_which_another_pod_runs(
    world: World, start: Start
) -> None:
    """As two schedulers leave it that write at the same time."""
    draws = {name: [{"counterSet": "card", "counters": {"slices": {"value": name}}}] for name in ("7", "1")}
    card, part = ({"name": name, "consumesCounters": draws[value]} for name, value in (("card", "7"), ("part", "1")))
    publish(world, card, part, {"name": "spare"})
    (node,) = world.nodes
    for name in ("ours", "theirs"):
        world.claim(name)
    stranger = world.pod("stranger", claim="theirs", schedulerName="somebody-else", nodeName=node)
    world.allocate("theirs", "part", node, stranger)
    world.allocate("ours", "card", node, world.pod("p", claim="ours"))

    start()
    wait_until(lambda: "p" in world.bound())

    assert (world.devices("ours"), world.devices("theirs")) == ([f"{node}/spare"], [f"{node}/part"])
    assert world.problems() == []

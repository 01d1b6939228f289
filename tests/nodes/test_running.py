"""Pods run on real nodes with the devices of their claims: the container's environment is what the claim says."""

import pytest

from tests.support.controlplane import wait_until
from tests.support.nodes_world import NodesWorld
from tests.support.shell_world import Json

pytestmark = pytest.mark.nodes

ROOT = "resource.kubernetes.io/pcieRoot"


def gpus(count: int, **fields: Json) -> list[Json]:
    return [{"name": f"gpu-{index}", **fields} for index in range(count)]


def on_root(name: str, root: str) -> Json:
    return {"name": name, "attributes": {ROOT: {"string": root}}}


def test_two_devices_of_one_root_reach_the_container(world: NodesWorld) -> None:
    devices = [on_root("gpu-0", "pci0"), on_root("gpu-1", "pci1"), on_root("gpu-2", "pci2"), on_root("gpu-3", "pci1")]
    world.publish(devices[:1], devices)
    world.claim_of("pair", {"name": "gpus", "count": 2}, constraints=[{"matchAttribute": ROOT}])
    world.pod("p", claim="pair")

    container = world.runs("p")

    assert world.bound() == {"p": "node-1"}
    assert sorted(world.devices("pair")) == ["node-1/gpu-1", "node-1/gpu-3"]
    assert list(container.devices) == sorted(world.held("pair"))


def test_two_pods_share_a_device_by_its_capacity(world: NodesWorld) -> None:
    capacity = {"memory": {"value": "40Gi", "requestPolicy": {"default": "40Gi", "validRange": {"min": "1Gi"}}}}
    world.publish([{"name": "gpu-0", "allowMultipleAllocations": True, "capacity": capacity}])
    for name in ("a", "b", "c"):
        world.claim_of(name, {"capacity": {"requests": {"memory": "16Gi"}}})
        world.pod(name, claim=name)
    wait_until(lambda: len(world.bound()) == 2)
    first, second = world.bound()

    containers = [world.runs(each) for each in (first, second)]

    given = [each.devices[0].split("/") for each in containers]
    assert [each[:3] for each in given] == [[world.driver, "node-0", "gpu-0"]] * 2
    assert given[0][3] != given[1][3]
    for name, share in zip((first, second), given, strict=True):
        result = (world.get_claim(name) or {})["status"]["allocation"]["devices"]["results"][0]
        assert (result["shareID"], result["consumedCapacity"]) == (share[3], {"memory": "16Gi"})


def test_partitions_take_of_their_device(world: NodesWorld) -> None:
    def part(name: str, memory: str) -> Json:
        counters = {"memory": {"value": memory}}
        return {"name": name, "consumesCounters": [{"counterSet": "gpu-0", "counters": counters}]}

    halves = [part("gpu-0-half-0", "20Gi"), part("gpu-0-half-1", "20Gi")]
    counters = {"name": "gpu-0", "counters": {"memory": {"value": "40Gi"}}}
    node = world.real["node-0"]
    world.publish()
    node.publish([part("gpu-0", "40Gi"), *halves], counters)
    for name in ("a", "b"):
        world.claim_of(name, {})
        world.pod(name, claim=name)

    devices = {each for name in ("a", "b") for each in world.runs(name).devices}

    assert devices == {f"{world.driver}/node-0/{each['name']}" for each in halves}


def test_a_claim_that_is_made_from_a_template_belongs_to_its_pod(world: NodesWorld) -> None:
    world.publish(gpus(1), gpus(1))
    world.template()
    for name in ("a", "b"):
        world.pod(name)

    for name in ("a", "b"):
        container = world.runs(name)
        assert list(container.devices) == world.held(world.claim_name(name))
    assert set(world.bound().values()) == {"node-0", "node-1"}


def test_a_deleted_pod_gives_its_device_back_before_the_next_one_has_it(world: NodesWorld) -> None:
    world.publish(gpus(1))
    for name in ("first", "next"):
        world.claim_of(name, {})
    world.pod("first", claim="first")
    world.runs("first")
    finalizer = {"metadata": {"finalizers": ["example.com/stay"]}}
    path = f"/api/v1/namespaces/{world.namespace}/pods/first"
    world.plane.request("PATCH", path, finalizer, content="application/merge-patch+json")
    world.pod("next", claim="next")
    wait_until(lambda: world.condition("next").get("status") == "False")

    world.delete_pod("first")
    wait_until(lambda: world.devices("first") == [])

    # The finalizer keeps the object: it shows that the pod had ended before its claim was released.
    assert (world.get_pod("first") or {})["status"]["phase"] in {"Succeeded", "Failed"}
    world.plane.request("PATCH", path, {"metadata": {"finalizers": None}}, content="application/merge-patch+json")
    container = world.runs("next")
    assert list(container.devices) == [f"{world.driver}/node-0/gpu-0"]
    assert [(each.call, each.name) for each in world.calls()] == [
        ("prepare", "first"),
        ("unprepare", "first"),
        ("prepare", "next"),
    ]

"""
What nodes are and have.

Devices that take of their node's own resources (KEP-5517) are counted with requests and said in the status. Features
that a pod requires are declared by its node (KEP-5328).
"""

import pytest

from e2e.controlplane import versions
from tests.support.controlplane import wait_until
from tests.support.shell_world import Start, World

pytestmark = [pytest.mark.controlplane, pytest.mark.kubernetes(gates=("DRANodeAllocatableResources",))]


def test_what_devices_take_is_counted_and_said_before_the_pod_is_bound(world: World, start: Start) -> None:
    taken = {"cpu": "20", "memory": "2Gi"}
    legacy = {resource: {"allocationMultiplier": amount} for resource, amount in taken.items()}
    current = {resource: {"mapping": {"deviceMultiplier": amount}} for resource, amount in taken.items()}
    world.device = {"nodeAllocatableResourceMappings": legacy, "nodeAllocatableResources": current}
    said: dict[str, object] = {"resources": taken}
    if versions.minor(versions.chosen()) >= 37:  # each version has one of the two, and drops the other
        said = {"mapping": [{"name": resource, "quantity": amount} for resource, amount in taken.items()]}
    world.declared_features = ["DRANodeAllocatableResources"]
    world.add_nodes(1, devices=4)  # 64 cpus: three of these devices, with a pod that asks for one cpu each
    world.template()
    start()
    used = {"claims": [{"name": "devices"}], "requests": {"cpu": "1"}}
    for number in range(4):
        world.pod(f"p{number}", containers=[{"name": "main", "image": "example.com/none", "resources": used}])

    wait_until(lambda: len(world.bound()) == 3)
    (waiting,) = {f"p{number}" for number in range(4)} - set(world.bound())
    wait_until(lambda: "Insufficient cpu" in str(world.condition(waiting).get("message", "")))

    for name in world.bound():
        status = (world.get_pod(name) or {})["status"]
        (claim,) = status["resourceClaimStatuses"]
        assert status["nodeAllocatableResourceClaimStatuses"] == [
            {
                "resourceClaimName": claim["resourceClaimName"],
                "containers": ["main"],
                **said,
            }
        ]
    assert world.problems() == []

    world.delete_pod(next(iter(world.bound())))
    wait_until(lambda: waiting in world.bound())


def test_a_pod_waits_for_a_node_that_declares_what_it_requires(world: World, start: Start) -> None:
    feature = "RestartAllContainersOnContainerExits"
    world.add_nodes(2, devices=1)
    world.template()
    start()
    rule = {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [42]}}
    container = {"name": "main", "image": "example.com/none", "restartPolicy": "Never", "restartPolicyRules": [rule]}
    world.pod("p", containers=[container | {"resources": {"claims": [{"name": "devices"}]}}])

    wait_until(lambda: f"no node declares the feature {feature}" in str(world.condition("p").get("message", "")))
    assert "2 node(s) didn't match Pod's required features" in world.condition("p")["message"]

    status = {"status": {"declaredFeatures": [feature]}}
    node = world.nodes[1]
    world.plane.request("PATCH", f"/api/v1/nodes/{node}/status", status, content="application/merge-patch+json")
    wait_until(lambda: world.bound() == {"p": node})
    assert world.problems() == []

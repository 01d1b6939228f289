"""Extended resources that devices serve (KEP-5004): a container has its devices without a claim in the pod's spec."""

import pytest

from e2e.nodes import image
from tests.support import extended_world as extended
from tests.support.controlplane import wait_until
from tests.support.nodes_world import GRACE_SECONDS, NodesWorld

pytestmark = [pytest.mark.nodes, pytest.mark.slow, pytest.mark.kubernetes(gates=("DRAExtendedResource",))]


def test_each_container_has_the_devices_of_its_own_limits(world: NodesWorld) -> None:
    world.publish([{"name": f"gpu-{index}"} for index in range(3)])
    extended.map_class(world)
    resource = extended.resource_of(world)
    containers = [extended.container(name, resource, count, image=image.NAME) for name, count in (("a", 1), ("b", 2))]
    extended.pod(world, "p", *containers, nodeSelector={}, terminationGracePeriodSeconds=GRACE_SECONDS)

    world.wait_for("p", lambda: len(world.running("p")) == 2)

    status = extended.status(world, "p")
    claim = world.get_claim(status["resourceClaimName"]) or {}
    results = claim["status"]["allocation"]["devices"]["results"]
    assert extended.users(status) == {"a": ["container-0-request-1"], "b": ["container-1-request-1"]}
    for container in world.running("p"):
        (request,) = extended.users(status)[container.name]
        given = sorted(f"{world.driver}/node-0/{each['device']}" for each in results if each["request"] == request)
        assert list(container.devices) == given
        assert len(given) == {"a": 1, "b": 2}[container.name]

    world.delete_pod("p")

    wait_until(lambda: world.get_pod("p") is None and world.claims() == [])
    assert [(each.call, each.name) for each in world.calls()] == [
        ("prepare", status["resourceClaimName"]),
        ("unprepare", status["resourceClaimName"]),
    ]

"""A driver gives a container what `edits.yaml` says of its device, in the words of CDI, and no other container."""

import pytest
import yaml

from tests.support.nodes_world import NodesWorld

pytestmark = pytest.mark.nodes


def test_a_container_has_the_device_node_of_its_device_and_no_other(world: NodesWorld) -> None:
    world.publish([{"name": "gpu-0"}, {"name": "gpu-1"}])
    edits = {
        name: {"deviceNodes": [{"path": f"/dev/{name}", "hostPath": "/dev/full"}], "env": [f"OWN={name}"]}
        for name in ("gpu-0", "gpu-1")
    }
    world.real["node-0"].steer("edits.yaml", yaml.safe_dump(edits))
    for name in ("a", "b"):
        world.claim_of(name, {})
        world.pod(name, claim=name, arguments=["-open=/dev/gpu-0,/dev/gpu-1"])

    containers = [world.runs(each) for each in ("a", "b")]

    own = [each.devices[0].rpartition("/")[2] for each in containers]
    assert sorted(own) == ["gpu-0", "gpu-1"]
    for name, other, container in zip(own, reversed(own), containers, strict=True):
        assert container.environment["OWN"] == name
        assert container.opened == {
            f"/dev/{name}": "",
            f"/dev/{other}": f"open /dev/{other}: no such file or directory",
        }

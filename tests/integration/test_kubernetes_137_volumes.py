"""What is new in 1.37 for volumes: CSI drivers that have to be on a node (preventPodSchedulingIfMissing, KEP-5030)."""

import pytest

from tests.support.controlplane import wait_until
from tests.support.shell_world import Start
from tests.support.volume_world import Provisioner, VolumeWorld

pytestmark = [pytest.mark.controlplane, pytest.mark.kubernetes(since="1.37")]


def waits_for_the_driver(volumes: VolumeWorld, pod: str, *, nodes: int) -> bool:
    count = f"{nodes} {volumes.provisioner} CSI driver is not installed on the node"
    return count in str(volumes.world.condition(pod).get("message", ""))


def test_a_pod_waits_for_a_node_with_the_driver_of_its_volume(volumes: VolumeWorld, start: Start) -> None:
    """Neither one without a CSINode nor one whose CSINode lacks the driver takes it."""
    first, second = volumes.add_nodes(2)
    volumes.install(first, driver="other.example.com")
    volumes.require()
    volumes.claim("data", volumes.made)
    start()
    volumes.pod("p", "data")
    wait_until(lambda: waits_for_the_driver(volumes, "p", nodes=2))
    assert volumes.selected("data") == ""

    volumes.install(second)
    with Provisioner(volumes):
        wait_until(lambda: volumes.world.bound() == {"p": second})
    assert volumes.problems() == []


def test_a_pod_waits_no_longer_once_the_driver_may_be_missing(volumes: VolumeWorld, start: Start) -> None:
    (node,) = volumes.add_nodes(1)
    volumes.require()
    volumes.claim("data", volumes.made)
    start()
    volumes.pod("p", "data")
    wait_until(lambda: waits_for_the_driver(volumes, "p", nodes=1))

    volumes.require(is_required=False)
    with Provisioner(volumes):
        wait_until(lambda: volumes.world.bound() == {"p": node})
    assert volumes.problems() == []

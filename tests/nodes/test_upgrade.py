"""The kubelet of a node is upgraded while pods run there."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from e2e.controlplane import gates, versions
from e2e.controlplane.plane import ControlPlane
from e2e.dovetail import Dovetail, install
from e2e.nodes.cluster import Nodes
from e2e.nodes.invariants import audit
from e2e.nodes.programs import Programs
from tests.support.nodes_world import SCHEDULER, NodesWorld

pytestmark = [pytest.mark.nodes, pytest.mark.slow]

OLDER = "1.36"


@pytest.fixture
def world(programs: Programs, tmp_path: Path) -> Iterator[NodesWorld]:
    """A control plane of its own, and a node with the kubelet of the version before."""
    del programs  # built by now
    with ExitStack() as running:
        plane = running.enter_context(ControlPlane.start(feature_gates=gates.chosen()))
        config = ("--leader-elect=false", f"--scheduler-name={SCHEDULER}")
        dovetail = running.enter_context(Dovetail(install(plane), tmp_path / "log", *config))
        settings = {"syncFrequency": "2s"}
        nodes = running.enter_context(Nodes.start(plane, 1, kubernetes=OLDER, kubelet=settings))
        dovetail.wait_until_ready()
        made = NodesWorld(plane, nodes, "default")
        made.device_class()
        yield made
        assert audit(plane, nodes) == []


def kubelet_version(world: NodesWorld) -> str:
    node = world.plane.request("GET", "/api/v1/nodes/node-0")
    return str(node["status"]["nodeInfo"]["kubeletVersion"])


@pytest.mark.skipif(versions.chosen() == OLDER, reason="there is no newer one")
def test_a_pod_keeps_its_device_while_its_kubelet_is_upgraded(world: NodesWorld) -> None:
    gpus = [{"name": "gpu-0"}, {"name": "gpu-1"}]
    world.publish(gpus)
    world.claim_of("before", {})
    world.pod("before", claim="before")
    running, held = world.runs("before"), world.held("before")
    assert kubelet_version(world).startswith(f"v{OLDER}.")

    world.real["node-0"].restart_kubelet(versions.chosen())
    world.real["node-0"].publish(gpus)  # a driver does so by itself within 30 s

    assert kubelet_version(world).startswith(f"v{versions.chosen()}.")
    assert (world.running("before"), world.held("before")) == ([running], held)
    world.claim_of("after", {})
    world.pod("after", claim="after")
    assert list(world.runs("after").devices) == world.held("after")
    # The newer kubelet takes back what the older one had prepared.
    world.delete_pod("before")
    world.wait_for("before", lambda: world.get_pod("before") is None)
    assert [(each.call, each.name) for each in world.calls()][-1] == ("unprepare", "before")

"""Kubelets with their own accounts: the Node authorizer and NodeRestriction let them do all that a claim needs."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from e2e.controlplane import gates
from e2e.controlplane.access import RequestError
from e2e.controlplane.plane import ControlPlane
from e2e.dovetail import Dovetail, install
from e2e.nodes.cluster import Nodes
from e2e.nodes.invariants import audit
from e2e.nodes.programs import Programs
from tests.support.nodes_world import SCHEDULER, NodesWorld

pytestmark = [pytest.mark.nodes, pytest.mark.slow]

NODE = "node-0"


@pytest.fixture
def world(programs: Programs, tmp_path: Path) -> Iterator[NodesWorld]:
    """A control plane of its own with one node."""
    del programs
    with ExitStack() as running:
        own = running.enter_context(ControlPlane.start(feature_gates=gates.chosen(), node_accounts=[NODE]))
        config = ("--leader-elect=false", f"--scheduler-name={SCHEDULER}")
        dovetail = running.enter_context(Dovetail(install(own), tmp_path / "log", *config))
        kubeconfigs = {NODE: own.access_for_node(NODE).write_kubeconfig(tmp_path / "kubeconfig")}
        nodes = running.enter_context(Nodes.start(own, 1, kubeconfigs=kubeconfigs, kubelet={"syncFrequency": "2s"}))
        dovetail.wait_until_ready()
        made = NodesWorld(own, nodes, "default")
        made.device_class()
        yield made
        assert audit(own, nodes) == []


def test_a_pod_runs_with_its_devices_by_the_rights_of_its_node(world: NodesWorld) -> None:
    world.publish([{"name": "gpu-0"}])
    world.template()
    world.pod("p")

    assert list(world.runs("p").devices) == world.held(world.claim_name("p"))

    with pytest.raises(RequestError, match=r"can only read resources that this node needs|cannot list") as refused:
        world.plane.access_for_node(NODE).request("GET", "/api/v1/secrets")
    assert refused.value.status == 403
    world.delete_pod("p")
    world.wait_for("p", lambda: world.get_pod("p") is None)
    assert [each.call for each in world.calls()] == ["prepare", "unprepare"]

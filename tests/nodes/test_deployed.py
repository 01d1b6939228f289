"""
Dovetail runs in the cluster that it serves: the shipped manifests, with the image of `make image`, on real nodes.

Nothing in the manifests is changed. The overlay `example` names an image, a driver and a label of nodes; the image gets
that name, the nodes' driver and their label are these. kube-scheduler binds Dovetail's own pods, as on any cluster.
"""

import os
from collections.abc import Iterator
from contextlib import ExitStack, nullcontext

import pytest

from e2e.audit.history import History
from e2e.controlplane import gates
from e2e.controlplane.plane import ControlPlane
from e2e.dovetail import NAMESPACE
from e2e.image import cached
from e2e.image.commands import ImageError, require
from e2e.nodes.cluster import Nodes
from e2e.nodes.invariants import audit
from e2e.nodes.node import NodeSpec
from e2e.nodes.programs import Programs
from e2e.takeover.handovers import handovers
from tests.support.deployed import DEPLOYMENT, LEASE, Deployed, image_name
from tests.support.nodes_world import NodesWorld

pytestmark = [pytest.mark.nodes, pytest.mark.slow]

DRIVER = "gpu.nvidia.com"
"""Of `devices.owned` in deploy/overlays/example/config.yaml, as is the label."""
LABELS = {"dovetail.dev/owned": "true"}
GPUS = [{"name": "gpu-0"}, {"name": "gpu-1"}]
USER = "65532"


@pytest.fixture(scope="module")
def started(
    programs: Programs, pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[ControlPlane, Nodes]]:
    """A control plane with kube-scheduler and two nodes with the image, whose pods reach the API server."""
    del programs  # built by now
    try:
        require()
    except ImageError as error:
        if os.environ.get("CI") == "true":
            pytest.fail(str(error))
        pytest.skip(str(error))
    capture = pytestconfig.pluginmanager.getplugin("capturemanager")
    with ExitStack() as running:
        plane = running.enter_context(
            ControlPlane.start(feature_gates=gates.chosen(), kube_scheduler=True, service_accounts=True, audit_log=True)
        )
        with capture.global_and_fixture_disabled() if capture else nullcontext():
            archive = cached.archive(image_name(plane), tmp_path_factory.mktemp("image"))
        specs = [
            NodeSpec(
                name=f"node-{index}",
                labels=LABELS,
                drivers={DRIVER: ({"devices": GPUS},)},
                kubelet={"syncFrequency": "2s"},
                has_large_images=True,
                has_network=True,
            )
            for index in range(2)
        ]
        nodes = running.enter_context(Nodes.start_each(plane, specs))
        for node in nodes:
            node.load(archive)
        archive.unlink()
        yield plane, nodes


@pytest.fixture
def deployed(started: tuple[ControlPlane, Nodes]) -> Deployed:
    """The Deployment, with all replicas ready."""
    made = Deployed(*started)
    made.apply()
    return made


@pytest.fixture
def world(started: tuple[ControlPlane, Nodes], deployed: Deployed) -> Iterator[NodesWorld]:
    """Pods and claims of one test; at their end devices, claims and containers agree, and only leaders have written."""
    plane, nodes = started
    made = NodesWorld(plane, nodes, "default")
    made.scheduler, made.driver = "dovetail", DRIVER
    made.device_class()
    yield made
    try:
        nodes.check()
        assert audit(plane, nodes, others={NAMESPACE}) == []
        assert [str(each) for each in History.of(deployed.writes(), lease=LEASE, left_seconds=30.0).findings] == []
    finally:
        made.clear()


def place(world: NodesWorld, name: str) -> None:
    """Create a pod with a claim, and see it run with the devices that Dovetail has allocated."""
    world.claim_of(name, {})
    world.pod(name, claim=name)
    container = world.runs(name)
    assert list(container.devices) == world.held(name) != []
    assert [each.name for each in world.calls() if each.call == "prepare"][-1] == name


def test_it_schedules_the_cluster_in_which_it_runs(world: NodesWorld, deployed: Deployed) -> None:
    pods = deployed.pods()
    assert sorted(each["spec"]["nodeName"] for each in pods.values()) == ["node-0", "node-1"]
    assert deployed.leader() in pods

    place(world, "p")

    placed = [each["pod"] for each in deployed.log(deployed.leader()) if each["event"] == "pod_placed"]
    assert placed[-1:] == ["default/p"]


def test_it_has_the_rights_that_it_needs_and_none_on_its_node(world: NodesWorld, deployed: Deployed) -> None:
    place(world, "p")

    for name, pod in deployed.pods().items():
        log = deployed.log(name)
        assert [each for each in log if each["level"] not in ("debug", "info")] == []
        assert [each for each in log if each["event"] == "right_missing" or "orbidden" in str(each)] == []
        processes = deployed.processes(pod)
        assert any("scheduler" in each.command for each in processes)
        for each in processes:
            assert set(f"{each.status['Uid']} {each.status['Gid']}".split()) == {USER}
            assert {each.status[f"Cap{name}"] for name in ("Inh", "Prm", "Eff", "Bnd", "Amb")} == {"0" * 16}
            assert (each.status["NoNewPrivs"], each.status["Seccomp"]) == ("1", "2")
            assert [path for path in ("/new", "/etc/dovetail/new", "/opt/dovetail/new") if each.can_write(path)] == []
            assert each.can_write("/tmp/new")  # noqa: S108 - the container's


def test_a_restart_hands_leadership_over_and_scheduling_goes_on(world: NodesWorld, deployed: Deployed) -> None:
    place(world, "before")
    old = set(deployed.pods())
    known = len(handovers(deployed.writes(), LEASE))

    deployed.kubectl("rollout", "restart", DEPLOYMENT)
    deployed.wait_until_ready()
    world.wait_for("before", lambda: not old & set(deployed.pods()))

    place(world, "after")
    assert deployed.leader() in set(deployed.pods()) - old
    assert world.running("before") != []
    found = handovers(deployed.writes(), LEASE)[known:]
    assert found != ()
    assert [each for each in found if not each.is_clean] == []


def test_it_gives_up_the_lease_when_it_is_deleted(world: NodesWorld, deployed: Deployed) -> None:
    place(world, "p")
    pods = deployed.pods()

    deployed.delete()

    assert deployed.leader() == ""
    assert [process for each in pods.values() for process in deployed.processes(each)] == []
    assert [each.name for each in world.running("p")] == ["main"]

"""
A node dies: its pods are evicted and stay, as no kubelet answers; their devices stay with them until the node is back,
or somebody says that it is out of service. New pods run elsewhere.
"""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, Final

import pytest

from e2e.controlplane import gates
from e2e.controlplane.plane import ControlPlane
from e2e.dovetail import Dovetail, install
from e2e.nodes.cluster import Nodes
from e2e.nodes.programs import Programs
from tests.support.controlplane import wait_until
from tests.support.nodes_world import SCHEDULER, Ask, NodesWorld, audited
from tests.support.shell_world import Json

pytestmark = [pytest.mark.nodes, pytest.mark.slow]

MERGE: Final = "application/merge-patch+json"
UNREACHABLE: Final = "node.kubernetes.io/unreachable"
OUT_OF_SERVICE: Final = {"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute"}
ON_NODE: Final = {"kubernetes.io/hostname": "node-0"}
COLLECTION_SECONDS: Final = 60.0
"""kube-controller-manager looks every 20 s for pods on nodes that are out of service."""


@pytest.fixture(scope="module")
def cluster(
    programs: Programs, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[ControlPlane, Nodes, Dovetail]]:
    """A control plane of its own that notices when a kubelet is silent, with two nodes whose leases are short."""
    del programs  # built by now
    with ExitStack() as running:
        plane = running.enter_context(ControlPlane.start(feature_gates=gates.chosen(), node_lifecycle=True))
        log = tmp_path_factory.mktemp("dovetail") / "log"
        config = ("--leader-elect=false", f"--scheduler-name={SCHEDULER}")
        dovetail = running.enter_context(Dovetail(install(plane), log, *config))
        kubelet = {"syncFrequency": "2s", "nodeLeaseDurationSeconds": 4}  # renewed every second
        nodes = running.enter_context(Nodes.start(plane, 2, kubelet=kubelet))
        dovetail.wait_until_ready()
        yield plane, nodes, dovetail


@pytest.fixture
def world(cluster: tuple[ControlPlane, Nodes, Dovetail]) -> Iterator[NodesWorld]:
    """What only this test knows; at its end both nodes run again, and all agree."""
    with audited(*cluster) as made:
        made.publish([{"name": "gpu-0"}], [{"name": "gpu-0"}, {"name": "gpu-1"}])
        yield made
        if taints(made):  # a test that failed has left the node as it was
            made.real["node-0"].boot()
            in_service(made)


def pod(world: NodesWorld, name: str, claim: str = "", **spec: Any) -> None:
    """Create a pod that stands a dead node for a second, with a claim of its own unless it shares one."""
    if not claim:
        world.claim_of(name, {})
    tolerations = [
        {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 1}
        for key in (UNREACHABLE, "node.kubernetes.io/not-ready")
    ]
    world.pod(name, claim=claim or name, tolerations=tolerations, **spec)


def node(world: NodesWorld) -> Json:
    found: Json = world.plane.request("GET", "/api/v1/nodes/node-0")
    return found


def taints(world: NodesWorld) -> list[tuple[str, str]]:
    return [(each["key"], each["effect"]) for each in node(world)["spec"].get("taints", ())]


def in_service(world: NodesWorld) -> None:
    """Take all taints from node-0."""
    world.plane.request("PATCH", "/api/v1/nodes/node-0", {"spec": {"taints": None}}, content=MERGE)


def waits(world: NodesWorld, name: str) -> str:
    """Wait until a pod finds no place, and return what it says."""
    world.wait_for(name, lambda: world.condition(name).get("status") == "False")
    return str(world.condition(name)["message"])


def dies(world: NodesWorld) -> None:
    """Let a pod run on node-0 with its device, the node end without a word, and the pod be evicted in vain."""
    pod(world, "first", nodeSelector=ON_NODE)
    world.runs("first")
    world.real["node-0"].power_off()
    world.wait_for("first", lambda: "deletionTimestamp" in (world.get_pod("first") or {})["metadata"])
    (ready,) = (each for each in node(world)["status"]["conditions"] if each["type"] == "Ready")
    assert (ready["status"], ready["reason"]) == ("Unknown", "NodeStatusUnknown")
    # Others than who deletes the pod write the taint of new pods and the event.
    wait_until(lambda: set(taints(world)) == {(UNREACHABLE, "NoSchedule"), (UNREACHABLE, "NoExecute")})
    wait_until(lambda: "TaintManagerEviction" in {each["reason"] for each in world.events("first")})


def test_pods_run_elsewhere_and_a_device_comes_back_with_its_node(world: NodesWorld, ask: Ask) -> None:
    dies(world)

    for name in ("second", "third"):
        pod(world, name)
        assert world.runs(name).devices[0].startswith(f"{world.driver}/node-1/")
    pod(world, "fourth", nodeSelector=ON_NODE)
    assert f"1 node(s) had untolerated taint {{{UNREACHABLE}: }}" in waits(world, "fourth")
    pod(world, "fifth")
    assert "1 node(s) had untolerated taint" in waits(world, "fifth")
    world.delete_pod("fifth")
    # Nobody knows whether the container still runs: the pod and what it has stay.
    assert (world.get_pod("first") or {})["status"]["phase"] == "Running"
    assert world.devices("first") == ["node-0/gpu-0"]
    (listed,) = json.loads(ask("devices", "node/node-0", "-o", "json"))["items"]
    assert (listed["state"], listed["holders"][0]["pods"]) == ("held", [f"{world.namespace}/first"])
    assert [each["message"] for each in listed["problems"]] == ["node node-0 is not ready"]

    world.real["node-0"].boot()

    assert world.runs("fourth").devices == (f"{world.driver}/node-0/gpu-0",)
    assert world.devices("first") == []
    # The claim of a pod is free before the pod is gone, and one of the taints is enough to keep pods away.
    wait_until(lambda: world.get_pod("first") is None and taints(world) == [])
    ended = [each.name for each in world.calls() if each.call == "unprepare"]
    given = [each.name for each in world.calls() if each.call == "prepare"]
    assert "first" in ended
    assert given[-1] == "fourth"


def test_a_claim_leaves_a_dead_node_when_it_is_said_to_be_out_of_service(world: NodesWorld, ask: Ask) -> None:
    dies(world)
    pod(world, "again", claim="first")
    said = waits(world, "again")
    assert "1 node(s) cannot use a claim that is allocated elsewhere" in said
    assert f"1 node(s) had untolerated taint {{{UNREACHABLE}: }}" in said
    assert "get node node-0 ready again (node-0)" in ask("explain", "again", "-n", world.namespace)
    pod(world, "there", nodeSelector=ON_NODE)
    waits(world, "there")
    assert world.devices("first") == ["node-0/gpu-0"]

    spec = {"taints": [*node(world)["spec"]["taints"], OUT_OF_SERVICE]}
    world.plane.request("PATCH", "/api/v1/nodes/node-0", {"spec": spec}, content=MERGE)

    world.wait_for("first", lambda: world.get_pod("first") is None, seconds=COLLECTION_SECONDS)
    (device,) = world.runs("again").devices
    assert device.startswith(f"{world.driver}/node-1/")
    assert (world.held("first"), world.devices("there")) == ([device], [])

    world.real["node-0"].boot()
    wait_until(lambda: taints(world) == [(OUT_OF_SERVICE["key"], "NoExecute")])
    pod(world, "probe", nodeSelector=ON_NODE)
    assert OUT_OF_SERVICE["key"] in waits(world, "probe")
    assert world.devices("there") == []
    world.delete_pod("probe")
    in_service(world)

    assert world.runs("there").devices == (f"{world.driver}/node-0/gpu-0",)

"""`repair.mode: apply` on the real API server: room is held, pods are moved, and the ones that waited run."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from e2e.controlplane.access import RequestError
from tests.integration.test_repair_by_hand import node_of, replica_set
from tests.support.controlplane import wait_until
from tests.support.repair_world import (
    PLANS,
    configured,
    holds,
    install_component,
    plans,
    remove_plans,
    scatter,
)
from tests.support.shell_world import Start, World

pytestmark = pytest.mark.controlplane
MERGE = "application/merge-patch+json"


@pytest.fixture(autouse=True)
def component(world: World) -> Any:
    install_component(world.plane)
    yield
    remove_plans(world)


def state(world: World) -> str:
    """The state of the one plan of this world."""
    found = plans(world)
    return str(found[0].get("status", {}).get("state", "")) if len(found) == 1 else f"{len(found)} plans"


def test_an_approved_plan_makes_room(world: World, start: Start, account: Path, tmp_path: Path) -> None:
    start(account, configured(world, tmp_path, "apply"))
    scatter(world)
    wait_until(lambda: len(plans(world)) == 1)
    before = world.bound()
    assert "large" not in before

    path = f"{PLANS}/{plans(world)[0]['metadata']['name']}"
    world.plane.request("PATCH", path, {"spec": {"decision": "Approved", "decidedBy": "me"}}, content=MERGE)

    wait_until(lambda: "large" in world.bound())
    wait_until(lambda: state(world) == "Done")
    assert node_of(world, "first") == node_of(world, "second") != world.bound()["large"]
    (progress,) = plans(world)[0]["status"]["moves"]
    (move,) = plans(world)[0]["spec"]["moves"]
    assert (progress["state"], progress["uid"]) == ("Moved", move["uid"])
    assert progress["successorUID"] in {pod["metadata"]["uid"] for pod in world.pods()}
    assert world.bound()[progress["successor"]] == move["to"]
    wait_until(lambda: holds(world) == [])
    assert world.problems() == []


def test_a_pod_leaves_a_device_that_is_tainted(world: World, start: Start, account: Path, tmp_path: Path) -> None:
    start(account, configured(world, tmp_path, "apply", autoApprove=True))
    world.add_nodes(2, devices=1)
    world.template()
    replica_set(world, "first")
    wait_until(lambda: bool(node_of(world, "first")))
    old = node_of(world, "first")
    slices = world.plane.request("GET", "/apis/resource.k8s.io/v1/resourceslices")["items"]
    (own,) = [each for each in slices if each["spec"].get("nodeName") == old]
    taints = [{"key": "example.com/broken", "effect": "NoSchedule"}]
    devices = [{**device, "taints": taints} for device in own["spec"]["devices"]]
    path = f"/apis/resource.k8s.io/v1/resourceslices/{own['metadata']['name']}"
    world.plane.request("PATCH", path, {"spec": {"devices": devices}}, content=MERGE)

    wait_until(lambda: node_of(world, "first") not in {"", old})
    wait_until(lambda: state(world) == "Done")
    assert plans(world)[0]["spec"]["goal"]["kind"] == "Devices"
    assert len(plans(world)[0]["spec"]["moves"]) == 1
    wait_until(lambda: holds(world) == [])


def test_a_budget_of_nothing_moves_nothing(world: World, start: Start, account: Path, tmp_path: Path) -> None:
    budget = {"movesPerHour": 0}
    start(account, configured(world, tmp_path, "apply", autoApprove=True, budget=budget))
    scatter(world)
    wait_until(lambda: len(plans(world)) == 1)
    before = {pod["metadata"]["uid"] for pod in world.pods()}

    wait_until(lambda: "0 of 0 moves within the hour" in plans(world)[0].get("status", {}).get("message", ""))

    assert {pod["metadata"]["uid"] for pod in world.pods()} == before
    assert holds(world) == []


def test_a_refused_eviction_stops_the_plan_and_gives_the_room_free(
    world: World, start: Start, account: Path, tmp_path: Path
) -> None:
    """The budget comes after the plan was made and approved; nothing is evicted."""
    start(account, configured(world, tmp_path, "apply"))
    scatter(world)
    wait_until(lambda: len(plans(world)) == 1)
    before = {pod["metadata"]["uid"] for pod in world.pods()}
    selector = {"matchExpressions": [{"key": "set", "operator": "Exists"}]}
    body = {"metadata": {"name": "none"}, "spec": {"maxUnavailable": 0, "selector": selector}}
    world.plane.request("POST", f"/apis/policy/v1/namespaces/{world.namespace}/poddisruptionbudgets", body)
    name = plans(world)[0]["metadata"]["name"]
    world.plane.request("PATCH", f"{PLANS}/{name}", {"spec": {"decision": "Approved"}}, content=MERGE)

    wait_until(lambda: all(each["metadata"]["name"] != name for each in plans(world)) or state(world) == "Stopped")

    assert {pod["metadata"]["uid"] for pod in world.pods()} == before
    wait_until(lambda: holds(world) == [])


def test_a_successor_may_come_to_the_node_and_to_devices_of_its_predecessor(
    world: World, start: Start, account: Path, tmp_path: Path
) -> None:
    """Of two devices one fails: the pod is made anew on its node, with the one that works and a third."""
    start(account, configured(world, tmp_path, "apply", autoApprove=True))
    world.add_nodes(1, devices=3)
    world.template(count=2)
    replica_set(world, "first")
    wait_until(lambda: bool(node_of(world, "first")))
    (before,) = [pod["metadata"]["name"] for pod in world.pods()]
    (claim,) = [each["metadata"]["name"] for each in world.claims()]
    failed = world.devices(claim)[0].rpartition("/")[2]
    slices = world.plane.request("GET", "/apis/resource.k8s.io/v1/resourceslices")["items"]
    (own,) = [each for each in slices if each["spec"].get("nodeName") == world.nodes[0]]
    taints = [{"key": "example.com/broken", "effect": "NoSchedule"}]
    devices = [
        {**device, "taints": taints} if device["name"] == failed else device for device in own["spec"]["devices"]
    ]
    path = f"/apis/resource.k8s.io/v1/resourceslices/{own['metadata']['name']}"
    world.plane.request("PATCH", path, {"spec": {"devices": devices}}, content=MERGE)

    wait_until(lambda: [pod["metadata"]["name"] for pod in world.pods()] != [before] and bool(node_of(world, "first")))
    wait_until(lambda: state(world) == "Done")
    (claim,) = [each["metadata"]["name"] for each in world.claims()]
    assert failed not in [each.rpartition("/")[2] for each in world.devices(claim)]
    wait_until(lambda: holds(world) == [])


REPLICA_SETS = "/apis/apps/v1/namespaces/dovetail-system/replicasets"
RESTRICTED = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
"""What the namespace's pod security standard wants."""


@pytest.fixture
def revisions(world: World) -> Iterator[list[str]]:
    """Two ReplicaSets in the scheduler's namespace, with a pod each as the Deployment makes them; no scheduler's."""
    names = [f"{world.word}-{revision}" for revision in ("old", "new")]
    for name in names:
        labels = {"app.kubernetes.io/name": "dovetail", "pod-template-hash": name}
        container = {"name": "main", "image": "example.com/none", "securityContext": RESTRICTED}
        pod_context = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
        spec = {"schedulerName": "nobody", "containers": [container], "securityContext": pod_context}
        template = {"metadata": {"labels": labels}, "spec": spec}
        body = {"metadata": {"name": name}, "spec": {"selector": {"matchLabels": labels}, "template": template}}
        world.plane.request("POST", REPLICA_SETS, body)
    pods = f"/api/v1/namespaces/dovetail-system/pods?labelSelector=pod-template-hash%20in%20({names[0]},{names[1]})"
    wait_until(lambda: len(world.plane.request("GET", pods)["items"]) == len(names))
    yield names
    for name in names:
        with suppress(RequestError):
            world.plane.request("DELETE", f"{REPLICA_SETS}/{name}")


def test_nothing_moves_while_replicas_are_replaced(
    world: World, start: Start, account: Path, tmp_path: Path, revisions: list[str]
) -> None:
    start(account, configured(world, tmp_path, "apply", autoApprove=True), leader_elect=True)
    scatter(world)
    logged = f"an upgrade runs: there are replicas of Dovetail of {len(revisions)} revisions"
    wait_until(lambda: any(logged in each.read_text(encoding="utf-8") for each in tmp_path.glob("dovetail-*.log")))
    assert plans(world) == []
    assert "large" not in world.bound()

    world.plane.request("DELETE", f"{REPLICA_SETS}/{revisions[0]}")

    wait_until(lambda: "large" in world.bound())
    wait_until(lambda: state(world) == "Done")

"""What one team can do to another on the real API server: hold nodes, jump the queue, shield itself, read names."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.controlplane.plane import ControlPlane
from tests.integration.test_preemption import HIGH, plain, shield
from tests.support.controlplane import wait_until
from tests.support.priority_classes import users_class
from tests.support.shell_world import Start, World

pytestmark = pytest.mark.controlplane


@pytest.fixture
def others(control_plane: ControlPlane, world: World) -> Iterator[World]:
    """Another namespace on the nodes of the world."""
    name = f"others-{world.word}"
    control_plane.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    made = World(control_plane, name)
    made.word, made.driver, made.scheduler, made.nodes = world.word, world.driver, world.scheduler, world.nodes
    yield made
    control_plane.request("DELETE", f"/api/v1/namespaces/{name}")


def gpu(world: World, name: str, **metadata: Any) -> None:
    """A pod with one device that says something of itself in its metadata."""
    template = {"name": "devices", "resourceClaimTemplateName": "one"}
    container = {"name": "main", "image": "example.com/none", "resources": {"claims": [{"name": "devices"}]}}
    spec = {
        "schedulerName": world.scheduler,
        "nodeSelector": {"world": world.word},
        "terminationGracePeriodSeconds": 0,
        "containers": [container],
        "resourceClaims": [template],
        "tolerations": [{"operator": "Exists"}],
    }
    body = {"metadata": {"name": name, **metadata}, "spec": spec}
    world.plane.request("POST", f"/api/v1/namespaces/{world.namespace}/pods", body)


def test_an_annotation_holds_no_node(world: World, others: World, start: Start) -> None:
    world.add_nodes(2, devices=1)
    world.template()
    for index, node in enumerate(world.nodes):
        annotations = {"dovetail.dev/reserve-node": node, "dovetail.dev/node-reserved": node}
        plain(others, f"greedy-{index}", "1000000", annotations=annotations, schedulerName="nobody")
    start()

    for index in range(2):
        world.pod(f"good-{index}")
    wait_until(lambda: len(world.bound()) == 2)


def test_a_running_dummy_gives_its_gang_no_place_in_front(world: World, others: World, start: Start) -> None:
    world.add_nodes(1, devices=1)
    for each in (world, others):
        each.template()
    gang = {"labels": {"dovetail.dev/gang": "g"}, "annotations": {"dovetail.dev/gang-minimum": "2"}}
    plain(others, "dummy", "1m", nodeName=world.nodes[0], **gang)
    world.pod("blocker")
    start()
    wait_until(lambda: "blocker" in world.bound())
    world.pod("older")
    wait_until(lambda: bool(world.condition("older")))
    gpu(others, "newer", **gang)
    wait_until(lambda: bool(others.condition("newer")))

    world.delete_pod("blocker")

    wait_until(lambda: "older" in world.bound() or "newer" in others.bound())
    assert "older" in world.bound()
    assert "newer" not in others.bound()


def test_a_pod_that_shields_itself_makes_room_for_the_system_and_no_tenant_reads_the_other_s_names(
    world: World, others: World, start: Start
) -> None:
    world.add_nodes(1, devices=1)
    running = start()
    labels = {"app": world.word}
    plain(others, "secret-low", "40", labels=labels, annotations={"dovetail.dev/preemptible": "false"})
    for name in ("one", "two"):
        shield(others, name, 1, **labels)
    wait_until(lambda: "secret-low" in others.bound())
    with users_class(world.plane, f"{world.word}-users") as users:
        plain(world, "user", "40", **users)
    wait_until(lambda: "No preemption victims" in world.condition("user").get("message", ""))
    assert "secret-low" in others.bound()
    world.delete_pod("user")

    plain(world, "secret-system", "40", **HIGH)

    wait_until(lambda: "secret-system" in world.bound())
    wait_until(lambda: others.get_pod("secret-low") is None)
    wait_until(lambda: any(each["reason"] == "Preempted" for each in others.events("secret-low")))
    for each, own, foreign in ((world, "secret-system", "secret-low"), (others, "secret-low", "secret-system")):
        events = json.dumps([event["note"] for event in each.events(own)])
        assert "of another namespace" in events
        assert foreign not in events
    for line in running.log.read_text(encoding="utf-8").splitlines():
        assert not ("secret-low" in line and "secret-system" in line), line


def test_without_inventory_a_waiting_pod_reads_no_node_and_no_device(
    world: World, start: Start, account: Path, tmp_path: Path
) -> None:
    world.device = {"attributes": {"model": {"string": "secret-model"}}}
    world.add_nodes(1, devices=1)
    path = tmp_path / "config.yaml"
    document = {
        "apiVersion": "config.dovetail.dev/v1alpha1",
        "kind": "DovetailConfiguration",
        "profiles": [{"schedulerName": world.scheduler}],
        "messages": {"inventory": False},
    }
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    selector = {"cel": {"expression": f'device.attributes["{world.driver}"].model == "secret-mode"'}}
    exactly = {"deviceClassName": world.driver, "selectors": [selector]}
    spec = {"spec": {"devices": {"requests": [{"name": "devices", "exactly": exactly}]}}}
    collection = f"/apis/resource.k8s.io/v1/namespaces/{world.namespace}/resourceclaimtemplates"
    world.plane.request("POST", collection, {"metadata": {"name": "wrong"}, "spec": spec})
    start(account, f"--config={path}")

    world.pod("p", template="wrong")

    wait_until(lambda: bool(world.condition("p")))
    message = world.condition("p")["message"]
    assert "none matches" in message
    assert "secret-model" not in message
    assert world.nodes[0] not in message

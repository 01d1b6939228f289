"""`dovetail repair plan --apply` on the real API server: pods are moved, and the one that waited runs."""

from pathlib import Path
from typing import Any

import pytest

from tests.support import manifests as m
from tests.support.controlplane import wait_until
from tests.support.people import kubeconfig_of
from tests.support.shell_world import Start, World

pytestmark = pytest.mark.controlplane


def replica_set(world: World, name: str) -> None:
    """One replica with one device."""
    entry = {"name": "devices", "resourceClaimTemplateName": "one"}
    container = {"name": "main", "image": "example.com/none", "resources": {"claims": [{"name": "devices"}]}}
    spec = {
        "schedulerName": world.scheduler,
        "nodeSelector": {"world": world.word},
        "terminationGracePeriodSeconds": 0,
        "containers": [container],
        "resourceClaims": [entry],
        "tolerations": [{"operator": "Exists"}],
    }
    labels = {"set": name}
    body = {
        "metadata": {"name": name},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }
    world.plane.request("POST", f"/apis/apps/v1/namespaces/{world.namespace}/replicasets", body)


def node_of(world: World, name: str) -> str:
    """Where the one pod of a ReplicaSet runs."""
    pods: list[Any] = [pod for pod in world.pods() if pod["metadata"].get("labels", {}).get("set") == name]
    return str(pods[0]["spec"].get("nodeName", "")) if len(pods) == 1 else ""


@pytest.fixture
def profile(world: World, tmp_path: Path) -> Path:
    """The configuration of the scheduler, which runs outside of the cluster."""
    body = {"apiVersion": "config.dovetail.dev/v1alpha1", "kind": "DovetailConfiguration"}
    return m.write_yaml(tmp_path / "config.yaml", {**body, "profiles": [{"schedulerName": world.scheduler}]})


def test_one_pod_moves_and_the_large_one_runs(
    world: World, start: Start, profile: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    world.add_nodes(2, devices=2)
    world.template()
    world.template("two", count=2)
    start()
    replica_set(world, "first")
    wait_until(lambda: bool(node_of(world, "first")))
    world.pod("blocker")
    wait_until(lambda: "blocker" in world.bound())
    replica_set(world, "second")
    wait_until(lambda: bool(node_of(world, "second")))
    world.delete_pod("blocker")
    wait_until(lambda: "blocker" not in world.bound())
    assert node_of(world, "first") != node_of(world, "second")
    world.pod("large", template="two")
    wait_until(lambda: bool(world.condition("large")))
    access = ("--kubeconfig", kubeconfig_of(world.plane, "dovetail-operator"), "--config", profile)

    assert m.run("repair", "plan", "--for", "pod", f"{world.namespace}/large", *access) == 0
    assert "1 move (proven" in capsys.readouterr().out
    assert "large" not in world.bound()  # nothing was written

    status = m.run("repair", "plan", "--for", "pod", f"{world.namespace}/large", *access, "--apply", "--timeout", "60")

    assert status == 0, capsys.readouterr().err
    wait_until(lambda: "large" in world.bound())
    assert node_of(world, "first") == node_of(world, "second") != ""
    large = world.get_pod("large") or {}
    assert "dovetail.dev/node-reserved" not in {each["type"] for each in large["status"]["conditions"]}
    assert world.problems() == []


def member(world: World, name: str) -> None:
    """A pod of the gang `g` of two, with two devices."""
    labels, annotations = {"dovetail.dev/gang": "g"}, {"dovetail.dev/gang-minimum": "2"}
    container = {"name": "main", "image": "example.com/none", "resources": {"claims": [{"name": "devices"}]}}
    spec = {
        "schedulerName": world.scheduler,
        "nodeSelector": {"world": world.word},
        "terminationGracePeriodSeconds": 0,
        "containers": [container],
        "resourceClaims": [{"name": "devices", "resourceClaimTemplateName": "two"}],
        "tolerations": [{"operator": "Exists"}],
    }
    body = {"metadata": {"name": name, "labels": labels, "annotations": annotations}, "spec": spec}
    world.plane.request("POST", f"/api/v1/namespaces/{world.namespace}/pods", body)


def test_room_is_made_for_a_whole_gang(
    world: World, start: Start, profile: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    world.add_nodes(3, devices=2)
    world.template()
    world.template("two", count=2)
    start()
    replica_set(world, "first")
    wait_until(lambda: bool(node_of(world, "first")))
    world.pod("blocker")
    wait_until(lambda: "blocker" in world.bound())
    replica_set(world, "second")
    wait_until(lambda: bool(node_of(world, "second")))
    world.delete_pod("blocker")
    wait_until(lambda: "blocker" not in world.bound())
    assert node_of(world, "first") != node_of(world, "second")
    members = {"member-0", "member-1"}
    for name in sorted(members):
        member(world, name)
    wait_until(lambda: all(world.condition(name) for name in members))
    access = ("--kubeconfig", kubeconfig_of(world.plane, "dovetail-operator"), "--config", profile)

    assert m.run("repair", "plan", "--for", "gang", f"{world.namespace}/g", *access) == 0
    assert "1 move (proven" in capsys.readouterr().out
    assert not members & world.bound().keys()

    status = m.run("repair", "plan", "--for", "gang", f"{world.namespace}/g", *access, "--apply", "--timeout", "60")

    assert status == 0, capsys.readouterr().err
    wait_until(lambda: members <= world.bound().keys())
    assert len({world.bound()[name] for name in members}) == 2
    assert world.problems() == []

"""Pods of lower priority make room, on the real API server, with the rights that the service account has."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.controlplane.kubelet import STOP_SECONDS
from e2e.dovetail import Dovetail
from tests.integration.test_gangs import gangs_bound, member, pod_group
from tests.support.controlplane import stopped, wait_until
from tests.support.marks import WITH_POD_GROUPS
from tests.support.priority_classes import make_priority_class, users_class
from tests.support.shell_world import Json, Start, World

pytestmark = pytest.mark.controlplane

HIGH = {"priorityClassName": "system-cluster-critical"}
"""A class that every cluster has; only its own namespaces' quota could limit it."""


def profile(world: World, folder: Path, **preemption: Any) -> str:
    """Write a configuration for the world's profile; give the argument that names it."""
    path = folder / "config.yaml"
    document = {
        "apiVersion": "config.dovetail.dev/v1alpha1",
        "kind": "DovetailConfiguration",
        "profiles": [{"schedulerName": world.scheduler, "preemption": {"minimumRunSeconds": 0, **preemption}}],
    }
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    return f"--config={path}"


def begin(world: World, start: Start, account: Path, folder: Path, **preemption: Any) -> Dovetail:
    return start(account, profile(world, folder, **preemption))


def plain(world: World, name: str, cpu: str, **spec: Any) -> Any:
    """Create a pod without claims; what it asks for is cpu."""
    container = {"name": "main", "image": "example.com/none", "resources": {"requests": {"cpu": cpu}}}
    labels = spec.pop("labels", {})
    body = {
        "metadata": {
            "name": name,
            "labels": labels,
            "annotations": spec.pop("annotations", {}),
        },
        "spec": {
            "schedulerName": world.scheduler,
            "nodeSelector": {"world": world.word},
            "terminationGracePeriodSeconds": 0,
            "containers": [container],
            "tolerations": [{"operator": "Exists"}],
            **spec,
        },
    }
    return world.plane.request("POST", f"/api/v1/namespaces/{world.namespace}/pods", body)


def shield(world: World, name: str, least: int, **labels: str) -> None:
    body = {"metadata": {"name": name}, "spec": {"minAvailable": least, "selector": {"matchLabels": labels}}}
    world.plane.request("POST", f"/apis/policy/v1/namespaces/{world.namespace}/poddisruptionbudgets", body)


def allowed(world: World, name: str) -> int:
    path = f"/apis/policy/v1/namespaces/{world.namespace}/poddisruptionbudgets/{name}"
    status = world.plane.request("GET", path).get("status", {})
    return int(status.get("disruptionsAllowed", -1)) if status.get("observedGeneration") else -1


def names(world: World) -> set[str]:
    return {pod["metadata"]["name"] for pod in world.pods()}


def test_a_pod_of_lower_priority_makes_room_for_cpu(world: World, start: Start) -> None:
    world.add_nodes(1, devices=1)
    start()
    plain(world, "low", "40")
    plain(world, "other", "20")
    wait_until(lambda: len(world.bound()) == 2)

    plain(world, "high", "30", **HIGH)
    wait_until(lambda: "high" in world.bound())

    assert names(world) == {"other", "high"}
    wait_until(lambda: "Preempted" in {each["reason"] for each in world.events("low")})
    wait_until(lambda: "Preempting" in {each["reason"] for each in world.events("high")})


def test_no_pod_is_evicted_with_preemption_off_or_for_never(
    world: World, start: Start, account: Path, tmp_path: Path
) -> None:
    world.add_nodes(1, devices=1)
    first = begin(world, start, account, tmp_path, enabled=False)
    plain(world, "low", "40")
    wait_until(lambda: "low" in world.bound())
    plain(world, "high", "40", **HIGH)
    wait_until(lambda: bool(world.condition("high")))
    assert "low" in world.bound()

    first.stop()
    world.delete_pod("high")
    start()
    patient = make_priority_class(world.plane, f"patient-{world.word}", preemptionPolicy="Never")
    plain(world, "never", "40", **patient)
    wait_until(lambda: bool(world.condition("never")))
    assert "low" in world.bound()


def test_eight_small_pods_make_room_for_one_of_eight_devices(
    world: World, start: Start, account: Path, tmp_path: Path
) -> None:
    world.add_nodes(1, devices=8)
    world.template()
    world.template("eight", count=8)
    first = start()
    for number in range(8):
        world.pod(f"low-{number}")
    wait_until(lambda: len(world.bound()) == 8)
    world.pod("high", template="eight", **HIGH)
    wait_until(lambda: bool(world.condition("high")))
    assert len(world.bound()) == 8  # for devices it is off by default
    first.stop()

    begin(world, start, account, tmp_path, devices=True)
    wait_until(lambda: world.bound().keys() == {"high"})

    assert names(world) == {"high"}
    assert world.problems() == []


def test_only_as_many_go_as_devices_are_wanted(world: World, start: Start, account: Path, tmp_path: Path) -> None:
    world.add_nodes(1, devices=4)
    world.template()
    world.template("two", count=2)
    begin(world, start, account, tmp_path, devices=True)
    for number in range(4):
        world.pod(f"low-{number}")
    wait_until(lambda: len(world.bound()) == 4)

    world.pod("high", template="two", **HIGH)
    wait_until(lambda: "high" in world.bound())

    assert len(world.bound()) == 3
    assert world.problems() == []


def test_a_disruption_budget_is_honoured(world: World, start: Start) -> None:
    world.add_nodes(1, devices=1)
    start()
    for number in range(2):
        plain(world, f"web-{number}", "20", labels={"app": world.word})
    shield(world, "web", 2, app=world.word)
    wait_until(lambda: len(world.bound()) == 2 and allowed(world, "web") == 0)

    with users_class(world.plane, f"{world.word}-users") as users:
        plain(world, "high", "40", **users)
    wait_until(lambda: "No preemption victims" in world.condition("high").get("message", ""))
    assert world.bound().keys() == {"web-0", "web-1"}

    path = f"/apis/policy/v1/namespaces/{world.namespace}/poddisruptionbudgets/web"
    world.plane.request("DELETE", path)
    wait_until(lambda: "high" in world.bound())


def test_room_is_held_until_the_victim_is_gone(world: World, start: Start) -> None:
    world.add_nodes(1, devices=1)
    running = start()
    plain(world, "low", "40", annotations={STOP_SECONDS: "3600"}, terminationGracePeriodSeconds=3600)
    wait_until(lambda: "low" in world.bound())
    plain(world, "high", "60", **HIGH)
    wait_until(lambda: "deletionTimestamp" in (world.get_pod("low") or {"metadata": {}})["metadata"])
    node = world.nodes[0]
    wait_until(lambda: (world.get_pod("high") or {})["status"].get("nominatedNodeName") == node)
    wait_until(lambda: world.condition("high").get("reason") == "WaitingForVictims")
    condition = _disruption(world, "low")
    assert (condition["status"], condition["reason"]) == ("True", "PreemptionByScheduler")

    plain(world, "small", "10")  # there is room for it now, and it is not its own
    wait_until(lambda: bool(world.condition("small")))
    assert world.bound().keys() == {"low"}
    running.stop()  # the nomination is in the API, and holds the room for the next one too
    start()
    plain(world, "tiny", "10")
    wait_until(lambda: bool(world.condition("tiny")))
    assert world.bound().keys() == {"low"}

    world.delete_pod("low")
    wait_until(lambda: "high" in world.bound())


def test_the_devices_of_a_victim_that_is_gone_are_held_until_its_claim_is_released(
    world: World, start: Start, account: Path, tmp_path: Path
) -> None:
    """A kubelet reports the victim's end before the claim controller takes its claim's allocation back."""
    world.add_nodes(1, devices=1)
    for name in ("of-low", "of-high", "of-late"):
        world.claim(name)
    begin(world, start, account, tmp_path, devices=True)
    world.pod("low", claim="of-low", terminationGracePeriodSeconds=3600)
    wait_until(lambda: "low" in world.bound())
    path = f"/api/v1/namespaces/{world.namespace}/pods/low"
    merge = {"content": "application/merge-patch+json"}
    world.plane.request("PATCH", path, {"metadata": {"annotations": {STOP_SECONDS: "3600"}}}, **merge)
    world.pod("high", claim="of-high", **HIGH)
    wait_until(lambda: "deletionTimestamp" in (world.get_pod("low") or {"metadata": {}})["metadata"])

    with stopped(world.plane.components["kube-controller-manager"].pid):
        world.plane.request("PATCH", f"{path}/status", {"status": {"phase": "Failed"}}, **merge)
        world.pod("late", claim="of-late")
        wait_until(lambda: bool(world.condition("late")))
        world.delete_pod("low")
        wait_until(lambda: world.get_pod("low") is None)
        world.pod("later", claim="of-late")
        wait_until(lambda: bool(world.condition("later")))
        high = world.get_pod("high") or {}
        assert (high["status"].get("nominatedNodeName"), world.condition("high")["reason"]) == (
            world.nodes[0],
            "WaitingForVictims",
        )
    wait_until(lambda: "high" in world.bound())

    assert world.bound().keys() == {"high"}
    assert not any(each["reason"] == "Preempted" for name in ("late", "later") for each in world.events(name))


def _disruption(world: World, name: str) -> Any:
    def find() -> list[Any]:
        conditions = (world.get_pod(name) or {}).get("status", {}).get("conditions", [])
        return [
            each
            for each in conditions
            if each["type"] == "DisruptionTarget" and each["reason"] == "PreemptionByScheduler"
        ]

    wait_until(lambda: bool(find()))
    return find()[0]


def test_a_gang_is_evicted_whole_and_an_annotated_pod_not_at_all(world: World, start: Start) -> None:
    world.add_nodes(2, devices=1)
    start()
    gang = {"labels": {"dovetail.dev/gang": "g"}, "annotations": {"dovetail.dev/gang-minimum": "2"}}
    for number in range(2):
        plain(world, f"member-{number}", "40", **gang)
    wait_until(lambda: len(world.bound()) == 2)
    spared = {"annotations": {"dovetail.dev/preemptible": "false"}}
    plain(world, "spared", "20", nodeName=world.nodes[0], **spared)

    plain(world, "high", "40", **HIGH)
    wait_until(lambda: "high" in world.bound())

    wait_until(lambda: names(world) == {"high", "spared"})  # the other member may end after the room is taken


@WITH_POD_GROUPS
def test_a_gang_makes_room_for_a_gang(world: World, start: Start, account: Path, tmp_path: Path) -> None:
    world.add_nodes(4, devices=1)
    world.template()
    with users_class(world.plane, f"{world.word}-users") as users:
        _make_room_for_a_gang(world, start, account, tmp_path, users)


def _make_room_for_a_gang(world: World, start: Start, account: Path, tmp_path: Path, high: Json) -> None:
    pod_group(world, "low", 3)
    pod_group(world, "high", 3, more=high)
    begin(world, start, account, tmp_path, devices=True)
    for number in range(3):
        member(world, "low", number)
    wait_until(lambda: gangs_bound(world) == {"low": 3})

    for number in range(3):
        member(world, "high", number, **high)
    wait_until(lambda: gangs_bound(world).get("high") == 3)

    # disruptionMode single, the API server's default: no more members go than devices are wanted.
    assert gangs_bound(world) == {"low": 1, "high": 3}

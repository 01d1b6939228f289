"""PodGroups as Kubernetes 1.37 has them (scheduling.k8s.io/v1beta1), on the real API server."""

from pathlib import Path
from typing import Any

import pytest

from tests.integration.test_gangs import SCHEDULING, gangs_bound, group_condition, member, pod_group
from tests.integration.test_preemption import begin, names, plain
from tests.support.controlplane import wait_until
from tests.support.marks import WITH_POD_GROUPS
from tests.support.priority_classes import make_priority_class
from tests.support.shell_world import Start, World

pytestmark = [pytest.mark.controlplane, pytest.mark.kubernetes(since="1.37")]

MERGE = "application/merge-patch+json"


def priority_class(world: World, **more: Any) -> dict[str, Any]:
    """Create a class of priority 1000; give the field that names it."""
    return make_priority_class(world.plane, f"{world.word}-{'-'.join(more) or 'users'}".lower(), **more)


@WITH_POD_GROUPS
def test_the_condition_has_the_name_of_the_version(world: World, start: Start) -> None:
    world.add_nodes(2, devices=1)
    world.template()
    assert pod_group(world, "g", 2)["spec"]["disruptionMode"] == {"single": {}}
    start()
    for number in range(2):
        member(world, "g", number)
    wait_until(lambda: gangs_bound(world) == {"g": 2})
    wait_until(lambda: group_condition(world, "g").get("status") == "True")
    assert group_condition(world, "g")["type"] == "PodGroupInitiallyScheduled"


@WITH_POD_GROUPS
def test_a_gang_whose_minimum_is_lowered_is_placed(world: World, start: Start) -> None:
    world.add_nodes(3, devices=1)
    world.template()
    pod_group(world, "g", 3)
    start()
    for number in range(2):
        member(world, "g", number)
    wait_until(lambda: world.condition("g-0").get("reason") == "WaitingForMembers")

    path = f"{SCHEDULING}/namespaces/{world.namespace}/podgroups/g"
    change = {"spec": {"schedulingPolicy": {"gang": {"minCount": 2}}}}
    world.plane.request("PATCH", path, change, content=MERGE)
    wait_until(lambda: gangs_bound(world) == {"g": 2})
    wait_until(lambda: group_condition(world, "g").get("status") == "True")


@WITH_POD_GROUPS
def test_pods_of_another_priority_than_their_group_wait_and_say_so(world: World, start: Start) -> None:
    world.add_nodes(2, devices=1)
    world.template()
    pod_group(world, "g", 2)
    start()
    for number in range(2):
        member(world, "g", number, **priority_class(world, description=f"class {number}") if number else {})
    said = "pod g-1 has priority 1000 and PodGroup g has 0: write the same priorityClassName in both"
    wait_until(lambda: said in world.condition("g-0").get("message", ""))
    wait_until(lambda: said in group_condition(world, "g").get("message", ""))
    assert world.bound() == {}

    world.delete_pod("g-1")
    member(world, "g", 1)
    wait_until(lambda: gangs_bound(world) == {"g": 2})


@WITH_POD_GROUPS
@pytest.mark.parametrize("mode", ["single", "all"])
def test_how_a_group_is_disrupted(world: World, start: Start, account: Path, tmp_path: Path, mode: str) -> None:
    world.add_nodes(3, devices=1)
    world.template()
    pod_group(world, "low", 3, more={"disruptionMode": {mode: {}}})
    begin(world, start, account, tmp_path, devices=True)
    for number in range(3):
        member(world, "low", number)
    wait_until(lambda: gangs_bound(world) == {"low": 3})

    world.pod("high", **priority_class(world))
    wait_until(lambda: "high" in world.bound())
    wait_until(lambda: len(names(world)) == (3 if mode == "single" else 1))


@WITH_POD_GROUPS
def test_a_group_of_a_class_that_never_preempts_waits(
    world: World, start: Start, account: Path, tmp_path: Path
) -> None:
    world.add_nodes(1, devices=1)
    never = priority_class(world, preemptionPolicy="Never")
    pod_group(world, "patient", 1, more={**never, "preemptionPolicy": "Never"})
    begin(world, start, account, tmp_path)
    plain(world, "low", "40")
    wait_until(lambda: "low" in world.bound())
    plain(world, "patient", "40", schedulingGroup={"podGroupName": "patient"}, **never)
    wait_until(lambda: group_condition(world, "patient").get("status") == "False")
    assert world.bound().keys() == {"low"}

    world.delete_pod("low")
    wait_until(lambda: "patient" in world.bound())


@WITH_POD_GROUPS
def test_the_groups_of_a_composite_group_are_gangs_of_their_own(world: World, start: Start) -> None:
    world.add_nodes(2, devices=1)
    world.template()
    reference = {"workloadName": "serving", "templateName": "pair"}
    composite = {
        "metadata": {"name": "both"},
        "spec": {"workloadRef": reference, "schedulingPolicy": {"gang": {"minGroupCount": 2}}},
    }
    path = f"/apis/scheduling.k8s.io/v1alpha3/namespaces/{world.namespace}/compositepodgroups"
    world.plane.request("POST", path, composite)
    pod_group(world, "decode", 2, more={"parentCompositePodGroupName": "both", "workloadRef": reference})
    important = priority_class(world)
    running = start()
    for number in range(2):
        member(world, "decode", number, **important)
    wait_until(lambda: gangs_bound(world) == {"decode": 2})
    wait_until(lambda: "composite_pod_group_decided_apart" in running.log.read_text(encoding="utf-8"))


@WITH_POD_GROUPS
def test_a_group_without_a_minimum_is_scheduled_though_an_earlier_leader_wrote_that_it_waits(
    world: World, start: Start
) -> None:
    world.add_nodes(2, devices=1)
    world.template()
    pod_group(world, "g", 0)
    running = start()
    member(world, "g", 0, nodeSelector={"world": "elsewhere"})
    wait_until(lambda: group_condition(world, "g").get("status") == "False")
    left = group_condition(world, "g")
    member(world, "g", 1)
    wait_until(lambda: group_condition(world, "g").get("status") == "True")

    running.stop()
    path = f"{SCHEDULING}/namespaces/{world.namespace}/podgroups/g/status"
    world.plane.request("PATCH", path, {"status": {"conditions": [left]}}, content=MERGE)
    assert group_condition(world, "g")["status"] == "False"
    start()
    wait_until(lambda: group_condition(world, "g").get("status") == "True")
    assert world.bound().keys() == {"g-1"}


@WITH_POD_GROUPS
def test_a_job_with_scheduling_is_placed_as_its_gang(world: World, start: Start) -> None:
    world.add_nodes(3, devices=1)
    world.template()
    pod = {
        "schedulerName": world.scheduler,
        "nodeSelector": {"world": world.word},
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 0,
        "containers": [{"name": "main", "image": "example.com/none"}],
        "resourceClaims": [{"name": "devices", "resourceClaimTemplateName": "one"}],
        "tolerations": [{"operator": "Exists"}],
    }
    scheduling: dict[str, dict[str, object]] = {"schedulingPolicy": {"gang": {}}, "disruptionMode": {"all": {}}}
    job = {
        "metadata": {"name": "train"},
        "spec": {"parallelism": 3, "completions": 3, "scheduling": scheduling, "template": {"spec": pod}},
    }
    start()
    world.plane.request("POST", f"/apis/batch/v1/namespaces/{world.namespace}/jobs", job)
    wait_until(lambda: len(world.bound()) == 3)

    (group,) = world.plane.request("GET", f"{SCHEDULING}/namespaces/{world.namespace}/podgroups")["items"]
    assert (group["spec"]["schedulingPolicy"], group["spec"]["disruptionMode"]) == (
        {"gang": {"minCount": 3}},
        {"all": {}},
    )
    assert {each["spec"]["schedulingGroup"]["podGroupName"] for each in world.pods()} == {group["metadata"]["name"]}
    wait_until(lambda: group_condition(world, group["metadata"]["name"]).get("status") == "True")

"""`simulate`, `fit`, `queue` and `explain` about pods of a real API server, beside a scheduler that runs."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support import manifests as m
from tests.support.controlplane import wait_until
from tests.support.shell_world import Start, World

pytestmark = pytest.mark.controlplane
Capture = pytest.CaptureFixture[str]


def ask(world: World, capsys: Capture, *arguments: str | Path, kubeconfig: Path | None = None) -> tuple[int, Any, str]:
    """Exit status, JSON and standard error."""
    access = ("--kubeconfig", kubeconfig or world.plane.kubeconfig)
    status = m.run(*arguments, *access, "-o", "json")
    printed = capsys.readouterr()
    return status, json.loads(printed.out), printed.err


def manifests(world: World, path: Path, *names: str) -> Path:
    """A template as a user writes it, without defaults, and pods."""
    request = {"name": "devices", "exactly": {"deviceClassName": world.driver}}
    template = m.template("one")
    template["metadata"]["namespace"] = world.namespace
    template["spec"]["spec"] = {"devices": {"requests": [request]}}
    pods = [m.pod(name, template_name="one", schedulerName=world.scheduler) for name in names]
    for pod in pods:
        pod["metadata"]["namespace"] = world.namespace
        pod["spec"] |= {"nodeSelector": {"world": world.word}, "tolerations": [{"operator": "Exists"}]}
    return m.write_yaml(path, template, *pods)


def condition(world: World, name: str) -> dict[str, Any]:
    pod = next(each for each in world.pods() if each["metadata"]["name"] == name)
    return next((each for each in pod["status"].get("conditions", ()) if each["type"] == "PodScheduled"), {})


def test_a_file_that_was_applied_and_runs_is_decided_anew(
    world: World, start: Start, tmp_path: Path, capsys: Capture
) -> None:
    world.add_nodes(1, devices=1)
    file = manifests(world, tmp_path / "pods.yaml", "p")
    world.plane.kubectl("apply", "-f", str(file))
    start()
    wait_until(lambda: world.bound() == {"p": world.nodes[0]})

    name = f"--scheduler-name={world.scheduler}"
    status, plan, error = ask(world, capsys, "simulate", "--from-cluster", "-f", file, name)

    assert status == 0, error
    assert [each["node"] for each in plan["placements"]] == [world.nodes[0]]
    status, found, _ = ask(world, capsys, "fit", "-f", file, "--count", "max", name)
    assert (status, found["count"]["copies"], found["count"]["proven"]) == (0, 1, True)


def test_the_queue_and_the_explanation_say_what_the_condition_says(world: World, start: Start, capsys: Capture) -> None:
    world.add_nodes(1, devices=1)
    world.template("two", count=2)
    world.pod("waits", template="two")
    world.pod("gated", template="two", schedulingGates=[{"name": "example.com/quota"}])
    start()
    wait_until(lambda: condition(world, "waits").get("status") == "False")
    written = condition(world, "waits")

    named = ("--scheduler-name", world.scheduler, "-n", world.namespace)
    status, queue, _ = ask(world, capsys, "queue", *named)

    assert status == 0
    assert [(each["name"], each["reason"]) for each in queue["pods"]] == [
        ("waits", "Unschedulable"),
        ("gated", "SchedulingGated"),
    ]
    assert queue["pods"][0]["message"] == written["message"]
    status, found, _ = ask(world, capsys, "explain", "waits", "-n", world.namespace)
    assert (status, found["condition"]["message"]) == (1, written["message"])


def test_pods_for_which_nobody_is_there_are_counted_below_the_queue(
    world: World, own_lease: Path, capsys: Capture
) -> None:
    for number in range(2):
        world.pod(f"p{number}", schedulerName=f"dovetial-{world.word}")
    access = (f"--kubeconfig={world.plane.kubeconfig}", f"--config={own_lease}")
    status, queue, error = ask(world, capsys, "queue", "-n", world.namespace, access[1])
    (counted,) = queue["unserved"]
    assert (status, queue["pods"], counted["schedulerName"], counted["pods"]) == (0, [], f"dovetial-{world.word}", 2), (
        error
    )

    assert m.run("queue", "-n", world.namespace, *access) == 0
    shown = capsys.readouterr().out
    assert shown.startswith(f"No pod waits for Dovetail in namespace {world.namespace}")
    assert shown.endswith(f"\n2 pods wait without a scheduler. {counted['message']}.\n")

    status, found, _ = ask(world, capsys, "explain", "p0", "-n", world.namespace, access[1])
    assert (status, found["unserved"]) == (1, counted["message"])


def test_with_the_role_view_the_condition_is_printed(world: World, start: Start, capsys: Capture) -> None:
    world.add_nodes(1, devices=1)
    world.template("two", count=2)
    world.pod("waits", template="two")
    start()
    wait_until(lambda: condition(world, "waits").get("status") == "False")
    plane, account = world.plane, f"{world.namespace}:viewer"
    plane.kubectl("create", "serviceaccount", "viewer", "-n", world.namespace)
    plane.kubectl("create", "clusterrolebinding", world.word, "--clusterrole=view", f"--serviceaccount={account}")
    try:
        kubeconfig = plane.kubeconfig_for_service_account(world.namespace, "viewer")
        status, found, error = ask(world, capsys, "explain", f"{world.namespace}/waits", kubeconfig=kubeconfig)
    finally:
        plane.kubectl("delete", "clusterrolebinding", world.word)

    assert status == 3
    assert "cannot list nodes" in error
    assert found["condition"]["message"] == condition(world, "waits")["message"]


def test_which_nodes_to_add_for_the_queue_and_for_a_file(
    world: World, start: Start, tmp_path: Path, capsys: Capture
) -> None:
    """The cluster has no Karpenter: shapes are those of its nodes."""
    world.add_nodes(1, devices=1)
    file = manifests(world, tmp_path / "pods.yaml", "p", "q", "r")
    world.plane.kubectl("apply", "-f", str(file))
    start()
    wait_until(lambda: len(world.bound()) == 1)
    wait_until(lambda: sum(condition(world, name).get("reason") == "Unschedulable" for name in "pqr") == 2)

    name = f"--scheduler-name={world.scheduler}"
    status, found, error = ask(world, capsys, "queue", "-n", world.namespace, "--add-nodes", name)
    assert (status, len(found["nodes"]), found["proven"]) == (0, 2, True), error
    assert len(found["plan"]["placements"]) == 2

    status, found, error = ask(world, capsys, "fit", "-f", file, "--add-nodes", name)
    assert (status, len(found["nodes"]), found["starts"]) == (0, 2, True), error

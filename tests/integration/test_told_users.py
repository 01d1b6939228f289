"""What autoscalers and users are told, and how much of it: on the real API server."""

import json
import re
import time
from pathlib import Path

import pytest

from scheduler.cli import main
from tests.support.controlplane import wait_until
from tests.support.people import kubeconfig_of
from tests.support.series import exposition, series, total
from tests.support.shell_world import RESOURCE, Json, Start, World

pytestmark = pytest.mark.controlplane


class Autoscaler:
    """
    Adds a node of the world's kind for every pod of its namespace that calls for one, as autoscalers do.

    Their simulation of a new node finds that it helps no pod which is refused on all nodes at once (PreFilter).
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self.answered: list[str] = []

    def look(self) -> None:
        """Answer the pods that call: PodScheduled=False with reason Unschedulable and no nominated node."""
        for pod in self.world.pods():
            name, status = pod["metadata"]["name"], pod["status"]
            calls = [
                each
                for each in status.get("conditions", [])
                if (each["type"], each["status"], each.get("reason")) == ("PodScheduled", "False", "Unschedulable")
                and re.search(r"nodes are available: \d", each["message"])
            ]
            if calls and name not in self.answered and not status.get("nominatedNodeName"):
                self.answered.append(name)
                self.world.add_nodes(1, devices=1)

    def looked(self) -> World:
        """Look, and give the world."""
        self.look()
        return self.world

    def until(self, world: World, pod: str, reason: str) -> None:
        """Look again and again until a pod has a reason."""

        def is_so() -> bool:
            self.look()
            return bool(world.condition(pod).get("reason") == reason)

        wait_until(is_so)


def add_nodes_anew(world: World) -> None:
    """Let the world add nodes although it has some: names go on, and the class is there."""
    made = world.plane.request
    first = world.add_nodes

    def add(count: int, devices: int) -> None:
        start = len(world.nodes)
        for index in range(start, start + count):
            name = f"{world.word}-{index}"
            world.nodes.append(name)
            made("POST", "/api/v1/nodes", {"metadata": {"name": name, "labels": {"world": world.word}}})
            room = {"cpu": "64", "memory": "256Gi", "pods": "110"}
            ready = {"type": "Ready", "status": "True", "reason": "Test", "message": "ready"}
            status = {"capacity": room, "allocatable": room, "conditions": [ready]}
            made("PATCH", f"/api/v1/nodes/{name}/status", {"status": status}, content="application/merge-patch+json")
            made("POST", f"{RESOURCE}/resourceslices", world._slice(name, devices))  # noqa: SLF001 - more of the same

    first(0, devices=0)
    world.add_nodes = add  # type: ignore[method-assign]  # for this test


@pytest.fixture
def growing(world: World) -> World:
    """A world without nodes that nodes can be added to."""
    add_nodes_anew(world)
    world.template()
    return world


def test_an_autoscaler_adds_nodes_for_pods_that_need_them_and_for_no_other(growing: World, start: Start) -> None:
    growing.add_nodes(1, devices=1)
    autoscaler = Autoscaler(growing)
    start()
    growing.pod("holder")
    wait_until(lambda: "holder" in growing.bound())
    growing.pod("no-claim", template="not-there")
    growing.pod("no-class", claim="of-no-class")
    wrong: Json = {"name": "r", "exactly": {"deviceClassName": "nobody-has.example.com"}}
    path = f"{RESOURCE}/namespaces/{growing.namespace}/resourceclaims"
    growing.plane.request(
        "POST", path, {"metadata": {"name": "of-no-class"}, "spec": {"devices": {"requests": [wrong]}}}
    )
    growing.claim("elsewhere")
    growing.allocate("elsewhere", "gpu-7", "a-node-of-others")
    growing.claim("too-many", count=33)
    growing.pod("too-large", claim="too-many")
    growing.pod("needs-a-node")

    autoscaler.until(growing, "no-claim", "WaitingForClaims")
    autoscaler.until(growing, "no-class", "Unschedulable")
    autoscaler.until(growing, "too-large", "ClaimInvalid")
    wait_until(lambda: "needs-a-node" in autoscaler.looked().bound())
    autoscaler.look()

    assert autoscaler.answered == ["needs-a-node"]
    assert len(growing.nodes) == 2


def test_devices_that_are_left_to_another_scheduler_call_for_no_node(
    growing: World, start: Start, account: Path, tmp_path: Path
) -> None:
    growing.add_nodes(1, devices=1)
    config = tmp_path / "owned.yaml"
    config.write_text(
        "apiVersion: config.dovetail.dev/v1alpha1\nkind: DovetailConfiguration\n"
        "devices: {owned: {drivers: [mine.example.com]}}\n"
    )
    autoscaler = Autoscaler(growing)
    start(account, f"--config={config}")
    growing.pod("p")

    autoscaler.until(growing, "p", "DevicesNotOwned")

    assert autoscaler.answered == []


def test_a_pod_that_was_bound_by_hand_hears_of_the_node_selector(growing: World, start: Start) -> None:
    growing.add_nodes(1, devices=1)
    start()
    growing.pod("by-hand", nodeName=growing.nodes[0])
    growing.pod("by-us")
    wait_until(lambda: "by-us" in growing.bound())

    wait_until(lambda: any(each["reason"] == "BoundWithoutDevices" for each in growing.events("by-hand")))

    (event,) = (each for each in growing.events("by-hand") if each["reason"] == "BoundWithoutDevices")
    assert event["type"] == "Warning"
    assert f'nodeSelector: {{"kubernetes.io/hostname": "{growing.nodes[0]}"}}' in event["note"]
    assert [each["reason"] for each in growing.events("by-us")] == ["Scheduled"]


def test_pods_whose_claims_are_late_are_not_counted_as_unschedulable(growing: World, start: Start) -> None:
    growing.add_nodes(1, devices=5)
    dovetail = start()
    growing.pod("late", claim="later")
    attempts = "scheduler_schedule_attempts_total"
    wait_until(lambda: series(dovetail, attempts, result="waiting-for-claims") >= 1)
    growing.claim("later")
    for number in range(4):
        growing.pod(f"p{number}")
    wait_until(lambda: len(growing.bound()) == 5)

    wait_until(lambda: series(dovetail, attempts, result="scheduled") == 5)
    assert series(dovetail, attempts, result="unschedulable") == 0
    assert series(dovetail, "dovetail_unplaced_pods_total") == 0


def test_a_missing_template_is_named(growing: World, start: Start) -> None:
    growing.add_nodes(1, devices=1)
    start()
    growing.pod("p", template="not-there")
    words = "ResourceClaimTemplate not-there does not exist; the pod waits for it "
    words += "(spec.resourceClaims[0].resourceClaimTemplateName)."
    wait_until(lambda: words in str(growing.condition("p").get("message")))

    growing.template("not-there")
    wait_until(lambda: "p" in growing.bound())


def test_the_event_of_a_pod_that_waits_comes_back_after_the_api_server_has_deleted_it(
    growing: World, start: Start, account: Path, tmp_path: Path
) -> None:
    growing.add_nodes(1, devices=1)
    config = tmp_path / "renewal.yaml"
    config.write_text(
        "apiVersion: config.dovetail.dev/v1alpha1\nkind: DovetailConfiguration\nmessages: {eventRenewalSeconds: 3}\n"
    )
    start(account, f"--config={config}")
    growing.template("pair", count=2)
    growing.pod("p", template="pair")

    def failed() -> list[Json]:
        return [each for each in growing.events("p") if each["reason"] == "FailedScheduling"]

    def is_renewed() -> bool:
        return any(each.get("series", {}).get("count", 0) > 1 for each in failed())

    wait_until(is_renewed)
    for each in failed():
        path = f"/apis/events.k8s.io/v1/namespaces/{growing.namespace}/events/{each['metadata']['name']}"
        growing.plane.request("DELETE", path)
    wait_until(lambda: bool(failed()))

    (event,) = failed()
    assert "request devices: needs 2 devices, 1 matches, 1 free" in event["note"]


def test_a_pod_with_a_misspelled_scheduler_gets_one_event_and_pods_of_other_schedulers_none(
    growing: World, start: Start
) -> None:
    growing.add_nodes(1, devices=1)
    start()
    growing.pod("misspelled", schedulerName=growing.scheduler[:-1])
    growing.pod("other", schedulerName="volcano")
    growing.pod("default", schedulerName="default-scheduler")
    wait_until(lambda: bool(growing.events("misspelled")), seconds=60.0)

    (event,) = growing.events("misspelled")
    assert (event["type"], event["reason"]) == ("Warning", "UnknownSchedulerName")
    assert f"Did you mean {growing.scheduler}?" in event["note"]
    assert [each for name in ("other", "default") for each in growing.events(name)] == []


def test_what_is_told_stays_a_share_of_the_writes(growing: World, start: Start, account: Path, tmp_path: Path) -> None:
    """Sixty pods wait for two devices, one of which is freed every 0.3 s."""
    growing.add_nodes(1, devices=2)
    config = tmp_path / "share.yaml"
    config.write_text(
        json.dumps(
            {
                "apiVersion": "config.dovetail.dev/v1alpha1",
                "kind": "DovetailConfiguration",
                "commit": {"statusShare": 0.4},
                "queue": {"initialBackoffSeconds": 0.1, "maxBackoffSeconds": 0.1},
            }
        )
    )
    waiting = 60
    for number in range(waiting):
        growing.pod(f"p{number}")
    dovetail = start(account, f"--config={config}")
    wait_until(lambda: sum(bool(growing.condition(f"p{number}")) for number in range(waiting)) == waiting)
    wait_until(lambda: len(growing.bound()) == 2)
    time.sleep(1.0)  # what is on its way is written
    before, freed = exposition(dovetail), 0
    while freed < 20:
        for name in growing.bound():
            growing.delete_pod(name)
            freed += 1
        time.sleep(0.3)
        wait_until(lambda: len(growing.bound()) == 2)
    after = exposition(dovetail)

    placing, telling = (
        total(after, "dovetail_writes_total", purpose=purpose) - total(before, "dovetail_writes_total", purpose=purpose)
        for purpose in ("placing", "status")
    )
    assert placing >= freed * 3
    assert telling - 21 <= placing * 0.4 / 0.6
    assert growing.problems() == []


def test_a_live_pod_is_explained(growing: World, account: Path, capsys: pytest.CaptureFixture[str]) -> None:
    del account  # which installs the roles
    growing.add_nodes(2, devices=1)
    growing.template("pair", count=2)
    growing.pod("p", template="pair")
    wait_until(lambda: bool((growing.get_pod("p") or {})["status"].get("resourceClaimStatuses")))
    name = f"{growing.namespace}/p"
    viewer = kubeconfig_of(growing.plane, "dovetail-viewer")

    status = main(["explain", "pod", name, f"--kubeconfig={viewer}", "-o", "json"])

    found = json.loads(capsys.readouterr().out)
    (kind,) = (each for each in found["nodes"] if growing.nodes[0] in each["names"])
    assert (status, found["waits"]) == (1, True)
    assert kind["requests"] == [
        {
            "request": "devices",
            "needed": 2,
            "matching": 1,
            "inUse": 0,
            "tainted": 0,
            "free": 1,
            "aligned": None,
            "together": 1,
            "leftOut": [],
        }
    ]
    assert [each["message"] for each in found["changes"]] == [
        "1 instead of 2 for request devices: in a new template, as a claim cannot be changed"
    ]


def test_a_pod_whose_scheduler_is_not_the_configured_one_waits_and_is_told_what_to_write(
    growing: World, account: Path, own_lease: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    growing.pod("p", schedulerName="dovetail")
    asked = ["explain", "pod", f"{growing.namespace}/p", f"--kubeconfig={account}", f"--config={own_lease}"]

    assert main(asked) == 3, "the account may not list all kinds"

    told = f"Pod {growing.namespace}/p waits: Dovetail schedules no pod with schedulerName dovetail: it serves "
    assert " ".join(capsys.readouterr().out.split()).startswith(f"{told}{growing.scheduler}. Write schedulerName:")

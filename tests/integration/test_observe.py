"""`dovetail observe` on the real API server, with the rights of its component: what it sees, and that it only reads."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.controlplane.access import Access
from e2e.traces.observed import observed_policies, observed_replay, observed_trace
from scheduler.counterfactual.observation_record import older
from tests.support.controlplane import wait_until
from tests.support.shell_world import World

DEPLOY = Path(__file__).parents[2] / "deploy"
OWN_NAMESPACE = "dovetail-system"
REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"

pytestmark = pytest.mark.controlplane


class Observed:
    """A running observation of a world's scheduler; `report` is what `dovetail report` says of it."""

    def __init__(self, record: Path) -> None:
        self.record = record

    def report(self) -> Any:
        command = [sys.executable, "-m", "scheduler", "report", f"--record={self.record}", "-o", "json"]
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        return json.loads(ended.stdout) if ended.returncode == 0 else None

    def pods(self, **counts: int) -> bool:
        """Whether pods have these outcomes."""
        found = self.report()
        return found is not None and {name: found["totals"]["pods"][name] for name in counts} == counts


@pytest.fixture
def kubeconfig(world: World) -> Path:
    """The account of the component."""
    plane = world.plane
    for path in (DEPLOY / "overlays/observe/namespace.yaml", *(DEPLOY / "observe").glob("[!kd]*.yaml")):
        plane.kubectl("apply", "--server-side", "-f", str(path))
    access = plane.access_for_service_account(OWN_NAMESPACE, "dovetail-observe")
    wait_until(lambda: any("watch" in rule["verbs"] for rule in rules(access)))
    return plane.kubeconfig_for_service_account(OWN_NAMESPACE, "dovetail-observe")


@pytest.fixture
def observed(world: World, kubeconfig: Path, tmp_path: Path) -> Iterator[Observed]:
    """Two nodes with two devices each, and the pod `runs` on one of them before the observation begins."""
    world.add_nodes(2, devices=2)
    world.template("one")
    world.template("two", count=2)
    world.claim("used")
    runs = world.pod("runs", claim="used")
    world.allocate("used", "gpu-0", world.nodes[0], runs)
    bind(world, "runs", world.nodes[0])
    record = tmp_path / "record.jsonl"
    command = [sys.executable, "-m", "scheduler", "observe", f"--kubeconfig={kubeconfig}", f"--record={record}"]
    options = [f"--scheduler-name={world.scheduler}", "--interval=0.2"]
    with subprocess.Popen([*command, *options], stderr=subprocess.PIPE, text=True) as process:
        made = Observed(record)
        try:
            wait_until(lambda: made.report() is not None, seconds=120)
            yield made
        finally:
            process.send_signal(signal.SIGTERM)
            said = process.communicate(timeout=60)[1]
        assert process.returncode == 0
        assert said == f"dovetail: observing the pods of {world.scheduler}; nothing is written to the cluster\n"


def rules(access: Access) -> list[Any]:
    """Return what the account may do, without the reviews of itself that every account may create."""
    found = access.request("POST", REVIEWS, {"spec": {"namespace": "default"}})["status"]["resourceRules"]
    return [each for each in found if not all(name.startswith("selfsubject") for name in each["resources"])]


def bind(world: World, pod: str, node: str) -> None:
    """Bind a pod as its scheduler does."""
    body = {"metadata": {"name": pod}, "target": {"kind": "Node", "name": node}}
    world.plane.request("POST", f"/api/v1/namespaces/{world.namespace}/pods/{pod}/binding", body)


def test_what_dovetail_would_have_done_is_compared_with_what_the_scheduler_did(
    observed: Observed, world: World
) -> None:
    world.pod("waits", template="one")  # its scheduler never binds it
    wait_until(lambda: observed.pods(onlyCounterfactual=1), seconds=60)

    world.claim("later", count=2)
    late = world.pod("late", claim="later")  # it fits, and Dovetail decides it at once
    wait_until(lambda: observed.pods(onlyCounterfactual=2), seconds=60)
    world.allocate("later", "gpu-0", world.nodes[1], late)
    bind(world, "late", world.nodes[1])
    wait_until(lambda: observed.pods(onlyCounterfactual=1, sooner=1), seconds=60)

    world.delete_pod("waits")
    wait_until(lambda: observed.report()["totals"]["counterfactualWaiting"] == 0, seconds=60)
    found = observed.report()
    assert found["schedulers"] == [world.scheduler]
    assert {each["name"] for each in found["sooner"]} == {"waits", "late"}
    assert found["later"] == []
    assert world.problems() == []
    assert {each["metadata"]["name"]: each["spec"].get("nodeName") for each in world.pods()} == {
        "runs": world.nodes[0],
        "late": world.nodes[1],
    }
    assert not older(observed.record).exists()

    trace = observed_trace.read(observed.record)  # the record is a trace
    runs = [
        observed_replay.recorded(trace),
        *(observed_replay.replay(trace, observed_policies.made(name), name) for name in ("first-fit", "dovetail")),
    ]
    assert [(run.jobs, run.gpus, run.machines) for run in runs] == [(2, 4, 2)] * 3
    really, *replayed = [{size: each.mean for size, each in run.waits.items()} for run in runs]
    assert all(each[size] < really[size] for each in replayed for size in really)


def test_a_pod_that_only_the_scheduler_places_counts_against_dovetail(observed: Observed, world: World) -> None:
    world.claim("big", count=3)
    big = world.pod("big", claim="big")  # no node has three devices; another scheduler may not care
    world.allocate("big", "gpu-1", world.nodes[0], big)
    bind(world, "big", world.nodes[0])
    wait_until(lambda: observed.pods(onlyReal=1), seconds=60)
    assert [each["name"] for each in observed.report()["later"]] == ["big"]


def test_the_account_of_the_component_can_write_nothing(kubeconfig: Path, world: World) -> None:
    del kubeconfig
    access = world.plane.access_for_service_account(OWN_NAMESPACE, "dovetail-observe")
    granted = {verb for rule in rules(access) for verb in rule["verbs"]}
    assert {"list", "watch"} <= granted <= {"get", "list", "watch"}


def test_a_right_that_is_missing_is_named(world: World, tmp_path: Path) -> None:
    kubeconfig = world.plane.kubeconfig_for_service_account("default", "default")
    command = [sys.executable, "-m", "scheduler", "observe", f"--kubeconfig={kubeconfig}"]
    ended = subprocess.run(
        [*command, f"--record={tmp_path / 'record'}"], capture_output=True, text=True, check=False, timeout=120
    )
    assert ended.returncode == 2
    assert "403 Forbidden" in ended.stderr
    assert "cannot list resource" in ended.stderr
    assert "ClusterRole dovetail-observe" in ended.stderr

"""`dovetail status` on the real API server: a scheduler that works, one that is paused, none; and a viewer's rights."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from scheduler.features import OFF_BY_DEFAULT, Feature
from scheduler.status.leader_report import REPORT_SECONDS
from tests.support import manifests as m
from tests.support.controlplane import wait_until
from tests.support.people import bind, kubeconfig_of
from tests.support.shell_world import Start, World

pytestmark = pytest.mark.controlplane

REPLICA = {
    "metadata": {"name": "dovetail-0", "labels": {"app.kubernetes.io/name": "dovetail"}},
    "spec": {
        "serviceAccountName": "some",
        "schedulerName": "nobody",
        "containers": [{"name": "dovetail", "image": "dovetail:0"}],
    },
}
"""A pod of the scheduler that no scheduler gives a node."""
Capture = pytest.CaptureFixture[str]


def status(world: World, config: Path, capsys: Capture, *words: str, kubeconfig: Path | None = None) -> tuple[int, Any]:
    chosen = f"--kubeconfig={kubeconfig or world.plane.kubeconfig}"
    where = f"--dovetail-namespace={world.namespace}"
    found = m.run("status", chosen, where, f"--config={config}", "-o", "json", *words)
    return found, json.loads(capsys.readouterr().out)


def findings(document: Any, about: str) -> list[tuple[str, str]]:
    return [(each["state"], each["message"]) for each in document["findings"] if each["about"] == about]


def test_from_no_scheduler_to_one_that_works_and_one_that_is_paused(
    world: World, start: Start, own_lease: Path, capsys: Capture
) -> None:
    world.add_nodes(1, devices=2)
    world.template()

    code, found = status(world, own_lease, capsys)
    assert (code, found["running"], found["healthy"]) == (1, False, False)
    assert findings(found, "leader") == [("failed", "there is no Lease: no replica has led yet")]
    assert next(each for each in found["devices"] if each["driver"] == world.driver)["free"] == 2

    running = start(world.plane.kubeconfig, f"--config={own_lease}", leader_elect=True)
    world.pod("runs")
    world.pod("waits", template="missing")
    wait_until(lambda: len(world.bound()) == 1)
    assert status(world, own_lease, capsys, "--wait")[0] == 0
    wait_until(
        lambda: (status(world, own_lease, capsys)[1]["report"] or {}).get("work", {}).get("bound") == 1, seconds=60
    )
    code, found = status(world, own_lease, capsys)
    assert (code, found["running"], found["healthy"]) == (0, True, True)
    assert found["leader"]
    assert found["report"]["leader"].partition("_")[0] == found["leader"]
    assert found["report"]["watches"]["kinds"] > 5
    assert (found["queue"]["waiting"], found["queue"]["oldest"]) == (1, f"{world.namespace}/waits")
    ours = next(each for each in found["devices"] if each["driver"] == world.driver)
    assert (ours["held"], ours["free"]) == (1, 1)
    where = f"--dovetail-namespace={world.namespace}"
    assert m.run("status", f"--kubeconfig={world.plane.kubeconfig}", where, f"--config={own_lease}") == 0
    assert capsys.readouterr().out.startswith(f"Dovetail in namespace {world.namespace} is healthy")

    running.stop()
    code, found = status(world, own_lease, capsys)
    assert (code, found["leader"]) == (1, "")
    assert findings(found, "leader")[0][1].startswith("no replica holds the Lease")
    assert findings(found, "watches") == [("unknown", "no replica leads")]

    paused = ("--kubeconfig", str(world.plane.kubeconfig), "--config", str(own_lease))
    assert m.run("pause", *paused) == 0
    capsys.readouterr()
    code, found = status(world, own_lease, capsys)
    assert (code, found["paused"]) == (1, True)
    assert findings(found, "leader") == [
        ("failed", "Dovetail is paused: every replica stands by, and no pod is placed")
    ]


def test_waiting_for_health_ends(world: World, own_lease: Path, capsys: Capture) -> None:
    chosen = (f"--kubeconfig={world.plane.kubeconfig}", f"--config={own_lease}", "--wait", "--timeout=0.5")
    assert m.run("status", *chosen) == 1
    assert "status: not healthy after 0.5 s" in capsys.readouterr().err


def test_a_viewer_may_read_the_lease_that_is_deployed_and_learns_what_else_is_missing(
    world: World, start: Start, account: Path, capsys: Capture, tmp_path: Path
) -> None:
    config = tmp_path / "config.yaml"
    head = {"apiVersion": "config.dovetail.dev/v1alpha1", "kind": "DovetailConfiguration"}
    config.write_text(yaml.safe_dump({**head, "leaderElection": {"leaseNamespace": world.namespace}}))
    del account  # it has installed the roles
    start(world.plane.kubeconfig, f"--config={config}", leader_elect=True)
    viewer = kubeconfig_of(world.plane, "dovetail-viewer")
    wait_until(lambda: bool((status(world, config, capsys, kubeconfig=viewer)[1]["report"] or {}).get("leader")))

    code, found = status(world, config, capsys, kubeconfig=viewer)
    assert (code, found["healthy"]) == (0, True)
    assert findings(found, "rights") == [("ok", "the account has the rights that the configuration needs")]
    assert m.run("version", f"--kubeconfig={viewer}", f"--dovetail-namespace={world.namespace}") == 0
    *_, told = capsys.readouterr().out.splitlines()
    leads = f"{found['leader']} leads outside of the cluster, by the Lease in {world.namespace}"
    assert told == f"scheduler {found['report']['version']}: {leads}"

    few = kubeconfig_of(world.plane, "view")
    code, found = status(world, config, capsys, kubeconfig=few)
    assert code == 3
    assert findings(found, "leader")[0] == ("unknown", f"you may not read the Lease {world.namespace}/dovetail")


def test_rights_are_missed_for_what_the_configuration_has_switched_on(
    world: World, account: Path, own_lease: Path, capsys: Capture
) -> None:
    del account  # it has installed the roles
    core = f"/api/v1/namespaces/{world.namespace}"
    world.plane.request("POST", f"{core}/serviceaccounts", {"metadata": {"name": "some"}})
    for role in ("dovetail", *(each.value for each in Feature if each not in OFF_BY_DEFAULT | {Feature.VOLUMES})):
        name = role if role == "dovetail" else f"dovetail-{role}"
        bind(world.plane, name, world.namespace, "some", name=f"{world.namespace}-{role}")
    world.plane.request("POST", f"{core}/pods", REPLICA)

    def lines(config: Path) -> list[tuple[str, str, str]]:
        found = status(world, config, capsys)[1]["findings"]
        # rights to the Lease come from a Role of the namespace, which this account has none of
        named = [each for each in found if each["about"] == "rights" and each["next"] != "kubectl apply -k deploy/base"]
        return [(each["state"], each["message"].partition(":")[0], each["next"]) for each in named]

    volumes = ("warning", "rights for volumes are missing (18)", "kubectl apply -k deploy/components/volumes")
    assert lines(own_lease) == [volumes]
    with_check = own_lease.with_name("with-check.yaml")
    document = yaml.safe_load(own_lease.read_text())
    with_check.write_text(yaml.safe_dump({**document, "admissionCheck": {"enabled": True}}))
    text = "rights for Kueue's admission check are missing (14)"
    assert lines(with_check) == [volumes, ("warning", text, "kubectl apply -k deploy/components/kueue")]


def test_the_leader_reports_as_often_as_it_says(world: World, start: Start, own_lease: Path) -> None:
    start(world.plane.kubeconfig, f"--config={own_lease}", leader_elect=True)
    path = f"/apis/coordination.k8s.io/v1/namespaces/{world.namespace}/leases"

    def report() -> Any:
        leases = {each["metadata"]["name"]: each["metadata"] for each in world.plane.request("GET", path)["items"]}
        annotations = leases.get(world.word, {}).get("annotations", {})
        return json.loads(annotations.get("dovetail.dev/leader-report", "null"))

    wait_until(lambda: report() is not None)
    first = report()["time"]
    wait_until(lambda: report()["time"] != first, seconds=10 * REPORT_SECONDS)

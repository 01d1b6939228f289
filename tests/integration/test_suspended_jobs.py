"""`dovetail explain job/x` of suspended Jobs, which have no pods, on a real API server with Kueue's Workloads."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.controlplane.plane import ControlPlane
from tests.support import kueue_stand_in
from tests.support import manifests as m
from tests.support.kueue_stand_in import KueueByHand
from tests.support.people import bind, kubeconfig_of
from tests.support.shell_world import World

pytestmark = pytest.mark.controlplane
Capture = pytest.CaptureFixture[str]
JOBS = "/apis/batch/v1/namespaces"


@pytest.fixture
def kueue(control_plane: ControlPlane, world: World) -> Iterator[KueueByHand]:
    kueue_stand_in.install(control_plane)
    by_hand = KueueByHand(world)
    yield by_hand
    by_hand.clear()


def suspended(world: World, name: str, pods: int = 2, **metadata: Any) -> dict[str, Any]:
    """A suspended Job, whose pods have a device each."""
    container = {"name": "main", "image": "example.com/none", "resources": {"claims": [{"name": "devices"}]}}
    pod = {
        "schedulerName": world.scheduler,
        "restartPolicy": "Never",
        "nodeSelector": {"world": world.word},
        "tolerations": [{"operator": "Exists"}],
        "containers": [container],
        "resourceClaims": [{"name": "devices", "resourceClaimTemplateName": "one"}],
    }
    spec = {"suspend": True, "parallelism": pods, "completions": pods, "template": {"spec": pod}}
    body = {"metadata": {"name": name, **metadata}, "spec": spec}
    made: dict[str, Any] = world.plane.request("POST", f"{JOBS}/{world.namespace}/jobs", body)
    return made


def explained(world: World, capsys: Capture, *words: str, kubeconfig: Path | None = None) -> tuple[int, Any, str]:
    access = ("--kubeconfig", str(kubeconfig or world.plane.kubeconfig))
    status = m.run("explain", *words, "-n", world.namespace, *access)
    printed = capsys.readouterr()
    return status, json.loads(printed.out) if "json" in words else printed.out, printed.err


def test_a_suspended_job_says_who_resumes_it_and_whether_it_would_fit(
    world: World, kueue: KueueByHand, own_lease: Path, capsys: Capture
) -> None:
    world.add_nodes(1, devices=1)
    world.template()
    config = f"--config={own_lease}"
    made = suspended(world, "train", labels={"kueue.x-k8s.io/queue-name": "q"})
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": made["metadata"]["uid"]}
    kueue.create("job-train", has_quota=False)
    path = f"{kueue_stand_in.KUEUE}/namespaces/{world.namespace}/workloads/job-train"
    world.plane.request(
        "PATCH", path, {"metadata": {"ownerReferences": [owner]}}, content="application/merge-patch+json"
    )
    waiting = {"type": "QuotaReserved", "status": "False", "reason": "Pending", "message": "gpus: 1 more needed"}
    kueue.patch_status("job-train", {"conditions": [{**waiting, "lastTransitionTime": "2026-01-01T00:00:00Z"}]})

    status, text, error = explained(world, capsys, "job/train", config)
    assert status == 1, error
    assert " ".join(text.split()).startswith(
        f"Job {world.namespace}/train is suspended, so it has no pods. "
        "Kueue resumes it once its Workload job-train of queue q has quota. "
        "QuotaReserved=False (Pending): gpus: 1 more needed "
        "If it were resumed now: It does not fit: 1 of 2 pods would start now. → kubectl get job train"
    )
    status, found, _ = explained(world, capsys, "job/train", "-o", "json", config)
    assert (status, found["kind"], found["kueueWorkload"]) == (1, "OwnerExplanation", "job-train")
    assert (found["suspended"], found["fit"]["fits"], len(found["fit"]["plan"]["placements"])) == (True, False, 1)

    world.more_devices(2)
    _, found, _ = explained(world, capsys, "job/train", "-o", "json", config)
    assert found["fit"]["fits"]


def test_what_may_not_be_read_is_said(world: World, kueue: KueueByHand, account: Path, capsys: Capture) -> None:
    """With `view` a tenant may read the Job, but neither nodes nor Workloads; with Dovetail's role no Job."""
    del kueue, account
    suspended(world, "train", labels={"kueue.x-k8s.io/queue-name": "q"})
    plane = world.plane
    plane.kubectl("create", "serviceaccount", "viewer", "-n", world.namespace)
    path = bind(plane, "view", world.namespace, "viewer", name=world.word)
    try:
        kubeconfig = plane.kubeconfig_for_service_account(world.namespace, "viewer")
        status, found, _ = explained(world, capsys, "job/train", "-o", "json", kubeconfig=kubeconfig)
        assert (status, found["fit"], found["waits"]) == (3, None, True)
        assert "from queue q: you may not list workloads.kueue.x-k8s.io" in found["message"]
    finally:
        plane.request("DELETE", path)
    status, _, error = explained(world, capsys, "job/train", kubeconfig=kubeconfig_of(plane, "dovetail-viewer"))
    assert status == 2
    assert "whether it is suspended is not known without the right to get jobs.batch" in error


def test_of_another_name_there_is_no_job_and_of_another_kind_none_at_all(world: World, capsys: Capture) -> None:
    status, _, error = explained(world, capsys, "job/nothing")
    assert (status, error.splitlines()[-1]) == (
        2,
        f"dovetail: explain: Job {world.namespace}/nothing does not exist",
    )
    status, _, error = explained(world, capsys, "rayjob/nothing")
    assert status == 2
    assert error.splitlines()[-1].endswith("nothing does not exist: the cluster has no RayJobs")

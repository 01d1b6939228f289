"""docs/kueue.md, done step by step with the Kueue that it is about."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.controlplane.plane import ControlPlane
from e2e.fleet import nvidia, publish
from e2e.fleet.fleets import together
from tests.support import manifests as m
from tests.support.controlplane import wait_until
from tests.support.guides import Guide
from tests.support.neighbours import Neighbours

pytestmark = pytest.mark.neighbours

NAMESPACE = "ml"
"""That of the page."""
KUEUE = "/apis/kueue.x-k8s.io/v1beta2"
QUEUES = ("clusterqueue/team", "admissioncheck/placement", "resourceflavor/default")
NODES = ("gpu-0001", "gpu-0002")


@pytest.fixture
def furnished(neighbours: Neighbours) -> Iterator[ControlPlane]:
    """Two nodes with GPUs, and the namespace; gone afterwards."""
    plane = neighbours.plane
    fleet = together(*(nvidia.gpu_node(name, gpus=8) for name in NODES))
    publish.publish_to(plane.kubeconfig, fleet)
    plane.kubectl("create", "namespace", NAMESPACE)
    yield plane
    plane.kubectl("delete", "namespace", NAMESPACE)
    plane.kubectl("delete", *(f"node/{name}" for name in NODES), *QUEUES)
    for kind, objects in (("resourceslice", fleet.slices), ("deviceclass", fleet.classes)):
        plane.kubectl("delete", *(f"{kind}/{each['metadata']['name']}" for each in objects))


def placed(plane: ControlPlane) -> list[tuple[str, str]]:
    pods = plane.request("GET", f"/api/v1/namespaces/{NAMESPACE}/pods")["items"]
    return sorted((pod["spec"]["schedulerName"], pod["spec"]["nodeName"]) for pod in pods if "nodeName" in pod["spec"])


def states_of(plane: ControlPlane, job: str) -> list[str]:
    """The states of the checks of a Job's Workload."""
    workloads = plane.request("GET", f"{KUEUE}/namespaces/{NAMESPACE}/workloads")["items"]
    mine = [each for each in workloads if each["metadata"]["ownerReferences"][0]["name"] == job]
    return [check["state"] for each in mine for check in each["status"].get("admissionChecks", [])]


def explained(plane: ControlPlane, capsys: pytest.CaptureFixture[str]) -> str:
    """What is said of a Job without pods for which there is no quota."""
    assert m.run("explain", "job/large", "-n", NAMESPACE, f"--kubeconfig={plane.kubeconfig}") == 1
    return " ".join(capsys.readouterr().out.split())


def test_the_page_as_it_is_written(furnished: ControlPlane, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plane = furnished
    guide = Guide("kueue.md", plane, tmp_path)
    guide.run("kubectl apply -f queues.yaml")
    guide.run("kubectl -n ml apply -f job.yaml")
    guide.run("kubectl -n ml wait")
    wait_until(lambda: len(placed(plane)) == 2)
    assert {name for name, _ in placed(plane)} == {"dovetail"}
    assert "gpu-000" in guide.run("dovetail explain job/queued -n ml")
    guide.run("kubectl apply -f check.yaml")
    guide.run("kubectl wait")
    guide.run("kubectl patch clusterqueue")
    job = (tmp_path / "job.yaml").read_text(encoding="utf-8").replace("queued", "checked")
    plane.kubectl("-n", NAMESPACE, "apply", "-f", "-", input=job)
    wait_until(lambda: len(placed(plane)) == 4)
    assert states_of(plane, "checked") == ["Ready"]
    large = job.replace("checked", "large")
    for field in ("parallelism", "completions"):
        large = large.replace(f"{field}: 2", f"{field}: 9")
    plane.kubectl("-n", NAMESPACE, "apply", "-f", "-", input=large)
    wait_until(lambda: "quota for gpus in flavor default" in explained(plane, capsys))
    guide.end()

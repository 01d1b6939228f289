import os
import secrets
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.controlplane import gates
from e2e.controlplane.access import RequestError
from e2e.controlplane.plane import REPOSITORY, ControlPlane
from e2e.controlplane.processes import ComponentError
from tests.support.controlplane import wait_until

pytestmark = pytest.mark.controlplane

RESOURCES = "/apis/resource.k8s.io/v1"
PARENT = """
import sys, time
from pathlib import Path
from e2e.controlplane.plane import ControlPlane

plane = ControlPlane.start(feature_gates="defaults", kubelet=True, folder=Path(sys.argv[1]))
print(*(component.pid for component in plane.components.values()), flush=True)
time.sleep(600)
"""


@pytest.fixture
def node(control_plane: ControlPlane) -> Iterator[str]:
    name = f"node-{secrets.token_hex(4)}"
    control_plane.request("POST", "/api/v1/nodes", {"metadata": {"name": name}})
    yield name
    control_plane.request("DELETE", f"/api/v1/nodes/{name}")


def pod(node: str, **claim: str) -> dict[str, Any]:
    spec: dict[str, Any] = {"nodeName": node, "containers": [{"name": "main", "image": "none"}]}
    if claim:
        spec["resourceClaims"] = [{"name": "devices", **claim}]
        spec["containers"][0]["resources"] = {"claims": [{"name": "devices"}]}
    return {"metadata": {"name": "pod"}, "spec": spec}


def phase(plane: ControlPlane, namespace: str) -> str:
    answer = plane.request("GET", f"/api/v1/namespaces/{namespace}/pods/pod")
    return str(answer["status"]["phase"])


def exists(plane: ControlPlane, path: str) -> bool:
    try:
        plane.request("GET", path)
    except RequestError as error:
        if error.status != 404:
            raise
        return False
    return True


def is_running(pid: int) -> bool:
    try:
        # Only the machine's first process can reap a child whose parent is dead, and some never do.
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""  # that process has ended meanwhile


def allocate(plane: ControlPlane, namespace: str, name: str, **result: Any) -> None:
    """Allocate a device that no slice has and reserve the claim for the pod: the API server checks neither."""
    uid = plane.request("GET", f"/api/v1/namespaces/{namespace}/pods/pod")["metadata"]["uid"]
    device = {"request": "gpu", "driver": "gpu.example.com", "pool": "pool", "device": "gpu-0", **result}
    status = {
        "allocation": {"devices": {"results": [device]}},
        "reservedFor": [{"resource": "pods", "name": "pod", "uid": uid}],
    }
    path = f"{RESOURCES}/namespaces/{namespace}/resourceclaims/{name}/status"
    plane.request("PATCH", path, {"status": status}, content="application/merge-patch+json")


def create_claim(plane: ControlPlane, namespace: str) -> None:
    claim = {"metadata": {"name": "claim"}, "spec": claim_spec()}
    plane.request("POST", f"{RESOURCES}/namespaces/{namespace}/resourceclaims", claim)


def claim_spec() -> dict[str, Any]:
    return {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}]}}


def test_api_server_answers_with_the_version_it_was_linked_from(control_plane: ControlPlane) -> None:
    assert control_plane.request("GET", "/version")["gitVersion"].startswith("v1.")
    assert "v1." in control_plane.kubectl("version")


@pytest.mark.kubernetes(since="1.36", gates=("DRAResourcePoolStatus", "GenericWorkload"))
def test_every_feature_of_dra_is_served(control_plane: ControlPlane) -> None:
    served = control_plane.kubectl("api-resources", "-o", "name")
    assert {
        "devicetaintrules.resource.k8s.io",
        "resourcepoolstatusrequests.resource.k8s.io",
        "podgroups.scheduling.k8s.io",
        "workloads.scheduling.k8s.io",
    } <= set(served.split())


def test_a_claim_template_yields_a_claim(control_plane: ControlPlane, namespace: str, node: str) -> None:
    template = {"metadata": {"name": "template"}, "spec": {"spec": claim_spec()}}
    control_plane.request("POST", f"{RESOURCES}/namespaces/{namespace}/resourceclaimtemplates", template)
    control_plane.request(
        "POST", f"/api/v1/namespaces/{namespace}/pods", pod(node, resourceClaimTemplateName="template")
    )
    claims = f"{RESOURCES}/namespaces/{namespace}/resourceclaims"
    wait_until(lambda: bool(control_plane.request("GET", claims)["items"]))


def test_an_account_without_rights_is_refused(control_plane: ControlPlane, namespace: str) -> None:
    control_plane.request("POST", f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": "nobody"}})
    access = control_plane.access_for_service_account(namespace, "nobody")
    with pytest.raises(RequestError, match=f"system:serviceaccount:{namespace}:nobody") as caught:
        access.request("GET", "/api/v1/nodes")
    assert caught.value.status == 403


def test_a_service_account_gets_a_kubeconfig_with_its_rights(control_plane: ControlPlane, namespace: str) -> None:
    control_plane.kubectl("create", "serviceaccount", "-n", namespace, "viewer")
    control_plane.kubectl(
        *("create", "rolebinding", "-n", namespace, "view", "--clusterrole=view"),
        f"--serviceaccount={namespace}:viewer",
    )
    kubeconfig = control_plane.kubeconfig_for_service_account(namespace, "viewer")
    listed = control_plane.kubectl(f"--kubeconfig={kubeconfig}", "get", "-n", namespace, "pods", "-o", "name")
    assert listed == ""


def test_a_bound_pod_runs_and_is_gone_after_its_deletion(
    control_plane: ControlPlane, namespace: str, node: str
) -> None:
    path = f"/api/v1/namespaces/{namespace}/pods"
    control_plane.request("POST", path, pod(node))
    wait_until(lambda: phase(control_plane, namespace) == "Running")
    control_plane.request("DELETE", f"{path}/pod")
    wait_until(lambda: not exists(control_plane, f"{path}/pod"))


def test_a_pod_that_says_how_long_it_runs_succeeds_then(control_plane: ControlPlane, namespace: str, node: str) -> None:
    body = pod(node)
    body["metadata"]["annotations"] = {"dovetail.dev/run-seconds": "0.1"}
    control_plane.request("POST", f"/api/v1/namespaces/{namespace}/pods", body)
    wait_until(lambda: phase(control_plane, namespace) == "Succeeded")


def test_a_pod_runs_only_once_its_claim_is_allocated_and_reserved_for_it(
    control_plane: ControlPlane, namespace: str, node: str
) -> None:
    create_claim(control_plane, namespace)
    control_plane.request("POST", f"/api/v1/namespaces/{namespace}/pods", pod(node, resourceClaimName="claim"))
    with pytest.raises(AssertionError):
        wait_until(lambda: phase(control_plane, namespace) == "Running", seconds=1)
    allocate(control_plane, namespace, "claim")
    wait_until(lambda: phase(control_plane, namespace) == "Running")


@pytest.mark.kubernetes(gates=("DRADeviceBindingConditions",))
def test_binding_conditions_become_true(control_plane: ControlPlane, namespace: str, node: str) -> None:
    create_claim(control_plane, namespace)
    control_plane.request("POST", f"/api/v1/namespaces/{namespace}/pods", pod(node, resourceClaimName="claim"))
    conditions = {"bindingConditions": ["Attached"], "bindingFailureConditions": ["Broken"]}
    allocate(control_plane, namespace, "claim", **conditions)
    path = f"{RESOURCES}/namespaces/{namespace}/resourceclaims/claim"
    wait_until(lambda: "devices" in control_plane.request("GET", path)["status"])
    [device] = control_plane.request("GET", path)["status"]["devices"]
    assert [(each["type"], each["status"]) for each in device["conditions"]] == [("Attached", "True")]


def test_the_stand_in_leaves_pods_on_nodes_with_kubelets_of_their_own_alone() -> None:
    with ControlPlane.start(feature_gates="defaults") as plane:
        plane.start_kubelet("--except", "real-0", "real-1")
        pods = "/api/v1/namespaces/default/pods"
        for name in ("real-0", "real-1", "stand-in"):  # the last one is the last that it hears of
            plane.request("POST", "/api/v1/nodes", {"metadata": {"name": name}})
            plane.request("POST", pods, {**pod(name), "metadata": {"name": name}})

        def phases() -> dict[str, str]:
            return {each["metadata"]["name"]: each["status"]["phase"] for each in plane.request("GET", pods)["items"]}

        wait_until(lambda: phases()["stand-in"] == "Running")
        assert phases() == {"real-0": "Pending", "real-1": "Pending", "stand-in": "Running"}
        for name in ("real-0", "stand-in"):
            plane.request("DELETE", f"{pods}/{name}", {"gracePeriodSeconds": 1})
        wait_until(lambda: "stand-in" not in phases())
        assert set(phases()) == {"real-0", "real-1"}


def test_the_peer_serves_the_profile_of_its_configuration(
    control_plane: ControlPlane, namespace: str, node: str, tmp_path: Path
) -> None:
    allocatable = {"cpu": "1", "memory": "1Gi", "pods": "10"}
    status = {"capacity": allocatable, "allocatable": allocatable}
    control_plane.request(
        "PATCH", f"/api/v1/nodes/{node}/status", {"status": status}, content="application/merge-patch+json"
    )
    body = pod("")
    body["spec"]["schedulerName"] = namespace
    control_plane.request("POST", f"/api/v1/namespaces/{namespace}/pods", body)
    config = tmp_path / "config.yaml"
    config.write_text(f"profiles: [{{schedulerName: {namespace}}}]")
    with control_plane.start_kube_scheduler(config) as scheduler:
        wait_until(lambda: phase(control_plane, namespace) == "Running")
        assert scheduler.access is not None
        assert "scheduler_schedule_attempts_total" in scheduler.access.request("GET", "/metrics")
    assert not is_running(scheduler.pid)


def test_a_component_that_cannot_start_says_why_and_nothing_is_left(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setitem(gates.GATES, "NoSuchGate", gates.Gate(34))
    with pytest.raises(ComponentError, match="unrecognized feature gate: NoSuchGate"):
        ControlPlane.start(feature_gates="on")
    assert list(tmp_path.iterdir()) == []
    assert not [each for each in Path("/proc").glob("[0-9]*/cmdline") if str(tmp_path).encode() in read(each)]


def test_a_second_plane_works_beside_the_first_and_dies_with_its_killed_parent(
    control_plane: ControlPlane, tmp_path: Path
) -> None:
    command = [sys.executable, "-c", PARENT, str(tmp_path)]
    with subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        try:
            pids = [int(pid) for pid in parent.stdout.readline().split()]
            assert len(pids) == 4
            assert all(is_running(pid) for pid in pids)
            control_plane.request("GET", "/readyz")
        finally:
            os.kill(parent.pid, signal.SIGKILL)
    wait_until(lambda: not any(is_running(pid) for pid in pids), seconds=10)
    control_plane.request("GET", "/readyz")

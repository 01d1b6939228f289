"""An API server that lacks what is needed is waited for, with one clear message."""

import json
import threading
from pathlib import Path

import pytest
import yaml

from e2e.controlplane import versions
from e2e.controlplane.plane import ControlPlane
from e2e.dovetail import Dovetail
from tests.support.controlplane import wait_until
from tests.support.marks import WITH_POD_GROUPS
from tests.support.shell_proxy import lossy
from tests.support.shell_world import World

pytestmark = pytest.mark.controlplane


def test_a_server_without_device_apis_is_waited_for(control_plane: ControlPlane, world: World, tmp_path: Path) -> None:
    world.add_nodes(1, devices=1)
    world.template()
    is_upgraded = threading.Event()

    def before(_: str, path: str) -> str:
        return path if is_upgraded.is_set() else path.replace("resource.k8s.io", "resource.k8s.absent")

    log = tmp_path / "dovetail.log"
    with lossy(control_plane.admin, before=before) as proxy:
        kubeconfig = proxy.write_kubeconfig(tmp_path / "proxy.kubeconfig")
        arguments = (f"--scheduler-name={world.scheduler}", "--leader-elect=false")
        with Dovetail(kubeconfig, log, *arguments) as running:
            wait_until(lambda: "resource.k8s.io/v1" in log.read_text())
            wait_until(lambda: len(problems(log)) == 1)
            is_upgraded.set()
            running.wait_until_ready()
            world.pod("p")

            wait_until(lambda: "p" in world.bound())

    assert len(problems(log)) == 1
    assert "Kubernetes 1.34 or newer" in problems(log)[0]


@WITH_POD_GROUPS
def test_an_upgrade_of_the_server_is_noticed_while_pods_are_scheduled(
    control_plane: ControlPlane, world: World, tmp_path: Path
) -> None:
    world.add_nodes(1, devices=6)
    world.template()
    is_upgraded = threading.Event()

    def before(_: str, path: str) -> str:
        return path if is_upgraded.is_set() else path.replace("scheduling.k8s.io", "scheduling.k8s.absent")

    log = tmp_path / "dovetail.log"
    with lossy(control_plane.admin, before=before) as proxy:
        kubeconfig = proxy.write_kubeconfig(tmp_path / "proxy.kubeconfig")
        with Dovetail.start(kubeconfig, log, f"--scheduler-name={world.scheduler}", leader_elect=False):
            world.pod("before")
            wait_until(lambda: list(world.bound()) == ["before"])
            is_upgraded.set()
            for number in range(3):
                world.pod(f"p{number}")
            wait_until(lambda: '"server_changed"' in log.read_text() or "server_changed" in log.read_text(), seconds=90)
            groups = f"/apis/{versions.pod_groups()}/namespaces/{world.namespace}/podgroups"
            gang = {"schedulingPolicy": {"gang": {"minCount": 2}}}
            world.plane.request("POST", groups, {"metadata": {"name": "g"}, "spec": gang})
            for number in range(2):
                world.pod(f"g{number}", schedulingGroup={"podGroupName": "g"})
            wait_until(lambda: len(world.bound()) == 6)

            def conditions() -> list[str]:
                status = world.plane.request("GET", f"{groups}/g").get("status", {})
                return [each["status"] for each in status.get("conditions", [])]

            wait_until(lambda: conditions() == ["True"])
    assert world.problems() == []


def grant(control_plane: ControlPlane, *watched: str) -> Path:
    """Let an account read everything, and of the device APIs watch only some kinds; give its kubeconfig."""
    others = ["", "storage.k8s.io", "policy", "scheduling.k8s.io"]
    rules = [
        {"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list"]},
        {"apiGroups": others, "resources": ["*"], "verbs": ["watch"]},
        {"apiGroups": ["resource.k8s.io"], "resources": list(watched), "verbs": ["watch"]},
    ]
    rbac = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": "blind"}}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "blind"}
    subject = {"kind": "ServiceAccount", "name": "blind", "namespace": "default"}
    objects = (
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "blind", "namespace": "default"}},
        {**rbac, "kind": "ClusterRole", "rules": rules},
        {**rbac, "kind": "ClusterRoleBinding", "roleRef": role, "subjects": [subject]},
    )
    control_plane.kubectl("apply", "--server-side", "-f", "-", input=yaml.safe_dump_all(objects, sort_keys=False))
    return control_plane.kubeconfig_for_service_account("default", "blind")


def test_a_kind_that_may_not_be_watched_is_named_with_the_refusal(control_plane: ControlPlane, tmp_path: Path) -> None:
    known = ["resourceclaims", "deviceclasses", "devicetaintrules"]
    kubeconfig = grant(control_plane, *known)
    with Dovetail(kubeconfig, tmp_path / "dovetail.log", "--leader-elect=false") as running:
        wait_until(lambda: "not listed yet: " in checks(running).get("resourceslices", ""), seconds=60)
        wait_until(lambda: checks(running)["resourceclaims"].startswith("[+]"))  # others are not held up

        assert 'cannot watch resource "resourceslices"' in checks(running)["resourceslices"]
        grant(control_plane, *known, "resourceslices")
        wait_until(lambda: checks(running)["resourceslices"].startswith("[+]"), seconds=60)


def checks(running: Dovetail) -> dict[str, str]:
    """Lines of `/readyz?verbose` by the name of the check; empty while it is not served."""
    try:
        lines = running.get("/readyz?verbose")[1].splitlines()
    except OSError:
        return {}
    return {line[3:].split()[0]: line for line in lines if line.startswith("[")}


def problems(log: Path) -> list[str]:
    lines = (json.loads(line) for line in log.read_text().splitlines() if line.startswith("{"))
    return [line["problem"] for line in lines if "problem" in line]

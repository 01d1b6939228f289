"""Commands go by the configuration of the running scheduler, in the ConfigMap that its pod mounts."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.controlplane.plane import REPOSITORY
from tests.support import deploy_manifests
from tests.support import manifests as m
from tests.support.people import kubeconfig_of
from tests.support.shell_world import World

pytestmark = pytest.mark.controlplane

Capture = pytest.CaptureFixture[str]
Run = Callable[[str, dict[str, str] | None], None]
HEAD = {"apiVersion": "config.dovetail.dev/v1alpha1", "kind": "DovetailConfiguration"}
OF_ANOTHER = yaml.safe_dump({**HEAD, "devices": {"owned": {"drivers": ["other.example.com"]}}})
"""A configuration in which the devices of the world belong to another scheduler."""
DEFAULTS = "The answer goes by Dovetail's defaults: a device may belong to another scheduler (devices.owned)"


@pytest.fixture
def run(world: World) -> Iterator[Run]:
    """Let the pod of `deploy/base` run with a ConfigMap; without data there is no ConfigMap."""
    world.add_nodes(1, devices=2)
    below = f"/api/v1/namespaces/{world.namespace}"

    def create(name: str, data: dict[str, str] | None) -> None:
        pod = deploy_manifests.pod_template(REPOSITORY / "deploy" / "base")
        del pod["spec"]["serviceAccountName"]
        pod["spec"] |= {"automountServiceAccountToken": False, "schedulerName": "none"}
        pod["metadata"]["name"] = "dovetail-0"
        for volume in pod["spec"]["volumes"]:
            if "configMap" in volume:
                volume["configMap"]["name"] = name
        if data is not None:
            world.plane.request("POST", f"{below}/configmaps", {"metadata": {"name": name}, "data": data})
        world.plane.request("POST", f"{below}/pods", pod)
        running = {"status": {"phase": "Running"}}
        world.plane.request("PATCH", f"{below}/pods/dovetail-0/status", running, content="application/merge-patch+json")

    yield create
    world.plane.request("DELETE", f"{below}/pods/dovetail-0", {"gracePeriodSeconds": 0})


def free(world: World, capsys: Capture, *words: str, kubeconfig: Path | None = None) -> tuple[int, Any, str]:
    """The exit status, how many of the world's devices are free, and what is said."""
    chosen = f"--kubeconfig={kubeconfig or world.plane.kubeconfig}"
    status = m.run("free", "-l", f"world={world.word}", "--by", "class", "-o", "json", chosen, *words)
    printed = capsys.readouterr()
    (row,) = (each for each in json.loads(printed.out)["items"] if each["class"] == world.driver)
    return status, row["free"], printed.err


def test_devices_of_another_scheduler_are_not_free(world: World, run: Run, tmp_path: Path, capsys: Capture) -> None:
    run("dovetail-config-5k6fb59ktt", {"config.yaml": OF_ANOTHER})
    chosen = f"--dovetail-namespace={world.namespace}"
    world.template()
    world.pod("p")

    assert free(world, capsys, chosen) == (0, 0, "")
    assert m.run("explain", "pod/p", "-n", world.namespace, f"--kubeconfig={world.plane.kubeconfig}", chosen) == 1
    assert "can take it now" in capsys.readouterr().out, "other tests have nodes too, so none of so many"
    written = m.write_yaml(tmp_path / "config.yaml", HEAD)
    assert free(world, capsys, chosen, f"--config={written}") == (0, 2, ""), "--config wins"


def test_a_scheduler_of_another_namespace_does_not_count(world: World, run: Run, capsys: Capture) -> None:
    """A tenant could run such a pod."""
    run("dovetail-config", {"config.yaml": OF_ANOTHER})
    assert free(world, capsys) == (0, 2, "")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        pytest.param(None, "ConfigMap {}/dovetail-config: it does not exist", id="missing"),
        pytest.param({"other": ""}, "ConfigMap {}/dovetail-config: data: there is no key config.yaml", id="other key"),
        pytest.param({"config.yaml": "a: ["}, "ConfigMap {}/dovetail-config, data, config.yaml: ", id="no YAML"),
        pytest.param(
            {"config.yaml": yaml.safe_dump({**HEAD, "devices": {"owner": []}})},
            "ConfigMap {}/dovetail-config, data, config.yaml: devices.owner: ",
            id="unknown key",
        ),
    ],
)
def test_a_configuration_that_cannot_be_used_is_said(
    world: World, run: Run, capsys: Capture, data: dict[str, str] | None, message: str
) -> None:
    run("dovetail-config", data)
    status, count, said = free(world, capsys, f"--dovetail-namespace={world.namespace}")
    assert (status, count) == (3, 2)
    assert message.format(world.namespace) in said
    assert f"{DEFAULTS}. Give the configuration with --config FILE" in said


def test_a_viewer_may_read_the_configuration_that_is_deployed_and_no_other(
    world: World, run: Run, account: Path, capsys: Capture
) -> None:
    del account
    roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles/dovetail-viewer"
    rules = (rule for rule in world.plane.request("GET", roles)["rules"] if "configmaps" in rule["resources"])
    (name,) = (each for rule in rules for each in rule["resourceNames"])
    viewer, chosen = kubeconfig_of(world.plane, "dovetail-viewer"), f"--dovetail-namespace={world.namespace}"
    run(name, {"config.yaml": OF_ANOTHER})
    assert free(world, capsys, chosen, kubeconfig=viewer) == (0, 0, "")

    below = f"/api/v1/namespaces/{world.namespace}"
    world.plane.request("DELETE", f"{below}/pods/dovetail-0", {"gracePeriodSeconds": 0})
    run("other", {"config.yaml": OF_ANOTHER})
    status, count, said = free(world, capsys, chosen, kubeconfig=viewer)
    assert (status, count) == (3, 2)
    assert f"ConfigMap {world.namespace}/other: you may not read it" in said
    assert DEFAULTS in said

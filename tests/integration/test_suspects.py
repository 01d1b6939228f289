"""A replacement of a pod that failed on its devices gets others, on the real API server."""

from typing import Any

import pytest

from e2e.controlplane.statuses import UNHEALTHY
from tests.support.controlplane import wait_until
from tests.support.shell_world import RESOURCE, Json, Start, World

pytestmark = pytest.mark.controlplane


def replica_set(world: World) -> None:
    used = {"claims": [{"name": "devices"}]}
    spec = {
        "schedulerName": world.scheduler,
        "nodeSelector": {"world": world.word},
        "tolerations": [{"operator": "Exists"}],
        "containers": [{"name": "main", "image": "example.com/none", "resources": used}],
        "resourceClaims": [{"name": "devices", "resourceClaimTemplateName": "one"}],
    }
    labels = {"app": world.word}
    body = {
        "metadata": {"name": "trainer"},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }
    world.plane.request("POST", f"/apis/apps/v1/namespaces/{world.namespace}/replicasets", body)


def running(world: World) -> list[Json]:
    return [each for each in world.pods() if each["status"]["phase"] == "Running"]


def device_of(world: World, pod: Any) -> list[str]:
    (made,) = pod["status"]["resourceClaimStatuses"]
    return world.devices(made["resourceClaimName"])


def test_a_replacement_of_a_pod_that_failed_gets_another_device(world: World, start: Start) -> None:
    world.add_nodes(1, devices=2)
    world.template()
    start()
    replica_set(world)
    wait_until(lambda: len(running(world)) == 1)
    (first,) = running(world)
    name, had = first["metadata"]["name"], device_of(world, first)

    path = f"/api/v1/namespaces/{world.namespace}/pods/{name}/status"
    world.plane.request("PATCH", path, {"status": {"phase": "Failed"}}, content="application/merge-patch+json")
    wait_until(lambda: len(running(world)) == 1 and running(world)[0]["metadata"]["name"] != name)

    assert device_of(world, running(world)[0]) != had


@pytest.mark.kubernetes(gates=("ResourceHealthStatus",))
def test_a_device_that_its_kubelet_calls_unhealthy_is_given_last(world: World, start: Start) -> None:
    world.add_nodes(1, devices=3)
    for name in ("first", "next"):
        world.claim(name)
    dovetail = start()
    world.pod("first", claim="first")
    wait_until(lambda: (world.get_pod("first") or {})["status"]["phase"] == "Running")
    (had,) = world.devices("first")

    path = f"{RESOURCE}/namespaces/{world.namespace}/resourceclaims/first"
    body = {"metadata": {"annotations": {UNHEALTHY: had.rpartition("/")[2]}}}
    world.plane.request("PATCH", path, body, content="application/merge-patch+json")
    wait_until(lambda: '"event":"device_suspected"' in dovetail.log.read_text())
    world.delete_pod("first")
    wait_until(lambda: not world.devices("first"))

    world.pod("next", claim="next")
    wait_until(lambda: bool(world.devices("next")))
    assert world.devices("next") != [had]

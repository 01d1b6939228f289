"""DeviceQuotas on the API server: what their CRD admits, and what Dovetail does with them."""

from collections.abc import Iterator
from typing import Any

import pytest

from e2e.controlplane.access import RequestError
from e2e.controlplane.plane import ControlPlane
from tests.support.controlplane import wait_until
from tests.support.quota_world import CRDS, quota_crd
from tests.support.shell_world import Start, World

pytestmark = pytest.mark.controlplane

QUOTAS = "/apis/dovetail.dev/v1alpha1/devicequotas"
MERGE = "application/merge-patch+json"


@pytest.fixture
def quotas(control_plane: ControlPlane) -> Iterator[str]:
    """The path of DeviceQuotas, by the CRD of the component; gone afterwards with all of them."""
    path = quota_crd(control_plane)
    yield QUOTAS
    control_plane.request("DELETE", path)

    def is_gone() -> bool:
        return path.rpartition("/")[2] not in {
            each["metadata"]["name"] for each in control_plane.request("GET", CRDS)["items"]
        }

    wait_until(is_gone, seconds=30)


def _quota(name: str, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": "dovetail.dev/v1alpha1", "kind": "DeviceQuota", "metadata": {"name": name}, "spec": spec}


GOOD = {"deviceClass": "gpu", "limit": 4, "guarantee": 2}


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"parent": "own"}, "not its own parent"),
        ({}, "namespaceSelector and resources"),
        ({"resources": [{"limit": 4}]}, "deviceClass"),
        ({"resources": [{**GOOD, "limit": "80Gi"}]}, "quantities such as 80Gi need a capacity"),
        ({"resources": [{**GOOD, "limit": 1}]}, "it is above the limit"),
        ({"resources": [{**GOOD, "limit": -1, "guarantee": 0}]}, "amounts from 0 on"),
        ({"resources": [GOOD, {**GOOD, "shape": "devices"}]}, "stands once"),
        ({"resources": [{**GOOD, "shape": "racks"}]}, "wholeNodes"),
        ({"resources": [{**GOOD, "capacity": "memory", "shape": "wholeNodes"}]}, "whole nodes have none"),
        ({"resources": [{**GOOD, "weight": 0}]}, "weight"),
        ({"namespaceSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}}, "In and NotIn need some"),
    ],
)
def test_a_wrong_quota_is_refused_with_what_to_write(
    control_plane: ControlPlane, quotas: str, spec: dict[str, Any], said: str
) -> None:
    with pytest.raises(RequestError, match=said):
        control_plane.request("POST", quotas, _quota("own", **spec))


def _limit(world: World, quotas: str, limit: int) -> None:
    """Make a quota for the world's namespace."""
    labels = {"team": world.namespace}
    world.plane.request(
        "PATCH", f"/api/v1/namespaces/{world.namespace}", {"metadata": {"labels": labels}}, content=MERGE
    )
    resources = [{"deviceClass": world.driver, "limit": limit}]
    spec = {"namespaceSelector": {"matchLabels": labels}, "resources": resources}
    world.plane.request("POST", quotas, _quota(world.namespace, **spec))


def test_a_limit_is_kept_says_why_and_is_lifted(world: World, start: Start, quotas: str) -> None:
    world.add_nodes(1, devices=4)
    world.template()
    plane = world.plane
    plane.request(
        "PATCH",
        f"/api/v1/namespaces/{world.namespace}",
        {"metadata": {"labels": {"team": world.namespace}}},
        content=MERGE,
    )
    resources = [{"deviceClass": world.driver, "limit": 2}]
    selector = {"matchLabels": {"team": world.namespace}}
    plane.request("POST", quotas, _quota(world.namespace, namespaceSelector=selector, resources=resources))
    start()
    for index in range(3):
        world.pod(f"p{index}")

    wait_until(lambda: len(world.bound()) == 2, seconds=30)
    (late,) = {f"p{index}" for index in range(3)} - world.bound().keys()
    wait_until(lambda: world.condition(late).get("reason") == "QuotaExceeded", seconds=30)
    message = world.condition(late)["message"]
    assert f"DeviceQuota {world.namespace}: 2 of at most 2 devices" in message

    raised = {"spec": {"resources": [{"deviceClass": world.driver, "limit": 3}]}}
    world.plane.request("PATCH", f"{quotas}/{world.namespace}", raised, content=MERGE)
    wait_until(lambda: late in world.bound(), seconds=30)


def test_a_pod_that_ends_gives_its_share_of_the_limit_to_the_next(world: World, start: Start, quotas: str) -> None:
    world.add_nodes(1, devices=4)
    world.template()
    plane = world.plane
    plane.request(
        "PATCH",
        f"/api/v1/namespaces/{world.namespace}",
        {"metadata": {"labels": {"team": world.namespace}}},
        content=MERGE,
    )
    selector = {"matchLabels": {"team": world.namespace}}
    resources = [{"deviceClass": world.driver, "limit": 1}]
    plane.request("POST", quotas, _quota(world.namespace, namespaceSelector=selector, resources=resources))
    start()
    world.pod("first")
    wait_until(lambda: "first" in world.bound(), seconds=30)
    world.pod("second")
    wait_until(lambda: world.condition("second").get("reason") == "QuotaExceeded", seconds=30)

    world.delete_pod("first")

    wait_until(lambda: "second" in world.bound(), seconds=30)


def test_the_leader_says_what_is_held_and_waits_and_the_next_leader_goes_on(
    world: World, start: Start, quotas: str
) -> None:
    world.add_nodes(1, devices=4)
    world.template()
    _limit(world, quotas, 2)
    first = start(leader_elect=True)
    for index in range(3):
        world.pod(f"p{index}")

    def status() -> Any:
        return world.plane.request("GET", f"{quotas}/{world.namespace}").get("status", {})

    said = {"deviceClass": world.driver, "shape": "devices", "held": "2", "lent": "2", "waiting": 1}

    def is_said() -> bool:
        return [said] == [{name: each.get(name, "devices") for name in said} for each in status().get("resources", [])]

    wait_until(is_said, seconds=60)
    (valid,) = status()["conditions"]
    assert (valid["type"], valid["status"]) == ("Valid", "True")
    first.stop()

    start(leader_elect=True)
    (ended,) = {"p0", "p1", "p2"} & set(list(world.bound())[:1])
    world.delete_pod(ended)
    wait_until(lambda: status()["resources"][0]["waiting"] == 0, seconds=60)
    assert status()["resources"][0]["held"] == "2"
    assert status()["conditions"] == [valid]

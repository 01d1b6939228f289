"""What one user writes stops no other user: objects that the API server admits and decoders cannot read."""

import json
from collections.abc import Iterator
from typing import Final

import pytest

from e2e.controlplane.access import RequestError
from e2e.controlplane.plane import ControlPlane
from tests.support.controlplane import wait_until
from tests.support.series import series
from tests.support.shell_world import RESOURCE, Json, Start, World

pytestmark = pytest.mark.controlplane

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
GROUP = "scheduling.x-k8s.io"
ANYTHING = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
DEPTH = 2400


@pytest.fixture
def coscheduling(control_plane: ControlPlane, world: World) -> Iterator[str]:
    """The path of PodGroups of coscheduling, by a CRD without any schema."""
    names = {"plural": "podgroups", "singular": "podgroup", "kind": "PodGroup"}
    version = {"name": "v1alpha1", "served": True, "storage": True, "schema": ANYTHING}
    body = {
        "metadata": {"name": f"podgroups.{GROUP}", "annotations": {"api-approved.kubernetes.io": "unapproved, a test"}},
        "spec": {"group": GROUP, "names": names, "scope": "Namespaced", "versions": [version]},
    }
    control_plane.request("POST", CRDS, body)
    path = f"/apis/{GROUP}/v1alpha1/namespaces/{world.namespace}/podgroups"
    wait_until(lambda: _is_served(control_plane, path))
    yield path
    control_plane.request("DELETE", f"{CRDS}/podgroups.{GROUP}")


@pytest.fixture(autouse=True)
def _gone(world: World) -> Iterator[None]:
    """Claims that no JSON decoder of other tests reads do not outlive this one, as claims of bound pods else do."""
    yield
    names = [f"-n={world.namespace}", "resourceclaims", "--all"]
    bare = '{"metadata":{"finalizers":null}}'
    world.plane.kubectl("delete", f"-n={world.namespace}", "pods", "--all", "--force", "--grace-period=0")
    for name in world.plane.kubectl("get", *names[:2], "-o=name").split():
        world.plane.kubectl("patch", names[0], name, "--type=merge", f"--patch={bare}")
    world.plane.kubectl("delete", *names, "--wait=true")


def _is_served(plane: ControlPlane, path: str) -> bool:
    try:
        plane.request("GET", path)
    except RequestError:
        return False
    return True


def create_raw(world: World, path: str, text: str) -> None:
    """Create an object from its text: no decoder of ours could have written it."""
    world.plane.kubectl("create", f"--raw={path}", "-f", "-", input=text)


def claim_text(world: World, name: str, parameters: str) -> str:
    exactly = {"deviceClassName": world.driver, "count": 1}
    config = [{"opaque": {"driver": world.driver, "parameters": "HERE"}}]
    body = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": world.namespace},
        "spec": {"devices": {"requests": [{"name": "devices", "exactly": exactly}], "config": config}},
    }
    return json.dumps(body).replace('"HERE"', parameters)


QUARANTINED: Final = "dovetail_quarantined_objects"


def test_hostile_objects_of_one_user_stop_no_other_user(world: World, start: Start, coscheduling: str) -> None:
    """Rows 1 and 4 of what was found, and an object that no decoder reads, before and after the start."""
    world.add_nodes(2, devices=4)
    world.template()
    number = {"metadata": {"name": "number", "annotations": {"dovetail.dev/gang-minimum": "9" * 4301}}}
    spec: Json = {"schedulerName": world.scheduler, "containers": [{"name": "main", "image": "example.com/none"}]}
    spec |= {"nodeSelector": {"world": world.word}, "tolerations": [{"operator": "Exists"}]}
    world.plane.request("POST", f"/api/v1/namespaces/{world.namespace}/pods", {**number, "spec": spec})
    deep = '{"a":' + "[" * DEPTH + "]" * DEPTH + "}"
    claims = f"{RESOURCE}/namespaces/{world.namespace}/resourceclaims"
    create_raw(world, claims, claim_text(world, "deep", deep))
    create_raw(world, claims, claim_text(world, "surrogate", r'{"a":"\ud800"}'))
    group = {"apiVersion": f"{GROUP}/v1alpha1", "kind": "PodGroup", "metadata": {"name": "g"}}
    world.plane.request("POST", coscheduling, {**group, "spec": {"minMember": "many"}})
    labels = {f"{GROUP}/pod-group": "g"}
    world.plane.request(
        "POST",
        f"/api/v1/namespaces/{world.namespace}/pods",
        {"metadata": {"name": "member", "labels": labels}, "spec": spec},
    )
    dovetail = start()

    for name in ("one", "two", "three"):
        world.pod(name)
    wait_until(lambda: {"one", "two", "three"} <= world.bound().keys())
    create_raw(world, claims, claim_text(world, "later", deep))
    world.pod("four")
    world.pod("user", claim="deep")
    world.pod("half", claim="surrogate")
    wait_until(lambda: {"four", "user", "half"} <= world.bound().keys())

    parameters = "-o=jsonpath={.status.allocation.devices.config[0].opaque.parameters}"
    given = world.plane.kubectl("get", "resourceclaim", "deep", f"-n={world.namespace}", parameters)
    assert given.count("[") == DEPTH, "its driver gets what the user wrote"
    assert "spec.minMember" in world.condition("member")["message"]
    wait_until(lambda: series(dovetail, QUARANTINED, kind="podgroups.scheduling.x-k8s.io") == 1)
    assert series(dovetail, QUARANTINED) == 1
    assert "failed" not in dovetail.get("/readyz?verbose")[1]
    assert dovetail.is_running()

    repaired = {"spec": {"minMember": 1}}
    world.plane.request("PATCH", f"{coscheduling}/g", repaired, content="application/merge-patch+json")
    wait_until(lambda: series(dovetail, QUARANTINED) == 0)
    wait_until(lambda: "member" in world.bound())
    wait_until(lambda: "number" in world.bound())


def test_an_object_in_quarantine_has_an_event_that_says_so(world: World, start: Start, coscheduling: str) -> None:
    group = {"apiVersion": f"{GROUP}/v1alpha1", "kind": "PodGroup", "metadata": {"name": "g"}}
    start()
    world.plane.request("POST", coscheduling, {**group, "spec": {"minMember": []}})

    def told() -> str:
        names = ("get", "events.events.k8s.io", f"-n={world.namespace}", "-o=json")
        found = json.loads(world.plane.kubectl(*names))["items"]
        return " ".join(each["note"] for each in found if each["regarding"]["kind"] == "PodGroup")

    wait_until(lambda: "Dovetail cannot read this object" in told())
    assert "spec.minMember" in told()

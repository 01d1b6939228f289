"""The real API server admits the largest objects of `e2e.hostile.extremes`, and serves them as large as these say."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from e2e import objects
from e2e.controlplane.access import RequestError
from e2e.controlplane.plane import ControlPlane
from e2e.hostile.extremes.catalogue import as_served, extremes
from e2e.hostile.extremes.sizes import LARGEST_STORED
from e2e.hostile.objects.kinds import NAMESPACED
from e2e.hostile.stage import definition
from scheduler.change import Kind
from tests.support.controlplane import wait_until

pytestmark = pytest.mark.controlplane

NAME = "mallory-extreme"
LABELS = "wide metadata.labels{}"
VALUES = "matchExpressions[].values[]"
SAMPLE = {
    Kind.PODS: (
        LABELS,
        "wide spec.containers[]",
        "wide spec.containers[].env[]",
        "wide spec.containers[].ports[]",
        "wide spec.tolerations[]",
        "env value of escapes",
        "10,000 host ports",
    ),
    Kind.NODES: (LABELS, "wide spec.taints[]"),
    Kind.NAMESPACES: (LABELS,),
    Kind.SLICES: (LABELS, "wide spec.devices[].capacity{}"),
    Kind.CLASSES: (LABELS, "wide spec.config[]"),
    Kind.CLAIMS: (LABELS, "wide spec.devices.config[]", "parameters of surrogates", "parameters 4,900 deep"),
    Kind.TAINT_RULES: (LABELS,),
    Kind.VOLUMES: (LABELS, f"wide spec.nodeAffinity.required.nodeSelectorTerms[].{VALUES}"),
    Kind.VOLUME_CLAIMS: (LABELS, f"wide spec.selector.{VALUES}"),
    Kind.STORAGE_CLASSES: (LABELS, "wide allowedTopologies[].matchLabelExpressions[].values[]"),
    Kind.NODE_DRIVERS: (LABELS, "wide spec.drivers[]"),
    Kind.STORAGE_CAPACITIES: (LABELS, f"wide nodeTopology.{VALUES}"),
    Kind.STORAGE_DRIVERS: (LABELS,),
    Kind.ATTACHMENTS: (LABELS,),
    Kind.BUDGETS: (LABELS, f"wide spec.selector.{VALUES}"),
    Kind.POD_GROUPS: (LABELS,),
    Kind.COSCHEDULING_GROUPS: ("fields 9,900 deep",),
    Kind.HOLDS: (LABELS, "wide spec.groups[].places[].devices[].names[]"),
}


@pytest.fixture(scope="module", autouse=True)
def _definitions(control_plane: ControlPlane, account: Path) -> Iterator[None]:  # noqa: ARG001 - it installs ours
    """The definition of coscheduling's PodGroup, and that of DeviceHold with what `deploy/` ships."""
    made = definition()
    control_plane.request("POST", objects.collection_path(made), made)
    yield
    control_plane.kubectl("delete", f"crd/{made['metadata']['name']}")  # waits for its end, unlike a request


def send(
    plane: ControlPlane, method: str, path: str, body: bytes = b"", *, is_watch: bool = False
) -> tuple[int, bytes]:
    """Send bytes as they are, which no writer of JSON writes so deep; of a watch the first line is read."""
    connection = plane.admin.connection(60)
    headers = {"Authorization": f"Bearer {plane.admin.token}", "Content-Type": "application/json"}
    connection.request(method, path, body, headers)
    answer = connection.getresponse()
    found = answer.readline() if is_watch else answer.read()
    connection.close()  # not before: it would close its answer, too
    return answer.status, found


def placed(kind: Kind, manifest: dict[str, Any], namespace: str) -> dict[str, Any]:
    """The object under the name of this test, in its namespace, without the status that a creation drops."""
    metadata = {**manifest["metadata"], "name": NAME}
    if kind in NAMESPACED:
        metadata["namespace"] = namespace
    return {**{name: value for name, value in manifest.items() if name != "status"}, "metadata": metadata}


def watched(plane: ControlPlane, path: str) -> bytes:
    """The object as a watch of its collection shows it."""
    query = f"watch=true&resourceVersion=0&timeoutSeconds=5&fieldSelector=metadata.name={NAME}"
    return send(plane, "GET", f"{path}?{query}", is_watch=True)[1]


def is_served(plane: ControlPlane, path: str) -> bool:
    with contextlib.suppress(RequestError):
        plane.request("GET", path)
        return True
    return False


@pytest.mark.parametrize(("kind", "shape"), [(kind, shape) for kind, shapes in SAMPLE.items() for shape in shapes])
def test_the_api_server_admits_it_and_serves_it_as_large(
    control_plane: ControlPlane, namespace: str, kind: Kind, shape: str
) -> None:
    extreme = next(each for each in extremes((kind,)) if each.shape == shape)
    manifest = placed(kind, extreme.make(), namespace)
    expected = len(as_served(extreme, manifest).event())
    path = objects.collection_path(manifest)
    wait_until(lambda: is_served(control_plane, path))
    status, answer = send(control_plane, "POST", path, msgspec.json.encode(manifest))
    if status == 504:  # a machine with other things to do
        status, answer = send(control_plane, "POST", path, msgspec.json.encode(manifest))
    try:
        assert status == 201, answer[:600]
        size = len(watched(control_plane, path))
        assert size > 0.85 * expected
        assert size < 1.15 * expected or "deep" in shape  # the API server tracks nested fields one by one
    finally:
        send(control_plane, "DELETE", f"{objects.object_path(manifest)}?gracePeriodSeconds=0")


def test_what_is_a_tenth_larger_is_refused(control_plane: ControlPlane, namespace: str) -> None:
    extreme = next(each for each in extremes((Kind.PODS,)) if each.shape == "env value")
    manifest = placed(Kind.PODS, extreme.make(), namespace)
    manifest["spec"]["containers"][0]["env"][0]["value"] += "a" * (LARGEST_STORED // 10)
    status, answer = send(control_plane, "POST", objects.collection_path(manifest), msgspec.json.encode(manifest))
    assert status >= 400, answer[:600]

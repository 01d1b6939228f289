"""DeviceHolds of a world: room of its nodes that is held for pods to come."""

import contextlib
import datetime as dt
from collections.abc import Sequence
from typing import Any

from e2e.controlplane.access import RequestError
from tests.support.shell_world import RESOURCE, Json, World

HOLDS = "/apis/dovetail.dev/v1alpha1/deviceholds"
CORE = "/api/v1"


def hold(
    world: World, pods: Json, *places: tuple[str, Sequence[str]], owner: Json, seconds: float = 600.0, **spec: Any
) -> Json:
    """Hold devices of nodes, as (node, names of devices), for pods of the world."""
    deadline = dt.datetime.now(dt.UTC) + dt.timedelta(seconds=seconds)
    group = {
        "pods": {"namespace": world.namespace, **pods},
        "places": [
            {"node": node, "devices": [{"driver": world.driver, "pool": node, "names": list(names)}]}
            for node, names in places
        ],
    }
    body = {
        "apiVersion": "dovetail.dev/v1alpha1",
        "kind": "DeviceHold",
        "metadata": {"generateName": f"{world.word}-"},
        "spec": {"owner": owner, "deadline": f"{deadline:%Y-%m-%dT%H:%M:%SZ}", "groups": [group], **spec},
    }
    made: Json = world.plane.request("POST", HOLDS, body)
    return made


def holds(world: World) -> list[Json]:
    """Return the DeviceHolds for pods of the world."""
    items: list[Json] = world.plane.request("GET", HOLDS)["items"]
    return [each for each in items if each["spec"]["groups"][0]["pods"]["namespace"] == world.namespace]


def devices_of(world: World, node: str) -> list[str]:
    """Return the devices of a node, in the order in which they are published."""
    slices = world.plane.request("GET", f"{RESOURCE}/resourceslices")["items"]
    (own,) = [each for each in slices if each["spec"].get("nodeName") == node]
    return [device["name"] for device in own["spec"]["devices"]]


def remove_holds(world: World) -> None:
    """Delete what is left of the world's holds."""
    for each in holds(world):
        with contextlib.suppress(RequestError):
            world.plane.request("DELETE", f"{HOLDS}/{each['metadata']['name']}")


def labelled(world: World, name: str, app: str) -> Json:
    """Make a pod with a label, by which holds recognise it."""
    container = {"name": "main", "image": "example.com/none", "resources": {"claims": [{"name": "devices"}]}}
    body = {
        "metadata": {"name": name, "labels": {"app": app}},
        "spec": {
            "schedulerName": world.scheduler,
            "nodeSelector": {"world": world.word},
            "terminationGracePeriodSeconds": 0,
            "containers": [container],
            "resourceClaims": [{"name": "devices", "resourceClaimTemplateName": "one"}],
        },
    }
    made: Json = world.plane.request("POST", f"{CORE}/namespaces/{world.namespace}/pods", body)
    return made


def config_map(world: World, name: str) -> Json:
    """Make a ConfigMap and return it as the owner of holds; Dovetail's account may not read it."""
    path = f"{CORE}/namespaces/{world.namespace}/configmaps"
    made = world.plane.request("POST", path, {"metadata": {"name": name}})
    return _owner(made, "ConfigMap", "configmaps")


def pod_as_owner(world: World, name: str) -> Json:
    """Make a pod that nobody schedules, and return it as the owner of holds."""
    body = {
        "metadata": {"name": name},
        "spec": {"schedulerName": "nobody", "containers": [{"name": "main", "image": "example.com/none"}]},
    }
    made = world.plane.request("POST", f"{CORE}/namespaces/{world.namespace}/pods", body)
    return _owner(made, "Pod", "pods")


def _owner(made: Json, kind: str, resource: str) -> Json:
    found = made["metadata"]
    named = {"namespace": found["namespace"], "name": found["name"], "uid": found["uid"]}
    return {"apiVersion": "v1", "kind": kind, "resource": resource, **named}

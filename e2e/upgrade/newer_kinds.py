"""
Objects of our kinds as a newer version would write them: fields and values that this version does not know.

Whatever version leads, they keep all that they say. This version says what it cannot read, and gives the namespaces of
such a quota no devices.
"""

import datetime as dt
import time
from collections.abc import Iterator
from typing import Any, Final

import yaml

from e2e.controlplane.plane import REPOSITORY, ControlPlane
from e2e.upgrade.load import CLASS, pod, template

API: Final = "/apis/dovetail.dev/v1alpha1"
NAMESPACE: Final = "newer"
_COMPONENTS: Final = ("device-quotas", "holds", "repair")
_FIELD: Final = "ofANewerVersion"
_SHAPE: Final = "racks"
_SECONDS: Final = 30.0
_OWNER: Final = {"apiVersion": "v1", "kind": "ConfigMap", "namespace": NAMESPACE, "name": "owner"}
Json = dict[str, Any]


def install(plane: ControlPlane) -> None:
    """Define the kinds as a newer version would, and make an object of each with what is new."""
    for component in _COMPONENTS:
        plane.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", input=yaml.safe_dump(_newer(component)))
        path = REPOSITORY / "deploy/components" / component / "crd.yaml"
        plane.kubectl("wait", "--for=condition=Established", "--timeout=60s", "-f", str(path))
    labels = {"team": NAMESPACE}
    plane.request("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE, "labels": labels}})
    template(plane, NAMESPACE)
    made = plane.request("POST", f"/api/v1/namespaces/{NAMESPACE}/configmaps", {"metadata": {"name": "owner"}})
    owner = {**_OWNER, "uid": made["metadata"]["uid"]}
    resources = [{"deviceClass": CLASS, "shape": _SHAPE, "limit": 1}]
    deadline = f"{dt.datetime.now(dt.UTC) + dt.timedelta(hours=1):%Y-%m-%dT%H:%M:%SZ}"
    place = {"node": "elsewhere", "devices": []}
    group = {"pods": {"namespace": NAMESPACE, "labels": {"app": "none"}}, "places": [place]}
    move = {"step": 1, "namespace": NAMESPACE, "name": "none", "uid": "none", "from": "elsewhere", "to": "n0"}
    specs = {
        "DeviceQuota": {"namespaceSelector": {"matchLabels": labels}, "resources": resources},
        "DeviceHold": {"owner": owner, "deadline": deadline, "groups": [group]},
        "RepairPlan": {"goal": {"kind": "Nodes", "subject": NAMESPACE}, "moves": [move]},
    }
    for kind, spec in specs.items():
        body = {"apiVersion": "dovetail.dev/v1alpha1", "kind": kind, "metadata": {"name": NAMESPACE}}
        plane.request("POST", f"{API}/{kind.lower()}s", {**body, "spec": {**spec, _FIELD: "kept"}})


def problems(plane: ControlPlane, *, leads: bool) -> Iterator[str]:
    """Return what was lost of the objects and, while this version `leads`, what it does not say or keep back."""
    for plural in ("devicequotas", "deviceholds", "repairplans"):
        items = plane.request("GET", f"{API}/{plural}")["items"]
        if [each["spec"].get(_FIELD) for each in items if each["metadata"]["name"] == NAMESPACE] != ["kept"]:
            yield f"{plural} {NAMESPACE}: what a newer version wrote is gone"
    if leads:
        path = f"/api/v1/namespaces/{NAMESPACE}/pods"
        plane.request("POST", path, pod("kept-back"))
        try:
            yield from _kept_back(plane, f"{path}/kept-back")
        finally:
            plane.request("DELETE", f"{path}/kept-back")


def _kept_back(plane: ControlPlane, path: str) -> Iterator[str]:
    """Wait until quota and pod say that part of the quota cannot be read; return what they do not say."""
    end, missing = time.monotonic() + _SECONDS, ["nothing was looked at"]
    while missing and time.monotonic() < end:
        time.sleep(0.5)
        quota, waiting = plane.request("GET", f"{API}/devicequotas/{NAMESPACE}"), plane.request("GET", path)
        said = {(each["type"], each.get("reason")) for each in (*_conditions(quota), *_conditions(waiting))}
        missing = [f"{kind} has not the reason {reason}" for kind, reason in _SAID if (kind, reason) not in said]
        missing += ["its pod is bound all the same"] if "nodeName" in waiting["spec"] else []
    yield from (f"DeviceQuota {NAMESPACE} cannot be read, and {each}" for each in missing)


_SAID: Final = (("Valid", "Unreadable"), ("PodScheduled", "QuotaExceeded"))


def _conditions(found: Json) -> list[Json]:
    return found.get("status", {}).get("conditions") or []


def _newer(component: str) -> Json:
    """Return a definition with one field more in its spec, and one shape more of quotas."""
    file = REPOSITORY / "deploy/components" / component / "crd.yaml"
    crd: Json = yaml.safe_load(file.read_text(encoding="utf-8"))
    spec = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    spec["properties"][_FIELD] = {"type": "string"}
    if component == "device-quotas":
        shape = spec["properties"]["resources"]["items"]["properties"]["shape"]
        shape["enum"] = [*shape["enum"], _SHAPE]
    return crd

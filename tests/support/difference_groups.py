"""A small cluster with one pod for each deliberate difference, that shows it."""

from typing import Any

from e2e.differential.devices import API, GPU, NIC, ROOT, claim, device_class, published_slice
from e2e.differential.groups import Case, Group
from e2e.differential.machines import EXTENDED, ZONE
from e2e.differential.shapes import SCHEDULER, pod
from e2e.objects import Manifest

Json = dict[str, Any]
NAMESPACE = "red"


def shown() -> dict[str, Group]:
    """Give the groups by the names of their differences."""
    return {
        "selector error": _group(
            "error",
            [*_devices("error", "a", _model("x"), {"name": "d1"})],
            _claim("c", _exactly("error", selectors=[_cel(f"device.attributes['{GPU}'].model == 'y'")])),
            nodes=[*_node("error", "a"), *_node("error", "b")],
            more=_devices("error", "b", _model("y")),
        ),
        "All under a constraint": _group(
            "allmatch",
            _devices("allmatch", "a", _root("x"), _root("y", "d1")),
            _claim("c", _exactly("allmatch", allocationMode="All"), constraints=[{"matchAttribute": ROOT}]),
            nodes=[*_node("allmatch", "a"), *_node("allmatch", "b")],
            more=_devices("allmatch", "b", _root("x"), _root("x", "d1")),
        ),
        "All while a pool is in flux": _group(
            "flux",
            _devices("flux", "a", {"name": "d0"}),
            _claim("c", _exactly("flux", allocationMode="All")),
            nodes=[*_node("flux", "a"), *_node("flux", "b")],
            more=[_unfinished(each) for each in _devices("flux", "b", {"name": "d0"}, driver=NIC)],
        ),
        "node selector of several terms": _group(
            "terms",
            [
                published_slice(
                    "terms-net",
                    GPU,
                    {"perDeviceNodeSelection": True, "devices": [{"name": "d0", **_zones("a", "b")}]},
                )
            ],
            _claim("c", _exactly("terms")),
        ),
        "offered twice": _group(
            "twice",
            _devices("twice", "a", {"name": "d0"}),
            _claim("c", _exactly("twice")),
            nodes=_node("twice", "a", **{EXTENDED: "2"}),
            extended=EXTENDED,
        ),
        "admin access charged": _group(
            "admin",
            _devices("admin", "a", {"name": "d0"}),
            _claim("c0", _exactly("admin", adminAccess=True)),
            _claim("c1", _exactly("admin")),
        ),
        "qualified capacity names": _group(
            "names",
            _devices("names", "a", {"name": "d0", "capacity": {"memory": {"value": "4"}}}),
            _claim("c", _exactly("names", capacity={"requests": {f"{GPU}/memory": "1"}})),
        ),
        "whole devices charged by capacity": _using(
            _group(
                "charged",
                _devices("charged", "a", _charged("d0")),
                _claim("c", _exactly("charged")),
            )
        ),
        "tainted since": _joining("tainted", device={"name": "d0", "taints": [{"key": "hot", "effect": "NoSchedule"}]}),
        "node resources of extended resources": _asking(
            _group("special", _devices("special", "a", _taking("d0")), extended=EXTENDED), EXTENDED
        ),
        "incompatible devices in use": _group(
            "clash",
            [
                _counters("clash", "a"),
                _drawing("clash", "a", [], ["red"], []),
            ],
            _claim("c", _exactly("clash")),
            held=[_held("clash", {}), _held("clash", {"device": "d1"}, "held-too")],
        ),
        "full claim": _joining("crowded", device={"name": "d0"}, consumers=256),
    }


def _group(
    prefix: str,
    slices: list[Manifest],
    *claims: Manifest,
    nodes: list[Manifest] | None = None,
    more: list[Manifest] | None = None,
    held: list[Manifest] | None = None,
    extended: str = "",
) -> Group:
    known = device_class(f"{prefix}-gpu", f"device.driver == '{GPU}'")
    if extended:
        known["spec"]["extendedResourceName"] = extended
    for each in claims:
        each["metadata"]["name"] = f"{prefix}-{each['metadata']['name']}"
    cluster = (tuple(nodes or _node(prefix, "a")), (known, *slices, *(more or ()), *(held or ())))
    return Group(0, frozenset(), cluster, (Case(_pod(prefix, [each["metadata"]["name"] for each in claims]), claims),))


def _joining(prefix: str, *, device: Json, consumers: int = 1) -> Group:
    """A pod that names a claim which is allocated already."""
    held = _held(prefix, {})
    held["status"]["reservedFor"] = [
        # Consumers that no controller knows stay, whether they exist or not.
        {"apiGroup": "example.com", "resource": "things", "name": f"t{index}", "uid": f"{prefix}-{index}"}
        for index in range(consumers)
    ]
    cluster = (
        tuple(_node(prefix, "a")),
        (device_class(f"{prefix}-gpu", "true"), *_devices(prefix, "a", device), held),
    )
    return Group(0, frozenset(), cluster, (Case(_pod(prefix, [held["metadata"]["name"]])),))


def _pod(prefix: str, claims: list[str]) -> Manifest:
    entries = [{"name": f"e{index}", "resourceClaimName": name} for index, name in enumerate(claims)]
    return pod(f"{prefix}-p", NAMESPACE, {"schedulerName": SCHEDULER, "resourceClaims": entries})


def _node(prefix: str, name: str, **amounts: str) -> list[Manifest]:
    room = {"cpu": "4", "memory": "4Gi", "pods": "10", **amounts}
    status = {
        "capacity": room,
        "allocatable": room,
        "conditions": [{"type": "Ready", "status": "True"}],
        "declaredFeatures": ["DRANodeAllocatableResources"],
    }
    metadata = {"name": f"{prefix}-{name}", "labels": {ZONE: name}}
    return [{"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": status}]


def _devices(prefix: str, node: str, *devices: Json, driver: str = GPU) -> list[Manifest]:
    name = f"{prefix}-{node}"
    return [published_slice(name, driver, {"nodeName": name, "devices": list(devices)})]


def _unfinished(published: Manifest) -> Manifest:
    published["spec"]["pool"]["resourceSliceCount"] += 1
    # In view of every node, and with devices of one only: the first alone is what both sides agree about.
    del published["spec"]["nodeName"]
    published["spec"] |= _zones("b")
    return published


def _zones(*zones: str) -> Json:
    terms = [{"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]} for zone in zones]
    return {"nodeSelector": {"nodeSelectorTerms": terms}}


def _model(model: str, name: str = "d0") -> Json:
    return {"name": name, "attributes": {"model": {"string": model}}}


def _root(root: str, name: str = "d0") -> Json:
    return {"name": name, "attributes": {ROOT: {"string": root}}}


def _charged(name: str) -> Json:
    taken = {"cpu": {"mapping": {"capacityKey": "cores", "capacityMultiplier": "1"}}}
    return {"name": name, "capacity": {"cores": {"value": "2"}}, "nodeAllocatableResources": taken}


def _using(group: Group, requests: dict[str, str] | None = None) -> Group:
    """Let the pod's container use its claims, besides what it requests."""
    spec = group.cases[0].pod["spec"]
    claims = [{"name": each["name"]} for each in spec["resourceClaims"]]
    spec["containers"][0]["resources"] = {"claims": claims, "requests": requests or {}}
    return group


def _taking(name: str) -> Json:
    return {"name": name, "nodeAllocatableResources": {"cpu": {"mapping": {"deviceMultiplier": "1"}}}}


def _asking(group: Group, resource: str) -> Group:
    """Let the pod's container ask for one of an extended resource."""
    asked = {resource: "1"}
    group.cases[0].pod["spec"]["containers"][0]["resources"] = {"requests": asked, "limits": asked}
    return group


def _cel(expression: str) -> Json:
    return {"cel": {"expression": expression}}


def _exactly(prefix: str, **wanted: Any) -> Json:
    return {"exactly": {"deviceClassName": f"{prefix}-gpu", **wanted}}


def _claim(name: str, *requests: Json, constraints: list[Json] | None = None) -> Manifest:
    named = [{"name": f"r{index}", **each} for index, each in enumerate(requests)]
    return claim(name, NAMESPACE, named, constraints or [])


def _counters(prefix: str, node: str) -> Manifest:
    """The counters of the pool of a node, in a slice of their own."""
    name, budget = f"{prefix}-{node}", [{"name": "card", "counters": {"slots": {"value": "9"}}}]
    made = published_slice(name, GPU, {"nodeName": name, "sharedCounters": budget}, "-counters")
    made["spec"]["pool"]["resourceSliceCount"] = 2
    return made


def _drawing(prefix: str, node: str, *groups: list[str]) -> Manifest:
    """Devices that draw on these counters, with their compatibility groups."""
    drawn = {"counterSet": "card", "counters": {"slots": {"value": "1"}}}
    consumed = [{**drawn, "compatibilityGroups": each} if each else drawn for each in groups]
    devices = [{"name": f"d{index}", "consumesCounters": [each]} for index, each in enumerate(consumed)]
    (made,) = _devices(prefix, node, *devices)
    made["spec"]["pool"]["resourceSliceCount"] = 2
    return made


def _held(prefix: str, more: Json, name: str = "held") -> Manifest:
    made = claim(f"{prefix}-{name}", NAMESPACE, [{"name": "r", **_exactly(prefix)}], [])
    result = {"request": "r", "driver": GPU, "pool": f"{prefix}-a", "device": "d0", **more}
    made["status"] = {"allocation": {"devices": {"results": [result]}}}
    assert made["apiVersion"] == API
    return made

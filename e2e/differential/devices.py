"""Devices of all kinds, claims that hold some of them, and the claims of pods that wait (resource.k8s.io/v1)."""

from collections.abc import Sequence
from copy import deepcopy
from typing import Final

from e2e.controlplane import versions
from e2e.differential.chance import Chance
from e2e.differential.machines import EXTENDED, ZONE
from e2e.differential.shapes import NAMESPACES, Json, requirement
from e2e.objects import Manifest

GPU: Final = "gpu.example.com"
NIC: Final = "nic.example.com"
ROOT: Final = "resource.example.com/root"
LANES: Final = f"{GPU}/lanes"
"""An attribute with several values on most of the devices that have it."""
API: Final = "resource.k8s.io/v1"
IMPLICIT: Final = "deviceclass.resource.kubernetes.io"
TAINT_API: Final = versions.taint_rules()
WEIGHTS: Final = {
    "devices": 0.5,
    "device selectors": 0.5,
    "failing selectors": 0.1,
    "constraints": 0.4,
    "alternatives": 0.4,
    "all devices": 0.3,
    "device taints": 0.35,
    "taint rules": 0.15,
    "capacity": 0.35,
    "counters": 0.3,
    "compatibility groups": 0.3,
    "admin access": 0.2,
    "usage": 0.6,
    "several claims": 0.3,
    "shared claims": 0.3,
    "network devices": 0.3,
    "unfinished pools": 0.15,
    "binding conditions": 0.2,
    "node operations": 0.15,
    "extended by devices": 0.2,
    "implicit resources": 0.15,
    "list attributes": 0.15,
    "older generations": 0.15,
    "node resources": 0.1,
}


def classes(chance: Chance, prefix: str) -> list[Manifest]:
    """Make the classes of a group: one per driver, and one of everything."""
    found = [
        device_class(f"{prefix}-gpu", f"device.driver == '{GPU}'"),
        device_class(f"{prefix}-nic", f"device.driver == '{NIC}'"),
        device_class(f"{prefix}-any", "true"),
    ]
    if chance.has("extended by devices"):
        found[0]["spec"]["extendedResourceName"] = EXTENDED
    return found


def slices(chance: Chance, prefix: str, places: Sequence[str]) -> list[Manifest]:
    """Make the slices of most nodes, and of devices in the network."""
    found: list[Manifest] = []
    for place in places:
        scope = {"nodeName": place}
        if chance.often(0.8):
            found += _pool(chance, place, GPU, scope, most=4)
        if chance.often(0.4):
            found += _pool(chance, f"{place}.nic", NIC, scope, most=2)
    if chance.has("network devices"):
        found += _pool(chance, f"{prefix}-net", NIC, chance.pick(_SCOPES), most=2)
    return found


def taint_rules(chance: Chance, prefix: str, published: Sequence[Manifest]) -> list[Manifest]:
    """Make rules that taint a driver's devices in one pool, or one device."""
    if not chance.has("taint rules") or not published:
        return []
    spec = chance.pick(published)["spec"]
    wanted = {"driver": spec["driver"], "pool": spec["pool"]["name"]}
    if chance.half():
        wanted["device"] = "d0"
    rule = {"deviceSelector": wanted, "taint": {"key": "hot", "effect": "NoSchedule"}}
    return [{"apiVersion": TAINT_API, "kind": "DeviceTaintRule", "metadata": {"name": f"{prefix}-rule"}, "spec": rule}]


def held(chance: Chance, prefix: str, published: Sequence[Manifest]) -> list[Manifest]:
    """Make claims that hold some of the devices."""
    if not chance.has("usage"):
        return []
    choices = [
        (each["spec"], device)
        for each in published
        for device in each["spec"].get("devices", ())
        if "nodeName" in each["spec"]
    ]
    return [
        _holding(chance, f"{prefix}-held{index}", spec, device)
        for index, (spec, device) in enumerate(chance.picks(choices, 0, max(1, len(choices) // 3)))
    ]


def common(chance: Chance, prefix: str) -> list[Manifest]:
    """Make claims that several of the pods name."""
    if not chance.has("shared claims"):
        return []
    return [
        claim(f"{prefix}-shared{index}", namespace, _requests(chance, prefix), [])
        for index, namespace in enumerate(NAMESPACES)
    ]


def claims(chance: Chance, prefix: str, name: str, namespace: str, known: Sequence[Manifest]) -> list[Manifest]:
    """Make the claims of one pod; one of those that are `known` in its namespace may be among them."""
    count = chance.pick((1, 2, 2, 3)) if chance.some("several claims", 0.6) else 1
    found = []
    for index in range(count):
        requests = _requests(chance, prefix)
        constraints = _constraints(chance, requests) if chance.some("constraints", 0.6) else []
        found.append(claim(f"{name}-c{index}", namespace, requests, constraints))
    theirs = [each for each in known if each["metadata"]["namespace"] == namespace]
    if theirs and chance.often(0.2) and not chance.has("node resources"):  # "allocated claims uncharged"
        found[0] = chance.pick(theirs)
    return found


def claim(name: str, namespace: str, requests: list[Json], constraints: list[Json]) -> Manifest:
    """Make a claim."""
    spec = {"devices": {"requests": requests, **({"constraints": constraints} if constraints else {})}}
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": API, "kind": "ResourceClaim", "metadata": metadata, "spec": spec}


def device_class(name: str, expression: str) -> Manifest:
    """Make a class of the devices for which an expression holds."""
    spec = {"selectors": [{"cel": {"expression": expression}}]}
    return {"apiVersion": API, "kind": "DeviceClass", "metadata": {"name": name}, "spec": spec}


def use(chance: Chance, prefix: str, spec: Json) -> None:
    """Let a pod's containers name its claims, and ask for devices as an extended resource that every class is."""
    for index, container in enumerate(spec["containers"]):
        if chance.has("node resources") and (index == 0 or chance.half()):
            container["resources"]["claims"] = [{"name": each["name"]} for each in spec.get("resourceClaims", ())]
        if chance.some("implicit resources", 0.15) and "resources" not in spec:
            for kind in ("requests", "limits"):
                container["resources"].setdefault(kind, {})[f"{IMPLICIT}/{prefix}-gpu"] = "1"


# devices


def _pool(chance: Chance, name: str, driver: str, scope: Json, *, most: int) -> list[Manifest]:
    devices = [_device(chance, f"d{index}") for index in range(chance.number(1, most))]
    if "perDeviceNodeSelection" in scope:
        for device in devices:
            device.update(chance.pick(_OWN_SCOPES))
    skipped = {"skipNodeOperations": ["*"]} if chance.some("node operations", 0.4) else {}
    found = [published_slice(name, driver, {**scope, **skipped, "devices": devices})]
    if chance.some("counters", 0.7):
        for device in devices:
            amount = chance.pick((0, 1, 1, 2, 3))
            if amount and not device.get("allowMultipleAllocations"):
                consumed = {"counterSet": "card", "counters": {"slots": {"value": str(amount)}}}
                device["consumesCounters"] = [consumed]
                if chance.has("compatibility groups"):
                    consumed["compatibilityGroups"] = chance.pick(_GROUPS)
        budget = [{"name": "card", "counters": {"slots": {"value": str(chance.number(1, 5))}}}]
        found.append(published_slice(name, driver, {**scope, "sharedCounters": budget}, "-counters"))
    missing = int(chance.some("unfinished pools", 0.1))
    for each in found:
        each["spec"]["pool"]["resourceSliceCount"] = len(found) + missing
    if chance.some("older generations", 0.4):
        found.append(_older(found[0]))
    return found


_NODE_RESOURCES = ("nodeAllocatableResourceMappings", "nodeAllocatableResources")
"""kube-scheduler 1.37 reads them from any slice that names the device, so from either generation by chance."""


def _older(current: Manifest) -> Manifest:
    """Make a slice that is left of what was published before: its first device has become another one since."""
    made = deepcopy(current)
    made["metadata"]["name"] += "-older"
    made["spec"]["pool"] |= {"generation": 0, "resourceSliceCount": 1}
    first, *_ = made["spec"]["devices"]
    kept = {"allNodes", "nodeSelector", *_NODE_RESOURCES}
    scope = {key: value for key, value in first.items() if key in kept}
    made["spec"]["devices"] = [{"name": name, **scope} for name in (first["name"], "former")]
    return made


def published_slice(pool: str, driver: str, content: Json, suffix: str = "") -> Manifest:
    """Make the only slice of a pool, or one of two where there is a suffix."""
    return {
        "apiVersion": API,
        "kind": "ResourceSlice",
        "metadata": {"name": f"{pool}-{driver}{suffix}"},
        "spec": {"driver": driver, "pool": {"name": pool, "generation": 1, "resourceSliceCount": 1}, **content},
    }


def _in_zone(*zones: str) -> Json:
    """Make a node selector with a term per zone."""
    terms = [{"matchExpressions": [requirement(ZONE, "In", zone)]} for zone in zones]
    return {"nodeSelector": {"nodeSelectorTerms": terms}}


_SCOPES: Final[tuple[Json, ...]] = (_in_zone("a"), {"allNodes": True}, {"perDeviceNodeSelection": True})
_OWN_SCOPES: Final[tuple[Json, ...]] = (_in_zone("a"), _in_zone("a", "b"), {"allNodes": True})


def _device(chance: Chance, name: str) -> Json:
    device: Json = {"name": name, "attributes": {"model": {"string": chance.pick("AB")}}}
    if chance.often(0.8):
        device["attributes"][ROOT] = {"string": chance.pick(("x", "y"))}
    if chance.half():
        device["attributes"]["firmware"] = {"version": chance.pick(("1.2.3", "1.10.0"))}
    if chance.some("list attributes", 0.7):
        device["attributes"]["lanes"] = chance.pick(_LANES)
    if chance.has("node resources"):  # equal ones: what differs is counted on the safe side
        device["nodeAllocatableResourceMappings"] = {"cpu": {"allocationMultiplier": "500m"}}
        of_cpu = {"mapping": {"deviceMultiplier": "500m"}, "overhead": {"perPod": "100m", "perContainer": "50m"}}
        device["nodeAllocatableResources"] = {"cpu": of_cpu}  # each version of the API server drops one of the two
    if chance.has("capacity"):
        device["capacity"] = {"memory": {"value": chance.pick(("1", "2", "4"))}}
        if chance.half():
            device["allowMultipleAllocations"] = True
            device["capacity"] = {"memory": chance.pick(_POLICIES)}
            if chance.often(0.3):
                device["capacity"]["cores"] = {"value": "4", "requestPolicy": {"default": chance.pick(("1", "3"))}}
    if chance.some("device taints", 0.4):
        effect = chance.pick(("NoSchedule", "NoExecute", "None"))
        device["taints"] = [{"key": chance.pick(("hot", "cold")), "effect": effect}]
    if chance.some("binding conditions", 0.3):
        device |= {"bindingConditions": ["Ready"], "bindingFailureConditions": ["Failed"]}
    return device


def _holding(chance: Chance, name: str, spec: Json, device: Json) -> Manifest:
    result: Json = {"request": "r", "driver": spec["driver"], "pool": spec["pool"]["name"], "device": device["name"]}
    exactly: Json = {"deviceClassName": "held", "count": 1, "allocationMode": "ExactCount"}
    if device.get("allowMultipleAllocations"):
        amounts = {capacity: chance.pick(("1", "2")) for capacity in device.get("capacity", {})}
        result |= {"shareID": _share(name), "consumedCapacity": amounts}
    made = claim(name, chance.pick(NAMESPACES), [{"name": "r", "exactly": exactly}], [])
    fields = [requirement("metadata.name", "In", spec["nodeName"])]
    place = {"nodeSelectorTerms": [{"matchFields": fields}]}
    made["status"] = {"allocation": {"devices": {"results": [result]}, "nodeSelector": place}}
    return made


def _share(name: str) -> str:
    digits = "".join(f"{ord(each):02x}" for each in name)[-12:].rjust(12, "0")
    return f"00000000-0000-4000-8000-{digits}"


_GROUPS: Final = (["a"], ["b"], ["a", "b"], ["b", "c"])
_POLICIES: Final[tuple[Json, ...]] = (
    {"value": "4", "requestPolicy": {"default": "1"}},
    {"value": "6", "requestPolicy": {"default": "2", "validRange": {"min": "2", "step": "2"}}},
    {"value": "6", "requestPolicy": {"default": "1", "validRange": {"min": "1", "max": "3"}}},
    {"value": "6", "requestPolicy": {"default": "1", "validValues": ["1", "3"]}},
    {"value": "4", "requestPolicy": {"default": "500m", "validRange": {"min": "500m", "step": "500m"}}},
)


# claims


def _requests(chance: Chance, prefix: str) -> list[Json]:
    return [_request(chance, prefix, f"r{index}") for index in range(chance.pick((1, 1, 1, 2)))]


def _request(chance: Chance, prefix: str, name: str) -> Json:
    if chance.some("alternatives", 0.5) and not chance.has("node resources"):  # the largest of them is counted
        count = chance.number(1, 3)
        return {
            "name": name,
            "firstAvailable": [{"name": f"s{index}", **_wanted(chance, prefix)} for index in range(count)],
        }
    wanted = _wanted(chance, prefix)
    if chance.some("admin access", 0.3):
        wanted["adminAccess"] = True
    return {"name": name, "exactly": wanted}


def _wanted(chance: Chance, prefix: str) -> Json:
    wanted: Json = {"deviceClassName": f"{prefix}-{chance.pick(('gpu', 'gpu', 'gpu', 'nic', 'any'))}"}
    if chance.some("all devices", 0.3):
        wanted["allocationMode"] = "All"
    else:
        wanted["count"] = chance.pick((1, 1, 1, 2, 3))
    palette = list(_SELECTORS) if chance.has("device selectors") else []
    palette += list(_FAILING) if chance.has("failing selectors") else []
    palette += list(_OF_LISTS) if chance.has("list attributes") else []
    if palette and chance.half():
        wanted["selectors"] = [{"cel": {"expression": chance.pick(palette)}}]
    if chance.some("device taints", 0.4):
        wanted["tolerations"] = [chance.pick(_TOLERATIONS)]
    if chance.some("capacity", 0.5):
        name = f"{GPU}/memory" if chance.often(0.05) else "memory"
        wanted["capacity"] = {"requests": {name: chance.pick(("1", "2", "3", "600m", "1500m"))}}
        if chance.seldom():
            wanted["capacity"]["requests"]["cores"] = chance.pick(("0", "2", "5"))
    return wanted


def _constraints(chance: Chance, requests: list[Json]) -> list[Json]:
    kind = chance.pick(("matchAttribute", "matchAttribute", "distinctAttribute"))
    names = (ROOT, ROOT, f"{GPU}/model", f"{GPU}/firmware", *((LANES,) if chance.has("list attributes") else ()))
    constraint: Json = {kind: chance.pick(names)}
    if chance.half():
        constraint["requests"] = [_part(chance, each) for each in chance.picks(requests, 1, 2)]
    return [constraint]


def _part(chance: Chance, request: Json) -> str:
    """Name a request, or one of its alternatives alone."""
    name: str = request["name"]
    if "firstAvailable" in request and chance.half():
        return f"{name}/{chance.pick(request['firstAvailable'])['name']}"
    return name


_SELECTORS: Final = (
    f"device.attributes['{GPU}'].?model.orValue('') == 'A'",
    f"device.driver == '{GPU}' && device.attributes['{GPU}'].model == 'B'",
    f"device.attributes['{GPU}'].?firmware.orValue(semver('1.0.0')).isGreaterThan(semver('1.2.4'))",
    "device.allowMultipleAllocations == true",
    f"device.capacity['{GPU}'].?memory.orValue(quantity('0')).isGreaterThan(quantity('1'))",
)
_FAILING: Final = (
    f"device.attributes['{GPU}'].firmware.isGreaterThan(semver('1.2.4'))",
    f"device.attributes['{ROOT.partition('/')[0]}'].root == 'x'",
)
_LANES: Final[tuple[Json, ...]] = (
    {"strings": ["x", "y"]},
    {"strings": ["y", "z"]},
    {"strings": ["z"]},
    {"string": "x"},
    {"ints": [1, 2]},
)
_OF_LISTS: Final = (
    f"'lanes' in device.attributes['{GPU}'] && device.attributes['{GPU}'].lanes.includes('y')",
    f"'lanes' in device.attributes['{GPU}'] && device.attributes['{GPU}'].lanes.includes('x')",
)
_TOLERATIONS: Final[tuple[Json, ...]] = (
    {"key": "hot", "operator": "Exists"},
    {"operator": "Exists", "effect": "NoSchedule"},
    {"operator": "Exists"},
    {"key": "cold", "operator": "Equal", "value": ""},
)

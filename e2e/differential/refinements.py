"""What devices, claims, pods and taints have beyond the plain cases: several of a thing, mixed kinds, rare fields."""

from collections.abc import Sequence
from copy import deepcopy
from typing import Final

from e2e.differential.chance import Chance
from e2e.differential.devices import GPU, NIC, ROOT, TAINT_API, device_class
from e2e.differential.machines import container
from e2e.differential.shapes import Json
from e2e.objects import Manifest

WEIGHTS: Final = {
    "several slices": 0.25,
    "several counters": 0.3,
    "shared partitions": 0.25,
    "bound to nodes": 0.2,
    "qualified attributes": 0.2,
    "several taints": 0.3,
    "rules of all kinds": 0.2,
    "several constraints": 0.35,
    "derived attributes": 0.3,
    "several selectors": 0.3,
    "many devices": 0.1,
    "rare classes": 0.2,
    "rare holders": 0.35,
    "rich residents": 0.3,
    "lasting ports": 0.2,
    "pod-level parts": 0.2,
}
DERIVED: Final = "derived.example.com/side"


def classes(chance: Chance, prefix: str) -> list[Manifest]:
    """Make a class without selectors, and one with two."""
    if not chance.has("rare classes"):
        return []
    both = device_class(f"{prefix}-both", f"device.driver == '{GPU}'")
    second = f"device.attributes['{GPU}'].?model.orValue('') == 'A'"
    both["spec"]["selectors"].append({"cel": {"expression": second}})
    every = device_class(f"{prefix}-every", "true")
    del every["spec"]["selectors"]
    return [both, every]


def slices(chance: Chance, published: Sequence[Manifest]) -> list[Manifest]:
    """Refine the devices of slices; some pools become pools of several slices."""
    made = [deepcopy(each) for each in published]
    for each in made:
        for device in each["spec"].get("devices", ()):
            _refine(chance, device, each["spec"]["driver"])
    _count_more(chance, made)
    return [part for each in made for part in _parts(chance, each, made)]


def _refine(chance: Chance, device: Json, driver: str) -> None:
    attributes = device.get("attributes", {})
    if chance.some("qualified attributes", 0.4) and "model" in attributes:
        attributes[f"{driver}/model"] = attributes.pop("model")
    if chance.some("derived attributes", 0.7):
        attributes["side"] = chance.pick(({"int": 0}, {"int": 1}, {"string": "0"}, {"bool": True}))
    if chance.some("bound to nodes", 0.4):
        device["bindsToNode"] = True
    if chance.some("several taints", 0.5):
        taints = {(each["key"], each["effect"]): each for each in chance.picks(_TAINTS, 1, 2)}
        device["taints"] = list(taints.values())


def _count_more(chance: Chance, made: Sequence[Manifest]) -> None:
    """Add counters to counter sets, and let devices that are shared consume some."""
    for each in made:
        sets = each["spec"].get("sharedCounters")
        if not sets:
            continue
        (devices,) = (
            other["spec"]["devices"]
            for other in made
            if "devices" in other["spec"]
            and other["spec"]["pool"] == each["spec"]["pool"]
            and other["spec"]["driver"] == each["spec"]["driver"]
        )
        if chance.some("several counters", 0.8):
            sets[0]["counters"]["rooms"] = {"value": chance.pick(("2", "1500m", "4"))}
            sets.append({"name": "board", "counters": {"slots": {"value": chance.pick(("1", "3"))}}})
        for device in devices:
            _consume(chance, device, len(sets) > 1)


def _consume(chance: Chance, device: Json, has_more: bool) -> None:  # noqa: FBT001 - a fact of the pool
    if device.get("allowMultipleAllocations") and chance.some("shared partitions", 0.7):
        device["consumesCounters"] = [{"counterSet": "card", "counters": {"slots": {"value": chance.pick("12")}}}]
    consumed = device.get("consumesCounters")
    if not consumed or not has_more:
        return
    if chance.half():
        consumed[0]["counters"]["rooms"] = {"value": chance.pick(("500m", "1", "0"))}
    if chance.half():
        consumed.append({"counterSet": "board", "counters": {"slots": {"value": chance.pick("01")}}})


def _parts(chance: Chance, each: Manifest, made: Sequence[Manifest]) -> list[Manifest]:
    """Split a slice of devices in two, if its pool says so everywhere."""
    spec = each["spec"]
    if len(spec.get("devices", ())) < 2 or spec["pool"]["generation"] != 1 or not chance.some("several slices", 0.5):
        return [each]
    for other in made:
        theirs = other["spec"]
        if (theirs["driver"], theirs["pool"]["name"]) == (spec["driver"], spec["pool"]["name"]):
            theirs["pool"]["resourceSliceCount"] += int(theirs["pool"]["generation"] == 1)
    second = deepcopy(each)
    second["metadata"]["name"] += "-more"
    second["spec"]["pool"] = spec["pool"]
    cut = len(spec["devices"]) // 2
    second["spec"]["devices"] = spec["devices"][cut:]
    spec["devices"] = spec["devices"][:cut]
    return [each, second]


def taint_rules(chance: Chance, prefix: str, published: Sequence[Manifest]) -> list[Manifest]:
    """Make rules with each kind of effect and selector."""
    if not chance.has("rules of all kinds") or not published:
        return []
    found = []
    for index in range(chance.number(1, 2)):
        spec = chance.pick(published)["spec"]
        every: Json = {"driver": spec["driver"], "pool": spec["pool"]["name"], "device": chance.pick(("d0", "d1"))}
        chosen = dict(chance.picks(list(every.items()), 1, 3))
        taint = chance.pick(_TAINTS)
        rule = {"deviceSelector": chosen, "taint": taint}
        name = f"{prefix}-rule-more{index}"
        found.append({"apiVersion": TAINT_API, "kind": "DeviceTaintRule", "metadata": {"name": name}, "spec": rule})
    return found


def held(chance: Chance, claims: Sequence[Manifest]) -> None:
    """Give allocated claims rare results: admin access, requests of alternatives, any node, many consumers."""
    for each in claims:
        status = each.get("status")
        if status is None or not chance.some("rare holders", 0.5):
            continue
        allocation = status["allocation"]
        (result,) = allocation["devices"]["results"]
        match chance.pick(("admin", "alternative", "anywhere", "full", "tolerant")):
            case "admin":
                each["spec"]["devices"]["requests"][0]["exactly"]["adminAccess"] = True
                result["adminAccess"] = True
            case "alternative":
                wanted = each["spec"]["devices"]["requests"][0].pop("exactly")
                each["spec"]["devices"]["requests"][0]["firstAvailable"] = [{"name": "s", **wanted}]
                result["request"] = "r/s"
            case "anywhere":
                del allocation["nodeSelector"]
            case "full":
                status["reservedFor"] = [
                    {"resource": "pods", "name": f"x{index}", "uid": f"{each['metadata']['name']}-{index}"}
                    for index in range(255)
                ]
            case _:
                result["tolerations"] = [{"operator": "Exists"}]


def claim(chance: Chance, prefix: str, made: Manifest) -> None:
    """Refine the claim of a pod that waits."""
    devices = made["spec"].get("devices", {})
    for request in devices.get("requests", ()):
        for wanted in request.get("firstAvailable", ()) or (request["exactly"],):
            _want(chance, prefix, wanted)
    if chance.some("several constraints", 0.6):
        more = [_constraint(chance, devices["requests"]) for _ in range(chance.number(1, 2))]
        devices["constraints"] = devices.get("constraints", []) + more
    if chance.some("derived attributes", 0.6):
        _derive(chance, devices)


def _want(chance: Chance, prefix: str, wanted: Json) -> None:
    if chance.some("several selectors", 0.5):
        chosen = [{"cel": {"expression": each}} for each in chance.picks(_SELECTORS, 1, 2)]
        wanted["selectors"] = wanted.get("selectors", []) + chosen
    if chance.some("several taints", 0.5):
        wanted["tolerations"] = chance.picks(_TOLERATIONS, 1, 2)
    if chance.some("many devices", 0.4) and "count" in wanted:
        wanted["count"] = chance.pick((4, 5, 8))
    if chance.some("rare classes", 0.4):
        names = (f"{prefix}-both", f"{prefix}-every", f"{prefix}-none")
        wanted["deviceClassName"] = chance.pick(names if chance.seldom() else names[:2])


def _constraint(chance: Chance, requests: Sequence[Json]) -> Json:
    kind = chance.pick(("matchAttribute", "distinctAttribute"))
    found: Json = {kind: chance.pick((ROOT, f"{GPU}/model", f"{NIC}/model", f"{GPU}/firmware"))}
    if chance.half():
        found["requests"] = [each["name"] for each in chance.picks(requests, 1, 2)]
    return found


def _derive(chance: Chance, devices: Json) -> None:
    """Let requests derive an attribute, and a constraint compare it."""
    name = chance.pick((DERIVED, ROOT, f"{GPU}/model"))
    for request in devices["requests"]:
        for wanted in request.get("firstAvailable", ()) or (request["exactly"],):
            if chance.often(0.8):
                wanted["derivedAttributes"] = [{"name": name, "expression": chance.pick(_DERIVING)}]
    kind = chance.pick(("matchAttribute", "matchAttribute", "distinctAttribute"))
    devices["constraints"] = [*devices.get("constraints", []), {kind: name}]


def resident(chance: Chance, spec: Json) -> None:
    """Let a pod that runs need more than its main container: sidecars, steps before it, an overhead, a whole."""
    if not chance.some("rich residents", 0.6):
        return
    match chance.pick(("sidecar", "step", "overhead", "whole", "limits")):
        case "sidecar":
            spec["initContainers"] = [
                {**container("side", {"cpu": "300m", "memory": "64Mi"}), "restartPolicy": "Always"},
                container("step", {"cpu": chance.pick(("100m", "1200m"))}),
            ]
        case "step":
            spec["initContainers"] = [container("step", {"cpu": chance.pick(("100m", "1200m")), "memory": "600Mi"})]
        case "overhead":
            spec["runtimeClassName"] = "heavy"
        case "whole":
            spec["containers"][0]["resources"] = {}
            spec["resources"] = {"requests": {"cpu": "700m", "memory": "200Mi"}}
        case _:
            amounts = {"cpu": "600m", "memory": "256Mi"}
            spec["containers"][0]["resources"] = {"limits": amounts}


def waiting(chance: Chance, spec: Json) -> None:
    """Give a pod that waits ports of containers that last, and a whole beside its parts."""
    if chance.some("lasting ports", 0.5):
        port = {"containerPort": 443, "hostPort": 443, "protocol": "TCP"}
        step = {**container("port", {}), "ports": [port]}
        if chance.half():
            step["restartPolicy"] = "Always"
        spec["initContainers"] = [*spec.get("initContainers", ()), step]
    if chance.some("lasting ports", 0.2):
        spec["hostNetwork"] = True
        spec["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 80, "protocol": "TCP"}]
    if chance.some("pod-level parts", 0.5) and "resources" not in spec:
        for each in (*spec["containers"], *spec.get("initContainers", ())):
            each["resources"] = {"requests": {"cpu": chance.pick(("100m", "200m")), "ephemeral-storage": "1Gi"}}
        spec["resources"] = {"requests": {"cpu": chance.pick(("1", "2"))}}
        if chance.half():
            spec["resources"] = {"limits": {"cpu": "2", "memory": "1Gi"}}


_DERIVING: Final = (
    "'same'",
    "device.driver",
    "device.allowMultipleAllocations",
    f"device.attributes['{GPU}'].?model.orValue('none')",
    f"device.attributes['{ROOT.partition('/')[0]}'].?root.orValue('none')",
    "['a', device.driver]",
    f"device.capacity['{GPU}'].?memory.orValue(quantity('0')).isGreaterThan(quantity('2')) ? 1 : 0",
)
_SELECTORS: Final = (
    "true",
    f"device.driver in ['{GPU}', '{NIC}']",
    f"'model' in device.attributes['{GPU}'] && device.attributes['{GPU}'].model != 'B'",
    f"!('firmware' in device.attributes['{GPU}'])",
    f"device.attributes['{GPU}'].all(name, name != 'firmware')",
    f"device.capacity['{GPU}'].exists(name, name == 'memory')",
    f"cel.bind(a, device.attributes['{GPU}'], a.?model.hasValue())",
    "device.driver.matches('^g.u') || device.driver.startsWith('nic')",
)
_TAINTS: Final[tuple[Json, ...]] = (
    {"key": "hot", "effect": "NoSchedule"},
    {"key": "hot", "value": "very", "effect": "NoSchedule"},
    {"key": "cold", "value": "very", "effect": "NoExecute"},
    {"key": "odd", "effect": "None"},
)
_TOLERATIONS: Final[tuple[Json, ...]] = (
    {"key": "hot", "operator": "Equal", "value": "very"},
    {"key": "hot", "operator": "Exists", "effect": "NoExecute"},
    {"key": "cold", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60},
    {"key": "hot", "operator": "Exists", "effect": "NoSchedule"},
    {"operator": "Exists", "effect": "NoExecute"},
)

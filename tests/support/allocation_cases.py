"""
Random clusters with the claims of one pod, as the API writes them, for the comparison with the real allocator.

`case(seed)` gives one; the same seed gives the same case. Everything is small, every object is one that the API
server would take, and each feature is left out of about half of the cases, so that pairs of them stand out.
"""

import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeVar

Json = dict[str, Any]
T = TypeVar("T")

NODE: Final = "n0"
OTHER_NODE: Final = "n1"
DRIVERS: Final = ("gpu.example.com", "nic.example.com")
NUMA: Final = "resource.example.com/numa"
FEATURES: Final = (
    "selectors",
    "failing selectors",
    "constraints",
    "lists",
    "alternatives",
    "all",
    "admin",
    "taints",
    "capacity",
    "counters",
    "wide",
    "generations",
    "usage",
    "several claims",
    "binding",
    "config",
)


class Case(NamedTuple):
    """What is asked: may the pod with the unallocated ones of these claims, in this order, run on the first node?"""

    nodes: tuple[Json, ...]
    slices: tuple[Json, ...]
    classes: tuple[Json, ...]
    claims: tuple[Json, ...]

    @property
    def wanted(self) -> tuple[Json, ...]:
        """The claims of the pod."""
        return tuple(claim for claim in self.claims if "status" not in claim)

    @property
    def has_lists(self) -> bool:
        """Whether a device has an attribute with several values."""
        kinds = {
            kind
            for published in self.slices
            for device in published["spec"].get("devices", ())
            for value in device.get("attributes", {}).values()
            for kind in value
        }
        return bool(kinds & {"ints", "strings"})

    @property
    def has_groups(self) -> bool:
        """Whether a device has compatibility groups."""
        return any("compatibilityGroups" in draws for draws in _draws(self.slices))


def case(seed: int) -> Case:
    """Make the case of this number."""
    return _Source(random.Random(seed)).case()  # noqa: S311 -- no secret


def partitioned_case(seed: int) -> Case:
    """
    Make the case of this number, with compatibility groups and fractional ranges (Kubernetes 1.37).

    Devices in use have equal groups: where they are incompatible already, the real allocator goes by their order.
    """
    made, order = case(seed), random.Random(f"{seed}")  # noqa: S311 -- no secret
    in_use, held = {name for claim in made.claims for name in _given(claim)}, order.choice(_GROUPS)
    for device in (device for each in made.slices for device in each["spec"].get("devices", ())):
        groups = held if device["name"] in in_use else order.choice(_GROUPS)
        for draws in device.get("consumesCounters", ()) if groups else ():
            draws["compatibilityGroups"] = list(groups)
    devices = (device for each in made.slices for device in each["spec"].get("devices", ()))
    for device in devices:
        if device.get("allowMultipleAllocations") and "memory" in device.get("capacity", {}):
            device["capacity"]["memory"] = order.choice(_FRACTIONS)
    for claim in made.wanted:
        for request in claim["spec"]["devices"]["requests"]:
            for wanted in request.get("firstAvailable") or (request["exactly"],):
                if "memory" in wanted.get("capacity", {}).get("requests", {}):
                    wanted["capacity"]["requests"]["memory"] = order.choice(_AMOUNTS)
    return made


def _given(claim: Json) -> Iterator[str]:
    for result in claim.get("status", {}).get("allocation", {}).get("devices", {}).get("results", ()):
        yield result["device"]


def _draws(slices: Sequence[Json]) -> Iterator[Json]:
    for published in slices:
        for device in published["spec"].get("devices", ()):
            yield from device.get("consumesCounters", ())


class _Source:
    def __init__(self, order: random.Random) -> None:
        self._order = order
        self._features = frozenset(each for each in FEATURES if order.random() < 0.45)

    def case(self) -> Case:
        slices = self._slices()
        held = self._held(slices) if self._has("usage") else []
        count = self._pick((1, 2, 2, 3)) if self._has("several claims") else 1
        claims = [self._claim(f"c{index}") for index in range(count)]
        names = (NODE, OTHER_NODE)
        nodes = [{"metadata": {"name": name, "labels": {"rack": rack}}} for name, rack in zip(names, "ab", strict=True)]
        return Case(tuple(nodes), tuple(slices), tuple(self._classes()), (*held, *claims))

    def _has(self, feature: str) -> bool:
        return feature in self._features

    def _pick(self, choices: Sequence[T]) -> T:
        return self._order.choice(choices)

    def _seldom(self) -> bool:
        return self._order.random() < 1 / 6

    def _half(self) -> bool:
        return self._order.random() < 1 / 2

    def _some(self, feature: str, often: float = 0.5) -> bool:
        return self._has(feature) and self._order.random() < often

    # Classes

    def _classes(self) -> list[Json]:
        return [
            self._class("gpu", f"device.driver == '{DRIVERS[0]}'"),
            self._class("nic", f"device.driver == '{DRIVERS[1]}'"),
            self._class("any", "true"),
        ]

    def _class(self, name: str, selector: str) -> Json:
        spec: Json = {"selectors": [{"cel": {"expression": selector}}]}
        if self._some("config"):
            spec["config"] = [_opaque(name)]
        return {"metadata": {"name": name}, "spec": spec}

    # Devices

    def _slices(self) -> list[Json]:
        slices: list[Json] = []
        for node in (NODE, OTHER_NODE):
            for driver in DRIVERS:
                if (node, driver) == (NODE, DRIVERS[0]) or self._half():
                    slices += self._pool(node, driver, {"nodeName": node}, most=4 if node == NODE else 2)
        if self._has("wide"):
            slices += self._wide()
        return slices

    def _wide(self) -> list[Json]:
        driver = self._pick(DRIVERS)
        if self._half():
            return self._pool("wide", driver, self._pick(_WIDE), most=3)
        pool = self._pool("wide", driver, {"perDeviceNodeSelection": True}, most=3)
        own = (*_WIDE, {"nodeName": NODE}, {"nodeName": OTHER_NODE}, _TWO_TERMS)
        for each in pool:
            for device in each["spec"].get("devices", ()):
                device.pop("allNodes", None)
                device.update(self._pick(own))
        return pool

    def _pool(self, name: str, driver: str, scope: Json, *, most: int) -> list[Json]:
        devices = [self._device(f"d{index}") for index in range(self._order.randint(1, most))]
        has_counters = self._some("counters", 0.8)
        if has_counters:
            for device in devices:
                if amount := self._pick((0, 1, 1, 2, 3)):
                    consumed = {"counterSet": "card", "counters": {"slices": {"value": str(amount)}}}
                    device["consumesCounters"] = [consumed]
        slices = [_slice(f"{name}-{driver}", name, driver, scope, devices=devices)]
        if has_counters:
            budget = [{"name": "card", "counters": {"slices": {"value": str(self._order.randint(1, 7))}}}]
            slices.append(_slice(f"{name}-{driver}-counters", name, driver, scope, sharedCounters=budget))
        for each in slices:
            each["spec"]["pool"]["resourceSliceCount"] = len(slices)
        if self._has("generations") and self._seldom():
            slices = self._disturbed(slices)
        return slices

    def _disturbed(self, slices: list[Json]) -> list[Json]:
        spec = slices[0]["spec"]
        scope = {key: value for key, value in spec.items() if key not in {"pool", "driver", "devices"}}
        name, driver = spec["pool"]["name"], spec["driver"]
        extra = _slice(f"{name}-{driver}-x", name, driver, scope, devices=[{"name": "extra"}])
        if "perDeviceNodeSelection" in scope:
            extra["spec"]["devices"][0]["allNodes"] = True
        match self._pick(("older", "newer", "newer elsewhere", "incomplete", "missing", "twice")):
            case "older":
                extra["spec"]["pool"]["generation"] = 0
            case "newer":
                extra["spec"]["pool"]["generation"] = 2
            case "newer elsewhere":
                extra["spec"]["pool"]["generation"] = 2
                if "nodeName" in scope:
                    extra["spec"]["nodeName"] = OTHER_NODE
            case "incomplete":
                extra["spec"]["pool"] |= {"generation": 2, "resourceSliceCount": 2}
            case "missing":
                for each in slices:
                    each["spec"]["pool"]["resourceSliceCount"] += 1
                return slices
            case _:
                extra["spec"]["devices"][0] = dict(spec["devices"][0])
                for each in (*slices, extra):
                    each["spec"]["pool"]["resourceSliceCount"] = len(slices) + 1
        return [*slices, extra]

    def _device(self, name: str) -> Json:
        device: Json = {"name": name, "attributes": {"model": {"string": self._pick("AB")}}}
        if self._order.random() < 3 / 4:
            device["attributes"][NUMA] = self._numa()
        if self._seldom():
            device["attributes"][f"{DRIVERS[0]}/model"] = device["attributes"].pop("model")
        if self._half():
            device["attributes"]["driverVersion"] = {"version": self._pick(("1.2.3", "1.10.0", "1.2.3+a"))}
        if self._has("capacity"):
            device |= self._capacity()
        if self._some("taints"):
            device["taints"] = [
                {"key": self._pick(("hot", "cold")), "effect": self._pick(("NoSchedule", "NoExecute", "None"))}
            ]
        if self._has("binding") and self._seldom():
            device["bindsToNode"] = True
        if self._some("binding", 0.3):
            device |= {"bindingConditions": ["Ready"], "bindingFailureConditions": ["Failed"]}
        return device

    def _numa(self) -> Json:
        if self._some("lists"):
            return {"ints": self._pick(([0], [0, 1], [1, 2], [2]))}
        return self._pick(({"int": 0}, {"int": 1}, {"int": 1}, {"string": "0"}))

    def _capacity(self) -> Json:
        if not self._half():
            return {"capacity": {"memory": {"value": str(self._order.randint(1, 4))}}}
        if self._seldom():
            return {"allowMultipleAllocations": True}
        capacity = {"memory": self._pick(_POLICIES)}
        if self._seldom():
            capacity["cores"] = {"value": "4", "requestPolicy": {"default": "1"}}
        return {"allowMultipleAllocations": True, "capacity": capacity}

    # Usage

    def _held(self, slices: Sequence[Json]) -> list[Json]:
        published = {
            (each["spec"]["driver"], each["spec"]["pool"]["name"], device["name"]): device
            for each in slices
            for device in each["spec"].get("devices", ())
            if each["spec"]["pool"]["generation"] == 1
        }
        keys = self._order.sample(sorted(published), min(len(published), self._order.randint(1, 3)))
        held: list[Json] = []
        for index, key in enumerate(keys):
            is_shareable = published[key].get("allowMultipleAllocations", False)
            is_share = is_shareable != self._some("capacity", 0.1)
            shares = self._order.randint(1, 2) if is_share and is_shareable else 1
            held += [
                self._holding(index * 10 + share, key, published[key], is_share=is_share) for share in range(shares)
            ]
        return held

    def _holding(self, number: int, key: tuple[str, str, str], device: Json, *, is_share: bool) -> Json:
        driver, pool, name = key
        result: Json = {"request": "r", "driver": driver, "pool": pool, "device": name}
        if self._some("admin", 0.3):
            result["adminAccess"] = True
        if is_share:
            result["shareID"] = f"00000000-0000-4000-8000-{number + 1000:012x}"
            if "capacity" in device:
                result["consumedCapacity"] = {each: str(self._order.randint(0, 3)) for each in device["capacity"]}
        claim = _claim(f"held-{number}", [{"name": "r", "exactly": _exactly("any")}])
        claim["status"] = {"allocation": {"devices": {"results": [result]}}}
        return claim

    # Claims

    def _claim(self, name: str) -> Json:
        requests = [self._request(f"r{index}") for index in range(self._pick((1, 1, 1, 2, 3)))]
        claim = _claim(name, requests)
        devices = claim["spec"]["devices"]
        if self._some("constraints", 0.8):
            devices["constraints"] = self._constraints(requests)
        if self._some("config", 0.7):
            devices["config"] = [_opaque(name)]
            if self._half():
                named = self._order.sample([each["name"] for each in requests], self._order.randint(1, len(requests)))
                devices["config"].append({**_opaque("own"), "requests": named})
        return claim

    def _request(self, name: str) -> Json:
        if self._some("alternatives"):
            count = self._order.randint(1, 3)
            return {"name": name, "firstAvailable": [{"name": f"s{i}", **self._wanted()} for i in range(count)]}
        wanted = self._wanted()
        if self._some("admin", 0.3):
            wanted["adminAccess"] = True
        return {"name": name, "exactly": wanted}

    def _wanted(self) -> Json:
        wanted = _exactly(self._pick(("gpu", "gpu", "nic", "any")))
        if self._some("all", 0.3):
            wanted["allocationMode"] = "All"
            del wanted["count"]
        else:
            wanted["count"] = self._pick((1, 1, 1, 1, 2, 3)) if self._order.random() < 0.99 else 33
        if selectors := self._selectors():
            wanted["selectors"] = [{"cel": {"expression": each}} for each in selectors]
        if self._some("taints"):
            wanted["tolerations"] = [self._pick(_TOLERATIONS)]
        if self._some("capacity"):
            wanted["capacity"] = {"requests": {"memory": self._pick(("0", "1", "1", "2", "3", "1500m"))}}
            if self._seldom():
                wanted["capacity"]["requests"]["cores"] = "2"
            if self._seldom() and self._seldom():
                wanted["capacity"]["requests"] = {f"{DRIVERS[0]}/memory": "1"}
        return wanted

    def _selectors(self) -> list[str]:
        palette: list[str] = []
        if self._has("selectors"):
            palette += _SELECTORS
        if self._has("failing selectors"):
            palette += [
                f"device.attributes['{NUMA.partition('/')[0]}'].numa == 0",
                f"device.attributes['{DRIVERS[0]}'].driverVersion.isGreaterThan(semver('1.2.4'))",
                "device.driver != 'gpu.example.com' || device.attributes['x.com'].y",
            ]
        return [self._pick(palette)] if palette and self._half() else []

    def _constraints(self, requests: Sequence[Json]) -> list[Json]:
        names = [each["name"] for each in requests]
        names += [f"{each['name']}/{sub['name']}" for each in requests for sub in each.get("firstAvailable", ())]
        constraints = []
        for _ in range(self._pick((1, 1, 2))):
            kind = self._pick(("matchAttribute", "matchAttribute", "distinctAttribute"))
            attribute = self._pick((NUMA, NUMA, f"{DRIVERS[0]}/model", f"{DRIVERS[0]}/driverVersion"))
            constraint: Json = {kind: attribute}
            if covered := self._order.sample(names, self._order.randint(0, min(2, len(names)))):
                constraint["requests"] = covered
            constraints.append(constraint)
        return constraints


def _slice(name: str, pool: str, driver: str, scope: Mapping[str, Any], **content: list[Json]) -> Json:
    place = {"name": pool, "generation": 1, "resourceSliceCount": 1}
    return {"metadata": {"name": name}, "spec": {"driver": driver, "pool": place, **scope, **content}}


def _claim(name: str, requests: list[Json]) -> Json:
    metadata = {"name": name, "namespace": "default", "uid": f"uid-default-{name}", "resourceVersion": "1"}
    return {"metadata": metadata, "spec": {"devices": {"requests": requests}}}


def _exactly(device_class: str) -> Json:
    return {"deviceClassName": device_class, "allocationMode": "ExactCount", "count": 1}


def _opaque(text: str) -> Json:
    return {"opaque": {"driver": DRIVERS[0], "parameters": {"from": text}}}


def _rack(*racks: str) -> Json:
    terms = [{"matchExpressions": [{"key": "rack", "operator": "In", "values": [rack]}]} for rack in racks]
    return {"nodeSelector": {"nodeSelectorTerms": terms}}


_WIDE: Final[tuple[Json, ...]] = ({"allNodes": True}, _rack("a"), _rack("b"))
_TWO_TERMS: Final = _rack("a", "b")
_POLICIES: Final[tuple[Json, ...]] = (
    {"value": "4"},
    {"value": "4", "requestPolicy": {"default": "1"}},
    {"value": "6", "requestPolicy": {"default": "2", "validRange": {"min": "2", "step": "2"}}},
    {"value": "6", "requestPolicy": {"default": "1", "validRange": {"min": "1", "max": "3"}}},
    {"value": "6", "requestPolicy": {"default": "1", "validValues": ["1", "3"]}},
)
_GROUPS: Final = ((), ("a",), ("b",), ("a", "b"), ("b", "c"), ("c", "a"))
_FRACTIONS: Final[tuple[Json, ...]] = (
    {"value": "3", "requestPolicy": {"default": "500m", "validRange": {"min": "250m", "step": "250m"}}},
    {"value": "4", "requestPolicy": {"default": "100m", "validRange": {"min": "100m", "max": "1600m", "step": "300m"}}},
    {"value": "3", "requestPolicy": {"default": "250m", "validValues": ["250m", "1500m", "2"]}},
    {"value": "4", "requestPolicy": {"default": "1", "validRange": {"min": "1", "max": "3", "step": "1"}}},
)
_AMOUNTS: Final = ("0", "50m", "250m", "300m", "1100m", "1500m", "1601m", "2")
_TOLERATIONS: Final[tuple[Json, ...]] = (
    {"key": "hot", "operator": "Exists"},
    {"operator": "Exists", "effect": "NoSchedule"},
    {"operator": "Exists"},
    {"key": "cold", "operator": "Equal", "value": ""},
)
_SELECTORS: Final = (
    f"device.attributes['{DRIVERS[0]}'].?model.orValue('') == 'A'",
    f"device.driver == '{DRIVERS[0]}' && device.attributes['{DRIVERS[0]}'].model == 'B'",
    "device.allowMultipleAllocations == true",
    f"device.capacity['{DRIVERS[0]}'].?memory.orValue(quantity('0')).isGreaterThan(quantity('1'))",
)

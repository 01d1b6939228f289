"""What slices publish, and which nodes can use it."""

from collections import defaultdict
from fractions import Fraction
from typing import NamedTuple

from e2e.audit.reading import DeviceKey, Json, amount_of


class Published(NamedTuple):
    """A device as the newest generation of its pool publishes it, with the scope that applies to it."""

    device: Json
    scope: Json


class Inventory:
    """Devices and counters of the newest generation of every pool, and which pools are complete."""

    def __init__(self, slices: list[Json]) -> None:
        self.devices: dict[DeviceKey, Published] = {}
        self.counters: dict[tuple[str, str, str, str], Fraction] = {}
        self.incomplete: set[tuple[str, str]] = set()
        pools: defaultdict[tuple[str, str], list[Json]] = defaultdict(list)
        for each in slices:
            pools[each["spec"]["driver"], each["spec"]["pool"]["name"]].append(each["spec"])
        for pool, specs in pools.items():
            newest = max(spec["pool"].get("generation", 0) for spec in specs)
            self._add(pool, [spec for spec in specs if spec["pool"].get("generation", 0) == newest])

    def _add(self, pool: tuple[str, str], specs: list[Json]) -> None:
        if any(spec["pool"]["resourceSliceCount"] != len(specs) for spec in specs):
            self.incomplete.add(pool)
        for spec in specs:
            for device in spec.get("devices") or ():
                scope = device if spec.get("perDeviceNodeSelection") else spec
                self.devices[*pool, device["name"]] = Published(device, scope)
            for counters in spec.get("sharedCounters") or ():
                for name, counter in counters["counters"].items():
                    self.counters[*pool, counters["name"], name] = amount_of(counter["value"])


def reaches(scope: Json, node: Json) -> bool:
    """Say whether a slice's or device's scope includes a node."""
    if scope.get("nodeName"):
        return bool(scope["nodeName"] == node["metadata"]["name"])
    return bool(scope.get("allNodes")) or ("nodeSelector" in scope and selects(scope["nodeSelector"], node))


def selects(selector: Json, node: Json) -> bool:
    """Say whether a core/v1 NodeSelector matches a node."""
    labels = node["metadata"].get("labels") or {}
    fields = {"metadata.name": node["metadata"]["name"]}
    for term in selector.get("nodeSelectorTerms") or ():
        wanted = [(labels, each) for each in term.get("matchExpressions") or ()]
        wanted += [(fields, each) for each in term.get("matchFields") or ()]
        if wanted and all(_holds(values, each) for values, each in wanted):
            return True
    return False


def _holds(values: Json, requirement: Json) -> bool:
    key, wanted, value = requirement["key"], requirement.get("values") or [], values.get(requirement["key"])
    match requirement["operator"]:
        case "In":
            return value in wanted
        case "NotIn":
            return value not in wanted
        case "Exists":
            return key in values
        case "DoesNotExist":
            return key not in values
        case "Gt":
            return value is not None and int(value) > int(wanted[0])
        case _:
            return value is not None and int(value) < int(wanted[0])

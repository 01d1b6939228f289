"""What has to be taken out of a case for a deliberate difference to go away; each changes the case in place."""

from collections.abc import Iterator, Mapping
from typing import Final

from e2e.audit.selectors import selects_labels
from e2e.differential.devices import LANES
from e2e.differential.groups import Case
from e2e.differential.shapes import Json, namespace_labels

_REMEMBERED: Final = 2
"""Devices of one request that `distinctAttribute` keeps apart although one value is remembered only."""


def remove_admin_access(case: Case) -> None:
    """Take requests with admin access out of the pod's own claims; a claim may be left without any."""
    for claim in case.objects:
        devices = claim["spec"].get("devices", {})
        kept = [each for each in devices.get("requests", ()) if not each.get("exactly", {}).get("adminAccess")]
        names = {each["name"] for each in devices.get("requests", ())} - {each["name"] for each in kept}
        if names:
            constraints = [each for each in devices.get("constraints", ()) if not names & set(each.get("requests", ()))]
            claim["spec"]["devices"] = {"requests": kept, "constraints": constraints} if kept else {}


def write_plain_capacity_names(case: Case) -> None:
    """Write capacities without their drivers."""
    for each in _wanted(case):
        amounts = each.get("capacity", {}).get("requests", {})
        for name in list(amounts):
            amounts[name.rpartition("/")[2]] = amounts.pop(name)


def split_counts(case: Case) -> None:
    """
    Ask for single devices, each by a request of its own, where several have to be distinct.

    Alternatives cannot be split: those for more than two devices, of which it forgets one, are left out, or ask for
    two where there are no others.
    """
    for claim in case.objects:
        devices = claim["spec"].get("devices", {})
        if any("distinctAttribute" in each for each in devices.get("constraints", ())):
            split = {each["name"]: _split(each) for each in devices["requests"]}
            devices["requests"] = [each for parts in split.values() for each in parts]
            for constraint in devices["constraints"]:
                named = constraint.get("requests", [])
                constraint["requests"] = list(dict.fromkeys(each for name in named for each in _names(name, split)))


def drop_constraints_on_lists(case: Case) -> None:
    """Take the constraints out that are about an attribute which may have several values."""
    for claim in case.objects:
        devices = claim["spec"].get("devices", {})
        kept = [each for each in devices.get("constraints", ()) if LANES not in each.values()]
        if "constraints" in devices and len(kept) < len(devices["constraints"]):
            devices["constraints"] = kept


def ask_for_one_instead_of_all(case: Case) -> None:
    """Ask for one device where all are asked for."""
    for each in _wanted(case):
        if each.get("allocationMode") == "All":
            each["allocationMode"] = "ExactCount"
            each["count"] = 1


def ask_nothing_besides_claims_of_others(case: Case) -> None:
    """Let a pod that names claims which are not its own ask for nothing else of its node."""
    own = {each["metadata"]["name"] for each in case.objects}
    spec = case.pod["spec"]
    if any(each.get("resourceClaimName") not in own for each in spec.get("resourceClaims", ())):
        spec.pop("resources", None)
        for container in (*spec["containers"], *spec.get("initContainers", ())):
            container.get("resources", {}).pop("requests", None)
            container.get("resources", {}).pop("limits", None)


def list_namespaces(case: Case) -> None:
    """Name the namespaces that required terms select, instead of a selector."""
    affinity = case.pod["spec"].get("affinity", {})
    for field in ("podAffinity", "podAntiAffinity"):
        for term in affinity.get(field, {}).get("requiredDuringSchedulingIgnoredDuringExecution", ()):
            selector = term.pop("namespaceSelector", None)
            if selector is not None:
                found = [name for name, labels in namespace_labels().items() if selects_labels(selector, labels)]
                term["namespaces"] = sorted({*term.get("namespaces", ()), *found}) or ["there-is-none"]


def _names(name: str, split: Mapping[str, list[Json]]) -> list[str]:
    """Give the names of what a request was split into; an alternative keeps its name where it is still there."""
    if name in split:
        return [each["name"] for each in split[name]]
    request, _, alternative = name.partition("/")
    (left,) = split[request]
    there = any(each["name"] == alternative for each in left["firstAvailable"])
    return [name] if there else [request]


def _split(request: Json) -> list[Json]:
    if "firstAvailable" in request:
        small = [each for each in request["firstAvailable"] if each.get("count", 1) <= _REMEMBERED]
        fewer = [{**each, "count": _REMEMBERED} for each in request["firstAvailable"]]
        return [{**request, "firstAvailable": small or fewer}]
    exactly = request.get("exactly", {})
    count = exactly.get("count", 1)
    if count == 1:
        return [request]
    return [{"name": f"{request['name']}-{index}", "exactly": {**exactly, "count": 1}} for index in range(count)]


def _wanted(case: Case) -> Iterator[Json]:
    for claim in case.objects:
        for request in claim["spec"].get("devices", {}).get("requests", ()):
            yield from request.get("firstAvailable", ()) or (request["exactly"],)

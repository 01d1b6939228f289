"""What has to be taken out of a case for a deliberate difference to go away; each changes the case in place."""

from collections.abc import Iterator
from typing import Final

from e2e.audit.selectors import selects_labels
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

    Alternatives cannot be split: those for more than two devices, of which it forgets one, are left out.
    """
    for claim in case.objects:
        devices = claim["spec"].get("devices", {})
        if any("distinctAttribute" in each for each in devices.get("constraints", ())):
            split = {each["name"]: _split(each) for each in devices["requests"]}
            devices["requests"] = [each for parts in split.values() for each in parts]
            for constraint in devices["constraints"]:
                named = constraint.get("requests", [])
                constraint["requests"] = [each["name"] for name in named for each in split[name]]


def ask_for_one_instead_of_all(case: Case) -> None:
    """Ask for one device where all are asked for."""
    for each in _wanted(case):
        if each.get("allocationMode") == "All":
            each["allocationMode"] = "ExactCount"
            each["count"] = 1


def list_namespaces(case: Case) -> None:
    """Name the namespaces that required terms select, instead of a selector."""
    affinity = case.pod["spec"].get("affinity", {})
    for field in ("podAffinity", "podAntiAffinity"):
        for term in affinity.get(field, {}).get("requiredDuringSchedulingIgnoredDuringExecution", ()):
            selector = term.pop("namespaceSelector", None)
            if selector is not None:
                found = [name for name, labels in namespace_labels().items() if selects_labels(selector, labels)]
                term["namespaces"] = sorted({*term.get("namespaces", ()), *found}) or ["there-is-none"]


def _split(request: Json) -> list[Json]:
    if "firstAvailable" in request:
        small = [each for each in request["firstAvailable"] if each.get("count", 1) <= _REMEMBERED]
        return [{**request, "firstAvailable": small or request["firstAvailable"]}]
    exactly = request.get("exactly", {})
    count = exactly.get("count", 1)
    if count == 1:
        return [request]
    return [{"name": f"{request['name']}-{index}", "exactly": {**exactly, "count": 1}} for index in range(count)]


def _wanted(case: Case) -> Iterator[Json]:
    for claim in case.objects:
        for request in claim["spec"].get("devices", {}).get("requests", ()):
            yield from request.get("firstAvailable", ()) or (request["exactly"],)

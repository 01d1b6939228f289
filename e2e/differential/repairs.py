"""What has to be taken out of a case for a deliberate difference to go away; each changes the case in place."""

from collections.abc import Iterator

from e2e.differential.groups import Case
from e2e.differential.shapes import Json


def remove_admin_access(case: Case) -> None:
    """
    Take requests with admin access out of the pod's own claims; a claim may be left without any.

    The pod leaves claims that have such requests and that others may use.
    """
    for claim in case.common:
        if any(map(_has_admin_access, claim["spec"]["devices"].get("requests", ()))):
            _leave(case.pod["spec"], claim["metadata"]["name"])
    for claim in case.objects:
        devices = claim["spec"].get("devices", {})
        kept = [each for each in devices.get("requests", ()) if not _has_admin_access(each)]
        names = {each["name"] for each in devices.get("requests", ())} - {each["name"] for each in kept}
        if names:
            constraints = [each for each in devices.get("constraints", ()) if not names & set(each.get("requests", ()))]
            claim["spec"]["devices"] = {"requests": kept, "constraints": constraints} if kept else {}


def _has_admin_access(request: Json) -> bool:
    return bool(request.get("exactly", {}).get("adminAccess"))


def _leave(spec: Json, claim: str) -> None:
    entries = {each["name"] for each in spec["resourceClaims"] if each.get("resourceClaimName") == claim}
    spec["resourceClaims"] = [each for each in spec["resourceClaims"] if each["name"] not in entries]
    for container in (*spec.get("initContainers", ()), *spec["containers"]):
        resources = container.get("resources", {})
        if "claims" in resources:
            resources["claims"] = [each for each in resources["claims"] if each["name"] not in entries]


def write_plain_capacity_names(case: Case) -> None:
    """Write capacities without their drivers."""
    for each in _wanted(case):
        amounts = each.get("capacity", {}).get("requests", {})
        for name in list(amounts):
            amounts[name.rpartition("/")[2]] = amounts.pop(name)


def _wanted(case: Case) -> Iterator[Json]:
    for claim in case.objects:
        for request in claim["spec"].get("devices", {}).get("requests", ()):
            yield from request.get("firstAvailable", ()) or (request["exactly"],)

"""What has to be taken out of a case for a deliberate difference to go away; each changes the case in place."""

from collections.abc import Iterator

from e2e.differential.groups import Case
from e2e.differential.shapes import Json


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


def ask_nothing_besides_claims_of_others(case: Case) -> None:
    """Let a pod that names claims which are not its own ask for nothing else of its node."""
    own = {each["metadata"]["name"] for each in case.objects}
    spec = case.pod["spec"]
    if any(each.get("resourceClaimName") not in own for each in spec.get("resourceClaims", ())):
        spec.pop("resources", None)
        for container in (*spec["containers"], *spec.get("initContainers", ())):
            container.get("resources", {}).pop("requests", None)
            container.get("resources", {}).pop("limits", None)


def _wanted(case: Case) -> Iterator[Json]:
    for claim in case.objects:
        for request in claim["spec"].get("devices", {}).get("requests", ()):
            yield from request.get("firstAvailable", ()) or (request["exactly"],)

"""What admission refuses that no single manifest shows: admin access outside of the namespaces that allow it."""

from collections.abc import Mapping
from typing import Final

from scheduler.simulation.manifests.fields import Body, entries, mapping
from solver.domain import Namespace

LABEL: Final = "resource.kubernetes.io/admin-access"


def wants_admin_access(claim_spec: Body) -> str:
    """Give the field of the first request that asks for admin access; empty where none does."""
    for index, request in entries(mapping(claim_spec.get("devices")).get("requests")):
        field = f"devices.requests[{index}]"
        if mapping(request.get("exactly")).get("adminAccess") is True:
            return f"{field}.exactly.adminAccess"
        if request.get("adminAccess") is True:
            return f"{field}.adminAccess"
    return ""


def objection(namespace: str, namespaces: Mapping[str, Namespace]) -> str:
    """Say why a namespace allows no admin access; empty where it does, and where nothing is known of it."""
    known = namespaces.get(namespace)
    if known is None:
        return ""
    value = dict(known.labels).get(LABEL)
    if value == "true":
        return ""
    found = "has no such label" if value is None else f'has the value "{value}", and only "true" in lower case counts'
    return f'adminAccess needs the label {LABEL}: "true" on namespace {namespace}, which {found}'

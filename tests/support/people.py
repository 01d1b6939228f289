"""Accounts and their rights, which the API server's authorizer has to read itself before it grants them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from e2e.controlplane.access import Access, RequestError
from e2e.controlplane.plane import ControlPlane
from tests.support.controlplane import wait_until

_CONFLICT = 409
_RBAC = "rbac.authorization.k8s.io"
_REVIEWS: Final = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


def may(asking: Access, rule: Mapping[str, Any], namespace: str = "") -> bool:
    """Say whether the API server's authorizer has seen the first right of a rule as RBAC has them, and grants it."""
    resource, _, subresource = rule["resources"][0].partition("/")
    attributes = {
        "namespace": namespace,
        "verb": rule["verbs"][0],
        "group": rule["apiGroups"][0],
        "resource": resource,
        "subresource": subresource,
        "name": (rule.get("resourceNames") or [""])[0],
    }
    answer = asking.request("POST", _REVIEWS, {"spec": {"resourceAttributes": attributes}})
    return bool(answer["status"]["allowed"])


def bind(plane: ControlPlane, role: str, namespace: str, account: str, *, name: str) -> str:
    """Give an account a ClusterRole, wait until the API server grants its rights, and return the binding's path."""
    bindings = f"/apis/{_RBAC}/v1/clusterrolebindings"
    binding = {
        "metadata": {"name": name},
        "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": namespace}],
    }
    _create(plane, bindings, binding)
    asking = plane.access_for_service_account(namespace, account)

    def is_granted() -> bool:
        rules = plane.request("GET", f"/apis/{_RBAC}/v1/clusterroles/{role}").get("rules")  # none before aggregation
        return bool(rules) and all(may(asking, rule) for rule in rules if "resources" in rule)

    wait_until(is_granted, seconds=30)
    return f"{bindings}/{name}"


def kubeconfig_of(plane: ControlPlane, role: str) -> Path:
    """Return the kubeconfig of an account with this ClusterRole in the whole cluster."""
    name = f"person-{role}"
    _create(plane, "/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": name}})
    bind(plane, role, "default", name, name=name)
    return plane.kubeconfig_for_service_account("default", name)


def _create(plane: ControlPlane, path: str, body: Mapping[str, Any]) -> None:
    try:
        plane.request("POST", path, body)
    except RequestError as error:
        if error.status != _CONFLICT:
            raise

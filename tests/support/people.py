"""People who use Dovetail's commands: accounts with a ClusterRole each."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from e2e.controlplane.access import RequestError
from e2e.controlplane.plane import ControlPlane
from tests.support.controlplane import wait_until

_CONFLICT = 409
_RBAC = "rbac.authorization.k8s.io"
_REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
_LISTS_PODS: Final = {"spec": {"resourceAttributes": {"verb": "list", "resource": "pods"}}}


def kubeconfig_of(plane: ControlPlane, role: str) -> Path:
    """Return the kubeconfig of an account with this ClusterRole in the whole cluster."""
    name = f"person-{role}"
    binding = {
        "metadata": {"name": name},
        "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": "default"}],
    }
    _create(plane, "/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": name}})
    _create(plane, f"/apis/{_RBAC}/v1/clusterrolebindings", binding)
    access = plane.access_for_service_account("default", name)
    wait_until(lambda: bool(access.request("POST", _REVIEWS, _LISTS_PODS)["status"]["allowed"]))
    return plane.kubeconfig_for_service_account("default", name)


def _create(plane: ControlPlane, path: str, body: Mapping[str, Any]) -> None:
    try:
        plane.request("POST", path, body)
    except RequestError as error:
        if error.status != _CONFLICT:
            raise

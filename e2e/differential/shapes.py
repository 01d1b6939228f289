"""Manifests as the generators share them."""

from typing import Any

from e2e.objects import Manifest

Json = dict[str, Any]
SCHEDULER = "compared"
"""The scheduler that generated pods name: a profile of kube-scheduler, and the name that Dovetail is asked for."""
NAMESPACES = ("red", "blue", "green")
TEAM = "team"
"""The label of a namespace that says its own name."""
ADMIN_ACCESS = "resource.kubernetes.io/admin-access"
ANYTHING: Json = {"operator": "Exists"}


def namespace_labels() -> dict[str, dict[str, str]]:
    """Give the labels of the namespaces that all groups share; admin access is allowed in all."""
    kinds = ("bright", "dark", "bright")
    return {
        name: {TEAM: name, "kind": kind, ADMIN_ACCESS: "true"} for name, kind in zip(NAMESPACES, kinds, strict=True)
    }


def namespaces() -> list[Manifest]:
    """Make these namespaces."""
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}
        for name, labels in namespace_labels().items()
    ]


def pod(name: str, namespace: str, spec: Json, labels: dict[str, str] | None = None) -> Manifest:
    """Make a pod with one container unless the spec has its own."""
    containers = [{"name": "main", "image": "none"}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": labels or {}},
        "spec": {"containers": containers, "terminationGracePeriodSeconds": 0, **spec},
    }


def requirement(key: str, operator: str, *values: str) -> Json:
    """Make a requirement on labels or fields."""
    return {"key": key, "operator": operator, **({"values": list(values)} if values else {})}

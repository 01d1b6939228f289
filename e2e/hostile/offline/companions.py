"""Pods and claims that need a hostile object, so that it is decided about and not only known."""

from typing import Final

from e2e.hostile.objects.generator import Hostile
from e2e.hostile.objects.kinds import DRIVER, NAMESPACE, SCHEDULER, Manifest
from scheduler.change import Kind

OWN_CLASS: Final = "mallory-any"
"""A class of all devices of the hostile driver."""
_COSCHEDULING: Final = "scheduling.x-k8s.io/pod-group"


def own_class() -> Manifest:
    """Make the class of the hostile driver's devices."""
    expression = f'device.driver == "{DRIVER}"'
    return {"metadata": {"name": OWN_CLASS}, "spec": {"selectors": [{"cel": {"expression": expression}}]}}


def companions(hostile: Hostile) -> list[tuple[Kind, Manifest]]:
    """Make the objects that need this one; none where it has no name that could be referred to."""
    metadata = hostile.manifest.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    if not isinstance(name, str) or not name:
        return []
    own = f"user-{hostile.number}"
    match hostile.kind:
        case Kind.CLAIMS:
            return [(Kind.PODS, _pod(own, claim=name))]
        case Kind.CLASSES:
            return [(Kind.CLAIMS, _claim(own, name)), (Kind.PODS, _pod(own, claim=own))]
        case Kind.SLICES:
            return [(Kind.CLAIMS, _claim(own, OWN_CLASS)), (Kind.PODS, _pod(own, claim=own))]
        case Kind.VOLUME_CLAIMS:
            return [(Kind.PODS, _pod(own, volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": name}}]))]
        case Kind.POD_GROUPS:
            group = {"podGroupName": name}
            return [(Kind.PODS, _pod(f"{own}-{member}", schedulingGroup=group)) for member in range(2)]
        case Kind.COSCHEDULING_GROUPS:
            return [(Kind.PODS, _pod(f"{own}-{member}", labels={_COSCHEDULING: name})) for member in range(2)]
        case _:
            return []


def _claim(name: str, device_class: str) -> Manifest:
    requests = [{"name": "r0", "exactly": {"deviceClassName": device_class, "count": 1}}]
    return {"metadata": {"name": name, "namespace": NAMESPACE}, "spec": {"devices": {"requests": requests}}}


def _pod(name: str, *, claim: str = "", labels: dict[str, str] | None = None, **spec: object) -> Manifest:
    claims = [{"name": "c", "resourceClaimName": claim}] if claim else []
    resources = {"requests": {"cpu": "1m"}, "claims": [{"name": "c"}] if claim else []}
    return {
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": labels or {}},
        "spec": {
            "schedulerName": SCHEDULER,
            "containers": [{"name": "main", "resources": resources}],
            "resourceClaims": claims,
            **spec,
        },
    }

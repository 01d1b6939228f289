"""Whether the policy is in force that keeps allocations of several schedulers apart (docs/tenancy.md)."""

from scheduler.installation.installation_checks import ALLOCATIONS
from scheduler.kube import paths
from scheduler.kube.access import ClusterAccess, wait_for
from scheduler.kube.errors import Forbidden, NotFound


def has_policy(access: ClusterAccess) -> bool | None:
    """Return whether the binding of the policy exists, None where the caller may not read it. Raise `KubeError`."""
    return wait_for(_has_policy(access))


async def _has_policy(access: ClusterAccess) -> bool | None:
    collection = paths.collection("admissionregistration.k8s.io", "v1", "validatingadmissionpolicybindings")
    async with access.connect() as client:
        try:
            await client.request("GET", f"{collection}/{ALLOCATIONS}")
        except NotFound:
            return False
        except Forbidden:
            return None
    return True

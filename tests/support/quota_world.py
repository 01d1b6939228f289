"""The kind DeviceQuota on a control plane, whose default overlay may have it already."""

from http import HTTPStatus
from typing import Final

import yaml

from e2e.controlplane.access import RequestError
from e2e.controlplane.plane import REPOSITORY, ControlPlane
from tests.support.controlplane import wait_until

CRDS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def quota_crd(plane: ControlPlane) -> str:
    """Create the definition of the component where there is none, wait until it is served, and return its path."""
    crd = yaml.safe_load((REPOSITORY / "deploy/components/device-quotas/crd.yaml").read_text(encoding="utf-8"))
    path = f"{CRDS}/{crd['metadata']['name']}"

    def is_created() -> bool:
        try:
            plane.request("POST", CRDS, crd)
        except RequestError as error:
            if error.status != HTTPStatus.CONFLICT:
                raise
            # The one of the test before may be on its way out.
            return "deletionTimestamp" not in plane.request("GET", path)["metadata"]
        return True

    def is_served() -> bool:
        conditions = plane.request("GET", path).get("status", {}).get("conditions") or []
        return any(each["type"] == "Established" and each["status"] == "True" for each in conditions)

    wait_until(is_created, seconds=60)
    wait_until(is_served, seconds=30)
    return path

"""A patch of a pod's status, guarded by the pod's uid: what is said of one pod is not written to a namesake of it."""

from typing import Any

import msgspec

from scheduler.kube import paths
from scheduler.kube.client import STRATEGIC_MERGE_PATCH, Client
from scheduler.kube.errors import Conflict, Invalid
from solver.domain import PodId


async def patch(
    client: Client,
    pod: tuple[PodId, str],
    status: dict[str, Any],
    *,
    content_type: str = STRATEGIC_MERGE_PATCH,
    timeout_seconds: float,
) -> bytes:
    """
    Patch the status of a pod (key, uid) and give the server's answer, which is the whole pod.

    Raises `Conflict` where the pod of this name is another one by now.
    """
    key, uid = pod
    try:
        return await client.request(
            "PATCH",
            paths.pod(key, "status"),
            body=msgspec.json.encode({"metadata": {"uid": uid}, "status": status}),
            content_type=content_type,
            timeout_seconds=timeout_seconds,
        )
    except Invalid as error:
        # The uid of an object cannot be changed: that is how the server says that it is another one.
        if "metadata.uid" not in error.message:
            raise
        raise Conflict(error.status, error.reason, error.message) from error

"""
What happens to the slices of a node where the stand-in acts: they vanish and return.

A kubelet removes all slices of its node at its start, and those of a driver some time after the driver's end. Drivers
publish them again, in 11 to 30 s where only the kubelet restarted.
"""

import contextlib
from collections.abc import Iterator
from typing import Any, Final, Protocol

SLICES: Final = "/apis/resource.k8s.io/v1/resourceslices"
WIPE_SECONDS: Final = 30.0
"""From the end of a driver to the end of its slices."""
RETURN_SECONDS: Final = (11.0, 30.0)
"""From a kubelet's start to the slices that drivers publish again: at least and at most."""


class Request(Protocol):
    """Sends a request to the API server and returns the answer; None where it refuses."""

    def __call__(self, method: str, path: str, body: Any = None, /) -> Any:
        """Send one."""


@contextlib.contextmanager
def without_slices(request: Request, node: str, driver: str = "") -> Iterator[None]:
    """Delete the slices of a node, or of one driver there, and publish them again when the block ends."""
    of_driver = f",spec.driver={driver}" if driver else ""
    path = f"{SLICES}?fieldSelector=spec.nodeName={node}{of_driver}"
    gone = (request("GET", path) or {"items": []})["items"]
    request("DELETE", path)
    try:
        yield
    finally:
        for each in gone:
            request("POST", SLICES, {"metadata": {"name": each["metadata"]["name"]}, "spec": each["spec"]})

"""PriorityClasses of tests, which the API server has to read itself before it admits pods that name them."""

from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any, Final

from e2e.controlplane.access import RequestError
from e2e.controlplane.plane import ControlPlane
from tests.support.controlplane import wait_until

PATH: Final = "/apis/scheduling.k8s.io/v1/priorityclasses"
_DRY_RUN: Final = "/api/v1/namespaces/kube-system/pods?dryRun=All"


def make_priority_class(plane: ControlPlane, name: str, value: int = 1000, **more: Any) -> dict[str, Any]:
    """
    Create a class and wait until the API server admits pods of it; give the field of a pod that names it.

    Its admission plugin Priority asks its own watch alone, which may be some milliseconds behind a write.
    """
    plane.request("POST", PATH, {"metadata": {"name": name}, "value": value, **more})
    field = {"priorityClassName": name}
    containers = [{"name": "main", "image": "example.com/none"}]
    body = {"metadata": {"name": name}, "spec": {**field, "containers": containers}}

    def is_read() -> bool:
        try:
            plane.request("POST", _DRY_RUN, body)
        except RequestError as error:
            if error.status != HTTPStatus.FORBIDDEN or "no PriorityClass" not in str(error):
                raise
            return False
        return True

    wait_until(is_read, seconds=30)
    return field


@contextmanager
def users_class(plane: ControlPlane, name: str) -> Iterator[dict[str, Any]]:
    """A class as users have them for the block: below those of the system, from which budgets protect."""
    yield make_priority_class(plane, name)
    plane.request("DELETE", f"{PATH}/{name}")

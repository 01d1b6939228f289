"""What `simulate` calls a mistake in a claim the API server refuses, and what it takes the server takes."""

from typing import Any

import pytest

from e2e.controlplane.access import RequestError
from e2e.controlplane.plane import ControlPlane
from tests.support import claim_mistakes

CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims?dryRun=All"

pytestmark = pytest.mark.controlplane
SINCE_1_37 = pytest.mark.kubernetes(since="1.37")


def _create(plane: ControlPlane, devices: dict[str, Any]) -> None:
    plane.request("POST", CLAIMS, {"metadata": {"name": "c"}, "spec": {"devices": devices}})


MISTAKES = [
    pytest.param(devices, id=f"{field} {told}", marks=SINCE_1_37 if told in claim_mistakes.SINCE_1_37 else ())
    for devices, field, told in claim_mistakes.MISTAKES
]


@pytest.mark.parametrize("devices", MISTAKES)
def test_mistakes_are_refused(control_plane: ControlPlane, devices: dict[str, Any]) -> None:
    with pytest.raises(RequestError) as refused:
        _create(control_plane, devices)
    assert refused.value.status in {400, 422}


@pytest.mark.parametrize("name", claim_mistakes.FINE)
def test_what_is_fine_is_taken(control_plane: ControlPlane, name: str) -> None:
    _create(control_plane, claim_mistakes.FINE[name])

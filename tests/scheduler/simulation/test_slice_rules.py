"""Request policies that the API server of Kubernetes 1.37 refuses: each with its field, and what to write instead."""

from typing import Any

import pytest

from scheduler.simulation.manifests.api_validation import of_object

AT = "spec.devices[0].capacity[memory].requestPolicy"
RANGE = {"min": "250m", "max": "2", "step": "250m"}


def found(policy: dict[str, Any], *, capacity: str = "4", is_shareable: bool = True) -> dict[str, str]:
    """The errors of a device with this request policy, by the field below it."""
    memory = {"value": capacity, "requestPolicy": policy}
    device = {"name": "d", "allowMultipleAllocations": is_shareable, "capacity": {"memory": memory}}
    body = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": "s"},
        "spec": {"driver": "d", "nodeName": "n", "pool": {"name": "p", "resourceSliceCount": 1}, "devices": [device]},
    }
    errors = [(each.field, each.message) for each in of_object(body)]
    assert all(field.startswith(AT) for field, _ in errors)
    return {field.removeprefix(AT).lstrip("."): message for field, message in errors}


@pytest.mark.parametrize(
    "policy",
    [
        pytest.param({"default": "1"}, id="default alone"),
        pytest.param({"default": "500m", "validRange": RANGE}, id="fractions"),
        pytest.param({"default": "2", "validRange": {"min": "1"}}, id="no max, no step"),
        pytest.param({"default": "1", "validValues": ["500m", "1", "4"]}, id="values"),
    ],
)
def test_what_the_server_takes_passes(policy: dict[str, Any]) -> None:
    assert found(policy) == {}


@pytest.mark.parametrize(
    ("policy", "field", "words"),
    [
        ({"default": "1", "validValues": ["1"], "validRange": RANGE}, "", "exclude each other"),
        ({"validRange": RANGE}, "default", "missing"),
        ({"validValues": ["1"]}, "default", "missing"),
        ({"default": "1", "validRange": {"max": "2"}}, "validRange.min", "missing"),
        ({"default": "1", "validRange": {"min": "3", "max": "2"}}, "validRange.min", "larger than max"),
        ({"default": "1", "validRange": {"min": "1", "max": "5"}}, "validRange.max", "larger than the capacity"),
        ({"default": "3", "validRange": {"min": "1", "max": "2"}}, "validRange.default", "outside"),
        ({"default": "1", "validRange": {"min": "1", "step": "0"}}, "validRange.step", "not above zero"),
        ({"default": "1", "validRange": {"min": "1", "step": "4"}}, "validRange.step", "beyond the capacity"),
        ({"default": "600m", "validRange": RANGE}, "validRange.step", "does not lead from min to default"),
        ({"default": "500m", "validRange": {**RANGE, "max": "2100m"}}, "validRange.step", "from min to max"),
        ({"default": "500m", "validRange": {**RANGE, "step": "250u"}}, "validRange.step", "finer than one thousandth"),
        ({"default": "1", "validValues": ["2", "1"]}, "validValues", "not sorted"),
        ({"default": "1", "validValues": ["1", "5"]}, "validValues", "larger than the capacity"),
        ({"default": "1", "validValues": ["2"]}, "validValues", "lacks the default"),
    ],
)
def test_what_the_server_refuses_is_told(policy: dict[str, Any], field: str, words: str) -> None:
    errors = found(policy)
    assert words in errors[field]


def test_a_policy_is_for_shareable_devices() -> None:
    assert "allowMultipleAllocations: true" in found({"default": "1"}, is_shareable=False)[""]

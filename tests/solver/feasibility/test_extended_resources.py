from collections.abc import Mapping

import pytest

from solver.domain import ContainerRequests, DeviceClass, ExtendedResourceClaim
from solver.feasibility.extended_resources import class_of, explicit_classes, extended_resource_claim
from tests.support import builders as b
from tests.support.extended_builders import RESOURCE, container, gpu_class, init, pod, sidecar


def _class_of(resource: str, *classes: DeviceClass) -> str | None:
    return class_of(resource, explicit_classes(classes), {each.name: each for each in classes})


def _claim(*containers: ContainerRequests, served: Mapping[str, str] | None = None) -> ExtendedResourceClaim:
    return extended_resource_claim(pod("p", *containers), served or {RESOURCE: "gpu"}, 0)


def _counts(claim: ExtendedResourceClaim) -> dict[str, int]:
    return {each.name: each.alternatives[0].count for each in claim.requests}


def _users(claim: ExtendedResourceClaim) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for mapping in claim.mappings:
        found.setdefault(mapping.container, []).append(mapping.request)
    return found


@pytest.mark.parametrize(
    ("resource", "classes", "expected"),
    [
        pytest.param("example.com/gpu", [gpu_class("a")], "a", id="explicit"),
        pytest.param("deviceclass.resource.kubernetes.io/a", [gpu_class("a")], "a", id="implicit"),
        pytest.param("deviceclass.resource.kubernetes.io/b", [gpu_class("a")], None, id="implicit, no such class"),
        pytest.param("example.com/nic", [gpu_class("a")], None, id="no class has the name"),
        pytest.param("a", [gpu_class("a")], None, id="a class's bare name is not a resource"),
        pytest.param(
            "example.com/gpu",
            [gpu_class("a", created="2026-01-01T00:00:00Z"), gpu_class("b", created="2026-02-01T00:00:00Z")],
            "b",
            id="the newest class",
        ),
        pytest.param("example.com/gpu", [gpu_class("b"), gpu_class("a")], "a", id="equally new: the smaller name"),
    ],
)
def test_an_extended_resource_stands_for_a_class(
    resource: str, classes: list[DeviceClass], expected: str | None
) -> None:
    assert _class_of(resource, *classes) == expected


def test_a_request_is_named_by_the_container_and_the_place_among_its_resources() -> None:
    claim = _claim(container("main", cpu=1, gpu=2))

    assert _counts(claim) == {"container-0-request-1": 2}
    assert claim.requests[0].alternatives[0].device_class == "gpu"


def test_no_object_can_have_the_name_that_stands_for_the_claim() -> None:
    assert "<" in _claim(container(gpu=1)).id.name


def test_containers_and_sidecars_have_requests_of_their_own() -> None:
    claim = _claim(sidecar("s", gpu=1), container("a", gpu=2), container("b", gpu=3), container("c", cpu=1))

    assert _counts(claim) == {
        "container-0-request-0": 1,
        "container-1-request-0": 2,
        "container-2-request-0": 3,
    }
    assert _users(claim) == {
        "s": ["container-0-request-0"],
        "a": ["container-1-request-0"],
        "b": ["container-2-request-0"],
    }


def test_an_init_container_uses_the_devices_of_the_containers_after_it() -> None:
    claim = _claim(init("i", gpu=2), container("a", gpu=1), container("b", gpu=1))

    assert _counts(claim) == {"container-1-request-0": 1, "container-2-request-0": 1}
    assert _users(claim)["i"] == ["container-1-request-0", "container-2-request-0"]


def test_an_init_container_takes_over_no_more_than_it_needs() -> None:
    claim = _claim(init("i", gpu=1), container("a", gpu=1), container("b", gpu=1))

    assert _users(claim)["i"] == ["container-1-request-0"]


def test_an_init_container_does_not_use_the_devices_of_a_sidecar_before_it() -> None:
    claim = _claim(sidecar("s", gpu=1), init("i", gpu=1))

    assert _counts(claim) == {"container-0-request-0": 1, "container-1-request-0": 1}
    assert _users(claim)["i"] == ["container-1-request-0"]


def test_an_init_container_uses_the_devices_of_a_sidecar_after_it() -> None:
    claim = _claim(init("i", gpu=1), sidecar("s", gpu=1))

    assert _counts(claim) == {"container-1-request-0": 1}


def test_init_containers_share_the_largest_shortfall() -> None:
    claim = _claim(init("i", gpu=2), init("j", gpu=4), init("k", gpu=1), container("a", gpu=1))

    assert _counts(claim) == {"container-1-request-0": 3, "container-3-request-0": 1}
    assert _users(claim) == {
        "i": ["container-3-request-0", "container-1-request-0"],
        "j": ["container-3-request-0", "container-1-request-0"],
        "k": ["container-3-request-0"],
        "a": ["container-3-request-0"],
    }


def test_mappings_come_by_resource_and_containers_before_the_init_containers_that_use_what_is_theirs() -> None:
    served = {RESOURCE: "gpu", "example/nic": "nic"}
    claim = _claim(init("i", gpu=2), container("a", gpu=1, example__nic=1), container("b", gpu=1), served=served)

    assert [(each.resource, each.container, each.request) for each in claim.mappings] == [
        (RESOURCE, "a", "container-1-request-0"),
        (RESOURCE, "b", "container-2-request-0"),
        (RESOURCE, "i", "container-1-request-0"),
        (RESOURCE, "i", "container-2-request-0"),
        ("example/nic", "a", "container-1-request-1"),
    ]


def test_requests_are_sorted_by_name() -> None:
    claim = _claim(*(container(f"c{index}", gpu=1) for index in range(11)))

    names = [each.name for each in claim.requests]
    assert names == sorted(names)
    assert names[2] == "container-10-request-0"


def test_resources_that_the_node_serves_itself_have_no_request() -> None:
    claim = _claim(container("a", gpu=1, example__nic=1), served={"example/nic": "nic"})

    assert claim.resources == {"example/nic"}
    assert [each.alternatives[0].device_class for each in claim.requests] == ["nic"]
    assert b.GPU_CLASS not in {each.alternatives[0].device_class for each in claim.requests}

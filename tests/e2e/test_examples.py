"""The examples are right as files, and a real API server takes them as they are."""

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from e2e import objects
from e2e.controlplane.plane import ControlPlane
from e2e.scenarios.examples import FOLDER, STATES, Example, Expectation, read_examples
from solver.feasibility.selectors import compile_selector
from tests.support.controlplane import wait_until

Manifest = dict[str, Any]

EXAMPLES = read_examples()
EACH = pytest.mark.parametrize("example", [pytest.param(each, id=each.path.stem) for each in EXAMPLES])
WITH_SHARES = pytest.mark.kubernetes(gates=("DRAConsumableCapacity",))
AS_SERVED = pytest.mark.parametrize(
    "example",
    [
        pytest.param(each, id=each.path.stem, marks=[WITH_SHARES] if "-share-of-" in each.path.stem else [])
        for each in EXAMPLES
    ],
)
NAME = re.compile(r"^\d\d-[a-z-]+\.yaml$")


def header(example: Example) -> str:
    lines = example.path.read_text().splitlines()
    comment = lines[: next(index for index, line in enumerate(lines) if not line.startswith("#"))]
    return " ".join(line.removeprefix("#").strip() for line in comment)


def kinds(example: Example, kind: str) -> Iterator[Manifest]:
    return (manifest for manifest in example.manifests if manifest["kind"] == kind)


def device_specs(example: Example) -> Iterator[Manifest]:
    for manifest in example.manifests:
        if manifest["kind"] == "ResourceClaim":
            yield manifest["spec"]["devices"]
        elif manifest["kind"] == "ResourceClaimTemplate":
            yield manifest["spec"]["spec"]["devices"]


def test_there_is_one_for_each_everyday_case() -> None:
    assert [example.path.stem.partition("-")[2] for example in EXAMPLES] == [
        "one-gpu-per-pod",
        "pods-share-a-claim",
        "containers-share-a-claim",
        "model-and-memory",
        "partitions-of-one-gpu",
        "partitions-of-one-amd-gpu",
        "gpu-and-nic",
        "share-of-a-gpu",
        "driver-version",
        "several-claims",
        "cannot-fit",
        "gang",
        "priority",
        "spread-over-nodes",
        "gpu-beside-its-data",
    ]


def test_they_are_numbered_in_reading_order() -> None:
    assert [int(example.path.name[:2]) for example in EXAMPLES] == [*range(1, len(EXAMPLES) + 1)]


@EACH
def test_its_header_says_what_it_needs_and_where_it_goes(example: Example) -> None:
    assert NAME.match(example.path.name)
    assert "Needs: Kubernetes 1.3" in header(example)
    assert "Goes to the namespace" in header(example) or "its own namespaces" in header(example)


@EACH
def test_its_header_says_how_many_pods_end_in_which_state(example: Example) -> None:
    counts = Counter[str]()
    for metadata, _, number in example.pod_specs:
        counts[Expectation.of(metadata).state] += number  # type: ignore[union-attr] # the next test
    _, _, end = header(example).partition("Ends with: ")
    assert {state: int(number) for number, state in re.findall(r"(\d+) pods? (\w+)", end)} == counts


@EACH
def test_every_pod_says_what_it_ends_as(example: Example) -> None:
    expectations = [Expectation.of(metadata) for metadata, _, _ in example.pod_specs]
    assert all(each and each.state in STATES for each in expectations)


@EACH
def test_a_pod_that_ends_pending_says_what_its_reason_holds(example: Example) -> None:
    expectations = [Expectation.of(metadata) for metadata, _, _ in example.pod_specs]
    assert all(bool(each.reason) == (each.state == "Pending") for each in expectations if each)


@EACH
def test_every_pod_is_dovetails(example: Example) -> None:
    assert {spec["schedulerName"] for _, spec, _ in example.pod_specs} == {"dovetail"}


@EACH
def test_containers_use_claims_that_their_pod_has(example: Example) -> None:
    for _, spec, _ in example.pod_specs:
        names = {each["name"] for each in spec.get("resourceClaims", ())}
        used = {claim["name"] for each in spec["containers"] for claim in each["resources"].get("claims", ())}
        assert used == names


@EACH
def test_pods_name_claims_and_templates_of_the_same_file(example: Example) -> None:
    there = {
        f"resource{kind}Name": {each["metadata"]["name"] for each in kinds(example, f"Resource{kind}")}
        for kind in ("Claim", "ClaimTemplate")
    }
    for _, spec, _ in example.pod_specs:
        for reference in spec.get("resourceClaims", ()):
            ((key, name),) = ((key, name) for key, name in reference.items() if key != "name")
            assert name in there[key]


@EACH
def test_classes_are_those_that_drivers_ship_or_in_the_file(example: Example) -> None:
    shipped = {"gpu.nvidia.com", "mig.nvidia.com", "gpu.amd.com", "hami-core-gpu.project-hami.io"}
    own = {each["metadata"]["name"] for each in kinds(example, "DeviceClass")}
    used = {each["exactly"]["deviceClassName"] for spec in device_specs(example) for each in spec["requests"]}
    assert used <= shipped | own
    assert own <= used


@EACH
def test_its_expressions_compile(example: Example) -> None:
    selectors = [
        *(selector for each in kinds(example, "DeviceClass") for selector in each["spec"]["selectors"]),
        *(
            selector
            for spec in device_specs(example)
            for each in spec["requests"]
            for selector in each["exactly"].get("selectors", ())
        ),
    ]
    for selector in selectors:
        compile_selector(selector["cel"]["expression"])


def test_the_readme_lists_every_file() -> None:
    listed = re.findall(r"^\| `([^`]+)`", (FOLDER / "README.md").read_text(), re.MULTILINE)
    assert listed == [example.path.stem for example in EXAMPLES]


def test_the_same_class_is_the_same_in_every_file() -> None:
    classes: dict[str, Manifest] = {}
    for example in EXAMPLES:
        for each in kinds(example, "DeviceClass"):
            assert classes.setdefault(each["metadata"]["name"], each) == each


def test_an_example_for_another_scheduler_gives_it_the_pods() -> None:
    assert not any("schedulerName: dovetail" in example.text_for("other") for example in EXAMPLES)


@pytest.mark.controlplane
@AS_SERVED
def test_the_api_server_keeps_every_field(control_plane: ControlPlane, namespace: str, example: Example) -> None:
    is_elsewhere = any(kinds(example, "Namespace"))
    arguments = ("-f", str(example.path)) if is_elsewhere else ("-n", namespace, "-f", str(example.path))
    try:
        control_plane.kubectl("apply", "--validate=strict", *arguments)
        for manifest in example.manifests:
            metadata = {"namespace": namespace, **manifest["metadata"]}
            kept = control_plane.request("GET", objects.object_path({**manifest, "metadata": metadata}))
            assert is_in(manifest.get("spec", {}), kept.get("spec", {})), kept
    finally:
        control_plane.kubectl("delete", "--wait=false", *arguments)


@pytest.mark.controlplane
def test_every_template_makes_a_claim(control_plane: ControlPlane, namespace: str) -> None:
    example = EXAMPLES[0]
    control_plane.kubectl("apply", "-n", namespace, "-f", str(example.path))
    path = f"/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaims"
    wait_until(lambda: len(control_plane.request("GET", path)["items"]) == example.pod_count)
    control_plane.kubectl("delete", "-n", namespace, "-f", str(example.path))


def is_in(wanted: Any, found: Any) -> bool:
    """Say whether everything wanted is there; the server adds defaults, and writes quantities in its own form."""
    match wanted:
        case dict():
            return all(key in found and is_in(value, found[key]) for key, value in wanted.items())
        case list():
            return len(wanted) == len(found) and all(map(is_in, wanted, found))
    return bool(wanted == found)

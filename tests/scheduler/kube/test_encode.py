import datetime as dt
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.change import Kind
from scheduler.kube import encode
from scheduler.kube.decode.objects import decode
from scheduler.kube.encode import EventRecord, ObjectReference
from solver.domain import (
    Allocation,
    Claim,
    ClaimId,
    ConsumerReference,
    DeviceId,
    DeviceResult,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    OpaqueConfig,
    PodId,
    Toleration,
)
from solver.domain.quantity import parse
from tests.support.kube_objects import claim, encoded

CLAIM = Claim(id=ClaimId("ml", "c"), uid="u", resource_version="7")
GUARD = [
    {"op": "replace", "path": "/metadata/resourceVersion", "value": "7"},
]
FIRST = ConsumerReference(resource="pods", name="a", uid="1")
SECOND = ConsumerReference(resource="pods", name="b", uid="2")
GROUP = ConsumerReference(api_group="scheduling.k8s.io", resource="podgroups", name="g", uid="3")
DEVICE = DeviceId("gpu.example.com", "node-1", "gpu-0")
NOON = dt.datetime(2026, 1, 1, 13, 0, 0, 5, tzinfo=dt.timezone(dt.timedelta(hours=1)))


def patch_of(body: bytes) -> list[dict[str, Any]]:
    operations: list[dict[str, Any]] = json.loads(body)
    assert operations[:1] == GUARD
    return operations[1:]


def changed(**fields: Any) -> Claim:
    return msgspec.structs.replace(CLAIM, **fields)


def test_the_first_finalizer_makes_the_list() -> None:
    assert patch_of(encode.finalizer_patch(CLAIM)) == [
        {"op": "add", "path": "/metadata/finalizers", "value": ["resource.kubernetes.io/delete-protection"]}
    ]


def test_another_finalizer_is_appended() -> None:
    assert patch_of(encode.finalizer_patch(changed(finalizers=("x",)))) == [
        {"op": "add", "path": "/metadata/finalizers/-", "value": "resource.kubernetes.io/delete-protection"}
    ]


def test_allocation_and_first_consumers_go_in_one_patch() -> None:
    allocation = Allocation(results=(DeviceResult(request="gpu", device=DEVICE),), allocation_timestamp="t")
    assert patch_of(encode.allocation_patch(CLAIM, allocation, [FIRST])) == [
        {
            "op": "add",
            "path": "/status/allocation",
            "value": {
                "devices": {
                    "results": [{"request": "gpu", "driver": "gpu.example.com", "pool": "node-1", "device": "gpu-0"}]
                },
                "allocationTimestamp": "t",
            },
        },
        {"op": "add", "path": "/status/reservedFor", "value": [{"resource": "pods", "name": "a", "uid": "1"}]},
    ]


def test_later_consumers_are_appended() -> None:
    assert patch_of(encode.reservation_patch(changed(reserved_for=(FIRST,)), [SECOND, GROUP])) == [
        {"op": "add", "path": "/status/reservedFor/-", "value": {"resource": "pods", "name": "b", "uid": "2"}},
        {
            "op": "add",
            "path": "/status/reservedFor/-",
            "value": {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "g", "uid": "3"},
        },
    ]


def test_consumers_are_removed_from_the_back_so_that_no_index_moves() -> None:
    body = encode.release_patch(changed(reserved_for=(FIRST, SECOND, GROUP)), {"1", "3"}, deallocate=False)
    assert patch_of(body) == [
        {"op": "remove", "path": "/status/reservedFor/2"},
        {"op": "remove", "path": "/status/reservedFor/0"},
    ]


def test_a_deallocation_goes_with_the_last_consumer() -> None:
    body = encode.release_patch(changed(reserved_for=(FIRST,)), {"1"}, deallocate=True)
    assert patch_of(body) == [
        {"op": "remove", "path": "/status/reservedFor/0"},
        {"op": "remove", "path": "/status/allocation"},
    ]


@pytest.mark.parametrize("fields", [{"resource_version": ""}, {"invalid": "spec: broken"}])
def test_a_claim_that_cannot_be_guarded_is_not_written(fields: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="claim ml/c"):
        encode.finalizer_patch(changed(**fields))


texts = st.text(min_size=1, max_size=5)
words = st.lists(texts, max_size=2).map(tuple)
amounts = st.sampled_from(["0", "1", "500m", "10Gi", "81559Mi", "1e3"]).map(parse)
requirements = st.builds(NodeSelectorRequirement, key=texts, operator=texts, values=words)
terms = st.builds(
    NodeSelectorTerm,
    match_expressions=st.lists(requirements, max_size=2).map(tuple),
    match_fields=st.lists(requirements, max_size=2).map(tuple),
)
tolerations = st.builds(
    Toleration,
    key=st.text(max_size=3),
    operator=st.sampled_from(["Equal", "Exists"]),
    value=st.text(max_size=3),
    effect=st.sampled_from(["", "NoSchedule"]),
    toleration_seconds=st.none() | st.integers(-1, 9),
)
results = st.builds(
    DeviceResult,
    request=texts,
    device=st.builds(DeviceId, texts, texts, texts),
    admin_access=st.booleans(),
    tolerations=st.lists(tolerations, max_size=2).map(tuple),
    binding_conditions=words,
    binding_failure_conditions=words,
    share_id=st.text(max_size=3),
    consumed_capacity=st.dictionaries(texts, amounts, max_size=3).map(lambda found: tuple(sorted(found.items()))),
    skip_node_operations=words,
)
configs = st.builds(
    OpaqueConfig,
    driver=texts,
    parameters=st.sampled_from(['{"b":1.0,"a":[1]}', "{}", '{"k":"\\u003c"}']),
    requests=words,
    source=st.sampled_from(["FromClass", "FromClaim"]),
)
allocations = st.builds(
    Allocation,
    results=st.lists(results, max_size=3).map(tuple),
    config=st.lists(configs, max_size=2).map(tuple),
    node_selector=st.none() | st.builds(NodeSelector, terms=st.lists(terms, max_size=2).map(tuple)),
    allocation_timestamp=st.just("2026-01-01T00:00:00Z"),
)


@given(allocations)
def test_an_allocation_that_is_written_is_read_back_the_same(allocation: Allocation) -> None:
    operations = msgspec.json.decode(
        encode.allocation_patch(CLAIM, allocation, [FIRST]), type=list[dict[str, msgspec.Raw]]
    )
    body = encoded(claim()).replace(b'"status":{}', b'"status":{"allocation":' + bytes(operations[1]["value"]) + b"}")
    found = decode(Kind.CLAIMS, body)
    assert isinstance(found, Claim)
    assert not found.invalid
    assert found.allocation == allocation


@given(allocations)
def test_admin_access_is_true_or_not_there(allocation: Allocation) -> None:
    assert b'"adminAccess":false' not in encode.allocation_patch(CLAIM, allocation, [FIRST])


def test_a_toleration_of_zero_seconds_is_not_one_for_ever() -> None:
    result = DeviceResult(request="gpu", device=DEVICE, tolerations=(Toleration(key="k", toleration_seconds=0),))
    operation = patch_of(encode.allocation_patch(CLAIM, Allocation(results=(result,)), [FIRST]))[0]
    (sent,) = operation["value"]["devices"]["results"]
    assert sent["tolerations"] == [{"key": "k", "operator": "Equal", "tolerationSeconds": 0}]


def test_a_binding_names_the_pods_uid() -> None:
    assert json.loads(encode.binding(PodId("ml", "p"), "u", "node-1")) == {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"namespace": "ml", "name": "p", "uid": "u"},
        "target": {"kind": "Node", "name": "node-1"},
    }


@pytest.mark.parametrize(("nominated", "expected"), [("node-1", "node-1"), ("", None)])
def test_a_nominated_node_is_set_or_taken_away(nominated: str, expected: str | None) -> None:
    status = encode.unscheduled(1, reason="r", message="m", since=NOON, nominated_node_name=nominated)
    assert status["nominatedNodeName"] == expected


def test_a_pod_condition_leaves_the_nominated_node_alone() -> None:
    assert encode.unscheduled(3, reason="r", message="m", since=NOON, nominated_node_name=None) == {
        "conditions": [
            {
                "type": "PodScheduled",
                "status": "False",
                "reason": "r",
                "message": "m",
                "lastProbeTime": None,
                "lastTransitionTime": "2026-01-01T12:00:00Z",
                "observedGeneration": 3,
            }
        ]
    }


EVENT = EventRecord(
    name="p.1",
    regarding=ObjectReference(namespace="ml", name="p", uid="u"),
    reason="FailedScheduling",
    action="Scheduling",
    note="no device",
    reporting_controller="dovetail",
    reporting_instance="dovetail-0",
    first_seen=NOON,
)


def test_an_event_says_what_happened_to_which_object() -> None:
    assert json.loads(encode.event(EVENT)) == {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": "p.1", "namespace": "ml"},
        "eventTime": "2026-01-01T12:00:00.000005Z",
        "type": "Normal",
        "reason": "FailedScheduling",
        "action": "Scheduling",
        "note": "no device",
        "reportingController": "dovetail",
        "reportingInstance": "dovetail-0",
        "regarding": {"apiVersion": "v1", "kind": "Pod", "namespace": "ml", "name": "p", "uid": "u"},
    }


def test_a_note_is_cut_to_what_the_api_allows_at_a_whole_character() -> None:
    note = json.loads(encode.event(msgspec.structs.replace(EVENT, note="€" * 500)))["note"]
    assert note == "€" * (1024 // 3)


def test_an_event_about_a_thing_without_namespace_is_kept_in_default() -> None:
    assert msgspec.structs.replace(EVENT, regarding=ObjectReference(kind="Node", name="n")).namespace == "default"


def test_a_series_is_counted() -> None:
    body = encode.series_patch(msgspec.structs.replace(EVENT, count=3))
    assert json.loads(body) == {"series": {"count": 3, "lastObservedTime": "2026-01-01T12:00:00.000005Z"}}

from typing import Any

import pytest
from msgspec import structs

from scheduler.change import Change, Kind
from scheduler.kube import encode
from scheduler.kube.decode.objects import decode, read
from scheduler.worker import frames
from solver.domain import (
    Allocation,
    Claim,
    ClaimId,
    Constraint,
    ConstraintKind,
    ConsumerReference,
    DeviceId,
    DeviceResult,
    DeviceStatus,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    OpaqueConfig,
    Request,
    SubRequest,
    Toleration,
)
from solver.domain.quantity import parse
from tests.support.kube_objects import claim, encoded, result

DEVICE = DeviceId("gpu.example.com", "node-1", "gpu-0")


def decoded(**fields: Any) -> Claim:
    found = decode(Kind.CLAIMS, encoded(claim(**fields)))
    assert isinstance(found, Claim)
    return found


def test_a_claim_is_read_with_its_identity() -> None:
    owners = [
        {"apiVersion": "v1", "kind": "Pod", "name": "other", "uid": "no"},
        {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "pod-uid", "controller": True},
    ]
    meta = {"finalizers": ["f"], "ownerReferences": owners, "deletionTimestamp": "2026-01-01T00:00:00Z"}
    found = decoded(name="c", version=42, meta=meta)
    assert found == Claim(
        id=ClaimId("ml", "c"),
        uid="uid-c",
        resource_version="42",
        requests=found.requests,
        finalizers=("f",),
        owner_pod_uid="pod-uid",
        is_deleting=True,
    )


def test_a_claim_of_a_pod_group_names_the_group() -> None:
    owner = {
        "apiVersion": "scheduling.k8s.io/v1alpha2",
        "kind": "PodGroup",
        "name": "gang",
        "uid": "u",
        "controller": True,
    }
    found = decoded(meta={"ownerReferences": [owner]})
    assert (found.owner_pod_uid, found.owner_group_uid) == ("", "u")


def test_a_request_is_read_whole() -> None:
    exactly = {
        "deviceClassName": "gpu",
        "selectors": [{"cel": {"expression": "true"}}, {"cel": {"expression": "false"}}],
        "allocationMode": "ExactCount",
        "count": 2,
        "adminAccess": True,
        "tolerations": [{"key": "k", "operator": "Exists", "effect": "NoSchedule", "tolerationSeconds": 0}],
        "capacity": {"requests": {"memory": "10Gi", "cores": "2"}},
    }
    assert decoded(requests=[{"name": "r", "exactly": exactly}]).requests == (
        Request(
            name="r",
            alternatives=(
                SubRequest(
                    device_class="gpu",
                    selectors=("true", "false"),
                    count=2,
                    admin_access=True,
                    tolerations=(Toleration(key="k", operator="Exists", effect="NoSchedule", toleration_seconds=0),),
                    capacity_requests=(("cores", parse("2")), ("memory", parse("10Gi"))),
                ),
            ),
        ),
    )


def test_alternatives_keep_their_order_and_names() -> None:
    first = [{"name": "big", "deviceClassName": "h200"}, {"name": "small", "deviceClassName": "a100", "count": 2}]
    (request,) = decoded(requests=[{"name": "gpu", "firstAvailable": first}]).requests
    assert [(each.name, each.device_class, each.count) for each in request.alternatives] == [
        ("big", "h200", 1),
        ("small", "a100", 2),
    ]


def test_all_devices_have_no_count() -> None:
    (request,) = decoded(
        requests=[{"name": "r", "exactly": {"deviceClassName": "c", "allocationMode": "All"}}]
    ).requests
    assert (request.alternatives[0].allocation_mode, request.alternatives[0].count) == ("All", 0)


def test_an_allocation_mode_of_a_newer_server_stays_as_text() -> None:
    exactly = {"deviceClassName": "c", "allocationMode": "Some"}
    (request,) = decoded(requests=[{"name": "r", "exactly": exactly}]).requests
    assert request.alternatives[0].allocation_mode == "Some"


def test_a_kind_of_request_that_this_version_does_not_know_has_no_alternative() -> None:
    assert decoded(requests=[{"name": "r", "oneOf": []}]).requests == (Request(name="r", alternatives=()),)


def test_a_claim_without_requests_is_one_without_requests() -> None:
    found = decoded(requests=None)
    assert (found.requests, found.invalid) == ((), "")


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ({"matchAttribute": "d/x", "requests": ["a", "b/c"]}, [(ConstraintKind.MATCH, "d/x", ("a", "b/c"))]),
        ({"distinctAttribute": "d/x"}, [(ConstraintKind.DISTINCT, "d/x", ())]),
        (
            {"matchAttribute": "d/x", "distinctAttribute": "d/y"},  # what kube-scheduler counts of both
            [(ConstraintKind.MATCH, "d/x", ())],
        ),
        ({"nearAttribute": "d/x", "requests": ["a"]}, [(ConstraintKind.UNKNOWN, "", ("a",))]),
    ],
    ids=["match", "distinct", "both", "unknown"],
)
def test_constraints_are_read_one_relation_each(entry: Any, expected: Any) -> None:
    found = decoded(constraints=[entry]).constraints
    assert found == tuple(Constraint(kind=kind, attribute=name, requests=names) for kind, name, names in expected)


def test_parameters_keep_their_exact_text() -> None:
    body = encoded(claim()).replace(
        b'"requests":[',
        b'"config":[{"requests":["gpu"],"opaque":{"driver":"d","parameters":{"b": 1.0, "a":1e3}}}],"requests":[',
    )
    found = decode(Kind.CLAIMS, body)
    assert isinstance(found, Claim)
    assert found.config == (OpaqueConfig(driver="d", parameters='{"b": 1.0, "a":1e3}', requests=("gpu",)),)


def test_a_status_is_read_whole() -> None:
    selector = {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}]}
    condition = {"type": "Ready", "status": "True", "reason": "r", "message": "m", "lastTransitionTime": "t"}
    found = decoded(
        status={
            "allocation": {
                "devices": {
                    "results": [
                        result(
                            tolerations=[{"operator": "Exists"}],
                            bindingConditions=["a"],
                            bindingFailureConditions=["b"],
                            shareID="share",
                            consumedCapacity={"memory": "10Gi"},
                            skipNodeOperations=["*"],
                        ),
                        result("gpu-1", adminAccess=True),
                    ],
                    "config": [
                        {"source": "FromClass", "requests": ["gpu"], "opaque": {"driver": "d", "parameters": {"a": 1}}}
                    ],
                },
                "nodeSelector": selector,
                "allocationTimestamp": "2026-01-01T00:00:00Z",
            },
            "reservedFor": [{"resource": "pods", "name": "p", "uid": "u"}],
            "devices": [
                {"driver": DEVICE.driver, "pool": DEVICE.pool, "device": DEVICE.device, "shareID": "share",
                 "conditions": [condition], "data": {"x": 1}, "networkData": {}},
                {"driver": "d", "pool": "p", "device": "x", "conditions": None},
            ],
        }
    )  # fmt: skip
    assert not found.invalid
    assert found.allocation == Allocation(
        results=(
            DeviceResult(
                request="gpu",
                device=DEVICE,
                tolerations=(Toleration(operator="Exists"),),
                binding_conditions=("a",),
                binding_failure_conditions=("b",),
                share_id="share",
                consumed_capacity=(("memory", parse("10Gi")),),
                skip_node_operations=("*",),
            ),
            DeviceResult(request="gpu", device=DeviceId("gpu.example.com", "node-1", "gpu-1"), admin_access=True),
        ),
        config=(OpaqueConfig(driver="d", parameters='{"a":1}', requests=("gpu",), source="FromClass"),),
        node_selector=NodeSelector(
            terms=(
                NodeSelectorTerm(
                    match_fields=(NodeSelectorRequirement(key="metadata.name", operator="In", values=("n",)),)
                ),
            )
        ),
        allocation_timestamp="2026-01-01T00:00:00Z",
    )
    assert found.reserved_for == (ConsumerReference(resource="pods", name="p", uid="u"),)
    assert found.device_status == (
        DeviceStatus(device=DEVICE, share_id="share", conditions=(("Ready", "True"),)),
        DeviceStatus(device=DeviceId("d", "p", "x")),
    )


@pytest.mark.parametrize(
    ("devices", "said"),
    [
        ({"requests": [{"name": "r", "exactly": {}}]}, "missing required field `deviceClassName`"),
        (
            {"requests": [{"name": "r", "exactly": {"deviceClassName": "c", "selectors": [{"rego": ""}]}}]},
            "spec.devices.requests[0].exactly.selectors[0]: only selectors under `cel`",
        ),
        (
            {"requests": [{"name": "r", "exactly": {"deviceClassName": "c", "capacity": {"requests": {"m": "1 Gi"}}}}]},
            "spec.devices.requests[0].exactly.capacity.requests: '1 Gi' is not a quantity",
        ),
        ({"config": [{"structured": {}}]}, "spec.devices.config[0]: only configuration under `opaque`"),
    ],
    ids=["type", "selector", "quantity", "configuration"],
)
def test_a_malformed_spec_is_reported_and_does_not_hide_the_devices(devices: Any, said: str) -> None:
    found = decoded(status={"allocation": {"devices": {"results": [result()]}}}, **devices)
    assert said in found.invalid
    assert found.requests == ()
    assert found.allocation is not None
    assert found.allocation.results[0].device == DEVICE


@pytest.mark.parametrize(
    ("amount", "said"),
    [("lots", ": 'lots' is not a quantity"), ("-1", "[memory]: -1 is negative: write what is consumed")],
)
def test_a_malformed_status_is_reported_and_keeps_its_devices(amount: str, said: str) -> None:
    broken = result(consumedCapacity={"memory": amount}, shareID="share")
    found = decoded(status={"allocation": {"devices": {"results": [broken]}}})
    assert f"status.allocation.devices.results[0].consumedCapacity{said}" in found.invalid
    assert found.allocation is not None
    (held,) = found.allocation.results
    assert (held.device, held.share_id) == (DEVICE, "share")
    assert dict(held.consumed_capacity)["memory"].nano > parse("1Pi").nano, "an unknown amount is all of it"


def test_a_status_beyond_recognition_leaves_the_claim_readable() -> None:
    found = decoded(status={"allocation": {"devices": "none"}})
    assert found.allocation is None
    assert "status: Expected `object`" in found.invalid


HARD = {
    "1000 levels": b'{"a":' + b"[" * 1000 + b"]" * 1000 + b"}",
    "9000 levels": b'{"a":' + b"[" * 9000 + b"]" * 9000 + b"}",
    "a lone surrogate": rb'{"\ud800":"\udfff","a":"\ud83d\ude00"}',
    "a character that is none": rb'{"a":"\u0000"}',
    "numbers without bounds": b'{"a":1e400,"b":-0,"c":1208925819614629174706176,"d":0.10}',
    "a name twice": b'{"a":1,"a":2}',
    "what looks like a mark": b'{"a":"substituted-0123456789abcdef-0"}',
    "brackets in texts": rb'{"a":"]]\"}{[","b":["\\"]}',
}


@pytest.mark.parametrize("parameters", HARD.values(), ids=HARD)
def test_opaque_parameters_go_on_as_they_came(parameters: bytes) -> None:
    """Row 4: drivers alone read them; whatever the server admits is written as it was, and reaches the worker."""
    body = encoded(claim(config=[{"opaque": {"driver": "d", "parameters": "HERE"}}])).replace(b'"HERE"', parameters)
    found, problem = read(Kind.CLAIMS, body)
    assert problem is None
    assert isinstance(found, Claim)
    (config,) = found.config
    assert config.parameters.encode() == parameters
    change = Change(kind=Kind.CLAIMS, key="ml/claim", value=found)
    assert frames.decode_change(frames.encode_change(change)) == change
    given = Allocation(config=(structs.replace(config, source="FromClaim"),))
    assert parameters in encode.allocation_patch(found, given, ())


def test_claims_of_one_template_share_what_was_decoded_of_it() -> None:
    one, other = (
        decode(
            Kind.CLAIMS,
            b'{"metadata": {"name": "%s", "namespace": "ml"}, "spec": {"devices": {"requests": '
            b'[{"name": "r", "exactly": {"deviceClassName": "gpu", "count": 2}}]}}}' % name,
        )
        for name in (b"a", b"b")
    )
    assert isinstance(one, Claim)
    assert isinstance(other, Claim)
    assert one.requests[0].alternatives[0].count == 2
    assert one.requests is other.requests

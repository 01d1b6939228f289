"""Bodies of the writes for extended resources; the writes themselves are proven in tests/integration."""

import msgspec

from scheduler.kube.decode.claims import decode_claim
from scheduler.kube.decode.pods import decode_pod
from scheduler.kube.extended_resource_writes import announcement, claim_body
from solver.domain import ClaimId
from solver.feasibility.extended_resources import extended_resource_claim
from tests.support.extended_builders import RESOURCE, container, pod

POD = pod("p", container("main", cpu=1, gpu=2))
SPECIAL = extended_resource_claim(POD, {RESOURCE: "gpu"}, 0)

MAPPING = {"containerName": "main", "resourceName": RESOURCE, "requestName": "container-0-request-1"}


def test_a_claim_is_made_as_kube_scheduler_makes_it() -> None:
    assert claim_body(POD.id, POD.uid, SPECIAL) == {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {
            "generateName": "p-extended-resources-",
            "namespace": "default",
            "annotations": {"resource.kubernetes.io/extended-resource-claim": "true"},
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": POD.uid, "controller": True},
            ],
        },
        "spec": {
            "devices": {
                "requests": [
                    {
                        "name": "container-0-request-1",
                        "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 2},
                    }
                ]
            }
        },
    }


def test_a_claim_that_was_made_is_read_back_as_what_it_is() -> None:
    claim = decode_claim(msgspec.json.encode(claim_body(POD.id, POD.uid, SPECIAL)))

    assert (claim.is_extended_resource_claim, claim.owner_pod_uid, claim.requests) == (True, POD.uid, SPECIAL.requests)


def test_other_annotations_make_no_special_claim() -> None:
    body = claim_body(POD.id, POD.uid, SPECIAL)
    body["metadata"]["annotations"] = {"resource.kubernetes.io/extended-resource-claim": "True"}

    assert not decode_claim(msgspec.json.encode(body)).is_extended_resource_claim


def test_the_status_names_the_claim_and_its_users() -> None:
    *tests, operation = announcement(POD.uid, ClaimId("default", "c"), SPECIAL.mappings)

    assert [(each["path"], each["value"]) for each in tests] == [("/metadata/uid", POD.uid), ("/spec/nodeName", None)]
    assert operation == {
        "op": "add",
        "path": "/status/extendedResourceClaimStatus",
        "value": {"resourceClaimName": "c", "requestMappings": [MAPPING]},
    }


def _decoded(node_name: str) -> tuple[tuple[str, int], ...]:
    manifest = {
        "metadata": {"name": "p", "namespace": "default", "uid": "u"},
        "spec": {
            "nodeName": node_name,
            "containers": [{"name": "main", "resources": {"requests": {"cpu": "1", RESOURCE: "2"}}}],
        },
        "status": {"extendedResourceClaimStatus": {"resourceClaimName": "c", "requestMappings": [MAPPING]}},
    }
    return decode_pod(msgspec.json.encode(manifest)).requests


def test_what_a_claim_gives_a_bound_pod_is_not_taken_from_its_node() -> None:
    assert _decoded("n") == (("cpu", 1000),)


def test_a_pod_that_an_earlier_attempt_left_unbound_asks_for_all_of_it() -> None:
    assert _decoded("") == (("cpu", 1000), (RESOURCE, 2))

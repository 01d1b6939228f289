"""A claim or template that was edited after its creation: the API server would refuse it, and nothing would happen."""

import pytest
from msgspec.structs import replace

from scheduler.change import Change, Kind
from scheduler.simulation.case_builder import CaseBuilder
from scheduler.simulation.manifests import decoding
from scheduler.simulation.manifests.documents import LIVE, Document
from solver.domain import Claim
from tests.support import builders as b
from tests.support import manifests as m

THERE = b.claim("c", b.request("r", count=2), config=(b.config("r", parameters='{"a": 1, "b": 2}'),))
INSTEAD = "write a new template with another name, and create the pod again"


def test_an_edited_claim_is_named() -> None:
    edited = replace(THERE, requests=(b.request("r", count=4),))

    told = decoding.of_claim(edited, THERE)

    assert told == f"differs from the claim in the cluster, and claims are immutable: {INSTEAD}"


@pytest.mark.parametrize(
    "same",
    [
        pytest.param(THERE, id="equal"),
        pytest.param(replace(THERE, uid="other", resource_version="9"), id="metadata"),
        pytest.param(replace(THERE, config=(b.config("r", parameters='{"b":2,"a":1}'),)), id="parameters"),
    ],
)
def test_a_claim_that_is_the_same_is_let_through(same: Claim) -> None:
    assert decoding.of_claim(same, THERE) == ""


def test_a_claim_that_is_new_is_let_through() -> None:
    assert decoding.of_claim(THERE, None) == ""


def test_an_allocation_for_a_request_that_is_gone() -> None:
    edited = replace(THERE, allocation=b.allocation(b.result("old", "gpu-0", "n1"), b.result("r/sub", "gpu-1", "n1")))

    assert decoding.of_claim(edited, None) == (
        f"the allocation is for request old, which the spec does not have; claims are immutable: {INSTEAD}"
    )


def test_a_manifest_that_edits_a_claim_of_the_cluster_keeps_its_pod_waiting() -> None:
    made = CaseBuilder(live=(Change(kind=Kind.CLAIMS, key="default/c", value=THERE),))
    spec = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu", "count": 1}}]}}
    body = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "c"}, "spec": spec}
    made.add((Document("claims.yaml: document 1", body),))

    case = made.case("dovetail")

    told = f"differs from the claim in the cluster, and claims are immutable: {INSTEAD}"
    assert [str(each) for each in case.problems] == [f"claims.yaml: document 1 (ResourceClaim default/c): spec: {told}"]
    assert [claim.invalid for claim in case.snapshot.claims] == [told]


def test_a_manifest_that_edits_a_template_of_the_cluster_is_named() -> None:
    made = CaseBuilder()
    made.add((Document(LIVE, m.template()), Document("t.yaml: document 1", m.template(count=3))))

    (problem,) = made.case("dovetail").problems

    assert (
        problem.message == "differs from the template in the cluster, and templates are immutable: give it another name"
    )

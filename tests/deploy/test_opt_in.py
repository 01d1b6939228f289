"""Opt-in by namespace on the real API server: whose `schedulerName` is set, whose stays, and what a failure does."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from e2e.controlplane.access import RequestError
from e2e.controlplane.plane import ControlPlane
from tests.support.controlplane import wait_until
from tests.support.marks import MUTATING_POLICIES
from tests.support.opt_in import DEFAULT, LABEL, WITHOUT_LABEL, apply_policies, label, owned, pod, scheduler_of

POLICY = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies/dovetail-opt-in"

pytestmark = [pytest.mark.controlplane, MUTATING_POLICIES]

Json = dict[str, Any]

RESTRICTED = pod(
    securityContext={"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
    containers=[
        {
            "name": "main",
            "image": "example.com/none",
            "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        }
    ],
)
"""A pod that the namespace of Dovetail accepts also where `deploy/base` has made it."""


@pytest.fixture(scope="module")
def policies(control_plane: ControlPlane) -> Iterator[ControlPlane]:
    """The policy of the overlay; gone again afterwards."""
    names = apply_policies(control_plane, "opt-in")
    yield control_plane
    control_plane.kubectl("delete", *names)


@pytest.fixture
def labelled(policies: ControlPlane, namespace: str) -> str:
    """A namespace with the label, where the policy is in force."""
    label(policies, namespace)
    wait_until(lambda: scheduler_of(policies, namespace, pod()) == "dovetail")
    return namespace


@pytest.mark.parametrize(
    "manifest",
    [
        pytest.param(pod(), id="no scheduler"),
        pytest.param(pod(schedulerName=""), id="an empty one"),
        pytest.param(pod(schedulerName=DEFAULT), id="the default one"),
        pytest.param(
            pod(owned("ReplicaSet")),
            id="of a controller",
        ),
    ],
)
def test_a_pod_without_a_scheduler_of_its_own_gets_that_of_the_label(
    policies: ControlPlane, labelled: str, manifest: Json
) -> None:
    assert scheduler_of(policies, labelled, manifest) == "dovetail"
    assert scheduler_of(policies, WITHOUT_LABEL, manifest) == DEFAULT


@pytest.mark.parametrize(
    "manifest",
    [
        pytest.param(pod(schedulerName="volcano"), id="another scheduler"),
        pytest.param(pod(nodeName="n"), id="a node, as static pods have"),
        pytest.param(
            pod(owned("DaemonSet")),
            id="of a DaemonSet",
        ),
    ],
)
def test_other_pods_stay_as_they_are(policies: ControlPlane, labelled: str, manifest: Json) -> None:
    assert scheduler_of(policies, labelled, manifest) == manifest["spec"].get("schedulerName", DEFAULT)


def test_the_label_names_the_scheduler_and_without_it_pods_are_as_before(policies: ControlPlane, labelled: str) -> None:
    policies.kubectl("-n", labelled, "create", "-f", "-", input=json.dumps(pod()))
    label(policies, labelled, "dovetail-spread")
    wait_until(lambda: scheduler_of(policies, labelled, pod({"name": "q"})) == "dovetail-spread")
    policies.kubectl("label", "namespace", labelled, f"{LABEL}-")
    wait_until(lambda: scheduler_of(policies, labelled, pod({"name": "q"})) == DEFAULT)
    there = policies.request("GET", f"/api/v1/namespaces/{labelled}/pods/p")
    assert there["spec"]["schedulerName"] == "dovetail"
    with pytest.raises(RequestError, match="pod updates may not change fields other than"):
        policies.request(
            "PATCH",
            f"/api/v1/namespaces/{labelled}/pods/p",
            {"spec": {"schedulerName": DEFAULT}},
            content="application/merge-patch+json",
        )


@pytest.mark.parametrize("system", ["kube-system", "dovetail-system"])
def test_what_dovetail_needs_to_start_never_waits_for_it(policies: ControlPlane, labelled: str, system: str) -> None:
    made = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": system}}
    policies.kubectl("apply", "-f", "-", input=json.dumps(made))
    label(policies, system)
    try:
        label(policies, labelled, "later")  # the API server sees labels in order
        wait_until(lambda: scheduler_of(policies, labelled, pod()) == "later")
        assert scheduler_of(policies, system, RESTRICTED) == DEFAULT
    finally:
        policies.kubectl("label", "namespace", system, f"{LABEL}-")


def test_a_policy_that_fails_refuses_pods_of_labelled_namespaces_and_no_others(
    policies: ControlPlane, labelled: str
) -> None:
    whole = policies.request("GET", POLICY)["spec"]["mutations"]
    expression = whole[0]["jsonPatch"]["expression"].replace(LABEL, "missing")
    wrong = [{"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}]

    def refusal(namespace: str) -> str:
        try:
            scheduler_of(policies, namespace, pod())
        except RequestError as error:
            return str(error)
        return ""

    def set_mutations(mutations: list[Json]) -> None:
        policies.request("PATCH", POLICY, {"spec": {"mutations": mutations}}, content="application/merge-patch+json")

    set_mutations(wrong)
    try:
        wait_until(lambda: "dovetail-opt-in" in refusal(labelled))
        assert refusal(WITHOUT_LABEL) == ""
    finally:
        set_mutations(whole)
        wait_until(lambda: refusal(labelled) == "")

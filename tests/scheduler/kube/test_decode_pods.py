from typing import Any

import pytest

from scheduler.change import Kind
from scheduler.kube.decode.objects import decode
from solver.domain import (
    ClaimId,
    Controller,
    GangId,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Pod,
    PodClaim,
    PodId,
    Toleration,
    UnhealthyDevice,
)
from tests.support.kube_objects import container, encoded, pod


def decoded(**fields: Any) -> Pod:
    found = decode(Kind.PODS, encoded(pod(**fields)))
    assert isinstance(found, Pod)
    return found


RESTART_ALL = ("RestartAllContainersOnContainerExits",)


def test_a_pod_is_read_with_all_that_decides() -> None:
    found = decoded(
        name="train-0",
        meta={"labels": {"b": "2", "a": "1"}, "generation": 3, "deletionTimestamp": "2026-01-02T00:00:00Z"},
        status={"phase": "Running", "nominatedNodeName": "node-2"},
        nodeName="node-1",
        priority=7,
        preemptionPolicy="Never",
        nodeSelector={"zone": "z1", "arch": "arm64"},
        tolerations=[{"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}, {"key": "e"}],
        affinity={
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [
                        {
                            "matchExpressions": [{"key": "zone", "operator": "In", "values": ["z1", "z2"]}],
                            "matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["n"]}],
                        }
                    ]
                },
                "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": {}}],
            },
            "podAffinity": {},
        },
        schedulingGates=[{"name": "example.com/wait"}],
        schedulingGroup={"podGroupName": "gang"},
    )
    assert found == Pod(
        id=PodId("ml", "train-0"),
        uid="uid-train-0",
        scheduler_name="dovetail",
        node_name="node-1",
        nominated_node_name="node-2",
        labels=(("a", "1"), ("b", "2")),
        priority=7,
        preemption_policy="Never",
        creation="2026-01-01T00:00:00Z",
        generation=3,
        preferred_node_affinity=((1, NodeSelectorTerm()),),
        images=("busybox",),
        containers=found.containers,
        node_selector=(("arch", "arm64"), ("zone", "z1")),
        required_affinity=NodeSelector(
            terms=(
                NodeSelectorTerm(
                    match_expressions=(NodeSelectorRequirement(key="zone", operator="In", values=("z1", "z2")),),
                    match_fields=(NodeSelectorRequirement(key="metadata.name", operator="NotIn", values=("n",)),),
                ),
            )
        ),
        tolerations=(
            Toleration(key="k", operator="Exists", effect="NoExecute", toleration_seconds=300),
            Toleration(key="e", operator="Equal"),
        ),
        pod_group="gang",
        gang=GangId("ml", "gang", "scheduling.k8s.io"),
        scheduling_gates=("example.com/wait",),
        is_deleting=True,
    )


@pytest.mark.parametrize(
    ("phase", "expected"), [("Pending", False), ("Running", False), ("Succeeded", True), ("Failed", True)]
)
def test_a_pod_that_has_ended_is_terminal(phase: str, expected: bool) -> None:  # noqa: FBT001 - a column
    assert decoded(status={"phase": phase}).is_terminal is expected


NAMED = {"name": "gpu", "resourceClaimName": "mine"}
MADE = {"name": "gpu", "resourceClaimTemplateName": "template"}


@pytest.mark.parametrize(
    ("entry", "statuses", "expected"),
    [
        pytest.param(NAMED, [], PodClaim(entry="gpu", claim=ClaimId("ml", "mine")), id="named"),
        pytest.param(MADE, [], PodClaim(entry="gpu", template="template"), id="not made yet"),
        pytest.param(
            MADE,
            [{"name": "other", "resourceClaimName": "x"}, {"name": "gpu", "resourceClaimName": "p-gpu-x"}],
            PodClaim(entry="gpu", template="template", claim=ClaimId("ml", "p-gpu-x")),
            id="made",
        ),
        pytest.param(
            MADE, [{"name": "gpu"}], PodClaim(entry="gpu", template="template", is_skipped=True), id="not needed"
        ),
    ],
)
def test_claims_are_resolved_through_the_status(entry: Any, statuses: Any, expected: PodClaim) -> None:
    assert decoded(resourceClaims=[entry], status={"resourceClaimStatuses": statuses}).claims == (expected,)


RESTARTS = {"restartPolicyRules": [{"action": "Restart"}, {"action": "RestartAllContainers"}]}
OPTIONS = {"volumeMounts": [{"name": "data"}, {"name": "data", "bindMountOptions": ["noexec"]}]}


@pytest.mark.parametrize(
    ("spec", "features"),
    [
        pytest.param({"containers": [container("a") | RESTARTS]}, RESTART_ALL, id="restart of all containers"),
        pytest.param({"initContainers": [container("a") | RESTARTS]}, RESTART_ALL, id="by an init container"),
        pytest.param(
            {"containers": [container("a") | {"restartPolicyRules": [{"action": "Restart"}]}]}, (), id="restart of one"
        ),
        pytest.param(
            {"hostNetwork": True, "hostUsers": False}, ("UserNamespacesHostNetworkSupport",), id="host network"
        ),
        pytest.param({"hostNetwork": True}, (), id="host network with the host's users"),
        pytest.param({"hostUsers": False}, (), id="own users and network"),
        pytest.param({"containers": [container("a") | OPTIONS]}, ("VolumeBindMountOptions",), id="mount options"),
        pytest.param(
            {"containers": [container("a") | OPTIONS | RESTARTS], "hostNetwork": True, "hostUsers": False},
            (*RESTART_ALL, "UserNamespacesHostNetworkSupport", "VolumeBindMountOptions"),
            id="all of them",
        ),
    ],
)
def test_features_that_the_node_must_declare_are_inferred_from_the_spec(
    spec: dict[str, Any], features: tuple[str, ...]
) -> None:
    assert decoded(**spec).required_features == features


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        pytest.param({"containers": [container("a", cpu="much")]}, "'much' is not a quantity", id="quantity"),
        pytest.param({"priority": "high"}, "$.spec.priority", id="type"),
    ],
)
def test_a_malformed_pod_keeps_its_identity_and_says_why(spec: dict[str, Any], said: str) -> None:
    found = decoded(nodeName="node-1", **spec)
    assert (found.id, found.uid, found.node_name, found.scheduler_name) == (
        PodId("ml", "pod"), "uid-pod", "node-1", "dovetail",
    )  # fmt: skip
    assert said in found.invalid


def test_fields_of_a_newer_server_and_nulls_are_taken_as_they_come() -> None:
    body = pod(brandNew={"x": [1]}, tolerations=None, initContainers=None, affinity=None, status={"conditions": None})
    found = decode(Kind.PODS, encoded(body))
    assert isinstance(found, Pod)
    assert not found.invalid


def test_an_annotation_of_any_length_leaves_the_pod_readable() -> None:
    """Row 1: `int()` refuses 4,301 digits with an exception of its own."""
    found = decoded(meta={"annotations": {"dovetail.dev/gang-minimum": "9" * 4_301}})
    assert not found.invalid
    assert found.gang_note is not None
    assert "is not a number of pods" in found.gang_note.invalid


def test_what_is_kept_of_an_image_is_bounded() -> None:
    long = {"name": "long", "image": "i" * 1_000_000}
    assert decoded(containers=[container("main"), long]).images == ("busybox",)


TERM = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {}}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def test_a_pod_names_the_controller_that_replaces_it() -> None:
    owners = [{"kind": "Node", "uid": "n"}, {"kind": "ReplicaSet", "uid": "r", "name": "web-1", "controller": True}]
    assert decoded(meta={"ownerReferences": owners}).controller == Controller(kind="ReplicaSet", uid="r")


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        pytest.param({"phase": "Failed"}, True, id="failed"),
        pytest.param({"phase": "Succeeded"}, False, id="succeeded"),
        pytest.param(
            {"phase": "Failed", "conditions": [{"type": "DisruptionTarget", "status": "True"}]}, False, id="evicted"
        ),
        pytest.param(
            {"phase": "Failed", "conditions": [{"type": "DisruptionTarget", "status": "False"}]}, True, id="spared"
        ),
    ],
)
def test_a_pod_that_was_disrupted_has_not_failed_itself(status: Any, expected: bool) -> None:  # noqa: FBT001 - a column
    assert decoded(status=status).has_failed is expected


@pytest.mark.parametrize(("reason", "expected"), [("PreemptionByScheduler", True), ("EvictionByEvictionAPI", False)])
def test_a_pod_that_a_scheduler_evicts_is_preempted(reason: str, expected: bool) -> None:  # noqa: FBT001 - a column
    conditions = [{"type": "DisruptionTarget", "status": "True", "reason": reason}]
    assert decoded(status={"conditions": conditions}).is_preempted is expected


UNREADY = {"type": "PodReadyToStartContainers", "status": "False"}


@pytest.mark.parametrize(
    ("more", "conditions", "expected"),
    [
        pytest.param({}, [UNREADY], 40, id="not prepared"),
        pytest.param({"phase": "Running"}, [UNREADY], 0, id="its containers have ended"),
        pytest.param({"startTime": None}, [UNREADY], 0, id="not seen by a kubelet"),
        pytest.param({}, [UNREADY | {"status": "True"}], 0, id="pulls images"),
        pytest.param({}, [], 0, id="an old kubelet"),
        pytest.param({}, [UNREADY, {"type": "DisruptionTarget", "status": "True"}], 0, id="evicted"),
    ],
)
def test_how_long_a_deleted_pod_waited_for_its_sandbox(
    more: dict[str, Any], conditions: list[dict[str, str]], expected: int
) -> None:
    status = {"phase": "Pending", "startTime": "2026-01-01T00:00:00Z", **more, "conditions": conditions}
    deleted = {"deletionTimestamp": "2026-01-01T00:01:10Z", "deletionGracePeriodSeconds": 30}
    claims = [{"name": "gpus", "resourceClaimName": "c"}]
    assert decoded(meta=deleted, resourceClaims=claims, status=status).unstarted_seconds == expected
    assert decoded(meta=deleted, status=status).unstarted_seconds == 0
    assert decoded(resourceClaims=claims, status=status).unstarted_seconds == 0


def test_devices_that_the_kubelet_reports_unhealthy_are_read() -> None:
    reports = [
        {
            "name": "claim:gpus/first",
            "resources": [
                {"resourceID": "d/p/gpu-0", "health": "Unhealthy"},
                {"resourceID": "d/p/gpu-1", "health": "Healthy"},
                {"resourceID": "d/p/gpu-2", "health": "Unknown"},
            ],
        },
        {"name": "example.com/plugin", "resources": [{"resourceID": "x", "health": "Unhealthy"}]},
    ]
    status = {"containerStatuses": [{"name": "main", "allocatedResourcesStatus": reports}]}
    assert decoded(status=status).unhealthy == (
        UnhealthyDevice(entry="gpus", request="first", resource_id="d/p/gpu-0"),
    )

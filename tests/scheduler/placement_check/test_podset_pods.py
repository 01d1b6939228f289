"""The pods of a Workload before they exist, by what Kueue and the claim controller make of its templates."""

import json
from typing import Any

import pytest

from scheduler.placement_check.kueue_decoding import decode_workload
from scheduler.placement_check.kueue_objects import KueueWorkload, ResourceFlavor
from scheduler.placement_check.podset_pods import (
    MOST_PODS,
    MissingPartError,
    WorkloadContext,
    expected_pods,
    is_expected,
    workload_of,
)
from solver.domain import PodId, Toleration

Json = dict[str, Any]
OURS = frozenset({"dovetail"})
CLAIM = {"devices": {"requests": [{"name": "gpus", "exactly": {"deviceClassName": "gpu.example.com", "count": 2}}]}}
AROUND = WorkloadContext(
    flavors={
        "h100": ResourceFlavor(
            name="h100", node_labels=(("gpu", "h100"),), tolerations=b'[{"key": "gpu", "operator": "Exists"}]'
        )
    },
    templates={"ml/two": json.dumps(CLAIM).encode()},
    priorities={"high": 1000},
)


def pod_set(name: str = "main", count: int = 2, scheduler: str = "dovetail", **spec: Any) -> Json:
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": "1"}}}
    pod = {
        "schedulerName": scheduler,
        "containers": [container],
        "resourceClaims": [{"name": "gpus", "resourceClaimTemplateName": "two"}],
        **spec,
    }
    template = {"metadata": {"labels": {"app": "train", "dovetail.dev/gang": "mine"}}, "spec": pod}
    return {"name": name, "count": count, "template": template}


def workload(*pod_sets: Json, spec: Json | None = None, status: Json | None = None) -> KueueWorkload:
    body = {
        "metadata": {"namespace": "ml", "name": "job-w", "uid": "uid-w", "creationTimestamp": "2026-11-29T00:00:00Z"},
        "spec": {"podSets": list(pod_sets), **(spec or {})},
        "status": status or {},
    }
    return decode_workload(json.dumps(body).encode())


def test_each_pod_has_claims_of_its_own_and_all_are_one_gang() -> None:
    pods, claims, _ = expected_pods(workload(pod_set(), pod_set("launcher", 1)), AROUND, OURS)
    assert [pod.id.name for pod in pods] == ["job-w:main:0", "job-w:main:1", "job-w:launcher:0"]
    assert [claim.id.name for claim in claims] == [f"{pod.id.name}:gpus" for pod in pods]
    assert [claim.requests[0].alternatives[0].count for claim in claims] == [2, 2, 2]
    for pod, claim in zip(pods, claims, strict=True):
        assert [entry.claim for entry in pod.claims] == [claim.id]
        assert pod.gang is not None
        assert pod.gang_note is not None
        assert (pod.gang.name, pod.gang_note.min_count) == ("job-w:", 3)
        assert ("app", "train") in pod.labels
        assert is_expected(pod.id)
        assert workload_of(pod.id) == "ml/job-w"
    assert len({pod.uid for pod in pods} | {claim.uid for claim in claims}) == 6
    assert not is_expected(PodId("ml", "job-w"))


@pytest.mark.parametrize(("status", "reason"), [("True", "Preempted"), ("False", "")])
def test_an_eviction_is_remembered_when_it_is_over(status: str, reason: str) -> None:
    """Kueue keeps the condition, which is False once the Workload has quota again."""
    made = workload(pod_set(), status={"conditions": [{"type": "Evicted", "status": status, "reason": "Preempted"}]})
    assert (made.was_evicted, made.evicted) == (True, reason)


def test_what_is_named_is_told_also_where_it_is_missing() -> None:
    made = workload(pod_set(priorityClassName="high"))
    assert expected_pods(made, AROUND, OURS).parts == {("ResourceClaimTemplate", "ml/two"), ("PriorityClass", "high")}
    with pytest.raises(MissingPartError) as raised:
        expected_pods(made, AROUND._replace(templates={}), OURS)
    assert ("ResourceClaimTemplate", "ml/two") in raised.value.parts


def test_a_workload_of_more_pods_than_a_hold_describes_is_refused_before_they_are_made() -> None:
    with pytest.raises(MissingPartError, match="it has 5001 pods"):
        expected_pods(workload(pod_set(count=MOST_PODS), pod_set("more", 1)), AROUND, OURS)


def test_one_pod_is_no_gang() -> None:
    ((pod,), _, _) = expected_pods(workload(pod_set(count=1)), AROUND, OURS)
    assert pod.gang_note is None


def test_pods_of_other_schedulers_are_left_out() -> None:
    pods, claims, _ = expected_pods(workload(pod_set(), pod_set("launcher", 1, "default-scheduler")), AROUND, OURS)
    assert (len(pods), len(claims)) == (2, 2)
    assert {pod.gang_note.min_count for pod in pods if pod.gang_note is not None} == {2}


def test_counts_and_flavors_are_those_of_the_admission() -> None:
    assignment = {"name": "main", "count": 3, "flavors": {"cpu": "h100", "gpus": "h100"}}
    status = {"admission": {"podSetAssignments": [assignment]}, "reclaimablePods": [{"name": "main", "count": 6}]}
    made = workload(pod_set(count=8), status=status)
    pods, _, _ = expected_pods(made, AROUND, OURS)
    assert len(pods) == 2  # six of eight have ended, three were admitted
    assert pods[0].node_selector == (("gpu", "h100"),)
    assert Toleration(key="gpu", operator="Exists") in pods[0].tolerations


def test_what_other_checks_ask_for_counts() -> None:
    update = {"name": "main", "nodeSelector": {"zone": "a"}, "tolerations": [{"key": "spot", "operator": "Exists"}]}
    check = {
        "name": "other",
        "state": "Ready",
        "podSetUpdates": [update, {"name": "launcher", "nodeSelector": {"x": "y"}}],
    }
    pods, _, _ = expected_pods(workload(pod_set(count=1), status={"admissionChecks": [check]}), AROUND, OURS)
    assert pods[0].node_selector == (("zone", "a"),)
    assert [each.key for each in pods[0].tolerations] == ["spot"]


@pytest.mark.parametrize(
    ("fields", "spec", "priority"),
    [
        ({}, {}, 0),
        ({}, {"priority": 7}, 0),
        ({}, {"priority": 7, "priorityClassRef": {"kind": "WorkloadPriorityClass", "name": "x"}}, 0),
        ({}, {"priority": 7, "priorityClassRef": {"kind": "PriorityClass", "name": "x"}}, 7),
        ({"priorityClassName": "high"}, {"priority": 7}, 1000),
        ({"priorityClassName": "high", "priority": 5}, {}, 5),
    ],
)
def test_the_priority_is_that_of_the_pods(fields: Json, spec: Json, priority: int) -> None:
    pods, _, _ = expected_pods(workload(pod_set(**fields), spec=spec), AROUND, OURS)
    assert [pod.priority for pod in pods] == [priority] * 2
    assert {pod.preemption_policy for pod in pods} == {"Never"}


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (workload(pod_set(priorityClassName="low")), "PriorityClass low"),
        (
            workload(pod_set(resourceClaims=[{"name": "gpus", "resourceClaimTemplateName": "three"}])),
            "ResourceClaimTemplate three of podset main",
        ),
        (
            workload(
                pod_set(), status={"admission": {"podSetAssignments": [{"name": "main", "flavors": {"cpu": "spot"}}]}}
            ),
            "ResourceFlavor spot of podset main",
        ),
        (workload({"name": "main", "count": 1, "template": []}), "the template of podset main"),
    ],
)
def test_what_is_missing_is_named(made: KueueWorkload, said: str) -> None:
    with pytest.raises(MissingPartError, match=said):
        expected_pods(made, AROUND, OURS)


def test_gates_and_groups_of_the_template_do_not_hold_an_expected_pod_up() -> None:
    fields: Json = {"schedulingGates": [{"name": "mine"}], "schedulingGroup": {"podGroupName": "g"}}
    pods, _, _ = expected_pods(workload(pod_set(count=1, **fields)), AROUND, OURS)
    assert pods[0].scheduling_gates == ()
    assert pods[0].pod_group == ""

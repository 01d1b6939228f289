"""LeaderWorkerSets: groups, subgroups, their labels, and exclusive topologies."""

from typing import Any

import pytest

from tests.scheduler.simulation.test_foreign_kinds import POD, case, labels_of, nodes, placed, waits
from tests.support import manifests as m

Json = dict[str, Any]
LWS = "leaderworkerset.sigs.k8s.io"
EXCLUSIVE = {f"{LWS}/exclusive-topology": "rack"}


def lws(size: int, annotations: Json | None = None, **terms: Any) -> Json:
    return {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": "llm", "annotations": annotations or {}},
        "spec": {"replicas": 2, "leaderWorkerTemplate": {"size": size, "workerTemplate": {"spec": POD}, **terms}},
    }


def test_groups_of_a_leader_worker_set_keep_to_domains_of_their_own() -> None:
    found = placed(case(*nodes("a", "b", "a", "b"), lws(2, EXCLUSIVE)))
    assert {int(found[f"llm-0{end}"][1:]) % 2 for end in ("", "-1")} != {
        int(found[f"llm-1{end}"][1:]) % 2 for end in ("", "-1")
    }
    assert len(found) == 4


def test_workers_of_an_exclusive_group_are_made_once_the_leader_has_a_node() -> None:
    found = waits(case(*nodes("a"), lws(2, EXCLUSIVE)))
    assert found["llm-1-1"] == "its LeaderWorkerSet makes it once its leader llm-1 has a node (exclusive-topology)"
    assert "makes it once" not in found["llm-0-1"]


@pytest.mark.parametrize(
    ("size", "policy", "expected"),
    [
        (5, {"subGroupSize": 2}, ["0", "0", "0", "1", "1"]),
        (4, {"subGroupSize": 2}, ["0", "0", "1", "1"]),
        (5, {"subGroupSize": 2, "subGroupPolicyType": "LeaderExcluded"}, ["", "0", "0", "1", "1"]),
    ],
)
def test_subgroups(size: int, policy: Json, expected: list[str]) -> None:
    found = case(m.node(), lws(size, subGroupPolicy=policy))
    labels = [dict(pod.labels) for pod in found.batch.pods][:size]
    assert [each.get(f"{LWS}/subgroup-index", "") for each in labels] == expected


def test_a_subgroup_may_have_a_domain_of_its_own() -> None:
    asked = lws(4, {f"{LWS}/subgroup-exclusive-topology": "rack"}, subGroupPolicy={"subGroupSize": 2})
    asked["spec"]["replicas"] = 1
    assert len(placed(case(*nodes("a", "a", "a", "a"), asked))) == 2
    assert len(placed(case(*nodes("a", "a", "b", "b"), asked))) == 4


def test_pods_have_the_labels_of_the_set_and_of_its_stateful_sets() -> None:
    found = case(m.node(cpu=64), lws(2, leaderTemplate={"metadata": {"labels": {"role": "leader"}}, "spec": POD}))
    leader, worker = labels_of(found, "llm-1"), labels_of(found, "llm-1-1")
    same = (f"{LWS}/name", f"{LWS}/group-index", f"{LWS}/group-key", f"{LWS}/template-revision-hash")
    assert [leader[each] for each in same] == [worker[each] for each in same]
    assert (leader[f"{LWS}/name"], leader[f"{LWS}/group-index"]) == ("llm", "1")
    assert (leader[f"{LWS}/worker-index"], worker[f"{LWS}/worker-index"]) == ("0", "1")
    assert (leader["apps.kubernetes.io/pod-index"], worker["apps.kubernetes.io/pod-index"]) == ("1", "1")
    assert leader["controller-revision-hash"].startswith("llm-")
    assert worker["controller-revision-hash"].startswith("llm-1-")
    assert (leader.get("role"), worker.get("role")) == ("leader", None)


def test_a_set_has_one_group_of_one_pod_by_default() -> None:
    asked = lws(1)
    del asked["spec"]["replicas"], asked["spec"]["leaderWorkerTemplate"]["size"]
    assert list(placed(case(m.node(), asked))) == ["llm-0"]

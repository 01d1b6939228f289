"""JobSets: the labels, rules and volumes of their pods, as JobSet's controller and webhooks write them."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from scheduler.simulation.simulator import SimulationCase
from tests.scheduler.simulation.test_foreign_kinds import POD, SAMPLES, case, job_set, labels_of, nodes, placed, waits
from tests.support import manifests as m

Json = dict[str, Any]
EXCLUSIVE = "alpha.jobset.sigs.k8s.io/exclusive-topology"
JOBSET = "jobset.sigs.k8s.io"
FIRST = {"spec": {"template": {"spec": POD}}}


def marks(found: SimulationCase, name: str) -> dict[str, str]:
    """Return the labels of a pod that are JobSet's."""
    labels = labels_of(found, name)
    return {key.removeprefix(f"{JOBSET}/"): value for key, value in labels.items() if key.startswith(f"{JOBSET}/")}


def test_a_job_set_makes_its_jobs_with_its_labels() -> None:
    found = case(*nodes("a", "a", "b", "b"), job_set())
    labels = dict(found.batch.pods[-1].labels)
    assert labels["jobset.sigs.k8s.io/job-index"] == labels["jobset.sigs.k8s.io/job-global-index"] == "1"
    assert labels["job-name"] == "train-workers-1"
    assert labels["batch.kubernetes.io/job-completion-index"] == "1"
    (warning,) = found.warnings
    assert warning == "JobSet: the JobSet controller makes its pods, and has to run in the cluster"


def test_jobs_have_an_index_in_the_job_set_and_one_in_their_group() -> None:
    replicated = [
        {"name": "a", "replicas": 2, "groupName": "one", "template": FIRST},
        {"name": "b", "template": FIRST},
        {"name": "c", "replicas": 1, "groupName": "one", "template": FIRST},
    ]
    found = case(m.node(cpu=64), job_set(replicatedJobs=replicated, coordinator={"replicatedJob": "a", "jobIndex": 1}))
    indexes = ("job-index", "job-global-index", "group-name", "group-replicas", "job-group-index")
    assert {pod.id.name: [marks(found, pod.id.name)[each] for each in indexes] for pod in found.batch.pods} == {
        "train-a-0-0": ["0", "0", "one", "3", "0"],
        "train-a-1-0": ["1", "1", "one", "3", "1"],
        "train-b-0-0": ["0", "2", "default", "1", "0"],
        "train-c-0-0": ["0", "3", "one", "3", "2"],
    }
    rest = marks(found, "train-c-0-0")
    assert [rest[each] for each in ("global-replicas", "replicatedjob-name", "restart-attempt", "coordinator")] == [
        "4",
        "c",
        "0",
        "train-a-1-0.train",
    ]


def test_each_job_of_an_exclusive_job_set_has_a_domain_of_its_own() -> None:
    exclusive = job_set({EXCLUSIVE: "rack"})
    found = placed(case(*nodes("a", "b", "a", "b"), exclusive))
    racks = Counter((name[:-2], int(node[1:]) % 2) for name, node in found.items())
    assert sorted(racks.values()) == [2, 2]
    assert len(placed(case(*nodes("a", "a", "a", "a"), exclusive))) == 2


def test_a_public_sample_has_a_node_pool_for_each_job(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pools = nodes("a", "b", "c")
    for node in pools:
        node["metadata"]["labels"]["cloud.google.com/gke-nodepool"] = node["metadata"]["name"]
    cluster = m.write_yaml(tmp_path / "cluster.yaml", *pools)
    assert m.run("simulate", "-o", "json", "-f", cluster, SAMPLES / "jobset-exclusive.yaml") == 0
    placements = json.loads(capsys.readouterr().out)["placements"]
    found = {(each["pod"].rpartition("-")[0], each["node"]) for each in placements}
    assert (len(placements), len(found), len({node for _, node in found})) == (9, 3, 3)


def test_followers_of_an_exclusive_job_are_made_once_its_leader_has_a_node() -> None:
    """The leader chooses a rack before its follower is there, and the follower has to go where the leader is."""
    exclusive = job_set({EXCLUSIVE: "rack"})
    found = case(*nodes("a", "b", "b"), exclusive)
    assert waits(case(*nodes("a"), exclusive))["train-workers-1-1"] == (
        "its JobSet makes it once train-workers-1-0, which leads its Job, has a node (exclusive-topology)"
    )
    (stuck,) = waits(found)
    assert stuck in {"train-workers-0-1", "train-workers-1-1"}
    assert "not created" not in waits(found)[stuck]


@pytest.mark.parametrize(("priority", "count"), [(7, 1), (8, 2)])
def test_exclusive_jobs_keep_away_from_those_of_their_own_priority(priority: int, count: int) -> None:
    def one(name: str, priority: int) -> Json:
        pod = {**POD, "priority": priority, "containers": [{"name": "main", "image": "i"}]}
        jobs = [{"name": "w", "template": {"spec": {"template": {"spec": pod}}}}]
        return job_set({EXCLUSIVE: "rack"}, replicatedJobs=jobs) | {
            "metadata": {"name": name, "annotations": {EXCLUSIVE: "rack"}}
        }

    found = case(*nodes("a"), one("x", 7), one("y", priority))
    assert labels_of(found, "y-w-0-0")[f"{JOBSET}/priority"] == str(priority)
    assert len(placed(found)) == count


def test_with_the_node_selector_strategy_nodes_are_labelled_beforehand() -> None:
    """hack/label_nodes of JobSet gives the nodes of each domain a Job's name and a taint; no pod has affinity."""
    rack = nodes("a", "b")
    rack[0]["metadata"]["labels"]["alpha.jobset.sigs.k8s.io/namespaced-job"] = "default_train-workers-1"
    rack[0]["spec"] = {"taints": [{"key": "alpha.jobset.sigs.k8s.io/no-schedule", "effect": "NoSchedule"}]}
    asked = job_set({EXCLUSIVE: "rack", "alpha.jobset.sigs.k8s.io/node-selector": "true"})
    found = case(*rack, asked)
    assert placed(found) == {"train-workers-1-0": "n0"}
    assert "makes it once" not in str(waits(found))


def test_one_replicated_job_may_be_exclusive() -> None:
    jobs = [
        {"name": "a", "template": {"metadata": {"annotations": {EXCLUSIVE: "rack"}}, **FIRST}},
        {"name": "b", "replicas": 2, "template": FIRST},
    ]
    found = placed(case(*nodes("a", "b", "b"), job_set(replicatedJobs=jobs)))
    assert (found["train-a-0-0"], len(found)) == ("n0", 3)


def test_volume_claims_are_shared_by_the_pods_that_mount_them() -> None:
    mounting = {
        **POD,
        "containers": [{"name": "c", "image": "i", "volumeMounts": [{"name": "data", "mountPath": "/d"}]}],
    }
    jobs = [{"name": "w", "template": {"spec": {"template": {"spec": mounting}}}}, {"name": "x", "template": FIRST}]
    claim = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}
    policies = [{"templates": [{"metadata": {"name": "data"}, "spec": claim}]}]
    found = case(m.node(cpu=64), job_set(replicatedJobs=jobs, volumeClaimPolicies=policies))
    volumes = {pod.id.name: [each.claim.name for each in pod.volumes if each.claim] for pod in found.batch.pods}
    assert volumes == {"train-w-0-0": ["data-train"], "train-x-0-0": []}
    assert [each.id.name for each in found.snapshot.volume_claims] == ["data-train"]


@pytest.mark.parametrize(
    ("spec", "note"),
    [
        ({"managedBy": "kueue.x-k8s.io/multikueue"}, "spec.managedBy: kueue.x-k8s.io/multikueue makes its Jobs"),
        ({"managedBy": "jobset.sigs.k8s.io/jobset-controller"}, ""),
        ({"scheduling": {"schedulingPolicy": {"gang": {}}}}, "spec.scheduling: its PodGroups are not read"),
    ],
)
def test_what_a_decision_leaves_out_is_told(spec: Json, note: str) -> None:
    told = [each.partition("): ")[2] for each in case(m.node(cpu=64), job_set(**spec)).warnings[1:]]
    assert [each[: len(note)] for each in told] == ([note] if note else [])


def test_a_job_that_starts_after_another_one_has_ended_is_decided_beside_it() -> None:
    jobs = [
        {"name": "a", "template": FIRST},
        {"name": "b", "template": FIRST, "dependsOn": [{"name": "a", "status": "Complete"}]},
        {"name": "c", "template": FIRST, "dependsOn": [{"name": "b", "status": "Ready"}]},
    ]
    (told,) = case(m.node(cpu=64), job_set(replicatedJobs=jobs)).warnings[1:]
    assumed = "its pods are made once a is complete: they are decided as if both ran at once"
    assert told.endswith(f"spec.replicatedJobs[1].dependsOn: {assumed}")

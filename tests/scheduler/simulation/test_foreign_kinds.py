"""Workloads of kinds outside Kubernetes, as their projects publish them, and what is decided about their pods."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from scheduler.settings import load
from scheduler.simulation import simulator
from scheduler.simulation.case_builder import CaseBuilder
from scheduler.simulation.manifests.documents import Document, ManifestFiles
from scheduler.simulation.simulator import SimulationCase
from tests.support import manifests as m

Json = dict[str, Any]
SAMPLES = Path(__file__).parent / "samples"
CONTAINER = {"name": "main", "image": "i", "resources": {"requests": {"cpu": "6"}}}
POD = {"schedulerName": "dovetail", "containers": [CONTAINER]}


def case(*manifests: Json) -> SimulationCase:
    builder = CaseBuilder()
    builder.add(Document(f"m{index}", each) for index, each in enumerate(manifests, start=1))
    return builder.case("dovetail")


def placed(found: SimulationCase) -> dict[str, str]:
    plan = simulator.answer(simulator.recorded(found, load(None), "dovetail")).plan
    return {each.pod.name: each.node for each in plan.placements}


def nodes(*racks: str) -> list[Json]:
    found = [m.node(f"n{index}", cpu=8) for index, _ in enumerate(racks)]
    for node, rack in zip(found, racks, strict=True):
        node["metadata"]["labels"]["rack"] = rack
    return found


def names(found: SimulationCase) -> list[str]:
    return [pod.id.name for pod in found.batch.pods]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("jobset", [f"paralleljobs-{each}" for each in ("driver-0-0", "workers-0-0", "workers-0-1")]),
        ("leaderworkerset", ["vllm-0", "vllm-0-1", "vllm-1", "vllm-1-1"]),
        ("raycluster", ["raycluster-complete-head-0", "raycluster-complete-small-group-worker-0"]),
        ("rayjob", ["rayjob-sample-head-0", "rayjob-sample-small-group-worker-0", "rayjob-sample-0"]),
        ("mpijob", ["pi-launcher", "pi-worker-0", "pi-worker-1"]),
        ("pytorchjob", ["pytorch-simple-master-0", "pytorch-simple-worker-0"]),
        ("kueue-job", ["sample-job-0-0", "sample-job-0-1", "sample-job-0-2"]),
        ("indexed-job", ["indexed-job-0", "indexed-job-1", "indexed-job-2"]),
        ("statefulset", ["web-0", "web-1", "web-2"]),
        ("cronjob", ["hello-0-0"]),
    ],
)
def test_public_samples_have_the_pods_that_their_controllers_make(
    name: str, expected: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = m.write_yaml(tmp_path / "cluster.yaml", m.node("n1", cpu=64, memory="256Gi"))
    assert m.run("simulate", "-o", "json", "-f", cluster, SAMPLES / f"{name}.yaml") == 0
    printed = capsys.readouterr()
    assert "the pods of the files name no scheduler: decided as if they named dovetail" in printed.err
    placements = json.loads(printed.out)["placements"]
    assert [each["pod"].partition("/")[2] for each in placements] == expected


def job_set(annotations: Json | None = None, **spec: Any) -> Json:
    job = {"parallelism": 2, "completions": 2, "template": {"spec": POD}}
    replicated = [{"name": "workers", "replicas": 2, "template": {"spec": job}}]
    metadata = {"name": "train", "annotations": annotations or {}}
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": metadata,
        "spec": {"replicatedJobs": replicated, **spec},
    }


def test_a_job_set_makes_its_jobs_with_its_labels() -> None:
    found = case(*nodes("a", "a", "b", "b"), job_set())
    labels = dict(found.batch.pods[-1].labels)
    assert labels["jobset.sigs.k8s.io/job-index"] == labels["jobset.sigs.k8s.io/job-global-index"] == "1"
    assert labels["job-name"] == "train-workers-1"
    assert labels["batch.kubernetes.io/job-completion-index"] == "1"
    (warning,) = found.warnings
    assert warning.startswith("m5 (JobSet train): its pods are made by the JobSet controller: ")


def test_each_job_of_an_exclusive_job_set_has_a_domain_of_its_own() -> None:
    exclusive = job_set({"alpha.jobset.sigs.k8s.io/exclusive-topology": "rack"})
    found = placed(case(*nodes("a", "b", "a", "b"), exclusive))
    racks = Counter((name[:-2], int(node[1:]) % 2) for name, node in found.items())
    assert sorted(racks.values()) == [2, 2]
    assert len(placed(case(*nodes("a", "a", "a", "a"), exclusive))) == 2


def test_a_suspended_job_set_is_decided_with_a_note() -> None:
    found = case(m.node(cpu=64), job_set(suspend=True))
    assert len(placed(found)) == 4
    assert any("spec.suspend: is true" in each for each in found.warnings)


def test_a_job_set_that_has_ended_makes_nothing() -> None:
    ended = job_set() | {"status": {"conditions": [{"type": "Completed", "status": "True"}]}}
    assert case(m.node(), ended).batch.pods == ()


def test_job_sets_with_a_generated_name_are_as_many() -> None:
    named = job_set() | {"metadata": {"generateName": "train-"}}
    assert len(placed(case(m.node(cpu=64), named, named))) == 8


def lws(size: int, annotations: Json | None = None, **terms: Any) -> Json:
    return {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": "llm", "annotations": annotations or {}},
        "spec": {"replicas": 2, "leaderWorkerTemplate": {"size": size, "workerTemplate": {"spec": POD}, **terms}},
    }


def test_groups_of_a_leader_worker_set_keep_to_domains_of_their_own() -> None:
    exclusive = lws(2, {"leaderworkerset.sigs.k8s.io/exclusive-topology": "rack"})
    found = placed(case(*nodes("a", "b", "a", "b"), exclusive))
    assert {int(found[f"llm-0{end}"][1:]) % 2 for end in ("", "-1")} != {
        int(found[f"llm-1{end}"][1:]) % 2 for end in ("", "-1")
    }
    assert len(found) == 4


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
    assert [each.get("leaderworkerset.sigs.k8s.io/subgroup-index", "") for each in labels] == expected


def test_a_ray_cluster_starts_within_its_bounds_and_with_its_autoscaler() -> None:
    group = {"groupName": "g", "replicas": 9, "maxReplicas": 2, "numOfHosts": 2, "template": {"spec": POD}}
    spec = {"headGroupSpec": {"template": {"spec": POD}}, "workerGroupSpecs": [group], "enableInTreeAutoscaling": True}
    body = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": {"name": "ray"}, "spec": spec}
    found = case(m.node(), body)
    assert names(found) == ["ray-head-0", *(f"ray-g-worker-{index}" for index in range(4))]
    assert dict(found.batch.pods[0].requests)["cpu"] == 6500


def test_a_kubeflow_job_with_a_scheduling_policy_is_a_gang() -> None:
    template = {"template": {"spec": POD}}
    parts = {"Launcher": {"replicas": 1, **template}, "Worker": {"replicas": 2, **template}}
    spec = {"runPolicy": {"schedulingPolicy": {"minAvailable": 3}}, "mpiReplicaSpecs": parts}
    body = {"apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", "metadata": {"name": "mpi"}, "spec": spec}
    found = case(*nodes("a", "a"), body)
    assert [(gang.min_count, gang.member_count) for gang in found.batch.gangs] == [(3, 3)]
    assert placed(found) == {}
    assert len(placed(case(*nodes("a", "a", "a"), body))) == 3


OF_POD: Json = {"template": {"spec": POD}}
UNKNOWN: list[tuple[str, str, Json, str]] = [
    ("trainer.kubeflow.org/v1alpha1", "TrainJob", {"runtimeRef": {"name": "torch"}}, "spec.runtimeRef"),
    ("batch.volcano.sh/v1alpha1", "Job", {"tasks": [{"replicas": 2, **OF_POD}]}, "spec.tasks[0].template"),
    ("serving.knative.dev/v1", "Service", OF_POD, "spec.template"),
    ("argoproj.io/v1alpha1", "Workflow", {"templates": [{"container": {"image": "i"}}]}, "spec"),
    ("example.com/v1", "Trainer", {"deep": {"er": [{"podTemplate": {"spec": POD}}]}}, "spec.deep.er[0].podTemplate"),
]


@pytest.mark.parametrize(("version", "kind", "spec", "field"), UNKNOWN)
def test_other_kinds_that_make_pods_say_what_to_write(version: str, kind: str, spec: Json, field: str) -> None:
    (problem,) = case(m.node(), {"apiVersion": version, "kind": kind, "metadata": {"name": "x"}, "spec": spec}).problems
    assert (problem.field, problem.subject) == (field, f"{kind} x")
    assert "write the Pods, or a Job, Deployment or StatefulSet like them" in problem.message


def test_pods_that_are_not_known_are_no_success(tmp_path: Path) -> None:
    body = {"apiVersion": "example.com/v1", "kind": "Trainer", "metadata": {"name": "x"}, "spec": OF_POD}
    assert m.run("simulate", "-f", m.write_yaml(tmp_path / "f.yaml", m.node(), body)) == 2


@pytest.mark.parametrize(
    ("version", "kind", "spec"),
    [
        ("v1", "PodTemplate", {"template": {"spec": POD}}),
        ("kueue.x-k8s.io/v1beta1", "Workload", {"podSets": [{"template": {"spec": POD}}]}),
        ("trainer.kubeflow.org/v1alpha1", "ClusterTrainingRuntime", {"template": {"spec": POD}}),
        ("v1", "Service", {"ports": []}),
    ],
)
def test_kinds_that_make_no_pods_are_skipped(version: str, kind: str, spec: Json) -> None:
    found = case(m.node(), {"apiVersion": version, "kind": kind, "metadata": {"name": "x"}, "spec": spec})
    assert found.problems == ()
    assert found.warnings == (f"skipped, because they decide nothing here: {kind} ({version})",)


def test_too_many_pods_are_not_written_down() -> None:
    huge = job_set()
    huge["spec"]["replicatedJobs"][0]["replicas"] = 10**9
    (problem,) = case(m.node(), huge).problems
    assert (problem.field, problem.message) == ("spec", "makes 2000000000 pods: write at most 150000")


def test_a_cluster_of_files_has_the_pods_already() -> None:
    reading = ManifestFiles([Document("c", each) for each in (m.node(), job_set())])
    assert all(change.kind.value != "pods" for change in CaseBuilder.as_cluster(reading).changes)

"""Kinds that are not known: those that would make pods are errors, which say what to write, and others are skipped."""

from pathlib import Path
from typing import Any

import pytest

from tests.scheduler.simulation.test_foreign_kinds import POD, case
from tests.support import manifests as m

Json = dict[str, Any]
OF_POD: Json = {"template": {"spec": POD}}
UNKNOWN: list[tuple[str, str, Json, str]] = [
    ("batch.volcano.sh/v1alpha1", "Job", {"tasks": [{"replicas": 2, **OF_POD}]}, "spec.tasks[0].template"),
    ("serving.knative.dev/v1", "Service", OF_POD, "spec.template"),
    ("argoproj.io/v1alpha1", "Rollout", {"replicas": 2, "workloadRef": {"kind": "Deployment", "name": "x"}}, "spec"),
    ("argoproj.io/v1alpha1", "Rollout", {"replicas": 2, **OF_POD}, "spec"),
    ("argoproj.io/v1alpha1", "Workflow", {"templates": [{"container": {"image": "i"}}]}, "spec"),
    ("flink.apache.org/v1beta1", "FlinkDeployment", {"image": "i", "taskManager": {"replicas": 2}}, "spec"),
    ("nvidia.com/v1alpha1", "DynamoGraphDeployment", {"services": {"w": {"extraPodSpec": {}}}}, "spec"),
    ("apps.nvidia.com/v1alpha1", "NIMService", {"replicas": 1}, "spec"),
    ("serving.kserve.io/v1beta1", "InferenceService", {"predictor": {"model": {}}}, "spec"),
    ("sparkoperator.k8s.io/v1beta2", "SparkApplication", {"executor": {"instances": 2}}, "spec"),
    (
        "grove.io/v1alpha1",
        "PodCliqueSet",
        {"template": {"cliques": [{"spec": {"podSpec": POD}}]}},
        "spec.template.cliques[0].spec.podSpec",
    ),
    ("example.com/v1", "Trainer", {"deep": {"er": [{"podTemplate": {"spec": POD}}]}}, "spec.deep.er[0].podTemplate"),
]


@pytest.mark.parametrize(("version", "kind", "spec", "field"), UNKNOWN)
def test_other_kinds_that_make_pods_say_what_to_write(version: str, kind: str, spec: Json, field: str) -> None:
    (problem,) = case(m.node(), {"apiVersion": version, "kind": kind, "metadata": {"name": "x"}, "spec": spec}).problems
    assert (problem.field, problem.subject) == (field, f"{kind} x")
    assert "write the Pods, or a Job, Deployment or StatefulSet like them" in problem.message


def test_the_group_of_a_kind_is_named_since_others_have_kinds_of_that_name() -> None:
    body = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "x"}, "spec": OF_POD}
    (problem,) = case(m.node(), body).problems
    assert problem.message == (
        "Dovetail does not know which pods a Job (batch.volcano.sh) makes: "
        "write the Pods, or a Job, Deployment or StatefulSet like them"
    )


def test_a_train_job_is_written_as_the_job_set_that_it_makes() -> None:
    body = {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": "x"},
        "spec": {"runtimeRef": {"name": "torch"}},
    }
    (problem,) = case(m.node(), body).problems
    assert problem.field == "spec.runtimeRef"
    assert problem.message == (
        "write the JobSet that it makes (kubectl get jobset x -o yaml), or the Pods: "
        "they are those of runtime torch, which is not read"
    )


def test_a_ray_cron_job_is_written_as_the_ray_job_that_it_makes() -> None:
    spec = {"schedule": "* * * * *", "jobTemplate": {"rayClusterSpec": {"headGroupSpec": OF_POD}}}
    (problem,) = case(
        m.node(), {"apiVersion": "ray.io/v1", "kind": "RayCronJob", "metadata": {"name": "x"}, "spec": spec}
    ).problems
    assert problem.field == "spec.jobTemplate"
    assert problem.message == "the pods are those of a RayJob: write the RayJob with this as its spec"


def test_pods_that_are_not_known_are_no_success(tmp_path: Path) -> None:
    body = {"apiVersion": "example.com/v1", "kind": "Trainer", "metadata": {"name": "x"}, "spec": OF_POD}
    assert m.run("simulate", "-f", m.write_yaml(tmp_path / "f.yaml", m.node(), body)) == 2


@pytest.mark.parametrize(
    ("version", "kind", "spec"),
    [
        ("v1", "PodTemplate", {"template": {"spec": POD}}),
        ("kueue.x-k8s.io/v1beta1", "Workload", {"podSets": [{"template": {"spec": POD}}]}),
        ("trainer.kubeflow.org/v1alpha1", "ClusterTrainingRuntime", {"template": {"spec": POD}}),
        ("argoproj.io/v1alpha1", "WorkflowTemplate", {"templates": [{"containerSet": POD}]}),
        ("serving.kserve.io/v1alpha1", "ClusterServingRuntime", POD),
        ("flow.volcano.sh/v1alpha1", "JobTemplate", {"tasks": [{"template": {"spec": POD}}]}),
        ("v1", "Service", {"ports": []}),
    ],
)
def test_kinds_that_make_no_pods_are_skipped(version: str, kind: str, spec: Json) -> None:
    found = case(m.node(), {"apiVersion": version, "kind": kind, "metadata": {"name": "x"}, "spec": spec})
    assert found.problems == ()
    assert found.warnings == (f"skipped, because they decide nothing here: {kind} ({version})",)

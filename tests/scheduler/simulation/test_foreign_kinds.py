"""Workloads of kinds outside Kubernetes, as their projects publish them, and what is decided about their pods."""

import json
from pathlib import Path
from typing import Any

import pytest

from scheduler.settings import load
from scheduler.simulation import simulator
from scheduler.simulation.case_builder import CaseBuilder
from scheduler.simulation.manifests.documents import Document, ManifestFiles
from scheduler.simulation.simulator import SimulationCase
from tests.support import manifests as m
from tests.support.guides import blocks, text_of

Json = dict[str, Any]
SAMPLES = Path(__file__).parent / "samples"
CONTAINER = {"name": "main", "image": "i", "resources": {"requests": {"cpu": "6"}}}
POD = {"schedulerName": "dovetail", "containers": [CONTAINER]}
EXTENDED: dict[str, str | int] = {"nvidia.com/gpu": 32, "google.com/tpu": 16, "ephemeral-storage": "4Ti"}
TPU = {"cloud.google.com/gke-tpu-accelerator": "tpu-v6e-slice", "cloud.google.com/gke-tpu-topology": "4x4"}


def case(*manifests: Json) -> SimulationCase:
    builder = CaseBuilder()
    builder.add(Document(f"m{index}", each) for index, each in enumerate(manifests, start=1))
    return builder.case("dovetail")


def placed(found: SimulationCase) -> dict[str, str]:
    plan = simulator.answer(simulator.recorded(found, load(None), "dovetail")).plan
    return {each.pod.name: each.node for each in plan.placements}


def labels_of(found: SimulationCase, name: str) -> dict[str, str]:
    return next(dict(pod.labels) for pod in found.batch.pods if pod.id.name == name)


def waits(found: SimulationCase) -> dict[str, str]:
    plan = simulator.answer(simulator.recorded(found, load(None), "dovetail")).plan
    return {each.pod.name: each.reasons[0].message for each in plan.unplaced}


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
        ("jobset", [*(f"paralleljobs-workers-0-{index}" for index in range(4)), "paralleljobs-driver-0-0"]),
        ("leaderworkerset", ["vllm-0", "vllm-0-1", "vllm-1", "vllm-1-1"]),
        ("raycluster", ["raycluster-complete-head-0", "raycluster-complete-small-group-worker-0"]),
        ("rayjob", ["rayjob-sample-head-0", "rayjob-sample-small-group-worker-0", "rayjob-sample-0"]),
        ("raycluster-tpu", ["raycluster-tpu-head-0", *(f"raycluster-tpu-tpu-group-worker-{i}" for i in range(4))]),
        ("mpijob", ["pi-worker-0", "pi-worker-1", "pi-launcher-0"]),
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
    large = m.node("n1", cpu=640, memory="5Ti", **EXTENDED)
    large["metadata"]["labels"] |= TPU
    cluster = m.write_yaml(tmp_path / "cluster.yaml", large)
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


@pytest.mark.parametrize("template", ["x", {"spec": "x"}, {"spec": {**POD, "containers": 5}}, {"metadata": []}])
def test_parts_of_a_wrong_type_are_errors(template: Any) -> None:
    jobs = [{"name": "w", "template": {"spec": {"template": template}}}]
    assert case(m.node(), job_set(replicatedJobs=jobs)).problems


@pytest.mark.parametrize("pod", ["x", {**POD, "containers": 5}])
def test_a_pod_of_a_wrong_type_is_an_error_of_the_pod(pod: Any) -> None:
    roles = {"Worker": {"restartPolicy": "Never", "template": {"spec": pod}}}
    body = {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "metadata": {"name": "t"}}
    assert case(m.node(), body | {"spec": {"tfReplicaSpecs": roles}}).problems


def test_too_many_pods_are_not_written_down() -> None:
    huge = job_set()
    huge["spec"]["replicatedJobs"][0]["replicas"] = 10**9
    (problem,) = case(m.node(), huge).problems
    assert (problem.field, problem.message) == ("spec", "makes 2000000000 pods: write at most 150000")


def test_a_cluster_of_files_has_the_pods_already() -> None:
    reading = ManifestFiles([Document("c", each) for each in (m.node(), job_set())])
    assert all(change.kind.value != "pods" for change in CaseBuilder.as_cluster(reading).changes)


@pytest.mark.parametrize("gpus", [4, 3])
def test_the_job_set_of_the_guide_starts_as_a_whole(
    gpus: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of three pods with four GPUs each, none starts where one of three nodes has three."""
    (shown,) = [each for each in blocks(text_of("training.md")) if each.startswith("# train.yaml")]
    file = tmp_path / "train.yaml"
    file.write_text(shown, encoding="utf-8")
    of_class = m.device_class()
    of_class["metadata"]["name"] = "gpu.nvidia.com"
    sizes = {"n1": 4, "n2": 4, "n3": gpus}
    cluster = [of_class, *map(m.node, sizes), *(m.slice_of(name, count) for name, count in sizes.items())]
    manifests = m.write_json(tmp_path / "cluster.json", cluster)
    status = m.run("fit", "-f", str(file), "-n", "ml", "--cluster", str(manifests), "-o", "json")
    plan = json.loads(capsys.readouterr().out)["plan"]
    assert (status, len(plan["placements"])) == ((0, 3) if gpus == 4 else (1, 0))

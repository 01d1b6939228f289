"""Kubeflow's jobs: replicas of each role and their defaults, labels, gangs, and what the operators add to pods."""

from typing import Any

import pytest

from scheduler.simulation.simulator import SimulationCase
from tests.scheduler.simulation.test_foreign_kinds import POD, case, labels_of, names, nodes, placed
from tests.support import manifests as m

Json = dict[str, Any]
SMALL = {"schedulerName": "dovetail", "containers": [{"name": "main", "image": "i"}]}


def job(kind: str, field: str, version: str = "v1", *, run: Json | None = None, **parts: Json) -> Json:
    specs = {name: {"template": {"spec": POD}, **terms} for name, terms in parts.items()}
    return {
        "apiVersion": f"kubeflow.org/{version}",
        "kind": kind,
        "metadata": {"name": "j"},
        "spec": {field: specs, **(run or {})},
    }


def labels(found: SimulationCase, name: str) -> dict[str, str]:
    known = labels_of(found, name)
    own = "training.kubeflow.org/"
    return {key.removeprefix(own): value for key, value in known.items() if key.startswith(own)}


def test_a_kubeflow_job_with_a_scheduling_policy_is_a_gang() -> None:
    run = {"runPolicy": {"schedulingPolicy": {"minAvailable": 3}}}
    body = job("MPIJob", "mpiReplicaSpecs", "v2beta1", run=run, Launcher={"replicas": 1}, Worker={"replicas": 2})
    found = case(*nodes("a", "a"), body)
    assert [(gang.min_count, gang.member_count) for gang in found.batch.gangs] == [(3, 3)]
    assert placed(found) == {}
    assert len(placed(case(*nodes("a", "a", "a"), body))) == 3


@pytest.mark.parametrize(
    ("kind", "field", "parts", "expected"),
    [
        ("MPIJob", "mpiReplicaSpecs", {"Launcher": {}, "Worker": {}}, ["j-launcher"]),
        ("PyTorchJob", "pytorchReplicaSpecs", {"Master": {}, "Worker": {}}, ["j-master-0", "j-worker-0"]),
        ("PyTorchJob", "pytorchReplicaSpecs", {"worker": {"replicas": 2}}, ["j-worker-0", "j-worker-1"]),
        ("TFJob", "tfReplicaSpecs", {"PS": {"replicas": 0}, "Chief": {}}, ["j-chief-0"]),
        ("JAXJob", "jaxReplicaSpecs", {"Worker": {}}, ["j-worker-0"]),
    ],
)
def test_replicas_and_their_defaults(kind: str, field: str, parts: Json, expected: list[str]) -> None:
    assert names(case(m.node(), job(kind, field, **parts))) == expected


def test_an_elastic_job_starts_with_its_replicas() -> None:
    elastic = {"elasticPolicy": {"minReplicas": 1, "maxReplicas": 9}}
    found = case(m.node(), job("PyTorchJob", "pytorchReplicaSpecs", run=elastic, Worker={"replicas": 2}))
    assert names(found) == ["j-worker-0", "j-worker-1"]


@pytest.mark.parametrize(
    ("kind", "field", "parts", "masters"),
    [
        ("PyTorchJob", "pytorchReplicaSpecs", ("Master", "Worker"), ["j-master-0"]),
        ("TFJob", "tfReplicaSpecs", ("Worker", "PS"), ["j-worker-0"]),
        ("TFJob", "tfReplicaSpecs", ("Worker", "Chief"), ["j-chief-0"]),
        ("XGBoostJob", "xgbReplicaSpecs", ("Master", "Worker"), ["j-master-0"]),
        ("JAXJob", "jaxReplicaSpecs", ("Worker",), ["j-worker-0"]),
        ("MXJob", "mxReplicaSpecs", ("Server", "Worker"), ["j-server-0"]),
    ],
)
def test_labels_of_the_training_operator(kind: str, field: str, parts: tuple[str, ...], masters: list[str]) -> None:
    roles: Json = {each: {"replicas": 2 if each == "Worker" else 1} for each in parts}
    found = case(m.node(), job(kind, field, **roles))
    assert [name for name in names(found) if labels(found, name).get("job-role") == "master"] == masters
    assert labels(found, "j-worker-1") == {
        "job-name": "j",
        "operator-name": f"{kind.lower()}-controller",
        "replica-index": "1",
        "replica-type": "worker",
    }


@pytest.mark.parametrize(("run", "launcher", "worker"), [({}, None, "0"), ({"runLauncherAsWorker": True}, "0", "1")])
def test_labels_of_the_mpi_operator(run: Json, launcher: str | None, worker: str) -> None:
    """A Job makes the launcher."""
    body = job("MPIJob", "mpiReplicaSpecs", "v2beta1", run=run, Launcher={}, Worker={"replicas": 1})
    found = case(m.node(), body)
    assert labels(found, "j-launcher-0").get("replica-index") == launcher
    assert labels_of(found, "j-launcher-0")["job-name"] == "j-launcher"
    assert labels(found, "j-worker-0") == {
        "job-name": "j",
        "job-role": "worker",
        "operator-name": "mpi-operator",
        "replica-index": worker,
    }


@pytest.mark.parametrize(
    ("kind", "field", "parts", "pod", "expected"),
    [
        ("PyTorchJob", "pytorchReplicaSpecs", ("Master", "Worker"), "j-worker-0", {"cpu": 50, "memory": 10 * 2**20}),
        ("PyTorchJob", "pytorchReplicaSpecs", ("Master", "Worker"), "j-master-0", {}),
        ("PyTorchJob", "pytorchReplicaSpecs", ("Worker",), "j-worker-0", {}),
        (
            "MPIJob",
            "mpiReplicaSpecs",
            ("Launcher",),
            "j-launcher",
            {"cpu": 100, "memory": 512 * 2**20, "ephemeral-storage": 5 * 2**30},
        ),
    ],
)
def test_pods_request_what_their_init_containers_do(
    kind: str, field: str, parts: tuple[str, ...], pod: str, expected: dict[str, int]
) -> None:
    roles: Json = {each: {"template": {"spec": SMALL}} for each in parts}
    found = case(m.node(), job(kind, field, **roles))
    assert next(dict(each.requests) for each in found.batch.pods if each.id.name == pod) == expected


def test_a_suspended_job_is_decided_with_a_note() -> None:
    found = case(m.node(), job("TFJob", "tfReplicaSpecs", run={"runPolicy": {"suspend": True}}, Worker={}))
    assert names(found) == ["j-worker-0"]
    assert any("spec.runPolicy.suspend: is true" in each for each in found.warnings)

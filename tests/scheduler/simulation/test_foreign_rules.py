"""What is wrong with workloads of kinds outside Kubernetes is said once, by their own fields."""

import copy
import itertools
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.reading import judges
from e2e.reading.mutations import places
from scheduler.kube.api_versions import NEWEST_MINOR
from scheduler.simulation.workloads import leader_worker_sets
from scheduler.simulation.workloads.pod_templates import template_hash
from tests.scheduler.simulation.test_foreign_kinds import POD, SAMPLES, case, job_set
from tests.scheduler.simulation.test_job_sets import EXCLUSIVE, FIRST
from tests.scheduler.simulation.test_leader_worker_sets import LWS, lws
from tests.scheduler.simulation.test_ray_clusters import HEAD, group, ray
from tests.scheduler.simulation.test_replica_specs import job
from tests.support import manifests as m

Json = dict[str, Any]
AT = "spec.leaderWorkerTemplate"
WRITE_PODS = "missing: write the pods that are to be made"


def errors(body: Json) -> list[tuple[str, str]]:
    found = case(m.node(cpu=64), body)
    assert (found.batch.pods, found.warnings) == ((), ())
    return [(each.field, each.message) for each in found.problems]


def meant(name: str) -> str:
    return f"there is no such field: did you mean {name}?"


def of_sets(**terms: Any) -> Json:
    return job_set(replicatedJobs=[{"name": "w", "template": FIRST, **terms}])


def of_groups(spec: Json, **terms: Any) -> Json:
    body = lws(2)
    body["spec"] |= spec
    body["spec"]["leaderWorkerTemplate"] |= terms
    return body


def without(body: Json, name: str) -> Json:
    return {**body, "spec": {key: value for key, value in body["spec"].items() if key != name}}


OF_PYTORCH = job("PyTorchJob", "pytorchReplicaSpecs", Worker={})
WRONG: list[tuple[Json, str, str]] = [
    (job("PyTorchJob", "pyTorchReplicaSpec", Worker={}), "spec.pyTorchReplicaSpec", meant("pytorchReplicaSpecs")),
    (without(job_set(replicatedJob=[]), "replicatedJobs"), "spec.replicatedJob", meant("replicatedJobs")),
    (ray(headGroup=HEAD), "spec.headGroup", meant("headGroupSpec")),
    (ray(headGroupSpec=HEAD, workerGroupSpec=[group()]), "spec.workerGroupSpec", meant("workerGroupSpecs")),
    (without(OF_PYTORCH, "pytorchReplicaSpecs"), "spec.pytorchReplicaSpecs", "missing: write its parts, such as"),
    (job_set(replicatedJobs=[]), "spec.replicatedJobs", "missing: write the Jobs that it makes"),
    (job_set(replicatedJobs={"name": "w"}), "spec.replicatedJobs", "expected a list, got a mapping"),
    (job_set(replicatedJobs=[5]), "spec.replicatedJobs[0]", "expected a mapping, got a whole number"),
    (ray(), "spec.headGroupSpec", "missing: write the head of the cluster"),
    (ray("RayService"), "spec.rayClusterConfig", "missing: write the cluster"),
    (ray("RayJob"), "spec.rayClusterSpec", "missing: write the cluster, or the clusterSelector of another one"),
    (
        ray("RayJob", rayClusterSpec={"headGroupSpec": {"x": 1}}),
        "spec.rayClusterSpec.headGroupSpec.template",
        WRITE_PODS,
    ),
    (without(lws(2), "leaderWorkerTemplate"), AT, "missing: write the pods that it makes, as workerTemplate"),
    (
        {**lws(2), "spec": {"leaderWorkerTemplate": {"size": 2, "workerTemplte": {"spec": POD}}}},
        f"{AT}.workerTemplte",
        meant("workerTemplate"),
    ),
    (of_groups({}, workerTemplate={"spec": {}}), f"{AT}.workerTemplate.spec.containers", "missing: write at least one"),
    (of_sets(template={"spec": {}}), "spec.replicatedJobs[0].template.spec.template", WRITE_PODS),
    (
        of_sets(template={"spec": {"template": {"spec": {"containers": []}}}}),
        "spec.replicatedJobs[0].template.spec.template.spec.containers",
        "missing: write at least one",
    ),
    (of_sets(replicas="4"), "spec.replicatedJobs[0].replicas", "expected a whole number, got a text: leave out the"),
    (of_sets(replicas=-3), "spec.replicatedJobs[0].replicas", "is -3: write 0 or more"),
    (of_groups({"replicas": "4"}), "spec.replicas", "expected a whole number, got a text: leave out the quotes"),
    (of_groups({}, size=-3), f"{AT}.size", "is -3: write 1 or more"),
    (
        ray(headGroupSpec=HEAD, workerGroupSpecs=[group(numOfHosts=1.5)]),
        "spec.workerGroupSpecs[0].numOfHosts",
        "expected a whole number",
    ),
    (
        job("TFJob", "tfReplicaSpecs", Worker={"replicas": True}),
        "spec.tfReplicaSpecs.Worker.replicas",
        "expected a whole number, got true or false",
    ),
    (
        job_set(replicatedJobs=[{"name": "w", "template": FIRST}] * 2),
        "spec.replicatedJobs[1].name",
        "w is the name of spec.replicatedJobs[0], too: write another one",
    ),
    (of_sets(name="W"), "spec.replicatedJobs[0].name", "'W': write a-z, 0-9 and -"),
    (
        of_sets(template={"spec": {"parallelism": 2, "template": {"spec": POD}}}),
        "spec.replicatedJobs[0].template.spec.completions",
        "missing: an Indexed Job says how many indexes it has",
    ),
    (job_set(replicatedJobs=[{"template": FIRST}]), "spec.replicatedJobs[0].name", "missing: write a name"),
    (
        ray(headGroupSpec=HEAD, workerGroupSpecs=[group("gpu"), group("gpu")]),
        "spec.workerGroupSpecs[1].groupName",
        "gpu is the name of spec.workerGroupSpecs[0], too",
    ),
    (
        job("MPIJob", "mpiReplicaSpecs", "v2beta1", Launcher={"replicas": 3}),
        "spec.mpiReplicaSpecs.Launcher.replicas",
        "is 3: an MPIJob has one launcher: write 1",
    ),
    (
        job("PyTorchJob", "pytorchReplicaSpecs", Worker={}, worker={}),
        "spec.pytorchReplicaSpecs.worker",
        "is the same part as Worker",
    ),
    (
        {**of_sets(), "metadata": {"name": "x" * 58}},
        "metadata.name",
        "makes names of pods longer than 63 characters (70): write a shorter name",
    ),
    (
        {
            **job_set(coordinator={"replicatedJob": "workers"}),
            "metadata": {"name": "x" * 30},
        },
        "metadata.name",
        "makes the name of the coordinator's host longer than 63 characters (73): write a shorter name",
    ),
    ({**lws(2), "metadata": {"name": "x" * 60}}, "metadata.name", "makes names of pods longer than 63 characters (64)"),
]


@pytest.mark.parametrize(("body", "field", "message"), WRONG, ids=[f"{field} {said}" for _, field, said in WRONG])
def test_what_is_missing_or_misspelt_is_named(body: Json, field: str, message: str) -> None:
    assert dict(errors(body)).get(field, "").startswith(message), errors(body)


def test_a_misspelt_part_is_not_missing_besides(tmp_path: Path) -> None:
    assert errors(ray(headGroup=HEAD)) == [("spec.headGroup", meant("headGroupSpec"))]
    written = m.write_yaml(tmp_path / "f.yaml", m.node(), ray(headGroup=HEAD))
    assert m.run("simulate", "-f", written) == 2


def test_a_mistake_in_a_template_is_said_once_at_its_own_path() -> None:
    wrong = {"containers": [{"name": "c", "image": "i", "resources": {"limits": {"cpu": "1x"}}}]}
    where = "spec.containers[0].resources.limits[cpu]"
    ((field, message),) = errors(of_groups({"replicas": 50}, workerTemplate={"spec": wrong}))
    assert (field, message[:5]) == (f"{AT}.workerTemplate.{where}", "'1x' ")
    ((field, _),) = errors(of_sets(replicas=50, template={"spec": {"template": {"spec": wrong}}}))
    assert field == f"spec.replicatedJobs[0].template.spec.template.{where}"


def test_an_error_in_what_a_controller_adds_is_said_once() -> None:
    body = job_set(network={"subdomain": "Not A Name"})
    assert [each.field for each in case(m.node(), body).problems] == ["spec.template.spec.subdomain"]


@pytest.mark.parametrize(("mode", "count"), [("Indexed", 0), ("NonIndexed", 1)])
def test_names_of_pods_without_an_index_may_be_long(mode: str, count: int) -> None:
    body = of_sets(template={"spec": {"completionMode": mode, "completions": 1, "template": {"spec": POD}}})
    found = case(m.node(cpu=64), {**body, "metadata": {"name": "x" * 56}})
    assert (len(found.batch.pods), len(found.problems)) == (count, 1 - count)


@pytest.mark.parametrize("jobs", [150_001, 2**31 - 1])
def test_jobs_without_pods_are_counted(jobs: int) -> None:
    template = {"spec": {"parallelism": 0, "completions": 1, "template": {"spec": POD}}}
    assert errors(of_sets(replicas=jobs, template=template)) == [
        ("spec", f"makes {jobs} Jobs: write at most 150000"),
    ]


@pytest.mark.parametrize("rules", [5, {"a": "b"}, "text", True])
@pytest.mark.parametrize("kind", ["podAffinity", "podAntiAffinity"])
def test_rules_of_a_wrong_type_in_an_exclusive_template_are_errors(kind: str, rules: Any) -> None:
    name = "requiredDuringSchedulingIgnoredDuringExecution"
    pod = {**POD, "affinity": {kind: {name: rules}}}
    body = of_sets(template={"spec": {"template": {"spec": pod}}})
    body["metadata"]["annotations"] = {EXCLUSIVE: "rack"}
    ((field, message),) = errors(body)
    assert field == f"spec.replicatedJobs[0].template.spec.template.spec.affinity.{kind}.{name}"
    assert message.startswith("expected a list")


def test_a_controller_is_named_once_for_a_kind() -> None:
    one, other = job_set(), {**job_set(), "metadata": {"name": "other"}}
    of_mpi = [job("MPIJob", "mpiReplicaSpecs", each, Launcher={}) for each in ("v1", "v2beta1")]
    of_mpi[1]["metadata"] = {"name": "k"}
    assert [*case(m.node(cpu=64), one, other, *of_mpi).warnings] == [
        "JobSet: the JobSet controller makes its pods, and has to run in the cluster",
        "MPIJob: the Kubeflow training operator makes its pods, and has to run in the cluster",
        "MPIJob: the MPI operator makes its pods, and has to run in the cluster",
    ]


def test_the_template_of_a_set_is_hashed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    hashed: list[Json] = []

    def counted(body: Json) -> str:
        hashed.append(body)
        return template_hash(body)

    monkeypatch.setattr(leader_worker_sets, "template_hash", counted)
    assert len(case(m.node(cpu=64), of_groups({"replicas": 9})).batch.pods) == 18
    assert len(hashed) <= 3


STATUS = {"conditions": [{"type": "Other", "status": "True"}], "jobDeploymentStatus": "Running"}
STORAGE: Json = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}
CLAIM: Json = {"metadata": {"name": "data"}, "spec": STORAGE}
AFFINITY = {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "rack"}]}
MOUNTING = {"name": "c", "volumeMounts": [{"name": "data", "mountPath": "/d"}]}
KEPT: Json = {
    "schedulerName": "dovetail",
    "affinity": {"podAffinity": AFFINITY, "podAntiAffinity": AFFINITY},
    "containers": [MOUNTING],
}
RICH: list[Json] = [
    job_set(
        {EXCLUSIVE: "rack"},
        managedBy="other",
        network={"subdomain": "s", "enableDNSHostnames": True},
        coordinator={"replicatedJob": "w", "jobIndex": 0, "podIndex": 0},
        volumeClaimPolicies=[{"templates": [CLAIM]}],
        replicatedJobs=[
            {
                "name": "w",
                "groupName": "g",
                "replicas": 1,
                "dependsOn": [{"name": "w", "status": "Complete"}],
                "template": {
                    "metadata": {"annotations": {EXCLUSIVE: "rack"}, "labels": {}},
                    "spec": {"template": {"metadata": {"labels": {}, "annotations": {}}, "spec": KEPT}},
                },
            }
        ],
    ),
    lws(
        2,
        {f"{LWS}/exclusive-topology": "rack", f"{LWS}/subgroup-exclusive-topology": "rack"},
        workerTemplate={"metadata": {"labels": {}, "annotations": {}}, "spec": KEPT},
        subGroupPolicy={"subGroupSize": 1, "subGroupPolicyType": "LeaderExcluded"},
        volumeClaimTemplates=[CLAIM],
    ),
    ray(
        "RayJob",
        {"ray.io/gang-scheduling-enabled": "true"},
        submissionMode="K8sJobMode",
        submitterPodTemplate={"spec": KEPT},
        rayClusterSpec={
            "enableInTreeAutoscaling": True,
            "autoscalerOptions": {"resources": {"limits": {"cpu": 1}}},
            "headGroupSpec": {"template": {"metadata": {"labels": {}}, "spec": KEPT}},
            "workerGroupSpecs": [{**group(), "replicas": 1, "suspend": False}],
        },
    ),
    job(
        "MPIJob",
        "mpiReplicaSpecs",
        "v2beta1",
        run={"runPolicy": {"suspend": True, "schedulingPolicy": {"minAvailable": 1}}, "runLauncherAsWorker": True},
        Launcher={"restartPolicy": "Never"},
        Worker={"replicas": 1},
    ),
]
FILES = sorted(SAMPLES.glob("*.yaml"))
PARTS = [(each.stem, body) for each in FILES for body in yaml.safe_load_all(each.read_text(encoding="utf-8"))]
PARTS += [("rich", {**body, "status": STATUS}) for body in RICH]


@pytest.mark.parametrize("body", RICH, ids=[each["kind"] for each in RICH])
def test_what_has_many_fields_is_made(body: Json) -> None:
    found = case(m.node(cpu=64), {**body, "status": STATUS})
    assert [each.field for each in found.problems] == []
    assert found.batch.pods


@pytest.mark.parametrize(("name", "base"), PARTS, ids=[f"{name} {body['kind']}" for name, body in PARTS])
def test_a_field_of_another_type_is_no_exception(name: str, base: Json) -> None:
    assert name
    for place, value in itertools.product(list(places(base)), ([], {}, 5, "text", [5, None], {"a": [{}]})):
        body = copy.deepcopy(base)
        holder: Any = body
        for key in place[:-1]:
            holder = holder[key]
        holder[place[-1]] = value
        judges.of_dovetail(body, f"1.{NEWEST_MINOR}")

"""The pods that controllers make of workloads: what hangs on their labels, owners, names and order."""

from pathlib import Path
from typing import Any

import pytest

from scheduler.settings import load
from scheduler.simulation import simulator
from scheduler.simulation.case_builder import CaseBuilder
from scheduler.simulation.manifests.documents import Document
from scheduler.simulation.simulator import SimulationCase, SimulationResult
from solver.domain import Pod, ReasonCode
from tests.support import manifests as m

Json = dict[str, Any]
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
HOST = "kubernetes.io/hostname"


def case(*manifests: Json, name: str = "dovetail") -> SimulationCase:
    builder = CaseBuilder()
    builder.add(Document(f"m{index}", each) for index, each in enumerate(manifests, start=1))
    return builder.case(name)


def answer(found: SimulationCase) -> SimulationResult:
    return simulator.answer(simulator.recorded(found, load(None), "dovetail"))


def placed(found: SimulationCase) -> dict[str, str]:
    return {each.pod.name: each.node for each in answer(found).plan.placements}


def workload(kind: str, name: str = "web", pod: Json | None = None, **spec: Any) -> Json:
    version = {"ReplicationController": "v1", "Job": "batch/v1", "CronJob": "batch/v1"}.get(kind, "apps/v1")
    own = {"schedulerName": "dovetail", "containers": [{"name": "main"}], **(pod or {})}
    body = {"template": {"metadata": {"labels": {"app": "web"}}, "spec": own}, **spec}
    if kind == "CronJob":
        body = {"schedule": "@daily", "jobTemplate": {"spec": body}}
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": body}


def labels(pod: Pod) -> dict[str, str]:
    return dict(pod.labels)


def near(key: str, **selected: str) -> Json:
    term = {"labelSelector": {"matchLabels": selected}, "topologyKey": key}
    return {"affinity": {"podAffinity": {REQUIRED: [term]}}}


def running(name: str, owner: Json | None = None, node: str = "n1", **marks: str) -> Json:
    found = m.pod(name, nodeName=node)
    found["metadata"]["labels"] = {"app": "web", **{key.replace("_", "-"): value for key, value in marks.items()}}
    if owner is not None:
        found["metadata"]["ownerReferences"] = [{**owner, "controller": True, "uid": "u"}]
    return {**found, "status": {"phase": "Running"}}


def nodes_in_racks(*racks: str, cpu: int = 8) -> list[Json]:
    nodes = [m.node(f"n{index}", cpu=cpu) for index, _ in enumerate(racks)]
    for node, rack in zip(nodes, racks, strict=True):
        node["metadata"]["labels"]["rack"] = rack
    return nodes


def test_pods_of_a_job_find_each_other_by_the_labels_of_the_job() -> None:
    container = {"containers": [{"name": "main", "resources": {"requests": {"cpu": "6"}}}]}
    for key in ("job-name", "batch.kubernetes.io/job-name"):
        job = workload("Job", "train", near("rack", **{key: "train"}) | container, parallelism=2, completions=2)
        found = placed(case(*nodes_in_racks("r0", "r0", "r1", "r1"), job))
        assert len(found) == 2
        assert len({node in {"n0", "n1"} for node in found.values()}) == 1


def test_a_rollout_keeps_apart_only_the_pods_of_one_template() -> None:
    term = {
        "labelSelector": {"matchLabels": {"app": "web"}},
        "topologyKey": HOST,
        "matchLabelKeys": ["pod-template-hash"],
    }
    merged = {"key": "pod-template-hash", "operator": "In", "values": ["old"]}
    of_old = {"labelSelector": {"matchLabels": {"app": "web"}, "matchExpressions": [merged]}, "topologyKey": HOST}
    old = []
    for index in range(3):
        pod = running(f"web-old-{index}", node=f"n{index}", pod_template_hash="old")
        pod["spec"]["affinity"] = {"podAntiAffinity": {REQUIRED: [of_old]}}
        old.append(pod)
    new = workload("Deployment", pod={"affinity": {"podAntiAffinity": {REQUIRED: [term]}}}, replicas=4)
    found = placed(case(*nodes_in_racks("a", "b", "c"), *old, new))
    assert sorted(found.values()) == ["n0", "n1", "n2"]


def test_equal_templates_have_equal_hashes_and_others_do_not() -> None:
    one, two, other = (
        workload("Deployment", name, {"priority": priority} if priority else None)
        for name, priority in (("a", 0), ("b", 0), ("c", 1))
    )
    hashes = {pod.id.name: labels(pod)["pod-template-hash"] for pod in case(one, two, other).batch.pods}
    assert hashes["a-0"] == hashes["b-0"] != hashes["c-0"]


def test_owners_are_the_controllers_that_kubernetes_has() -> None:
    kinds = ("Deployment", "ReplicaSet", "ReplicationController", "StatefulSet", "DaemonSet", "Job", "CronJob")
    found = case(m.node(), *(workload(kind, kind.lower()) for kind in kinds))
    owners = {pod.id.name.partition("-")[0]: pod.controller.kind for pod in found.batch.pods if pod.controller}
    assert owners == {kind.lower(): kind for kind in kinds} | {"deployment": "ReplicaSet", "cronjob": "Job"}
    assert len({pod.controller.uid for pod in found.batch.pods if pod.controller}) == len(kinds)


@pytest.mark.parametrize("kinds", [("Deployment", "StatefulSet"), ("StatefulSet", "Job"), ("Job", "Deployment")])
def test_workloads_of_one_name_have_pods_of_different_names(kinds: tuple[str, str]) -> None:
    found = case(m.node(), m.pod("web-1"), *(three(kind) for kind in kinds))
    assert len({pod.id for pod in found.batch.pods}) == (6 if "StatefulSet" in kinds else 7)
    if "StatefulSet" in kinds:  # its names are fixed, and the pod has one of them
        assert {"web-0", "web-1", "web-2"} <= {pod.id.name for pod in found.batch.pods}


def three(kind: str) -> Json:
    return workload(kind, parallelism=3) if kind == "Job" else workload(kind, replicas=3)


def test_the_newer_of_two_workloads_of_one_name_counts_and_is_told() -> None:
    found = case(m.node(), workload("Deployment", replicas=1), workload("Deployment", replicas=2))
    assert len(found.batch.pods) == 2
    assert found.warnings == ("m3 (Deployment web): stands twice: the last one counts",)


def test_a_daemon_set_has_a_pod_for_each_node_that_it_selects_and_tolerates() -> None:
    tainted, cordoned, other = m.node("tainted"), m.node("cordoned"), m.node("other")
    tainted["spec"] = {"taints": [{"key": "example.com/own", "effect": "NoSchedule"}]}
    cordoned["spec"] = {"taints": [{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]}
    other["metadata"]["labels"]["disk"] = "hdd"
    nodes = [m.node("n1"), m.node("n2"), tainted, cordoned, other]
    for node in nodes[:4]:
        node["metadata"]["labels"]["disk"] = "ssd"
    daemon = workload("DaemonSet", "agent", {"nodeSelector": {"disk": "ssd"}})
    there = running("agent-x", {"kind": "DaemonSet", "name": "agent"}, "n2")
    found = case(*nodes, daemon, there)
    assert sorted(placed(found).values()) == ["cordoned", "n1"]
    assert len(found.batch.pods) == 2


def test_pods_of_the_files_that_a_workload_owns_are_its_pods() -> None:
    owner = {"kind": "ReplicaSet", "name": "web-abc"}
    replica_set = workload("ReplicaSet", "web-abc", replicas=3)
    replica_set["spec"]["template"]["metadata"]["labels"]["pod-template-hash"] = "abc"
    replica_set["metadata"]["ownerReferences"] = [{"kind": "Deployment", "name": "web", "controller": True}]
    found = case(m.node(), workload("Deployment", replicas=3), replica_set, running("web-abc-x", owner))
    assert [pod.id.name for pod in found.batch.pods] == ["web-abc-1", "web-abc-2"]


def test_a_job_starts_what_it_has_not_done() -> None:
    done = {"succeeded": 3, "completedIndexes": "0,2-3"}
    job = workload("Job", "train", parallelism=4, completions=6, completionMode="Indexed")
    runs = running("train-1-x", {"kind": "Job", "name": "train"})
    runs["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"] = "1"
    found = case(m.node(), job | {"status": done}, runs)
    index = "batch.kubernetes.io/job-completion-index"
    assert [labels(pod)[index] for pod in found.batch.pods] == ["4", "5"]


def test_a_job_that_has_ended_starts_nothing() -> None:
    status = {"conditions": [{"type": "Complete", "status": "True"}]}
    assert case(m.node(), workload("Job", "train", parallelism=2) | {"status": status}).batch.pods == ()


@pytest.mark.parametrize(
    ("body", "note"),
    [
        (
            workload("Job", suspend=True),
            "(Job web): spec.suspend: is true: its pods are decided as if it were resumed",
        ),
        (workload("CronJob"), "(CronJob web): its pods are decided as if it were due now"),
        (
            workload("Job", managedBy="example.com/mine"),
            "(Job web): spec.managedBy: example.com/mine makes its pods: they are decided as the Job controller would",
        ),
    ],
)
def test_what_would_be_made_later_is_decided_with_a_note(body: Json, note: str) -> None:
    found = case(m.node(), body)
    assert found.warnings == (f"m2 {note}",)
    assert len(placed(found)) == 1


def test_a_suspended_job_of_a_queue_is_decided_as_if_kueue_resumed_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = workload("Job", parallelism=3, completions=3, suspend=True, completionMode="Indexed")
    job["metadata"] = {"generateName": "sample-job-", "labels": {"kueue.x-k8s.io/queue-name": "user-queue"}}
    assert m.run("simulate", "-f", m.write_yaml(tmp_path / "f.yaml", job, m.node(cpu=4))) == 0
    printed = capsys.readouterr()
    assert "as if it were resumed (by Kueue)" in printed.err
    assert "3 of 3 pods placed" in printed.out


class TestOneByOne:
    """A StatefulSet makes a pod once the one before it runs."""

    def test_pods_that_are_not_made_say_so(self) -> None:
        container = {"containers": [{"name": "main", "resources": {"requests": {"cpu": "5"}}}]}
        plan = answer(case(m.node(), workload("StatefulSet", pod=container, replicas=4))).plan
        assert [each.pod.name for each in plan.placements] == ["web-0"]
        reasons = {each.pod.name: each.reasons[0] for each in plan.unplaced}
        assert reasons["web-1"].code is ReasonCode.NODE_RESOURCES
        assert reasons["web-2"].code is ReasonCode.POD_NOT_CREATED
        assert reasons["web-3"].message == (
            "its StatefulSet makes it once web-2 runs (podManagementPolicy: OrderedReady)"
        )

    def test_a_pod_is_placed_without_regard_for_those_that_do_not_exist_yet(self) -> None:
        """The first takes the best node for itself; decided together, the two would leave the large node free."""
        spread = {"maxSkew": 1, "topologyKey": "rack", "whenUnsatisfiable": "DoNotSchedule"}
        rules = [{**spread, "labelSelector": {"matchLabels": {"app": "web"}}}]
        sets = workload("StatefulSet", pod={"topologySpreadConstraints": rules}, replicas=3)
        found = placed(case(*nodes_in_racks("a", "b"), sets))
        assert sorted(found) == ["web-0", "web-1", "web-2"]
        assert found["web-0"] != found["web-1"]

    def test_a_gang_never_has_its_pods(self) -> None:
        group = {"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "metadata": {"name": "g"}}
        group["spec"] = {"schedulingPolicy": {"gang": {"minCount": 2}}}
        member = {"schedulingGroup": {"podGroupName": "g"}}
        ordered = case(m.node(), group, workload("StatefulSet", pod=member, replicas=2))
        plan = answer(ordered).plan
        assert plan.placements == ()
        assert plan.unplaced[0].reasons[0].code is ReasonCode.GANG_INCOMPLETE
        assert any("write Parallel" in each for each in ordered.warnings)

        parallel = workload("StatefulSet", pod=member, replicas=2, podManagementPolicy="Parallel")
        assert len(placed(case(m.node(), group, parallel))) == 2

    def test_a_pod_that_runs_already_is_no_reason_to_wait(self) -> None:
        owner = {"kind": "StatefulSet", "name": "web"}
        found = case(m.node(), workload("StatefulSet", replicas=2), running("web-0", owner))
        assert sorted(placed(found)) == ["web-1"]

    def test_a_saved_case_is_decided_in_the_same_order(self, tmp_path: Path) -> None:
        container = {"containers": [{"name": "main", "resources": {"requests": {"cpu": "5"}}}]}
        found = case(m.node(), workload("StatefulSet", pod=container, replicas=3))
        asked = simulator.recorded(found, load(None), "dovetail")
        simulator.save(tmp_path / "saved.json", asked, keep_parameters=False)
        again = simulator.answer(simulator.load(tmp_path / "saved.json")).plan
        assert again.unplaced == simulator.answer(asked).plan.unplaced

"""
The pods that controllers make, as `simulate` decides them and as the real controller manager makes them.

Random parts of names, uids and hashes are compared by their shape: equal where they are equal on the other side.
"""

import json
from collections.abc import Iterator
from typing import Any, Final

import pytest

from scheduler.change import Kind
from scheduler.simulation.case_builder import CaseBuilder
from scheduler.simulation.manifests.documents import Document
from tests.support import manifests as m
from tests.support import workload_manifests as w
from tests.support.controlplane import wait_until
from tests.support.shell_world import World

pytestmark = pytest.mark.controlplane

Json = dict[str, Any]
COMPARED: Final = ("affinity", "topologySpreadConstraints", "tolerations", "nodeSelector", "hostname", "subdomain")
RANDOM: Final = frozenset({"pod-template-hash", "controller-revision-hash", "controller-uid"})
NODES: Final = 3


@pytest.fixture
def cluster(world: World) -> Iterator[World]:
    """Make three nodes, one of them with a taint."""
    world.add_nodes(NODES, devices=0)
    taint = {"spec": {"taints": [{"key": "example.com/own", "effect": "NoSchedule"}]}}
    world.plane.request(
        "PATCH", f"/api/v1/nodes/{world.nodes[0]}", taint, content="application/strategic-merge-patch+json"
    )
    yield world
    world.plane.request("DELETE", f"/api/v1/namespaces/{world.namespace}")


def matched(world: World) -> Json:
    """Make a pod of which each rule hangs on what the controller writes."""
    keys = ["pod-template-hash", "controller-revision-hash", "batch.kubernetes.io/job-completion-index"]
    term = {**w.apart("web", w.HOST)["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][0]}
    spread = [{**each, "matchLabelKeys": keys} for each in w.spread("web", w.HOST)]
    rules = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{**term, "matchLabelKeys": keys}]}}
    return w.pod_spec(world, {"affinity": rules, "topologySpreadConstraints": spread})


def workload(world: World, kind: str, **spec: Any) -> Json:
    labels = {"app": "web"}
    version = {"ReplicationController": "v1", "Job": "batch/v1", "CronJob": "batch/v1"}.get(kind, "apps/v1")
    template = {"metadata": {"labels": labels, "annotations": {"a": "b"}}, "spec": matched(world)}
    selector: Json = {} if version == "batch/v1" else {"selector": {"matchLabels": labels}}
    if kind == "ReplicationController":
        selector = {"selector": labels}
    if version == "batch/v1":
        template["spec"]["restartPolicy"] = "Never"
    body = {**selector, "template": template, **spec}
    if kind == "CronJob":
        body = {"schedule": "* * * * *", "jobTemplate": {"metadata": {"labels": labels}, "spec": body}}
    return {
        "apiVersion": version,
        "kind": kind,
        "metadata": {"name": "web", "namespace": world.namespace},
        "spec": body,
    }


def simulated(world: World, body: Json) -> list[Json]:
    """Give the pods that `simulate` decides, as the API server would serve them."""
    builder = CaseBuilder()
    builder.add([Document("m", json.loads(json.dumps(each))) for each in (*nodes(world), body)])
    assert builder.changes
    assert builder.problems == []
    return [document.body for (kind, _), document in builder.objects.items() if kind is Kind.PODS]


def nodes(world: World) -> list[Json]:
    found = world.plane.request("GET", "/api/v1/nodes")["items"]
    return [{"apiVersion": "v1", "kind": "Node", **each} for each in found if each["metadata"]["name"] in world.nodes]


def shape(pods: list[Json]) -> list[Json]:
    """Describe pods without what is random; equal random values are equal numbers."""
    seen: dict[str, str] = {}

    def plain(key: str, value: Any) -> Any:
        if isinstance(value, dict):
            return {name: plain(name, each) for name, each in value.items()}
        if isinstance(value, list):
            return [plain(key, each) for each in value]
        is_random = key.rpartition("/")[2] in RANDOM or key == "uid"
        return seen.setdefault(value, f"random {len(seen)}") if is_random else value

    def described(pod: Json) -> Json:
        found = pod["metadata"]
        owners = [
            {key: each.get(key) for key in ("apiVersion", "kind", "controller", "blockOwnerDeletion", "uid")}
            for each in found["ownerReferences"]
        ]
        spec = {key: pod["spec"][key] for key in COMPARED if pod["spec"].get(key)}
        for rules in spec.get("topologySpreadConstraints", []), *terms(spec):
            for rule in rules:
                # The API server has merged the values of matchLabelKeys in.
                rule["labelSelector"].pop("matchExpressions", None)
        return {
            "labels": plain("", dict(sorted(found.get("labels", {}).items()))),
            "annotations": {key: found["annotations"][key] for key in sorted(found["annotations"])},
            "owners": plain("", owners),
            "spec": plain("", spec),
        }

    return [described(pod) for pod in pods]


def terms(spec: Json) -> Iterator[list[Json]]:
    for each in ("podAffinity", "podAntiAffinity"):
        yield spec.get("affinity", {}).get(each, {}).get("requiredDuringSchedulingIgnoredDuringExecution", [])


def order(pod: Json) -> tuple[str, str]:
    """Order pods by what does not differ: their index, or the node that they are for."""
    labels = pod["metadata"].get("labels", {})
    index = labels.get("apps.kubernetes.io/pod-index") or labels.get("batch.kubernetes.io/job-completion-index") or ""
    return index, json.dumps(pod["spec"].get("affinity", {}).get("nodeAffinity"))


CASES = [
    pytest.param("Deployment", {"replicas": 3}, id="Deployment"),
    pytest.param("ReplicaSet", {"replicas": 2}, id="ReplicaSet"),
    pytest.param("ReplicationController", {"replicas": 2}, id="ReplicationController"),
    pytest.param(
        "StatefulSet",
        {"replicas": 2, "serviceName": "w", "podManagementPolicy": "Parallel", "ordinals": {"start": 3}},
        id="StatefulSet",
    ),
    pytest.param("DaemonSet", {}, id="DaemonSet"),
    pytest.param("Job", {"parallelism": 3, "completions": 2}, id="Job"),
    pytest.param("Job", {"parallelism": 3, "completions": 4, "completionMode": "Indexed"}, id="indexed Job"),
    pytest.param("Job", {"parallelism": 2}, id="Job of a work queue"),
    pytest.param("Job", {"completions": 3}, id="Job that runs one by one"),
]


@pytest.mark.parametrize(("kind", "spec"), CASES)
def test_the_pods_of_a_workload_are_those_that_its_controller_makes(
    cluster: World, kind: str, spec: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """And `explain` finds them, or their gang, by the name of the workload."""
    body = workload(cluster, kind, **spec)
    decided = sorted(simulated(cluster, body), key=order)

    cluster.plane.kubectl("apply", "-f", "-", input=json.dumps(body))
    wait_until(lambda: len(cluster.pods()) >= len(decided))
    made = sorted(cluster.pods(), key=order)

    assert len(made) == len(decided)
    assert shape(without_admission(made)) == shape(without_admission(decided))
    assert [family(pod) for pod in made] == [family(pod) for pod in decided]

    words = f"{kind.lower()}/web", "-n", cluster.namespace, f"--kubeconfig={cluster.plane.kubeconfig}", "-o", "json"
    assert m.run("explain", *words) == 1
    printed = capsys.readouterr()
    names, found = {f"{cluster.namespace}/{pod['metadata']['name']}" for pod in made}, json.loads(printed.out)
    if found["kind"] == "GangExplanation":  # the Job controller makes a PodGroup
        assert (kind, set(found["waiting"])) == ("Job", names)
    else:
        assert found["pod"] in names
        many = f"{kind} {cluster.namespace}/web has {len(made)} pods, and {len(made)} of them wait"
        assert (many in printed.err) is (len(made) > 1)


def test_a_stateful_set_in_order_makes_its_first_pod_only(cluster: World) -> None:
    body = workload(cluster, "StatefulSet", replicas=3, serviceName="w")
    builder = CaseBuilder()
    builder.add([Document("m", json.loads(json.dumps(each))) for each in (*nodes(cluster), body)])
    found = builder.case(cluster.scheduler)

    cluster.plane.kubectl("apply", "-f", "-", input=json.dumps(body))
    wait_until(lambda: bool(cluster.pods()))

    later = {str(later) for later, _ in found.made_after}
    first = {str(pod.id) for pod in found.batch.pods} - later
    assert {f"{cluster.namespace}/{pod['metadata']['name']}" for pod in cluster.pods()} == first


def test_a_suspended_job_makes_the_pods_that_were_decided_once_it_is_resumed(cluster: World) -> None:
    body = workload(cluster, "Job", parallelism=2, completions=2, suspend=True)
    decided = simulated(cluster, body)

    cluster.plane.kubectl("apply", "-f", "-", input=json.dumps(body))
    cluster.plane.kubectl("patch", "job", "web", "-n", cluster.namespace, "-p", '{"spec": {"suspend": false}}')
    wait_until(lambda: len(cluster.pods()) == len(decided))

    assert shape(without_admission(cluster.pods())) == shape(without_admission(decided))


def test_the_job_of_a_cron_job_is_the_one_that_is_made_by_hand(cluster: World) -> None:
    body = workload(cluster, "CronJob", parallelism=2, completions=2)
    decided = simulated(cluster, body)

    cluster.plane.kubectl("apply", "-f", "-", input=json.dumps(body))
    cluster.plane.kubectl("create", "job", "by-hand", "-n", cluster.namespace, "--from=cronjob/web")
    wait_until(lambda: len(by_hand(cluster)) == len(decided))
    made = by_hand(cluster)

    for pod in (*made, *decided):
        for name in ("job-name", "batch.kubernetes.io/job-name"):
            pod["metadata"]["labels"][name] = "its Job"
    assert shape(without_admission(made)) == shape(without_admission(decided))


def by_hand(world: World) -> list[Json]:
    return [pod for pod in world.pods() if pod["metadata"]["labels"]["job-name"] == "by-hand"]


def family(pod: Json) -> str:
    """Give a pod's name without its random part."""
    name: str = pod["metadata"]["name"]
    return name if pod["metadata"]["ownerReferences"][0]["kind"] == "StatefulSet" else name.partition("-")[0]


def without_admission(pods: list[Json]) -> list[Json]:
    """Leave out the tolerations that admission adds, which another test compares, and sort the others."""
    for pod in pods:
        kept = [each for each in pod["spec"].get("tolerations", []) if each.get("tolerationSeconds") is None]
        pod["spec"]["tolerations"] = sorted(kept, key=lambda each: str(each["key"]))
    return pods

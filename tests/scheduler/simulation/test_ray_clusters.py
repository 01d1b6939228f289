"""RayClusters, RayJobs and RayServices: how many pods, with which labels, and what KubeRay adds to them."""

from typing import Any

import pytest

from scheduler.simulation.case_builder import CaseBuilder
from scheduler.simulation.manifests.documents import Document, ManifestFiles
from scheduler.simulation.simulator import SimulationCase
from tests.scheduler.simulation.test_foreign_kinds import POD, case, labels_of, names, nodes, placed
from tests.support import manifests as m

Json = dict[str, Any]
HEAD = {"template": {"spec": POD}}


def ray(kind: str = "RayCluster", labels: Json | None = None, **spec: Any) -> Json:
    return {
        "apiVersion": "ray.io/v1",
        "kind": kind,
        "metadata": {"name": "ray", "labels": labels or {}},
        "spec": spec,
    }


def group(name: str = "g", cpu: str = "6", **terms: Any) -> Json:
    container = {"name": "main", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    return {"groupName": name, "template": {"spec": {**POD, "containers": [container]}}, **terms}


def requests(found: SimulationCase, name: str) -> dict[str, int]:
    return next(dict(pod.requests) for pod in found.batch.pods if pod.id.name == name)


def test_a_ray_cluster_starts_within_its_bounds_and_with_its_autoscaler() -> None:
    asked = group(replicas=9, maxReplicas=2, numOfHosts=2)
    found = case(m.node(), ray(headGroupSpec=HEAD, workerGroupSpecs=[asked], enableInTreeAutoscaling=True))
    assert names(found) == ["ray-head-0", *(f"ray-g-worker-{index}" for index in range(4))]
    assert dict(found.batch.pods[0].requests)["cpu"] == 6500


@pytest.mark.parametrize(
    ("terms", "count"),
    [
        ({}, 0),
        ({"minReplicas": 2}, 2),
        ({"replicas": 1, "minReplicas": 2}, 2),
        ({"replicas": 3, "minReplicas": 4, "maxReplicas": 2}, 2),
        ({"replicas": 3, "suspend": True}, 0),
        ({"replicas": 2, "numOfHosts": 4}, 8),
    ],
)
def test_how_many_workers_a_group_has(terms: Json, count: int) -> None:
    found = case(m.node(), ray(headGroupSpec=HEAD, workerGroupSpecs=[group(**terms)]))
    assert len(names(found)) == 1 + count


def test_workers_request_what_their_init_container_does() -> None:
    found = case(m.node(), ray(headGroupSpec=HEAD, workerGroupSpecs=[group(cpu="50m", replicas=1)]))
    assert requests(found, "ray-g-worker-0") == {"cpu": 200, "memory": 256 * 2**20}
    assert requests(found, "ray-head-0") == {"cpu": 6000}


def test_what_is_added_has_limits_where_a_quota_asks_for_them() -> None:
    limited = {"name": "main", "image": "i", "resources": {"limits": {"cpu": "1", "memory": "1Gi"}}}
    template = {"template": {"spec": {**POD, "containers": [limited]}}}
    body = ray(
        "RayJob",
        submissionMode="SidecarMode",
        rayClusterSpec={
            "headGroupSpec": template,
            "workerGroupSpecs": [{"groupName": "g", "replicas": 2, **template}],
            "enableInTreeAutoscaling": True,
        },
    )
    hard = {"limits.cpu": "5", "limits.memory": "9Gi"}
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": hard}}
    assert len(placed(case(m.node(), quota, body))) == 3


def test_defaults_of_a_limit_range_stay_with_their_pods() -> None:
    """What they set in one pod's added containers is not there in the next file."""
    limits = [{"type": "Container", "default": {"ephemeral-storage": "1Gi"}}]
    ranges = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "l"}, "spec": {"limits": limits}}
    body = ray(headGroupSpec=HEAD, workerGroupSpecs=[group(replicas=1)], enableInTreeAutoscaling=True)
    assert "ephemeral-storage" in requests(case(m.node(), ranges, body), "ray-g-worker-0")
    assert "ephemeral-storage" not in requests(case(m.node(), body), "ray-g-worker-0")


def test_labels_of_a_template_replace_those_that_select_no_pods() -> None:
    head = {"template": {"metadata": {"labels": {"app.kubernetes.io/name": "own", "ray.io/group": "own"}}, "spec": POD}}
    found = case(m.node(), ray(headGroupSpec=head, workerGroupSpecs=[group(replicas=1)]))
    assert labels_of(found, "ray-head-0") == {
        "app.kubernetes.io/created-by": "kuberay-operator",
        "app.kubernetes.io/name": "own",
        "ray.io/cluster": "ray",
        "ray.io/group": "headgroup",
        "ray.io/identifier": "ray-head",
        "ray.io/is-ray-node": "yes",
        "ray.io/node-type": "head",
    }
    assert labels_of(found, "ray-g-worker-0")["ray.io/identifier"] == "ray-worker"


def test_a_cluster_with_gang_scheduling_is_a_gang_without_the_submitter() -> None:
    cluster: Json = {"headGroupSpec": HEAD, "workerGroupSpecs": [group(replicas=2)]}
    gang: Json = {"ray.io/gang-scheduling-enabled": "true"}
    found = case(*nodes("a", "a"), ray(labels=gang, **cluster))
    assert [(each.min_count, each.member_count) for each in found.batch.gangs] == [(3, 3)]
    assert placed(found) == {}
    assert list(placed(case(*nodes("a", "a"), ray("RayJob", gang, rayClusterSpec=cluster)))) == ["ray-0"]


@pytest.mark.parametrize(
    ("terms", "expected", "head"),
    [
        ({}, ["ray-head-0", "ray-0"], 6000),
        ({"submissionMode": "K8sJobMode"}, ["ray-head-0", "ray-0"], 6000),
        ({"submissionMode": "SidecarMode"}, ["ray-head-0"], 6500),
        ({"submissionMode": "HTTPMode"}, ["ray-head-0"], 6000),
        ({"submissionMode": "InteractiveMode"}, ["ray-head-0"], 6000),
    ],
)
def test_what_submits_a_ray_job(terms: Json, expected: list[str], head: int) -> None:
    found = case(m.node(), ray("RayJob", rayClusterSpec={"headGroupSpec": HEAD}, **terms))
    assert names(found) == expected
    assert requests(found, "ray-head-0")["cpu"] == head


def test_the_submitter_is_the_pod_of_a_job() -> None:
    found = case(m.node(), ray("RayJob", rayClusterSpec={"headGroupSpec": HEAD}))
    assert labels_of(found, "ray-0")["batch.kubernetes.io/job-name"] == "ray"
    assert requests(found, "ray-0") == {"cpu": 500, "memory": 200 * 2**20}


def test_a_ray_job_that_selects_a_cluster_makes_none() -> None:
    template = {"spec": POD}
    selecting: Json = {"clusterSelector": {"ray.io/cluster": "other"}, "submitterPodTemplate": template}
    assert names(case(m.node(), ray("RayJob", **selecting))) == ["ray-0"]
    assert names(case(m.node(), ray("RayJob", rayClusterSpec={"headGroupSpec": HEAD}, **selecting))) == ["ray-0"]


@pytest.mark.parametrize(("status", "count"), [("Running", 2), ("Complete", 0), ("Failed", 0)])
def test_a_ray_job_that_has_ended_makes_nothing(status: str, count: int) -> None:
    ended = ray("RayJob", rayClusterSpec={"headGroupSpec": HEAD}) | {"status": {"jobDeploymentStatus": status}}
    assert len(names(case(m.node(), ended))) == count


def test_pods_of_a_ray_service_say_whether_they_serve() -> None:
    cluster = {"headGroupSpec": HEAD, "workerGroupSpecs": [group(replicas=1)]}
    found = case(m.node(), ray("RayService", rayClusterConfig=cluster))
    assert [labels_of(found, name)["ray.io/serve"] for name in names(found)] == ["false", "true"]


@pytest.mark.parametrize(
    ("kind", "cluster", "count"),
    [
        ("RayCluster", "ray", 2),
        ("RayJob", "ray-x7k2m", 3),
        ("RayService", "ray-x7k2m", 2),
        ("RayService", "ray-other", 1),
    ],
)
def test_pods_that_run_already_are_decided_anew(kind: str, cluster: str, count: int) -> None:
    """A node has room for two pods of the cluster, and for what submits a job: those that run leave."""
    running = []
    for name in ("head-abcde", "g-worker-fghij"):
        pod = m.pod(f"{cluster}-{name}", nodeName="n1", containers=POD["containers"])
        owner = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "name": cluster, "uid": "u", "controller": True}
        pod["metadata"] |= {"labels": {"ray.io/cluster": cluster}, "ownerReferences": [owner]}
        running.append(pod)
    live = ManifestFiles([Document("c", each) for each in (m.node(cpu=13 + 6 * (count == 1)), *running)])
    terms: Json = {"headGroupSpec": HEAD, "workerGroupSpecs": [group(replicas=1)]}
    field = {"RayJob": "rayClusterSpec", "RayService": "rayClusterConfig"}.get(kind)
    reading = ManifestFiles([Document("f", ray(kind, **({field: terms} if field else terms)))])
    assert len(placed(CaseBuilder.of(CaseBuilder.as_cluster(live), reading).case("dovetail"))) == count

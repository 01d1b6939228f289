"""Workloads of every controller, mixed, are bound by Dovetail, and an independent audit finds nothing wrong."""

import contextlib
import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from e2e import audit
from e2e.controlplane.access import RequestError
from tests.support import workload_manifests as w
from tests.support.controlplane import wait_until
from tests.support.shell_world import Start, World

pytestmark = pytest.mark.controlplane

NODES = 6
ZONES = "aabbcc"
SECONDS = 90.0


@pytest.fixture
def cluster(world: World) -> Iterator[World]:
    """Make six nodes in three zones with four devices each, four of them with a disk."""
    world.add_nodes(NODES, devices=4)
    for node, zone in zip(world.nodes, ZONES, strict=True):
        world.label(node, w.ZONE, zone)
        world.label(node, w.HOST, node)
    world.template("one")
    world.template("two", count=2)
    apply(world, w.storage_class(world), *(w.volume(world, each) for each in world.nodes[:4]))
    yield world
    world.plane.request("DELETE", f"/api/v1/namespaces/{world.namespace}")
    for path in (
        f"/apis/storage.k8s.io/v1/storageclasses/{world.word}",
        *(f"/api/v1/persistentvolumes/{each}-disk" for each in world.nodes),
    ):
        with contextlib.suppress(RequestError):
            world.plane.request("DELETE", path)


def apply(world: World, *manifests: dict[str, Any]) -> None:
    listed = {"apiVersion": "v1", "kind": "List", "items": list(manifests)}
    world.plane.kubectl("apply", "-f", "-", input=json.dumps(listed))


def running(world: World, app: str, phases: frozenset[str] = frozenset({"Running", "Succeeded"})) -> dict[str, str]:
    """Give the nodes of a workload's pods that run or have run."""
    return {
        each["metadata"]["name"]: each["spec"]["nodeName"]
        for each in world.pods()
        if each["metadata"]["labels"].get("app") == app and each["status"].get("phase") in phases
    }


def findings(world: World) -> list[str]:
    """Audit what is in the API server, as far as this test put it there."""
    read = audit.read(world.plane.request)
    own = {
        "pods": [each for each in read.pods if each["metadata"]["namespace"] == world.namespace],
        "nodes": [each for each in read.nodes if each["metadata"]["name"] in world.nodes],
        "claims": [each for each in read.claims if each["metadata"]["namespace"] == world.namespace],
        "slices": [each for each in read.slices if each["spec"]["driver"] == world.driver],
        "volume_claims": [each for each in read.volume_claims if each["metadata"]["namespace"] == world.namespace],
    }
    return [f"{each.rule} {each.subject}: {each.message}" for each in audit.audit(read._replace(**own))]


def zones(world: World, places: dict[str, str]) -> Counter[str]:
    return Counter(ZONES[world.nodes.index(node)] for node in places.values())


def mixed(world: World) -> list[dict[str, Any]]:
    """Make one workload of each kind; together they need most of what there is."""
    own_port = {"container": {"ports": [{"containerPort": 80, "hostPort": 80}]}}
    web = {"topologySpreadConstraints": w.spread("web", w.ZONE), "affinity": w.apart("web", w.HOST), **own_port}
    database = {"affinity": w.apart("database", w.HOST), **w.with_devices("one")}
    database["container"]["volumeMounts"] = [{"name": "disk", "mountPath": "/disk"}]
    cache = {"affinity": w.near("web", w.HOST), "topologySpreadConstraints": w.spread("cache", w.ZONE)}
    return [
        w.workload(world, "Deployment", "web", web, replicas=6),
        w.workload(
            world,
            "StatefulSet",
            "database",
            database,
            replicas=3,
            serviceName="database",
            podManagementPolicy="Parallel",
            volumeClaimTemplates=[w.volume_claim_template(world)],
        ),
        w.workload(world, "Deployment", "cache", {**cache, **w.with_devices("one")}, replicas=6),
        w.workload(world, "DaemonSet", "agent", {"container": {"resources": {"requests": {"cpu": "100m"}}}}),
        w.job(world, "train", w.with_devices("two"), 4, run_seconds="600"),
        w.job(world, "test", w.with_devices("one"), 3, run_seconds="1"),
    ]


def test_workloads_of_every_kind_run_side_by_side(cluster: World, start: Start) -> None:
    start()
    apply(cluster, *mixed(cluster))
    wanted = {"web": 6, "database": 3, "cache": 6, "agent": NODES, "train": 4, "test": 3}

    wait_until(lambda: {app: len(running(cluster, app)) for app in wanted} == wanted, seconds=SECONDS)
    # The audit reads pods before claims: a claim that is freed in between would be missing.
    wait_until(lambda: len(running(cluster, "test", frozenset({"Succeeded"}))) == wanted["test"], seconds=SECONDS)

    assert findings(cluster) == []
    assert zones(cluster, running(cluster, "web")) == {"a": 2, "b": 2, "c": 2}
    assert set(running(cluster, "agent").values()) == set(cluster.nodes)
    assert len(set(running(cluster, "database").values())) == 3


def test_pods_that_are_replaced_find_their_places_again(cluster: World, start: Start) -> None:
    start()
    apply(cluster, *mixed(cluster)[:2])
    wait_until(lambda: len(running(cluster, "web")) == 6 and len(running(cluster, "database")) == 3, seconds=SECONDS)
    before = running(cluster, "database")
    gone = [*running(cluster, "web")][:3]

    for name in (*gone, *before):
        cluster.delete_pod(name)
    wait_until(
        lambda: len(running(cluster, "web").keys() - set(gone)) == 6 and len(running(cluster, "database")) == 3,
        seconds=SECONDS,
    )

    assert findings(cluster) == []
    assert running(cluster, "database") == before, "a pod runs where its volume is"


def test_a_deployment_that_grows_beyond_what_may_run_waits_with_the_rest(cluster: World, start: Start) -> None:
    start()
    web = mixed(cluster)[0]
    apply(cluster, {**web, "spec": {**web["spec"], "replicas": NODES + 1}})

    wait_until(lambda: len(running(cluster, "web")) == NODES, seconds=SECONDS)
    (waiting,) = (each["metadata"]["name"] for each in cluster.pods() if "nodeName" not in each["spec"])
    wait_until(lambda: cluster.condition(waiting).get("status") == "False")

    assert findings(cluster) == []
    # Its pods have a port and keep apart: which of the two is said first follows from how many came in one batch.
    message = cluster.condition(waiting)["message"]
    assert "free ports" in message or "pod anti-affinity" in message

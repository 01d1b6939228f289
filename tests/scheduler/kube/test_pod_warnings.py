"""Warnings of kubelets about one pod, from the events of a real API server."""

from pathlib import Path
from typing import Any

import pytest

from e2e.controlplane.plane import ControlPlane
from scheduler.kube.client import Client
from scheduler.kube.pod_warnings import read_warnings
from tests.scheduler.kube.conftest import Cluster
from tests.support import builders as b

pytestmark = pytest.mark.controlplane
PREPARE = "Failed to prepare dynamic resources: NodePrepareResources failed for ResourceClaim c: device is on fire"


async def post(cluster: Cluster, name: str, minute: int, **more: Any) -> None:
    body = {
        "metadata": {"name": name},
        "involvedObject": {
            "kind": "Pod",
            "name": "p",
            "namespace": cluster.namespace,
            "uid": f"uid-{cluster.namespace}",
        },
        "type": "Warning",
        "reason": "FailedPrepareDynamicResources",
        "message": PREPARE,
        "source": {"component": "kubelet", "host": "n1"},
        "lastTimestamp": f"2026-01-01T00:{minute:02}:00Z",
        **more,
    }
    await cluster.send("POST", f"/api/v1/namespaces/{cluster.namespace}/events", body)


async def test_only_warnings_of_the_kubelet_about_the_pod_are_told_the_newest_first(cluster: Cluster) -> None:
    pod = b.pod("p", namespace=cluster.namespace, uid=f"uid-{cluster.namespace}", node_name="n1")
    await post(cluster, "old", 1)
    await post(cluster, "new", 5, count=7)
    await post(cluster, "other", 3, reason="FailedMount", message="no such volume")
    await post(cluster, "fine", 6, type="Normal", reason="Pulled", message="pulled")
    await post(cluster, "scheduler", 7, source={"component": "dovetail"}, reason="FailedScheduling", message="waits")
    elsewhere = {"kind": "Pod", "name": "q", "namespace": cluster.namespace, "uid": "other"}
    await post(cluster, "elsewhere", 8, involvedObject=elsewhere)
    await post(cluster, "newer-api", 4, source={}, reportingComponent="kubelet", reason="BackOff", message="crashes")

    found = await read_warnings(cluster.client, pod)

    assert [(each.reason, each.message, each.count) for each in found] == [
        ("FailedPrepareDynamicResources", PREPARE, 7),
        ("BackOff", "crashes", 1),
        ("FailedMount", "no such volume", 1),
    ]
    assert found[0].last is not None
    assert found[0].last.minute == 5


async def test_without_the_right_to_list_events_nothing_is_said(
    cluster: Cluster, control_plane: ControlPlane, tmp_path: Path
) -> None:
    account = {"metadata": {"name": "stranger"}}
    await cluster.send("POST", f"/api/v1/namespaces/{cluster.namespace}/serviceaccounts", account)
    access = control_plane.access_for_service_account(cluster.namespace, "stranger")
    async with Client.connect(access.write_kubeconfig(tmp_path / "stranger.kubeconfig")) as client:
        assert await read_warnings(client, b.pod("p", namespace=cluster.namespace)) == ()

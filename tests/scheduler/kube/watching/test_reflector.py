"""The reflector against the real API server."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from e2e.controlplane.plane import ControlPlane
from scheduler.change import Change, Kind
from scheduler.kube import paths
from scheduler.kube.client import Client
from scheduler.kube.errors import Forbidden
from scheduler.kube.http import page_size
from scheduler.kube.watching.list_watch import ListWatch
from scheduler.kube.watching.reflector import Reflector
from scheduler.kube.watching.watch_ages import WatchAges
from solver.domain import Pod
from tests.scheduler.kube.conftest import Cluster
from tests.support.received import take_page
from tests.support.shell_proxy import LossyProxy

pytestmark = pytest.mark.controlplane


class Seen:
    """What a reflector has told, as it stands."""

    def __init__(self) -> None:
        self.objects: dict[str, Any] = {}
        self.errors: list[Exception] = []
        self.changed = asyncio.Event()

    def on_changes(self, changes: Any) -> None:
        for change in changes:
            assert isinstance(change, Change)
            if change.value is None:
                del self.objects[change.key]
            else:
                self.objects[change.key] = change.value
        self.changed.set()

    def on_error(self, _: Kind, error: Exception) -> None:
        self.errors.append(error)
        self.changed.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(20):
            while not condition():
                self.changed.clear()
                await self.changed.wait()


@contextlib.asynccontextmanager
async def reflecting(client: Client, kind: Kind) -> AsyncIterator[tuple[Seen, Reflector]]:
    seen = Seen()
    reflector = Reflector(client, kind, seen.on_changes, seen.on_error, ages=WatchAges(180.0))
    task = asyncio.create_task(reflector.run())
    try:
        yield seen, reflector
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_existing_objects_are_handed_over_before_it_is_synced_and_changes_after(cluster: Cluster) -> None:
    first = await cluster.pod("first")
    async with reflecting(cluster.client, Kind.PODS) as (seen, reflector):
        await asyncio.wait_for(reflector.synced.wait(), 20)
        assert seen.objects[f"{cluster.namespace}/first"] == first
        second = await cluster.pod("second")
        await seen.until(lambda: f"{cluster.namespace}/second" in seen.objects)
        assert seen.objects[f"{cluster.namespace}/second"] == second
        await cluster.send("DELETE", paths.pod(first.id), query={"gracePeriodSeconds": "0"})
        await seen.until(lambda: f"{cluster.namespace}/first" not in seen.objects)
        assert int(reflector.resource_version) > 0
        assert seen.errors == []


async def test_a_pod_that_ends_is_handed_over_as_deleted(cluster: Cluster) -> None:
    pod = await cluster.pod()
    key = f"{cluster.namespace}/pod"
    async with reflecting(cluster.client, Kind.PODS) as (seen, _):
        await seen.until(lambda: key in seen.objects)
        body = {"status": {"phase": "Succeeded"}}
        await cluster.send("PATCH", paths.pod(pod.id, "status"), body, content_type="application/merge-patch+json")
        await seen.until(lambda: key not in seen.objects)


@pytest.mark.parametrize("kind", tuple(paths.COLLECTIONS))
async def test_every_kind_that_every_server_has_gets_synced(client: Client, kind: Kind) -> None:
    async with reflecting(client, kind) as (seen, reflector):
        await asyncio.wait_for(reflector.synced.wait(), 20)
        assert seen.errors == []


async def test_a_listing_gives_every_object_in_pages(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_size, "_FIRST_OBJECTS", 2)
    monkeypatch.setattr(page_size, "_MOST_OBJECTS", 2)
    names = {(await cluster.pod(f"pod-{index}")).id.name for index in range(5)}
    mirrored = ListWatch(Kind.PODS)
    mirrored.start_listing()
    found, pages = set(), 0
    while mirrored.needs_listing:
        body = await cluster.client.request("GET", paths.COLLECTIONS[Kind.PODS], query=mirrored.page_query())
        changes = take_page(mirrored, body).changes
        assert len(changes) <= 2
        pages += 1
        found |= {each.value.id.name for each in changes if isinstance(each.value, Pod)}
    assert pages >= 3
    assert names <= found


async def test_a_broken_connection_loses_nothing(cluster: Cluster, proxy: LossyProxy, tmp_path: Path) -> None:
    old = await cluster.pod("old")
    async with (
        Client.connect(proxy.write_kubeconfig(tmp_path / "proxy.kubeconfig")) as client,
        reflecting(client, Kind.PODS) as (seen, reflector),
    ):
        await seen.until(lambda: f"{cluster.namespace}/old" in seen.objects)
        await asyncio.wait_for(reflector.synced.wait(), 20)
        proxy.lose_answers()
        await cluster.send("DELETE", paths.pod(old.id), query={"gracePeriodSeconds": "0"})
        await cluster.pod("new")
        await seen.until(lambda: bool(seen.errors))
        proxy.recover()
        await seen.until(lambda: f"{cluster.namespace}/new" in seen.objects)
        assert f"{cluster.namespace}/old" not in seen.objects


async def test_a_missing_right_is_reported_and_retried(control_plane: ControlPlane, namespace: str) -> None:
    control_plane.request("POST", f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": "late"}})
    kubeconfig = control_plane.kubeconfig_for_service_account(namespace, "late")
    role = {
        "metadata": {"name": namespace},
        "rules": [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list", "watch"]}],
    }
    binding = {
        "metadata": {"name": namespace},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": namespace},
        "subjects": [{"kind": "ServiceAccount", "namespace": namespace, "name": "late"}],
    }
    async with Client.connect(kubeconfig) as client, reflecting(client, Kind.NODES) as (seen, reflector):
        await seen.until(lambda: bool(seen.errors))
        assert isinstance(seen.errors[0], Forbidden)
        assert not reflector.synced.is_set()
        group = "/apis/rbac.authorization.k8s.io/v1"
        control_plane.request("POST", f"{group}/clusterroles", role)
        control_plane.request("POST", f"{group}/clusterrolebindings", binding)
        await asyncio.wait_for(reflector.synced.wait(), 20)
        control_plane.request("DELETE", f"{group}/clusterrolebindings/{namespace}")
        control_plane.request("DELETE", f"{group}/clusterroles/{namespace}")

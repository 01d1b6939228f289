"""Since when pods wait, as the real API server lists it."""

import datetime as dt

import pytest

from scheduler.kube import paths, pod_writes, writes
from scheduler.kube.errors import DecodeError
from scheduler.kube.http import page_size
from scheduler.kube.pod_writes import UnschedulablePod
from solver.domain import Pod
from tests.scheduler.kube.conftest import Cluster

pytestmark = pytest.mark.controlplane

SINCE = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


async def told(cluster: Cluster, pod: Pod, reason: str = "Unschedulable") -> None:
    await writes.write_pod_condition(cluster.client, pod, reason=reason, message="m", since=SINCE)


def _fail(error: DecodeError) -> None:
    raise error


async def found(cluster: Cluster) -> tuple[UnschedulablePod, ...]:
    return tuple(
        each
        for each in await pod_writes.read_unschedulable_pods(cluster.client, _fail)
        if each.pod.namespace == cluster.namespace
    )


async def test_pods_with_the_condition_are_listed(cluster: Cluster) -> None:
    pod = await cluster.pod("waits")
    await told(cluster, pod, "NodeReserved")
    await cluster.pod("new")
    bound = await cluster.pod("bound")
    await told(cluster, bound)
    await writes.bind(cluster.client, bound.id, bound.uid, "node-1")
    gated = await cluster.pod("gated")
    await told(cluster, gated, "SchedulingGated")

    assert await found(cluster) == (UnschedulablePod(pod.id, pod.uid, "NodeReserved", "m", SINCE),)


async def test_pages_are_put_together(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_size, "_FIRST_OBJECTS", 1)
    monkeypatch.setattr(page_size, "_MOST_OBJECTS", 1)
    pods = [await cluster.pod(f"p{number}") for number in range(3)]
    for each in pods:
        await told(cluster, each)

    assert {each.pod for each in await found(cluster)} == {each.id for each in pods}
    assert (await cluster.send("GET", paths.pod(pods[0].id)))["status"]["conditions"][0]["status"] == "False"


async def test_all_pods_are_known_by_their_uids(cluster: Cluster) -> None:
    waiting, bound = await cluster.pod("waits"), await cluster.pod("bound")
    await writes.bind(cluster.client, bound.id, bound.uid, "node-1")

    assert {waiting.uid, bound.uid} <= await pod_writes.read_pod_uids(cluster.client)

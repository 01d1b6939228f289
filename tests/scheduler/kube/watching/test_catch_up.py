"""After a wait for a watch its mirror has everything that was stored before, also of kinds in which nothing changes."""

import asyncio

import pytest

from scheduler.change import Change, Kind
from scheduler.kube.watching.catch_up import catch_up
from scheduler.kube.watching.reflector import Reflector
from scheduler.kube.watching.watch_ages import WatchAges
from tests.scheduler.kube.conftest import Cluster

pytestmark = pytest.mark.controlplane


async def followed(cluster: Cluster, kind: Kind, seen: list[Change]) -> tuple[Reflector, asyncio.Task[None]]:
    reflector = Reflector(cluster.client, kind, seen.extend, lambda _, __: None, ages=WatchAges(180.0))
    task = asyncio.create_task(reflector.run())
    await asyncio.wait_for(reflector.synced.wait(), 30)
    return reflector, task


@pytest.mark.parametrize("kind", [Kind.VOLUMES, Kind.PODS, Kind.NODES, Kind.STORAGE_CLASSES])
async def test_a_kind_in_which_nothing_changes_is_not_waited_for(cluster: Cluster, kind: Kind) -> None:
    reflector, task = await followed(cluster, kind, [])
    for number in range(2):  # other kinds move the resourceVersion on, and no bookmark comes within a minute
        await cluster.claim(f"claim-{number}")
        await asyncio.wait_for(catch_up(cluster.client, reflector), 30)
    task.cancel()


async def test_what_was_stored_before_is_seen_afterwards(cluster: Cluster) -> None:
    seen: list[Change] = []
    reflector, task = await followed(cluster, Kind.PODS, seen)
    for number in range(20):
        pod = await cluster.pod(f"pod-{number}")
        await asyncio.wait_for(catch_up(cluster.client, reflector), 30)
        assert str(pod.id) in {each.key for each in seen}
    task.cancel()


async def test_a_watch_that_stands_still_is_waited_for(cluster: Cluster) -> None:
    seen: list[Change] = []
    reflector, task = await followed(cluster, Kind.PODS, seen)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    pod = await cluster.pod()
    waiting = asyncio.create_task(catch_up(cluster.client, reflector))
    done, _ = await asyncio.wait((waiting,), timeout=1.0)
    assert not done
    going_on = asyncio.create_task(reflector.run())
    await asyncio.wait_for(waiting, 30)
    assert str(pod.id) in {each.key for each in seen}
    going_on.cancel()

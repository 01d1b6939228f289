"""How long a unit waits for its volumes, and what is told of that."""

import asyncio
from typing import cast

import pytest
from msgspec.structs import replace

from scheduler.commit.local_taints import FailedDevices, LocalTaints
from scheduler.commit.prebind import DevicesReady, PreBind, PreemptionBackoff, WaitFailed
from scheduler.commit.volumes import PreparedVolume
from scheduler.observe.metrics import Metrics
from scheduler.status.status_writer import StatusWriter
from solver.domain import Placement, ReasonCode, VolumeBinding
from tests.scheduler.commit.test_prebind import ReportedStatus
from tests.support import builders as b
from tests.support import volume_builders as v
from tests.support.cluster_builders import cluster_of, seen, unit
from tests.support.idle_loop import until_idle

POD = v.using(b.pod("p"), "data")
DATA = replace(v.volume_claim("data", storage=v.DYNAMIC), resource_version="10")
SELECTED = replace(DATA, selected_node="n1", resource_version="20")
MADE = v.volume("made", nodes=["n1"], storage=v.DYNAMIC)
BOUND = replace(SELECTED, volume="made", is_bind_completed=True, resource_version="30")
ASKED = VolumeBinding(claim=DATA.id, claim_uid=DATA.uid)
PLACED = Placement(pod=POD.id, pod_uid=POD.uid, node="n1", volumes=(ASKED,))


class PreBindScene:
    """A wait for one volume, on a clock that a test sets."""

    def __init__(self) -> None:
        self.cluster = cluster_of(b.node("n1"), POD, SELECTED)
        self.reported = ReportedStatus()
        self.now = 1000.0
        reports = cast("StatusWriter", self.reported)
        self.set_ahead = 0.0
        self.waits = PreBind(
            self.cluster,
            reports,
            FailedDevices(LocalTaints(Metrics()), 300.0),
            PreemptionBackoff(300.0),
            timeout_seconds=600.0,
            on_begin=lambda: None,
            clock=lambda: self.now,
            wall=lambda: self.now + self.set_ahead,
        )

    async def begin(self) -> "asyncio.Task[object]":
        prepared = PreparedVolume(placement=PLACED, binding=ASKED, stored=SELECTED, is_ours=True)
        task: asyncio.Task[object] = asyncio.create_task(self.waits.until_ready(unit(PLACED), (), (prepared,)))
        await self.turn()
        return task

    async def turn(self) -> None:
        await until_idle()

    async def see(self, *objects: object) -> None:
        for each in objects:
            change = seen(each)  # type: ignore[arg-type]  # objects of the mirror
            self.cluster.apply(change)
            self.waits.see(change)
        await self.turn()


async def test_the_wait_ends_when_the_volume_is_bound() -> None:
    scene = PreBindScene()
    task = await scene.begin()
    assert scene.waits.count == 1
    await scene.see(MADE, BOUND)
    assert await task == DevicesReady()
    assert scene.reported.told == []


async def test_a_volume_that_is_bound_already_is_not_waited_for() -> None:
    scene = PreBindScene()
    await scene.see(MADE, BOUND)
    assert await (await scene.begin()) == DevicesReady()


async def test_a_volume_that_takes_long_is_reported() -> None:
    scene = PreBindScene()
    task = await scene.begin()
    scene.now += 3
    await scene.see(replace(SELECTED, resource_version="21"))
    ((pod, text, is_first),) = scene.reported.told
    assert (pod, is_first) == ("p", True)
    assert "waits for the volume of claim data, since 1970-01-01T00:16:40Z" in text
    scene.waits.close()
    await task


async def test_a_refusal_ends_the_wait() -> None:
    scene = PreBindScene()
    task = await scene.begin()
    await scene.see(replace(DATA, resource_version="30"))
    end = await task
    assert isinstance(end, WaitFailed)
    assert end.reason.code is ReasonCode.VOLUME_BINDING_FAILED
    assert end.reason.message == 'binding volumes: provisioning failed for PVC "data"'


async def test_so_does_the_time() -> None:
    scene = PreBindScene()
    task = await scene.begin()
    scene.now += 600
    await scene.see(replace(SELECTED, resource_version="21"))
    end = await task
    assert isinstance(end, WaitFailed)
    assert end.reason.message == "binding volumes: the volume of claim data was not bound within 600 s"


@pytest.mark.parametrize("set_ahead", [-86_400.0, 86_400.0], ids=["set back", "set ahead"])
async def test_a_clock_that_is_set_changes_nothing_of_how_long_a_volume_is_waited_for(set_ahead: float) -> None:
    scene = PreBindScene()
    task = await scene.begin()
    scene.set_ahead = set_ahead
    scene.now += 599
    await scene.see(replace(SELECTED, resource_version="21"))
    assert not task.done()

    scene.now += 1
    await scene.see(replace(SELECTED, resource_version="22"))
    assert isinstance(await task, WaitFailed)

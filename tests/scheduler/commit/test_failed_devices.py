"""Devices that failed are kept back for a time that grows with each failure, and are given last after it."""

from collections.abc import Sequence
from contextlib import ExitStack

import pytest

from scheduler.change import Change, Kind
from scheduler.cluster import Cluster
from scheduler.commit.local_taints import FailedDevices, LocalTaints
from scheduler.observe.metrics import Metrics
from solver import solve
from solver.domain import BINDING_FAILED_TAINT, SUSPECT_TAINT, DeviceTaintRule, Policy
from solver.verify import check
from tests.support import builders as b
from tests.support.cluster_builders import seen, unit
from tests.support.shell_clock import Ahead
from tests.support.solver_problems import PATIENT

DEVICE, OTHER = b.device_id("gpu-0", "n1"), b.device_id("gpu-1", "n1")


class Scene:
    """The mirror, and what is avoided in it; time passes when a test says so."""

    def __init__(self, seconds: float = 300.0, devices: int = 2) -> None:
        self.clock, self.cluster, self.metrics = Ahead(), Cluster(), Metrics()
        self.local_taints, self.following = LocalTaints(self.metrics), ExitStack()
        self.following.enter_context(self.local_taints.followed_by(self.see))
        self.devices = FailedDevices(self.local_taints, seconds)
        self.pod, self.claim = b.pod("p", "c"), b.claim("c")
        for each in (b.node("n1"), b.gpu_slice("n1", count=devices), b.gpu_class(), self.claim, self.pod):
            self.cluster.apply(seen(each))

    def see(self, changes: Sequence[Change]) -> None:
        for change in changes:
            self.cluster.apply(change)

    @property
    def taints(self) -> dict[str, str]:
        """What each device has: the key of its taint, of the strictest where it has two."""
        found: dict[str, str] = {}
        for rule in self.cluster.snapshot().taint_rules:
            if rule.device is not None and found.get(rule.device) != BINDING_FAILED_TAINT:
                found[rule.device] = rule.taint.key
        return found

    def planned(self) -> str:
        """Give the device that the pod gets now, after the checks of solver and shell; empty where it waits."""
        snapshot, batch = self.cluster.snapshot(), b.batch(self.pod)
        plan = solve(snapshot, batch, Policy(), PATIENT)
        assert check(snapshot, batch, plan) == ()
        if not plan.placements:
            return ""
        assert self.cluster.check(unit(*plan.placements, *plan.allocations)) == ()
        return plan.allocations[0].allocation.results[0].device.device

    async def resting(self) -> float:
        """Give the seconds, in steps of one, until the device is kept back no more."""
        seconds = 0.0
        while self.taints.get("gpu-0") == BINDING_FAILED_TAINT:
            await self.clock.sleep(1.0)
            seconds += 1.0
        return seconds


async def test_a_failed_device_is_excluded_and_then_used_last_until_the_time_is_over() -> None:
    scene = Scene(60.0)
    scene.devices.failed((DEVICE, DEVICE))
    assert scene.taints == {"gpu-0": BINDING_FAILED_TAINT}

    assert await scene.resting() == 1.0
    assert scene.taints == {"gpu-0": SUSPECT_TAINT}

    await scene.clock.sleep(59.0)
    assert scene.taints == {"gpu-0": SUSPECT_TAINT}
    await scene.clock.sleep(1.0)
    assert scene.taints == {}


async def test_a_device_that_fails_again_and_again_is_tried_ever_more_seldom() -> None:
    scene, rests = Scene(20.0), list[float]()
    for _ in range(8):
        scene.devices.failed((DEVICE,))
        rests.append(await scene.resting())

    assert rests == [1.0, 2.0, 4.0, 8.0, 16.0, 20.0, 20.0, 20.0]


async def test_a_short_time_bounds_the_first_rest_too() -> None:
    scene = Scene(0.5)
    scene.devices.failed((DEVICE,))

    await scene.clock.sleep(0.6)
    assert scene.taints == {"gpu-0": SUSPECT_TAINT}


async def test_a_failure_that_is_long_past_does_not_count() -> None:
    scene = Scene(300.0)
    for _ in range(3):
        scene.devices.failed((DEVICE,))
        await scene.resting()
    await scene.clock.sleep(300.0)

    scene.devices.failed((DEVICE,))
    assert await scene.resting() == 1.0


async def test_a_device_that_got_ready_is_like_any_other() -> None:
    scene = Scene(300.0)
    scene.devices.failed((DEVICE, OTHER))
    await scene.resting()

    scene.devices.recovered((DEVICE,))
    assert scene.taints == {"gpu-1": SUSPECT_TAINT}
    scene.devices.failed((DEVICE,))
    assert await scene.resting() == 1.0


async def test_a_device_is_given_to_others_first_and_is_given_where_it_is_the_only_one() -> None:
    scene = Scene(devices=2)
    scene.devices.failed((DEVICE,))
    assert scene.planned() == "gpu-1"
    await scene.resting()
    assert scene.planned() == "gpu-1"

    alone = Scene(devices=1)
    assert alone.planned() == "gpu-0"
    alone.devices.failed((DEVICE,))
    assert alone.planned() == ""
    await alone.resting()
    assert alone.planned() == "gpu-0"


async def test_one_change_ends_the_exclusion_and_has_the_device_used_last() -> None:
    """Between two changes it would be like any other, and be chosen again before those that never failed."""
    scene, changes = Scene(60.0), list[tuple[Change, ...]]()
    with scene.local_taints.followed_by(lambda each: changes.append(tuple(each))):
        scene.devices.failed((DEVICE,))
        await scene.clock.sleep(15.0)

    keys = [[(each.value is not None, each.key.split()[0]) for each in change] for change in changes]
    assert keys == [[(True, "failed")], [(True, "failed-before"), (False, "failed")]]
    assert {each.kind for change in changes for each in change} == {Kind.TAINT_RULES}
    (given,) = [each.value for each in changes[1] if each.value is not None]
    assert isinstance(given, DeviceTaintRule)
    assert (given.driver, given.pool, given.device) == tuple(DEVICE)


@pytest.mark.parametrize("count", [10_000])
async def test_nothing_is_kept_of_devices_whose_time_is_over(count: int) -> None:
    scene = Scene(60.0)
    for number in range(count):
        scene.devices.failed((b.device_id(f"gone-{number}", "n1"),))
    assert scene.devices.count == count

    await scene.clock.sleep(15.0)
    await scene.clock.sleep(60.0)
    assert (scene.devices.count, scene.taints) == (0, {})


async def test_nothing_changes_after_the_end() -> None:
    scene = Scene(60.0)
    scene.devices.failed((DEVICE,))
    await scene.resting()
    scene.devices.failed((OTHER,))
    before = scene.taints
    scene.following.close()
    await scene.clock.sleep(120.0)
    assert scene.taints == before
    assert len(before) == 2


async def test_a_new_cluster_cache_gets_the_taints_that_are_left() -> None:
    """The scheduler starts again in its process when the API server was upgraded."""
    scene = Scene(60.0)
    scene.devices.failed((DEVICE, OTHER))
    await scene.clock.sleep(1.0)
    scene.devices.failed((DEVICE,))
    scene.following.close()

    scene.cluster = Cluster()
    scene.following.enter_context(scene.local_taints.followed_by(scene.see))
    assert scene.taints == {"gpu-0": BINDING_FAILED_TAINT, "gpu-1": SUSPECT_TAINT}
    assert await scene.resting() == 2.0
    scene.devices.failed((DEVICE,))
    assert await scene.resting() == 4.0

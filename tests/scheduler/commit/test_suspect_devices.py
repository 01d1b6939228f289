"""Devices that work failed on, or that are reported unhealthy, are suspected for a while and given last."""

from contextlib import ExitStack

import pytest
from msgspec.structs import replace

from scheduler.change import Change, Kind, without_ended
from scheduler.cluster import Cluster
from scheduler.cluster.unit import Unit
from scheduler.commit.local_taints import LocalTaints, SuspectDevices
from scheduler.observe.metrics import Metrics
from solver.domain import SUSPECT_TAINT, Controller, DeviceTaintRule, Pod, UnhealthyDevice
from tests.support import builders as b
from tests.support.cluster_builders import gone, seen
from tests.support.shell_clock import Ahead

JOB = Controller(kind="Job", uid="uid-job")
RUNNING = replace(b.pod("p", "c", node_name="n1"), controller=JOB)
STUCK = replace(RUNNING, is_deleting=True, unstarted_seconds=30)
FAILED = replace(RUNNING, is_terminal=True, has_failed=True)
HELD = replace(
    b.held("c", b.result("one", "gpu-0", "n1"), b.result("two", "gpu-1", "n1"), node_name="n1"),
    reserved_for=(b.consumer("p"),),
)


class Scene:
    """The mirror, and what is seen of suspicion."""

    def __init__(self, seconds: float = 60.0) -> None:
        self.cluster = Cluster()
        self.changes: list[Change] = []
        self.taints = LocalTaints(Metrics())
        self.following = ExitStack()
        self.following.enter_context(self.taints.followed_by(self.changes.extend))
        self.suspicion = SuspectDevices(self.taints, self.cluster, seconds)
        self.tell(HELD)

    def tell(self, *objects: object) -> None:
        for each in objects:
            self.see(seen(each))  # type: ignore[arg-type] # any object of the API

    def see(self, change: Change) -> None:
        self.suspicion.before((change,))
        for each in without_ended((change,)):
            self.cluster.apply(each)
        self.suspicion.see((change,))

    @property
    def suspected(self) -> list[str]:
        rules = [change.value for change in self.changes if isinstance(change.value, DeviceTaintRule)]
        assert {rule.taint.key for rule in rules} <= {SUSPECT_TAINT}
        return sorted(f"{rule.pool}/{rule.device}" for rule in rules)


async def test_devices_of_a_failed_pod_are_suspect() -> None:
    scene = Scene()
    scene.tell(RUNNING)
    assert scene.suspected == []
    scene.tell(FAILED)
    assert scene.suspected == ["n1/gpu-0", "n1/gpu-1"]


async def test_devices_of_a_claim_that_is_deleted_before_its_pod_fails_are_suspect() -> None:
    scene = Scene()
    scene.tell(RUNNING)
    scene.see(gone(HELD))
    assert scene.suspected == []
    scene.tell(FAILED)
    assert scene.suspected == ["n1/gpu-0", "n1/gpu-1"]


async def test_devices_that_a_deleted_pod_waited_for_in_vain_are_suspect() -> None:
    scene = Scene()
    scene.tell(RUNNING)
    assert scene.suspected == []
    scene.tell(STUCK)
    assert scene.suspected == ["n1/gpu-0", "n1/gpu-1"]


@pytest.mark.parametrize(
    "pod",
    [
        pytest.param(replace(STUCK, unstarted_seconds=29), id="not for long"),
        pytest.param(replace(STUCK, controller=None), id="replaced by nobody"),
        pytest.param(replace(FAILED, is_deleting=True), id="ended by its deletion"),
    ],
)
async def test_other_pods_that_are_deleted_leave_no_suspicion(pod: Pod) -> None:
    scene = Scene()
    scene.tell(pod)
    assert scene.suspected == []


async def test_a_later_pod_of_that_name_does_not_inherit_the_devices() -> None:
    scene = Scene()
    scene.tell(RUNNING)
    scene.see(gone(HELD))
    for change in (gone(RUNNING), seen(replace(FAILED, uid="uid-next"))):
        scene.see(change)
    assert scene.suspected == []


async def test_nor_one_that_a_list_shows_in_its_place() -> None:
    """A watch that begins anew lists objects: a pod that was replaced meanwhile comes as one change of its key."""
    scene = Scene()
    scene.tell(RUNNING)
    scene.see(gone(HELD))
    scene.tell(replace(FAILED, uid="uid-next"))
    assert scene.suspected == []

    scene.tell(FAILED)
    assert scene.suspected == []


async def test_what_the_next_pod_lost_is_its_own() -> None:
    other = replace(HELD, allocation=b.allocation(b.result("one", "gpu-7", "n1")))
    scene = Scene()
    scene.tell(RUNNING)
    scene.see(gone(HELD))
    scene.tell(replace(RUNNING, uid="uid-next"), other)
    scene.see(gone(other))
    scene.tell(replace(FAILED, uid="uid-next"))
    assert scene.suspected == ["n1/gpu-7"]


async def test_devices_that_a_pod_lost_before_it_was_bound_are_not_suspect() -> None:
    waiting = replace(RUNNING, node_name="")
    later = replace(HELD, allocation=b.allocation(b.result("one", "gpu-7", "n1")))
    scene = Scene()
    scene.tell(waiting)
    scene.cluster.assume(Unit(placements=(b.placement(waiting, "n1"),)))
    scene.tell(replace(HELD, allocation=None), later, FAILED)
    assert scene.suspected == ["n1/gpu-7"]


async def test_a_failed_pod_without_a_controller_makes_no_device_suspect() -> None:
    scene = Scene()
    scene.tell(replace(FAILED, controller=None))
    assert scene.suspected == []


async def test_a_pod_that_was_evicted_or_ended_well_throws_no_suspicion() -> None:
    scene = Scene()
    scene.tell(replace(RUNNING, is_terminal=True))
    assert scene.suspected == []


async def test_a_pod_throws_suspicion_once() -> None:
    scene = Scene()
    scene.tell(FAILED, replace(FAILED, labels=(("a", "b"),)))
    assert len(scene.suspected) == 2


async def test_an_unhealthy_device_is_suspect_by_its_request() -> None:
    scene = Scene()
    scene.tell(
        replace(RUNNING, unhealthy=(UnhealthyDevice(entry="entry-0", request="two", resource_id="vendor.com/x=1"),))
    )
    assert scene.suspected == ["n1/gpu-1"]


async def test_a_device_of_several_is_found_by_its_name() -> None:
    scene = Scene()
    several = replace(
        b.held("c", *(b.result("one", f"gpu-{i}", "n1") for i in range(3)), node_name="n1"),
        reserved_for=(b.consumer("p"),),
    )
    scene.tell(several, with_report(RUNNING, "gpu.example.com/n1/gpu-2"))
    assert scene.suspected == ["n1/gpu-2"]


async def test_a_report_about_a_whole_claim_or_a_request_with_alternatives_is_understood() -> None:
    scene = Scene()
    scene.tell(replace(RUNNING, unhealthy=(UnhealthyDevice(entry="entry-0", request="", resource_id="x"),)))
    assert scene.suspected == ["n1/gpu-0", "n1/gpu-1"]

    scene = Scene()
    scene.tell(
        replace(HELD, allocation=b.allocation(b.result("one/small", "gpu-0", "n1"), b.result("two", "gpu-1", "n1"))),
        replace(RUNNING, unhealthy=(UnhealthyDevice(entry="entry-0", request="one", resource_id="x"),)),
    )
    assert scene.suspected == ["n1/gpu-0"]


def test_a_pod_that_ended_is_gone_for_the_others() -> None:
    other = seen(HELD)
    assert without_ended((seen(FAILED), seen(RUNNING), other)) == [gone(FAILED), seen(RUNNING), other]


def with_report(pod: Pod, resource_id: str) -> Pod:
    return replace(pod, unhealthy=(UnhealthyDevice(entry="entry-0", request="one", resource_id=resource_id),))


async def test_suspicion_ends_by_itself() -> None:
    clock, scene = Ahead(), Scene(seconds=60.0)
    scene.tell(with_report(RUNNING, ""))
    assert scene.suspected == ["n1/gpu-0"]
    await clock.sleep(60.0)
    assert [change.value for change in scene.changes if change.value is None] == [None]
    assert {change.kind for change in scene.changes} == {Kind.TAINT_RULES}


async def test_a_pod_that_is_gone_is_forgotten() -> None:
    scene = Scene()
    scene.tell(FAILED)
    scene.suspicion.see((gone(FAILED),))
    assert scene.suspicion._failed == {}  # noqa: SLF001 - that nothing piles up shows nowhere else


async def test_nothing_changes_after_the_end() -> None:
    clock, scene = Ahead(), Scene(seconds=60.0)
    scene.tell(with_report(RUNNING, ""))
    scene.following.close()
    await clock.sleep(60.0)
    assert len(scene.changes) == 1


async def test_a_new_cluster_cache_gets_the_suspects_that_are_left() -> None:
    clock, scene, changes = Ahead(), Scene(seconds=60.0), list[Change]()
    scene.tell(with_report(RUNNING, "gpu.example.com/n1/gpu-0"))
    await clock.sleep(30.0)
    scene.following.close()
    with scene.taints.followed_by(changes.extend):
        assert [(each.key, each.value is not None) for each in changes] == [("suspect gpu.example.com/n1/gpu-0", True)]

        await clock.sleep(30.0)
        assert changes[1:] == [replace(changes[0], value=None)]
    with scene.taints.followed_by(changes.extend):
        assert len(changes) == 2
    assert len(scene.changes) == 1

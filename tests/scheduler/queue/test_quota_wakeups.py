"""Devices that come free wake the pods that a quota keeps back, of namespaces below the same root only."""

from msgspec.structs import replace

from scheduler.change import Change, Kind
from scheduler.cluster import Cluster
from scheduler.queue import SchedulingQueue
from solver.domain import Namespace, Pod, Reason, ReasonCode
from tests.support import builders as b
from tests.support.cluster_builders import became
from tests.support.quota_cases import devices, namespaces, quota

QUOTAS = (
    quota("root", devices(4)),
    quota("red", devices(2), parent="root", team="red"),
    quota("blue", devices(2), parent="root", team="blue"),
    quota("green", devices(2), team="green"),
)


class Scene:
    """A pod of each team waits because of a quota."""

    def __init__(self) -> None:
        cluster = Cluster()
        for each in namespaces("red", "blue", "green", "free"):
            cluster.apply(Change(kind=Kind.NAMESPACES, key=each.name, value=each))
        for one in QUOTAS:
            cluster.apply(Change(kind=Kind.QUOTAS, key=one.name, value=one))
        self.queue = SchedulingQueue(
            ["dovetail"], sharing_quota=lambda namespace: cluster.quota_usage().sharing(namespace)
        )
        self.now = 0.0
        for team in ("red", "blue", "green", "free"):
            self.queue.offer(b.pod(team, team, namespace=team), self.now)
        self.fail(*self.queue.take_batch(self.now, 100).pods)

    def fail(self, *pods: Pod) -> None:
        for each in pods:
            reason = Reason(code=ReasonCode.QUOTA_EXCEEDED, message="because")
            self.queue.put_back(each.id, each.uid, [reason], self.now)
        self.now += 60.0

    def woken(self) -> set[str]:
        return {each.id.name for each in self.queue.take_batch(self.now, 100).pods}

    def free(self, namespace: str) -> None:
        held = b.held("old", b.result("r", "gpu-0", "n0"), node_name="n0", namespace=namespace)
        self.queue.wake(became(held, None))


def test_a_team_wakes_those_below_the_same_root() -> None:
    scene = Scene()
    scene.free("red")
    assert scene.woken() == {"red", "blue"}


def test_a_root_of_its_own_wakes_its_own_only() -> None:
    scene = Scene()
    scene.free("green")
    assert scene.woken() == {"green"}


def test_a_namespace_without_a_quota_wakes_nobody() -> None:
    scene = Scene()
    scene.free("free")
    assert scene.woken() == set()


def test_a_quota_that_changes_wakes_all_and_its_status_nobody() -> None:
    scene = Scene()
    scene.queue.wake(became(QUOTAS[3], replace(QUOTAS[3], generation=2)))
    assert scene.woken() == set()
    scene.queue.wake(became(QUOTAS[3], replace(QUOTAS[3], resources=(devices(9),))))
    assert scene.woken() == {"red", "blue", "green", "free"}
    again = Scene()
    again.queue.wake(became(QUOTAS[3], replace(QUOTAS[3], unknown=("spec.resources[1]",))))
    assert again.woken() == {"red", "blue", "green", "free"}


def test_what_is_remembered_of_a_namespace_goes_with_it() -> None:
    scene = Scene()
    waiting = scene.queue._queues.unschedulable  # noqa: SLF001 - what it keeps shows nowhere else
    for team in ("red", "green"):
        scene.free(team)
    scene.woken()
    assert set(waiting._last_freed) == {"red", "blue", "green"}  # noqa: SLF001
    for team in ("red", "blue", "green"):
        scene.queue.wake(became(Namespace(name=team), None))
    assert (waiting._last_freed, set(waiting._kept_back)) == ({}, {"free"})  # noqa: SLF001


def test_the_namespace_of_a_pod_wakes_it_when_it_is_shown() -> None:
    scene = Scene()
    scene.queue.wake(became(None, Namespace(name="free")))
    assert "free" in scene.woken()


def test_devices_of_a_namespace_that_is_not_known_counted_for_all() -> None:
    scene = Scene()
    scene.free("new")
    assert scene.woken() == {"red", "blue", "green"}

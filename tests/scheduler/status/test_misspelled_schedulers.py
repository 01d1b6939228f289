"""Pods whose schedulerName is nearly ours get one event; pods of other schedulers get none."""

import pytest
from msgspec.structs import replace

from scheduler.cluster import Cluster
from scheduler.kube.errors import ServerError
from scheduler.observe.metrics import Metrics
from scheduler.status.misspelled_schedulers import MisspelledSchedulers
from solver.domain import Pod, PodId, wording
from tests.support.builders import pod
from tests.support.cluster_builders import gone, seen


def named(name: str, scheduler: str = "dovetial", *, node: str = "", namespace: str = "default") -> Pod:
    return replace(pod(name, namespace=namespace, node_name=node), scheduler_name=scheduler)


class World:
    """A cluster, the pods that a scheduler has picked up, and the events; the clock stands until it is moved."""

    def __init__(self) -> None:
        self.now = 0.0
        self.cluster = Cluster()
        self.picked_up: set[str] = set()
        self.asked: list[str] = []
        self.events: list[tuple[str, str]] = []
        self.is_down = False
        self.names = MisspelledSchedulers(
            self.cluster, self.is_picked_up, self.record, ("dovetail",), Metrics(), clock=lambda: self.now
        )

    async def is_picked_up(self, key: PodId, _: str) -> bool:
        self.asked.append(key.name)
        if self.is_down:
            raise ServerError(500, "InternalError", "down")
        return key.name in self.picked_up

    def record(self, found: Pod, similar: str) -> None:
        self.events.append((found.id.name, similar))

    def see(self, *pods: Pod) -> None:
        for each in pods:
            self.cluster.apply(seen(each))
            self.names.see((seen(each),))

    async def after(self, seconds: float) -> list[tuple[str, str]]:
        self.now += seconds
        await self.names.look()
        return self.events


async def test_a_pod_with_a_misspelled_scheduler_gets_one_event_after_half_a_minute() -> None:
    world = World()
    world.see(named("p"))

    assert await world.after(29.0) == []
    assert await world.after(1.0) == [("p", "dovetail")]
    world.see(replace(named("p"), labels=(("a", "b"),)))
    assert await world.after(60.0) == [("p", "dovetail")]


async def test_a_pod_that_another_scheduler_has_picked_up_gets_none() -> None:
    world = World()
    world.see(named("p"))
    world.picked_up = {"p"}

    assert await world.after(30.0) == []


async def test_a_name_that_bound_pods_have_belongs_to_a_scheduler() -> None:
    world = World()
    world.see(named("q"), named("p", node="n1"), named("r"))

    assert await world.after(30.0) == []
    assert world.asked == []


async def test_pods_of_other_schedulers_are_not_even_read() -> None:
    world = World()
    world.see(*(named(f"p{number}", "default-scheduler") for number in range(10)), named("v", "volcano"), pod("own"))

    assert await world.after(30.0) == []
    assert world.asked == []


async def test_pods_that_are_gone_gated_or_ending_get_none() -> None:
    world = World()
    world.see(named("p"), replace(named("q"), scheduling_gates=("wait",)), replace(named("r"), is_deleting=True))
    world.cluster.apply(gone(named("p")))
    world.names.see((gone(named("p")),))

    assert await world.after(30.0) == []
    assert world.asked == []


async def test_an_api_server_that_does_not_answer_is_no_reason_for_an_event() -> None:
    world = World()
    world.see(named("p"))
    world.is_down = True

    assert await world.after(30.0) == []


async def test_a_namespace_with_many_such_pods_gets_a_few_events_a_few_in_a_second() -> None:
    world = World()
    world.see(*(named(f"p{number}") for number in range(50)), named("q", namespace="other"))

    assert len(await world.after(30.0)) == 5
    for _ in range(20):
        await world.after(1.0)

    assert len(world.events) == 21
    assert world.events[-1][0] == "q"


@pytest.mark.parametrize(
    ("one", "other", "distance"),
    [("", "", 0), ("abc", "abc", 0), ("abc", "acb", 1), ("abc", "ab", 1), ("abc", "xbz", 2), ("abc", "xyz", 3)],
)
def test_edit_distance(one: str, other: str, distance: int) -> None:
    assert wording.edit_distance(one, other, 2) == distance


async def test_a_name_of_any_length_is_neither_read_nor_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """The API server bounds no schedulerName: a tenant's may have a million characters."""
    world, read = World(), list[int]()

    def distance(first: str, *_: object) -> int:
        read.append(len(first))
        return 9

    monkeypatch.setattr(wording, "edit_distance", distance)
    world.see(named("p", "-" * 1_000_000 + "dovetai"), named("q", "dovetai"))
    assert read == [len("dovetai")]

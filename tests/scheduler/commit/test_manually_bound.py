"""Pods that were bound by hand hear what to write instead."""

import asyncio
from typing import cast

import pytest
from msgspec.structs import replace as changed

from scheduler.cluster import Cluster
from scheduler.commit import manually_bound
from scheduler.commit.manually_bound import ManuallyBoundPods
from scheduler.observe.metrics import Metrics
from scheduler.status.status_writer import StatusWriter
from solver.domain import Claim, Node, Pod, PodClaim
from tests.support import builders as b
from tests.support.cluster_builders import gone, seen


class Events:
    tells_inventory = True

    def __init__(self) -> None:
        self.told: list[tuple[str, str]] = []

    def record_manually_bound(self, pod: Pod, message: str) -> None:
        self.told.append((pod.id.name, message))


class World:
    """A mirror and the manually_bound in it; the clock stands until it is moved."""

    def __init__(self) -> None:
        self.now = 0.0
        self.cluster = Cluster()
        self.events, self.metrics = Events(), Metrics()
        self.manually_bound = ManuallyBoundPods(
            self.cluster, cast("StatusWriter", self.events), ("dovetail",), self.metrics, lambda: self.now
        )

    def see(self, *objects: Pod | Claim | Node) -> None:
        for each in objects:
            change = seen(each)
            self.cluster.apply(change)
            self.manually_bound.see((change,))

    def after(self, seconds: float) -> list[tuple[str, str]]:
        self.now += seconds
        self.manually_bound.look()
        return self.events.told


ALLOCATED = b.claim("c", allocation=b.allocation(b.result("gpu", "gpu-0", "n1"), node_name="n1"))
BOUND = b.pod("p", "c", node_name="n1")


def test_a_pod_that_was_bound_by_hand_hears_of_the_node_selector_once() -> None:
    world = World()
    world.see(b.node("n1", labels={"kubernetes.io/hostname": "host-1"}), b.claim("c"), BOUND)

    told = [*world.after(5.0), *world.after(60.0)[1:]]

    assert [name for name, _ in told] == ["p"]
    assert 'nodeSelector: {"kubernetes.io/hostname": "host-1"}' in told[0][1]
    assert "allocates claim c." in told[0][1]


def test_a_pod_that_we_bound_and_whose_claim_is_seen_late_hears_nothing() -> None:
    world = World()
    world.see(b.claim("c"), BOUND)
    world.after(4.0)
    world.see(ALLOCATED)

    assert world.after(60.0) == []


@pytest.mark.parametrize(
    "pod",
    [
        pytest.param(b.pod("p", "c"), id="no node"),
        pytest.param(changed(BOUND, scheduler_name="other"), id="another scheduler's"),
        pytest.param(changed(BOUND, is_terminal=True), id="ended"),
        pytest.param(b.pod("p", node_name="n1"), id="no claims"),
        pytest.param(b.pod("p", PodClaim(entry="c", template="t", is_skipped=True), node_name="n1"), id="skipped"),
    ],
)
def test_no_other_pod_hears_of_it(pod: Pod) -> None:
    world = World()
    world.see(b.claim("c"), pod)

    assert world.after(60.0) == []


def test_a_pod_whose_claim_was_never_made_hears_of_it_too() -> None:
    world = World()
    world.see(b.pod("p", PodClaim(entry="gpu", template="t"), node_name="n1"))

    assert "claim gpu" in world.after(5.0)[0][1]


def test_a_pod_that_is_gone_hears_nothing_and_a_namesake_is_another_pod() -> None:
    world = World()
    world.see(b.claim("c"), BOUND)
    world.after(5.0)
    change = gone(BOUND)
    world.cluster.apply(change)
    world.manually_bound.see((change,))
    world.see(b.pod("p", "c", node_name="n1", uid="another"))

    assert len(world.after(5.0)) == 2


async def test_a_pod_that_cannot_be_reported_ends_neither_the_others_nor_the_task(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(manually_bound, "_PERIOD_SECONDS", 0.0)
    world, told = World(), list[str]()

    def record_manually_bound(pod: Pod, _: str) -> None:
        if pod.id.name == "p":
            raise RuntimeError("a defect")
        told.append(pod.id.name)

    monkeypatch.setattr(world.events, "record_manually_bound", record_manually_bound)
    world.see(b.claim("c"), BOUND, b.pod("q", "c", node_name="n1"))
    world.now += 60.0
    task = asyncio.create_task(world.manually_bound.run())
    for _ in range(10):
        await asyncio.sleep(0)

    assert (told, task.done()) == (["q"], False)
    assert world.metrics.registry.get_sample_value("dovetail_defects_total", {"part": "manually_bound"}) == 1
    task.cancel()

"""Pods of Workloads in the scheduling cycle: their places are handed to the check, and nothing of them is written."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, cast

import msgspec
import pytest

from scheduler.change import Kind, Transition
from scheduler.cluster import Unit
from scheduler.cycle import SchedulingCycle
from scheduler.placement_check.placement_check import PlacementCheck
from solver.domain import ClaimId, Pod, PodId, Reason, ReasonCode
from tests.scheduler.test_cycle import Hall, running
from tests.support.builders import pod
from tests.support.cluster_builders import seen
from tests.support.idle_loop import until_idle

NO_ROOM = Reason(code=ReasonCode.API_ERROR, message="no room can be held")


class Checking:
    """Stands where the check answers: it notes what it is told."""

    def __init__(self) -> None:
        self.placed_pods: list[list[str]] = []
        self.refusals: dict[str, str] = {}
        self.fails = False

    def placed(self, unit: Unit, _: Mapping[PodId, Pod]) -> None:
        if self.fails:
            raise RuntimeError("a defect")
        self.placed_pods.append([each.pod.name for each in unit.placements])

    def refused(self, refused: Pod, say: Callable[[], str]) -> None:
        self.refusals[refused.id.name] = say()


def hall_with_check() -> tuple[Hall, Checking]:
    """A cycle with a check, on a node with four devices."""
    hall, checking = Hall(starvation_seconds=60.0), Checking()
    hall.parts = replace(hall.parts, placement_check=cast("PlacementCheck", checking))
    hall.cycle = SchedulingCycle(hall.parts, hall.policies, 100, hall.clock, sleep=hall.pause)
    return hall, checking


def expected(name: str, *claims: str, **fields: Any) -> Pod:
    """A pod that does not exist."""
    made = pod(name.replace(":", "-"), *claims, **fields)
    return msgspec.structs.replace(made, id=PodId("default", name), uid=f"uid:{name}")


async def test_a_place_is_handed_to_the_check_and_neither_assumed_nor_written() -> None:
    hall, checking = hall_with_check()
    async with running(hall):
        hall.arrive(expected("w:main:0", "c"))
        await until_idle()

    assert checking.placed_pods == [["w:main:0"]]
    assert hall.committing.units == []
    known = hall.cluster.pod(PodId("default", "w:main:0"))
    assert known is not None
    assert known.node_name == ""
    held = hall.cluster.claim(ClaimId("default", "c"))
    assert held is not None
    assert held.allocation is None


async def test_no_finalizer_is_written_for_a_claim_that_is_expected() -> None:
    hall, checking = hall_with_check()
    async with running(hall):
        for name in ("p", "q"):
            hall.arrive(pod(name, name))
            await until_idle()
        assert hall.finalizing.claims == ["q"]  # the decision before has placed all its pods
        hall.arrive(expected("w:main:0", "w-main-0"))
        await until_idle()

    assert checking.placed_pods == [["w:main:0"]]
    assert hall.finalizing.claims == ["q"]


async def test_the_check_is_told_why_and_no_condition_is_written() -> None:
    hall, checking = hall_with_check()
    hall.cycle.see([seen(pod("old", node_name="n1", cpu=5))])
    async with running(hall):
        hall.arrive(expected("w:main:0", cpu=4))
        await until_idle()
        hall.arrive(pod("overtakes", cpu=1))
        await until_idle()

    assert "0/1 nodes are available" in checking.refusals["w:main:0"]
    assert "w:main:0" not in dict(hall.telling.told)
    assert not hall.starvation.is_overdue(expected("w:main:0"), 1e9)


async def test_those_that_lost_to_it_are_tried_again_where_it_takes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    hall, checking = hall_with_check()
    placements: list[tuple[Unit, Mapping[PodId, Pod]]] = []
    monkeypatch.setattr(checking, "placed", lambda *placed: placements.append(placed))
    async with running(hall):
        hall.arrive(expected("w:main:0", "c"))
        await until_idle()
    woken: list[Transition] = []
    monkeypatch.setattr(hall.parts.waker, "wake", woken.extend)

    hall.cycle.give_back(*placements[0], ())
    assert [(each.kind, each.key) for each in woken] == [(Kind.PODS, "default/w:main:0"), (Kind.CLAIMS, "default/c")]
    assert checking.refusals == {}

    hall.cycle.give_back(*placements[0], (NO_ROOM,))
    assert NO_ROOM.message in checking.refusals["w:main:0"]


async def test_a_defect_of_the_check_puts_the_pods_back() -> None:
    hall, checking = hall_with_check()
    checking.fails = True
    async with running(hall):
        hall.arrive(expected("w:main:0"))
        await until_idle()

    assert "w:main:0" in checking.refusals
    assert hall.committing.units == []

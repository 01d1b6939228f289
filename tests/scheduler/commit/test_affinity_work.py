"""The order by affinity costs work in proportion to the pods of a batch and to their terms, whatever their labels."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from scheduler.cluster import Unit
from scheduler.commit.affinity import affinity_order
from scheduler.commit.affinity.affinity_order import AffinityOrder
from scheduler.loop_turns import LoopTurns
from solver.domain import Pod
from tests.support import builders as b
from tests.support.cluster_builders import cluster_of, unit
from tests.support.neighbour_builders import neighbour, requirement, term
from tests.support.work import counted

NODES = [b.node(f"n{number}", labels={"zone": "a"}) for number in range(20)]
TERMS = 64
FEW = 250
GROWTH = 1.15
"""A pod among 2,000 costs at most so much more than one among 250: sets of pods are longer, but not lines."""

Shape = Callable[[str, Callable[[int], str]], Pod]
"""Makes a pod of its name; the function gives the name of the pod that is so many places behind it."""


def same(name: str, _: Callable[[int], str]) -> Pod:
    return neighbour(name, app="web", affinity=[term("zone", app="web")])


def itself(name: str, _: Callable[[int], str]) -> Pod:
    return neighbour(name, app=name, affinity=[term("zone", app=name)])


def pairs(name: str, _: Callable[[int], str]) -> Pod:
    other = f"p{int(name[1:]) ^ 1:05}"
    return neighbour(name, app=name, affinity=[term("zone", app=other)])


def chain(name: str, behind: Callable[[int], str]) -> Pod:
    return neighbour(name, app=name, affinity=[term("zone", app=behind(1))])


def many_terms_of_its_own(name: str, _: Callable[[int], str]) -> Pod:
    labels: dict[str, Any] = {f"k{number}": name for number in range(TERMS)}
    return neighbour(name, affinity=[term("zone", **{key: value}) for key, value in labels.items()], **labels)


def many_equal_terms(name: str, _: Callable[[int], str]) -> Pod:
    labels: dict[str, Any] = {f"k{number}": "x" for number in range(TERMS)}
    return neighbour(name, affinity=[term("zone", **{key: value}) for key, value in labels.items()], **labels)


def all_others(name: str, _: Callable[[int], str]) -> Pod:
    return neighbour(name, app="web", x=name, affinity=[term("zone", requirement("x", "NotIn", name), app="web")])


def some_others(name: str, behind: Callable[[int], str]) -> Pod:
    others = [behind(number) for number in range(1, 40)]
    return neighbour(name, app=name, affinity=[term("zone", requirement("app", "In", *others))])


def batch(shape: Shape, count: int) -> tuple[AffinityOrder, list[Unit]]:
    def of(number: int) -> Pod:
        return shape(f"p{number:05}", lambda places: f"p{(number + places) % count:05}")

    pods = [of(number) for number in range(count)]
    cluster = cluster_of(NODES, pods)
    units = [unit(b.placement(pod, f"n{number % len(NODES)}")) for number, pod in enumerate(pods)]
    for each in units:
        cluster.assume(each)
    return AffinityOrder(cluster), units


def lines_for_each_pod(shape: Shape, count: int) -> float:
    order, units = batch(shape, count)
    begin = order.begin(units)
    with counted() as work:
        asyncio.run(begin)
    return work.lines / count


@pytest.fixture(autouse=True)
def _one_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(affinity_order, "LoopTurns", lambda: LoopTurns(clock=lambda: 0.0))


@pytest.mark.parametrize("shape", [same, itself, pairs, chain, all_others, some_others])
def test_a_pod_costs_the_same_among_more_of_them(shape: Shape) -> None:
    few = lines_for_each_pod(shape, FEW)
    assert max(lines_for_each_pod(shape, times * FEW) for times in (2, 4, 8)) <= GROWTH * few


@pytest.mark.parametrize("shape", [many_terms_of_its_own, many_equal_terms])
def test_so_it_does_with_many_terms(shape: Shape) -> None:
    assert lines_for_each_pod(shape, FEW) <= GROWTH * lines_for_each_pod(shape, FEW // 4)


@pytest.mark.parametrize(
    ("shape", "first"),
    [
        pytest.param(same, 1, id="one group"),
        pytest.param(itself, FEW, id="each alone"),
        pytest.param(pairs, FEW // 2, id="one of each pair"),
        pytest.param(chain, 1, id="one of a ring"),
        pytest.param(all_others, 1, id="one of all"),
        pytest.param(some_others, 1, id="one of many that overlap"),
    ],
)
async def test_as_few_as_possible_begin_without_a_dependency(shape: Shape, first: int) -> None:
    order, units = batch(shape, FEW)
    await order.begin(units)
    assert sum(not order.dependencies(each) for each in units) == first


def begun_before(order: AffinityOrder, units: Sequence[Unit]) -> bool:
    """Follow the dependencies: there is no cycle."""
    needs = {each.placements[0].pod: {key for key, _ in order.dependencies(each)} for each in units}
    while needs:
        free = {key for key, others in needs.items() if others.isdisjoint(needs)}
        if not free:
            return False
        needs = {key: others for key, others in needs.items() if key not in free}
    return True


@pytest.mark.parametrize("shape", [same, itself, pairs, chain, all_others, some_others, many_terms_of_its_own])
async def test_dependencies_have_no_cycle(shape: Shape) -> None:
    order, units = batch(shape, FEW)
    await order.begin(units)
    assert begun_before(order, units)


async def test_other_tasks_run_between_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = iter(range(1_000_000))
    monkeypatch.setattr(affinity_order, "LoopTurns", lambda: LoopTurns(clock=lambda: float(next(ticks))))
    order, units = batch(itself, FEW)
    task, turns = asyncio.create_task(order.begin(units)), 0
    while not task.done():
        await asyncio.sleep(0)
        turns += 1
    assert turns > len(units)

"""Machines, arrivals, measures and policies of traces, and Dovetail over them."""

import itertools
import random
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from e2e.traces import policies
from e2e.traces.bound import most_allocated
from e2e.traces.dovetail import Dovetail
from e2e.traces.draws import LOAD, draw
from e2e.traces.fragmentation import Fragmentation
from e2e.traces.machines import Machines
from e2e.traces.replay import DOVETAIL, NAMES, Setting, bounds, replay
from e2e.traces.workload import WHOLE, Machine, Shape, TraceError, capacity
from solver.domain import Policy

TWO = Machine("two", cpu=8_000, memory=1_000, gpus=2, model="T4")
FOUR = Machine("four", cpu=16_000, memory=1_000, gpus=4, model="V100")
LAST = Machine("last", cpu=8_000, memory=1_000, gpus=2, model="T4")
SHARE = Shape(1_000, 10, 1, 400)
ONE = Shape(2_000, 10, 1, WHOLE)
TWICE = Shape(3_000, 10, 2, WHOLE)
ON_V100 = Shape(2_000, 10, 1, WHOLE, ("V100",))
PLAIN = Shape(4_000, 10)
TASKS = (SHARE, ONE, TWICE, ON_V100, PLAIN)
SETTING = Setting((TWO, FOUR, LAST), "some", TASKS)


def test_arrivals_are_the_whole_list_in_other_orders_until_the_load_is_reached() -> None:
    total = 10 * WHOLE
    arrivals = draw(TASKS, total, 42)
    assert arrivals == draw(TASKS, total, 42) != draw(TASKS, total, 43)
    assert sum(task.amount for task in arrivals[:-1]) < LOAD * total <= sum(task.amount for task in arrivals)
    assert Counter(arrivals[:5]) == Counter(arrivals[5:10]) == Counter(TASKS)


def test_a_list_without_gpus_is_refused() -> None:
    with pytest.raises(TraceError, match="no task of the list asks for a GPU"):
        draw([PLAIN], WHOLE, 1)


@pytest.mark.parametrize(
    ("left", "fragmented"),
    [
        ((8_000, [1000, 1000], "V100"), 0.0),
        # Three of four tasks have room; of the share's GPU 300 is left, which the others cannot use either.
        ((8_000, [1000, 300], "V100"), (300 + 300 + 1300 + 300) / 4),
        ((8_000, [1000, 300], "T4"), (300 + 300 + 1300 + 1300) / 4),
        ((1_500, [1000, 1000], "V100"), (0 + 2000 + 2000 + 2000) / 4),
        ((8_000, [0, 0], "T4"), 0.0),
    ],
)
def test_fragmentation_is_what_typical_tasks_cannot_use(left: tuple[int, list[int], str], fragmented: float) -> None:
    assert Fragmentation([SHARE, ONE, TWICE, ON_V100]).of(*left) == pytest.approx(fragmented)


def test_rare_shapes_are_not_typical() -> None:
    rare = [Shape(cpu, 10, 2, WHOLE) for cpu in range(5)]
    assert Fragmentation([*rare, *[SHARE] * 95]).of(100_000, [500], "T4") == 0


def test_the_fragmentation_of_all_machines_is_the_sum() -> None:
    machines = Machines(SETTING.machines)
    machines.take(1, SHARE, [0])
    measure = Fragmentation(TASKS)
    each = [(8_000, [1000, 1000, 0, 0], "T4"), (15_000, [600, 1000, 1000, 1000], "V100"), (8_000, [1000] * 2, "T4")]
    assert measure.total(machines) == pytest.approx(sum(measure.of(*one) for one in each))


def some(machines: Machines, name: str) -> policies.Policy:
    return policies.MAKE[name](machines, Fragmentation(TASKS), random.Random(1))  # noqa: S311 - no secret


@pytest.mark.parametrize(
    ("name", "shape", "expected"),
    [
        ("best-fit", SHARE, (0, [1])),  # the machine and the GPU of which the least is left
        ("dot-product", SHARE, (0, [1])),
        ("fgd", SHARE, (0, [1])),  # a second GPU that is broken would be of no use to others
        ("best-fit", TWICE, (2, [0, 1])),
        ("fgd", TWICE, (2, [0, 1])),
    ],
)
def test_policies_choose_as_they_say(name: str, shape: Shape, expected: tuple[int, list[int]]) -> None:
    machines = Machines(SETTING.machines)
    machines.take(0, SHARE, [1])
    candidates = np.flatnonzero(machines.fitting(shape))
    assert some(machines, name).choose(shape, candidates) == expected


def test_fgd_sees_what_has_changed_since_it_scored_a_shape() -> None:
    machines = Machines([TWO, TWO])
    policy = some(machines, "fgd")
    first = policy.choose(SHARE, np.array([0, 1]))
    assert first is not None
    machines.take(first[0], SHARE, first[1])
    assert policy.choose(SHARE, np.array([0, 1])) == first


@pytest.mark.parametrize("name", NAMES)
def test_every_policy_places_what_has_room(name: str) -> None:
    curve = replay(SETTING, name, 42)
    assert (curve.tasks_of, curve.policy, curve.seed) == ("some", name, 42)
    assert len(curve.allocated) == len(curve.fragmented) > 100 * LOAD
    assert list(curve.allocated) == sorted(curve.allocated)
    assert curve.allocated[-1] > 0
    assert 0 < curve.failed < curve.tasks


@settings(max_examples=25)
@given(tasks=st.lists(st.sampled_from(TASKS), max_size=14))
def test_dovetail_places_a_task_where_a_machine_has_room_and_nowhere_else(tasks: list[Shape]) -> None:
    machines, dovetail = Machines(SETTING.machines), Dovetail(SETTING.machines, Policy())
    for shape in tasks:
        candidates = np.flatnonzero(machines.fitting(shape))
        choice = dovetail.choose(shape, candidates)
        assert (choice is not None) == bool(len(candidates))
        if choice is not None:
            machine, gpus = choice
            assert machine in candidates
            assert len(set(gpus)) == shape.gpus
            assert all(machines.gpus[machine, gpu] >= shape.milli for gpu in gpus)
            machines.take(machine, shape, gpus)


def test_a_policy_that_takes_what_is_not_there_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policies.BestFit, "choose", lambda _self, _shape, candidates: (int(candidates[0]), [0]))
    with pytest.raises(TraceError, match="has no room"):
        replay(SETTING, "best-fit", 42)


def most_by_trying(machines: tuple[Machine, ...], tasks: tuple[Shape, ...]) -> int:
    """Return the most that a choice of tasks, placed in any way, can have."""
    best = 0
    for homes in itertools.product(range(-1, len(machines)), repeat=len(tasks)):
        left, used = Machines(machines), 0
        for task, home in sorted(zip(tasks, homes, strict=True), key=lambda pair: -pair[0].milli):
            if home < 0:
                continue
            if not left.fitting(task)[home]:
                break
            left.take(home, task, left.fullest_gpus(home, task))
            used += task.amount
        else:
            best = max(best, used)
    return best


@settings(max_examples=30)
@given(tasks=st.lists(st.sampled_from([*TASKS, Shape(5_000, 600, 1, 700)]), min_size=1, max_size=5))
def test_nothing_is_above_the_bound(tasks: list[Shape]) -> None:
    machines = (TWO, TWO)
    assert most_by_trying(machines, tuple(tasks)) <= most_allocated(machines, tasks) + 1e-6


@pytest.mark.parametrize(
    ("tasks", "most"),
    [
        ([TWICE] * 3, 4 * WHOLE),
        ([Shape(5_000, 10, 1, WHOLE)] * 3, 2 * WHOLE),  # more than half of the cpu: one on a machine
        ([Shape(1_000, 10, 1, 600)] * 9, 4 * 600),  # more than half of a GPU: one on a GPU
        ([ON_V100], 0),
    ],
)
def test_the_bound_knows_of_large_tasks(tasks: list[Shape], most: float) -> None:
    assert most_allocated([TWO, TWO], tasks) == pytest.approx(most)


def test_bounds_are_above_every_curve() -> None:
    limits = bounds(SETTING, 42)
    for name in (*policies.MAKE, DOVETAIL):
        curve = replay(SETTING, name, 42)
        assert len(limits) == len(curve.allocated)
        assert all(value <= limit + 1e-3 for value, limit in zip(curve.allocated, limits, strict=True))


def test_capacity_counts_gpus() -> None:
    assert capacity(SETTING.machines) == 8 * WHOLE

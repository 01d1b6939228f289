"""Preferences over generated clusters: model, values and brute force agree; order is irrelevant; never below greedy."""

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from solver import SolverCache, solve
from solver.domain import Node, Plan, Pod, Policy
from solver.greedy import candidates
from solver.model import assignment, build, cells
from solver.model.objective import evaluate
from solver.search import bound
from solver.solution import Choice, Solution
from tests.support import builders as b
from tests.support import solver_problems as s
from tests.support import tastes as t

APPS = ("w", "v")
KEYS = (t.HOST, t.ZONE)

_LOW = -(10**9)
"""A value that every bound is above: of levels that do not count."""


@st.composite
def worlds(draw: st.DrawFn) -> tuple[list[Node], list[Pod], list[Pod]]:
    """Nodes of two zones (one label may lack), pods that run and pods that wait, with soft terms of every kind."""
    nodes = []
    for index in range(draw(st.integers(2, 3))):
        labels = {"disk": draw(st.sampled_from(["ssd", "hdd"]))}
        if draw(st.booleans()) or index < 2:
            labels[t.ZONE] = "ab"[index % 2]
        taints = [b.taint("soft", effect="PreferNoSchedule")] if draw(st.booleans()) else []
        nodes.append(b.node(f"n{index}", cpu=draw(st.integers(1, 3)), labels=labels, taints=taints))
    running = [
        replace(draw(pods(f"r{index}")), node_name=draw(st.sampled_from(nodes)).name, requests=())
        for index in range(draw(st.integers(0, 2)))
    ]
    return nodes, running, [draw(pods(f"p{index}")) for index in range(draw(st.integers(1, 4)))]


@st.composite
def pods(draw: st.DrawFn, name: str) -> Pod:
    pod = b.pod(name, cpu=1, labels={"app": draw(st.sampled_from(APPS))})
    for add in draw(st.lists(st.sampled_from([t.near, t.apart, t.spread]), max_size=2)):
        pod = add(pod, draw(st.sampled_from(APPS)), draw(st.sampled_from(KEYS)))
    if draw(st.booleans()):
        pod = t.liking(pod, (draw(st.integers(1, 100)), t.labelled("disk", "ssd")))
    return pod


def plan_of(world: tuple[list[Node], list[Pod], list[Pod]], waiting: list[Pod]) -> Plan:
    nodes, running, _ = world
    return solve(b.snapshot(nodes, running), b.batch(*waiting), Policy(), s.PATIENT, SolverCache())


def levels(plan: Plan) -> list[tuple[str, int]]:
    return [(level.name, level.value) for level in plan.report.levels if level.name in {"placed:0", "preferences"}]


@given(world=worlds())
@settings(max_examples=40, deadline=None)
def test_the_model_values_a_solution_as_its_choices_do_and_the_relaxation_bounds_it(
    world: tuple[list[Node], list[Pod], list[Pod]],
) -> None:
    nodes, running, waiting = world
    problem = s.problem(nodes, running, pods=waiting)
    variables = build.build(problem, cells.single(problem))
    for solution in candidates(problem):
        found = assignment.values_of(variables, solution)
        assert variables.form.broken_by(found) == ()
        assert tuple(level.expression.value(found) for level in variables.form.levels) == evaluate(problem, solution)


@given(world=worlds())
@settings(max_examples=40, deadline=None)
def test_no_placing_has_lower_costs_than_the_plan_and_none_beats_the_bound(
    world: tuple[list[Node], list[Pod], list[Pod]],
) -> None:
    nodes, running, waiting = world
    problem = s.problem(nodes, running, pods=waiting)
    owners = {position: each.index for each in problem.classes for position in each.members}
    assert len(owners) == len(waiting)
    rooms = [each.allocatable[0][1] // 1000 for each in problem.inventory.nodes]
    every = itertools.product((*range(len(nodes)), None), repeat=len(waiting))
    fitting = (
        Solution([Choice(owners[i], node, ()) for i, node in enumerate(chosen) if node is not None])
        for chosen in every
        if all(chosen.count(node) <= room for node, room in enumerate(rooms))
    )
    names = [each.name for each in problem.placed_levels] + list(problem.policy.levels)
    decisive = names.index("preferences") + 1 if "preferences" in names else 1
    best = max(evaluate(problem, each)[:decisive] for each in fitting)
    report = plan_of(world, waiting).report
    assert tuple(level.value for level in report.levels[:decisive]) == best
    known = (*best, *(_LOW,) * (len(names) - decisive))
    limits = bound.bounds(problem, known, s.PATIENT).levels[:decisive]
    assert all(limit is None or limit >= value for limit, value in zip(limits, best, strict=True))


@given(world=worlds(), chance=st.randoms(use_true_random=False))
@settings(max_examples=25, deadline=None)
def test_the_order_of_the_pods_is_irrelevant(world: tuple[list[Node], list[Pod], list[Pod]], chance: object) -> None:
    shuffled = list(world[2])
    chance.shuffle(shuffled)  # type: ignore[attr-defined] # hypothesis gives a random.Random
    assert levels(plan_of(world, world[2])) == levels(plan_of(world, shuffled))


@given(world=worlds())
@settings(max_examples=25, deadline=None)
def test_no_level_is_below_the_greedy_where_those_before_are_equal(
    world: tuple[list[Node], list[Pod], list[Pod]],
) -> None:
    nodes, running, waiting = world
    problem = s.problem(nodes, running, pods=waiting)
    plan = plan_of(world, waiting)
    found = tuple(level.value for level in plan.report.levels)
    assert all(found >= evaluate(problem, each) for each in candidates(problem))

"""An objective level is one value: it counts a solution as its expression does, and no solution is above its bound."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from solver.domain import PACK, SPREAD, TOPOLOGY, Policy
from solver.greedy import candidates
from solver.model import assignment, build, cells, objective
from solver.problem.prepare import prepare
from solver.problem.solver_cache import SolverCache
from tests.support import builders as b
from tests.support import solver_problems as s
from tests.support.expected_pods import expecting
from tests.support.strategies import Situation, situations

EVERY_LEVEL = Policy(levels=tuple(dict.fromkeys((*PACK, *SPREAD, *TOPOLOGY))))


@settings(max_examples=60, deadline=None)
@given(situation=situations(), counts_devices=st.booleans())
def test_a_level_counts_what_its_expression_says(situation: Situation, *, counts_devices: bool) -> None:
    policy = structs.replace(expecting(EVERY_LEVEL, situation), counts_devices=counts_devices)
    problem = prepare(situation.snapshot, situation.batch, policy, SolverCache())
    variables = build.build(problem, cells.single(problem))
    for solution in candidates(problem):
        found = assignment.values_of(variables, solution)
        written = [(level.name, level.expression.value(found)) for level in variables.form.levels]
        assert written == list(zip(objective.level_names(problem), objective.evaluate(problem, solution), strict=True))


@settings(max_examples=60, deadline=None)
@given(situation=situations(), counts_devices=st.booleans())
def test_no_solution_is_above_the_bound_of_a_level(situation: Situation, *, counts_devices: bool) -> None:
    policy = structs.replace(expecting(EVERY_LEVEL, situation), counts_devices=counts_devices)
    problem = prepare(situation.snapshot, situation.batch, policy, SolverCache())
    bounds = [level.upper_bound(problem) for level in objective.objective_levels(problem)]
    for solution in candidates(problem):
        assert all(value <= most for value, most in zip(objective.evaluate(problem, solution), bounds, strict=True))


@pytest.mark.parametrize(
    "policy", [Policy(), Policy(sums_priorities=True), Policy(counts_devices=True)], ids=["strict", "sum", "devices"]
)
def test_levels_of_placed_pods_and_alternatives_decide_and_the_others_pack(policy: Policy) -> None:
    nodes, pods = [b.node("n0")], [b.pod("p0", "c0", priority=3), b.pod("p1", "c1")]
    problem = s.problem(nodes, b.gpu_slice("n0"), b.gpu_class(), b.claim("c0"), b.claim("c1"), pods=pods, policy=policy)
    deciding = {level.name for level in objective.objective_levels(problem) if level.decides_pods}
    assert deciding == {*(level.name for level in problem.placed_levels), "alternatives"}

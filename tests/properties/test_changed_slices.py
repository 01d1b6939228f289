"""Whatever slices, devices, nodes and taint rules do, a cache that is kept decides as an empty one does."""

from unittest import mock

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from solver import fleet, solve, verify
from solver.domain import Policy, Snapshot
from solver.problem.devices import inventory_builder
from solver.problem.prepare import prepare
from solver.problem.problem import Problem
from solver.problem.solver_cache import SolverCache
from tests.properties.test_changed_snapshots import check_supplies
from tests.support import solver_problems as s
from tests.support.slice_changes import histories
from tests.support.strategies import Situation

PROPERTY = settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large], max_examples=50)
SPACES = st.sampled_from((1, inventory_builder.SPACE))


@PROPERTY
@given(histories(), SPACES)
def test_plans_and_their_messages_are_the_same(case: tuple[Situation, list[Snapshot]], space: int) -> None:
    situation, snapshots = case
    cache, checks = SolverCache(), verify.VerifierCache()
    for snapshot in snapshots:
        with mock.patch.object(inventory_builder, "SPACE", space):
            plan = solve(snapshot, situation.batch, Policy(), s.PATIENT, cache)
        assert plan == solve(snapshot, situation.batch, Policy(), s.PATIENT)
        assert verify.check(snapshot, situation.batch, plan, Policy(), checks) == ()


@PROPERTY
@given(histories(), SPACES, st.data())
def test_counts_of_devices_are_the_same(
    case: tuple[Situation, list[Snapshot]], space: int, data: st.DataObject
) -> None:
    situation, snapshots = case
    cache, problems = SolverCache(), list[Problem]()
    for snapshot in snapshots:
        with mock.patch.object(inventory_builder, "SPACE", space):
            problems.append(prepare(snapshot, situation.batch, Policy(), cache))
        check_supplies(problems[-1], data)
    for problem in problems:
        check_supplies(problem, data)


@PROPERTY
@given(histories(), SPACES)
def test_fleets_are_the_same(case: tuple[Situation, list[Snapshot]], space: int) -> None:
    _, snapshots = case
    cache = SolverCache()
    for snapshot in snapshots:
        with mock.patch.object(inventory_builder, "SPACE", space):
            found = fleet.fleet_of(snapshot, cache=cache)
        assert found == fleet.fleet_of(snapshot)

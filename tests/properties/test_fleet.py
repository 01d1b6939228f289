"""The fleet agrees with brute force, and with the budgets from which greedy and model place pods."""

from hypothesis import given

from solver.domain import Batch, Policy, Snapshot
from solver.domain.fleet import DeviceState, UnusableCause
from solver.fleet import fleet_of
from solver.fleet.supply import supply_of
from solver.problem.devices.layout import DeviceType
from solver.problem.prepare import prepare
from solver.problem.problem import Problem
from solver.problem.solver_cache import SolverCache
from tests.properties.test_solve import PROPERTY
from tests.support import builders as b
from tests.support.strategies import Situation, situations

OF_NODE = frozenset({UnusableCause.NODE_CORDONED, UnusableCause.NODE_NOT_READY, UnusableCause.NODE_GONE})
HELD = frozenset({DeviceState.HELD, DeviceState.SHARED})


@PROPERTY
@given(situations())
def test_held_devices_are_those_of_allocations(situation: Situation) -> None:
    fleet = fleet_of(situation.snapshot)
    allocated = {
        result.device
        for claim in situation.snapshot.claims
        for result in (claim.allocation.results if claim.allocation is not None else ())
        if not result.admin_access
    }

    assert {each.id for each in fleet.devices if each.state in HELD} == allocated
    assert len({each.id for each in fleet.devices}) == len(fleet.devices)


@PROPERTY
@given(situations())
def test_states_add_up(situation: Situation) -> None:
    found = supply_of(fleet_of(situation.snapshot).devices)
    assert found.total == found.held + found.available + found.blocked + found.unusable
    assert found.largest.claim <= found.largest.node <= found.available


@PROPERTY
@given(situations())
def test_available_devices_are_those_with_budgets_left(situation: Situation) -> None:
    """A claim for one device of any kind: the layout says which devices it can get, apart from nodes' own states."""
    claim, pod = b.claim("probe", b.request("r", "any")), b.pod("probe", "probe")
    claims = tuple(sorted((*situation.snapshot.claims, claim), key=lambda each: each.id))
    snapshot = Snapshot(
        **{name: getattr(situation.snapshot, name) for name in Snapshot.__struct_fields__} | {"claims": claims}
    )
    problem = prepare(snapshot, Batch(pods=(pod,)), Policy(), SolverCache())
    if not problem.requests.answers:
        return
    expected = {
        problem.inventory.records[index].id
        for index in problem.requests.answers[0].verdicts
        if _has_budget(problem, index)
    }
    devices = fleet_of(snapshot).devices
    of_node = {each.id for each in devices if each.problems and each.problems[-1].cause in OF_NODE}
    shared = {each.id for each in devices if each.state is DeviceState.SHARED}  # also with less than the default share
    assert {each.id for each in devices if each.state is DeviceState.FREE} == expected - of_node - shared


def _has_budget(problem: Problem, index: int) -> bool:
    node, position = problem.layout.place_of[index]
    kind = problem.layout.wide_types[position] if node < 0 else problem.group(node).types[position]
    if 0 not in kind.takes or (not kind.is_shareable and problem.available.ledger.is_held(index)):
        return False
    return all(problem.available.left(node, budget) >= amount for budget, amount in _takes(problem, node, kind))


def _takes(problem: Problem, node: int, kind: DeviceType) -> list[tuple[int, int]]:
    """A shared device draws on its counters with its first share."""
    is_fresh = kind.is_shareable and problem.available.left(node, kind.fresh) > 0
    return [*kind.takes[0], *(kind.opens if is_fresh else ())]

"""Allocations give back to the ledger of devices what they took, and equal claims make equal ledgers."""

from collections.abc import Iterable

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from solver import extract, greedy
from solver.domain import Claim, Policy
from solver.explain import ended_pods
from solver.model.objective import best_of
from solver.problem.devices.ledger import DeviceLedger, allocations
from solver.problem.devices.states import StateCounter
from solver.problem.prepare import prepare
from solver.problem.problem import Problem
from solver.problem.solver_cache import SolverCache
from tests.support import builders as b
from tests.support import solver_problems as s
from tests.support.strategies import ALL_FEATURES, Situation, situations

PROPERTY = settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much], max_examples=100)


def counted(problem: Problem, claims: Iterable[Claim]) -> DeviceLedger:
    """Count claims from nothing."""
    return DeviceLedger(dict(problem.snapshot.draws)).take(problem.inventory, allocations(claims))


def amounts(ledger: DeviceLedger) -> tuple[object, ...]:
    """All that a ledger says, but in what it differs from an earlier one."""
    shared = {record: dict(consumed) for record, consumed in ledger.shared.items()}
    return ledger.exclusive, ledger.sharers, shared, ledger.absent, ledger.drawn, ledger.charged


@PROPERTY
@given(situation=situations(ALL_FEATURES), data=st.data())
def test_claims_give_back_what_they_took(situation: Situation, data: st.DataObject) -> None:
    problem = prepare(situation.snapshot, situation.batch, Policy(), SolverCache())
    claims, every = situation.snapshot.claims, problem.available.ledger
    assert amounts(every) == amounts(counted(problem, claims))
    stays = data.draw(st.lists(st.booleans(), min_size=len(claims), max_size=len(claims)))
    gone = [claim for claim, is_kept in zip(claims, stays, strict=True) if not is_kept]
    rest = counted(problem, [claim for claim, is_kept in zip(claims, stays, strict=True) if is_kept])

    left = every.give(problem.inventory, allocations(gone))
    assert amounts(left) == amounts(rest)
    assert amounts(left.take(problem.inventory, allocations(gone))) == amounts(every)
    assert left.since(every).records <= left.touched.records
    assert left.since(every).counters <= left.touched.counters
    assert every.since(left) == left.since(every)


@PROPERTY
@given(situation=situations(ALL_FEATURES), data=st.data())
def test_pods_that_end_beside_a_plan_leave_what_the_plan_takes(situation: Situation, data: st.DataObject) -> None:
    problem = prepare(situation.snapshot, situation.batch, Policy(), SolverCache())
    solution = best_of(problem, greedy.candidates(problem))
    made = extract.extract(problem, solution)
    after = extract.after(problem, solution, made)
    held = [claim for claim in situation.snapshot.claims if claim.allocation is not None and data.draw(st.booleans())]
    then = ended_pods.problem_without(after, (), held).available

    rest = counted(problem, [claim for claim in situation.snapshot.claims if claim not in held])
    ledger = rest.take(problem.inventory, (each.allocation for each in made.allocations))
    assert amounts(then.ledger) == amounts(ledger)
    every = StateCounter.of(problem.layout, problem.inventory, ledger).count(problem.inventory, ledger)
    assert (then.states, then.wide_state) == (every.local, every.wide)
    assert then.is_unused.tolist() == every.is_unused.tolist()


def test_a_device_that_two_claims_hold_is_free_once_both_gave_it_back() -> None:
    held = [b.held(name, b.result("gpu", "gpu-3", "n1")) for name in ("h", "i")]
    found = s.problem(b.node("n1"), b.gpu_class(), b.gpu_slice("n1"), b.claim("c"), *held, pods=[b.pod("p", "c")])
    inventory, ledger = found.inventory, found.available.ledger
    index = inventory.record_of[b.device_id("gpu-3", "n1")]
    half = ledger.give(inventory, allocations(held[:1]))
    assert (half.is_held(index), half.give(inventory, allocations(held[1:])).is_held(index)) == (True, False)
    assert ledger.is_held(index)


def test_a_shared_device_gives_capacity_back_share_by_share_and_its_counters_with_the_last_one() -> None:
    card = b.device("a", is_shareable=True, capacities={"memory": b.capacity(80)}, consumes={"card": {"slices": 3}})
    published = b.resource_slice("n1", card, counter_sets={"card": {"slices": 4}})
    results = [b.result("gpu", "a", "n1", share_id=b.share_id(n), consumed={"memory": 30}) for n in range(2)]
    held = [b.held(f"h{n}", result) for n, result in enumerate(results)]
    found = s.problem(b.node("n1"), b.gpu_class(), published, b.claim("c"), *held, pods=[b.pod("p", "c")])
    inventory, ledger = found.inventory, found.available.ledger
    (counter,), (record,) = inventory.budgets, inventory.records.values()
    told = []
    for claim in (None, *held):
        ledger = ledger.give(inventory, allocations([claim] if claim is not None else []))
        memory, slices = ledger.capacities_left(record)["memory"], ledger.counter_left(inventory, counter)
        told.append((memory // 10**9, slices // 10**9, ledger.is_held(record.index)))
    assert told == [(20, 1, True), (50, 1, True), (80, 4, False)]

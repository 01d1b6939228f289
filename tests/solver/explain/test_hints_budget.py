"""Hints have a share of a decision: many misspelt selectors at once cost no more than a few."""

import pytest

from solver import SolverCache, solve
from solver.domain import Allowance, AllowanceSpentError, Batch, Budget, Plan, Policy, Snapshot, wording
from solver.explain import hints
from solver.feasibility import lint
from tests.support import builders as b

COUNT = 60
MISSPELT = "device.attributes['gpu.example.com'].modell{} == 'a'"
NODES = [b.node("n1")]
PODS = [b.pod(f"p{number:02}", f"c{number:02}") for number in range(COUNT)]


def world() -> Snapshot:
    claims = [b.claim(f"c{number:02}", b.request("r", selectors=[MISSPELT.format(number)])) for number in range(COUNT)]
    return b.snapshot(*NODES, b.gpu_slice("n1", count=8), b.gpu_class(), *claims)


def decided(engine: SolverCache) -> Plan:
    return solve(world(), Batch(pods=tuple(PODS)), Policy(), Budget(seconds=1e6), engine)


def hinted(plan: Plan) -> int:
    return sum(wording.HINT in each.reasons[0].message for each in plan.unplaced)


def test_every_pod_gets_its_reason_and_some_their_hints() -> None:
    plan = decided(SolverCache())
    assert len(plan.unplaced) == COUNT
    assert all("none matches" in each.reasons[0].message for each in plan.unplaced)
    most = hints._MOST_UNITS // hints._UNITS_PER_HINT  # noqa: SLF001 - the bound itself
    assert 0 < hinted(plan) <= most < COUNT


def test_a_hint_is_found_once_and_those_that_were_left_out_come_later() -> None:
    engine, snapshot, counts = SolverCache(), world(), [0]
    while counts[-1] < COUNT:
        plan = solve(snapshot, Batch(pods=tuple(PODS)), Policy(), Budget(seconds=1e6), engine)
        assert hinted(plan) > counts[-1]
        counts.append(hinted(plan))


def test_evaluations_of_a_hint_are_paid_for() -> None:
    candidates = [lint.Candidate(b.device_id(each.name, "n1"), each) for each in b.gpu_slice("n1", count=8).devices]
    text = "device.attributes['gpu.example.com'].model == 'none of these'"
    for limit in (Allowance(0), Allowance(10_000, lambda: True)):
        with pytest.raises(AllowanceSpentError):
            lint.of_selectors((text,), candidates, limit)
    enough = Allowance(10_000)
    assert lint.of_selectors((text,), candidates, enough) == lint.of_selectors((text,), candidates)
    assert enough.spent > 0

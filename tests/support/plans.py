"""What every plan of a property has to fulfil."""

from hypothesis import event

from solver import solve
from solver.domain import Batch, Policy, Snapshot
from solver.verify import check
from tests.support.solver_problems import PATIENT

RETRIED = {"Budget", "VolumeContended"}
"""Codes of pods that come again with the next batch."""


def assert_most_are_placed(snapshot: Snapshot, batch: Batch, most: int) -> None:
    """Solve, check, and compare with how many pods could be placed; what says so may come with the next batch."""
    plan = solve(snapshot, batch, Policy(), PATIENT)
    assert check(snapshot, batch, plan) == ()
    event(f"{len(plan.placements)} of {most}")
    assert len(plan.placements) == most or any(each.reasons[0].code in RETRIED for each in plan.unplaced)
    assert bool(plan.placements) == bool(most)

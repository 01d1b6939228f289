"""What tests of rules between pods share: where pods of one batch go, and the reasons of those that wait."""

from solver import solve
from solver.domain import Batch, Pod, Policy, ReasonCode, Snapshot
from solver.verify import check
from tests.support.neighbour_builders import zoned
from tests.support.solver_problems import PATIENT

TWO = (zoned("n1", "a"), zoned("n2", "b"))


def placed(snapshot: Snapshot, *pods: Pod) -> dict[str, str]:
    """Solve, check, and give the node of every pod that was placed."""
    batch = Batch(pods=pods)
    plan = solve(snapshot, batch, Policy(), PATIENT)
    assert check(snapshot, batch, plan) == ()
    return {each.pod.name: each.node for each in plan.placements}


def said(snapshot: Snapshot, *pods: Pod) -> dict[str, list[tuple[ReasonCode, str, int]]]:
    plan = solve(snapshot, Batch(pods=pods), Policy(), PATIENT)
    return {
        each.pod.name: [(reason.code, reason.message, reason.node_count) for reason in each.reasons]
        for each in plan.unplaced
    }

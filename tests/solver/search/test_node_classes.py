"""Kinds of equal nodes."""

from msgspec.structs import replace

from solver import SolverCache, solve
from solver.domain import Batch, Budget, Policy
from tests.support import builders as b


def test_a_gang_of_different_pods_that_fits_nowhere_raises_nothing() -> None:
    requests = [(("cpu", 33_000 + index), ("memory", 10**9 + index)) for index in range(60)]
    pods = tuple(b.member(replace(b.pod(f"m{index:02}"), requests=each), "g") for index, each in enumerate(requests))
    snapshot = b.snapshot(*(b.node(f"n{index:02}", cpu=64) for index in range(40)))
    batch = Batch(pods=pods, gangs=(b.gang("g", minimum=60),))
    plan = solve(snapshot, batch, Policy(), Budget(seconds=60.0, deterministic_seconds=1.0), SolverCache())
    assert (len(plan.placements), len(plan.unplaced), plan.report.defects) == (0, 60, ())

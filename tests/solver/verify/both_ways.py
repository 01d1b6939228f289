"""The check from scratch, which must answer as it does with a cache that has followed all snapshots before."""

from solver import verify
from solver.domain import Batch, Plan, Policy, Snapshot, Violation

_CACHE = verify.VerifierCache()


def check(
    snapshot: Snapshot,
    batch: Batch,
    plan: Plan,
    policy: Policy = Policy(),  # noqa: B008 -- a frozen value
    cache: verify.VerifierCache = _CACHE,
) -> tuple[Violation, ...]:
    """Check a plan both ways; by default with a cache that all tests of the process share."""
    found = verify.check(snapshot, batch, plan, policy)
    assert verify.check(snapshot, batch, plan, policy, cache) == found
    return found

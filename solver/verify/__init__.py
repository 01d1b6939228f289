"""
The independent checker: whether a plan keeps every rule of DRA and of node fit.

`check` is written from the semantics of `resource.k8s.io/v1` and not from the solver: it imports the domain and the
door to CEL and nothing else, and reads pools, taints, node fit and rounding again for itself, so that a mistake has to
be made twice to go unseen. It is cheap enough (one pass over the cluster's indexes, then only what the plan touches)
to run before every commit; a plan that fails it is never written. Called by the shell, by tests and by `simulate`.

Here lives one file per kind of rule: `pods`, `nodes`, `claims`, `requests`, `devices`, `usage`, `constraints`,
`merging`, `extended`, `burdens`, `gangs`, `holds`, `neighbours`, `volumes`, `preemption`; `rules` is the closed list of
names. What they look at: `picture` (the snapshot and the new allocations), `pools`, `amounts`, `selection`, `matching`,
`crowd` (pods, and where they are in the end).
"""

from collections.abc import Iterator

from solver.domain import Batch, Plan, Policy, Snapshot, Violation
from solver.verify import claims, devices, extended_resources, gangs, inter_pod, placements, preemption, usage, volumes
from solver.verify.plan_context import Picture, grants
from solver.verify.violations import Rule

__all__ = ["Rule", "check"]


def check(snapshot: Snapshot, batch: Batch, plan: Plan, policy: Policy = Policy()) -> tuple[Violation, ...]:  # noqa: B008 -- a frozen value
    """Give every rule that a plan breaks, with what breaks it; empty for a valid plan. Never raises on a bad plan."""
    picture = Picture.of(snapshot, batch, policy, plan)
    found = tuple(_violations(picture, batch, plan))
    if not plan.preemptions:
        return found

    def fits(then: Snapshot, part: Batch, placed: Plan, policy: Policy) -> tuple[Violation, ...]:
        """Check placements on another day of the same nodes and slices: pools have to be read once only."""
        return tuple(_violations(Picture.of(then, part, policy, placed, picture.pools), part, placed))

    return (*found, *preemption.violations(snapshot, batch, plan, policy, fits))


def _violations(picture: Picture, batch: Batch, plan: Plan) -> Iterator[Violation]:
    yield from placements.pod_violations(batch, plan, picture)
    yield from placements.node_violations(plan, picture)
    yield from inter_pod.violations(plan, picture)
    yield from placements.reservation_violations(batch, plan, picture)
    yield from volumes.violations(plan, picture)
    yield from claims.claim_violations(plan, picture)
    yield from extended_resources.violations(plan, picture)
    made = grants(plan, picture)
    for grant in made:
        yield from claims.request_violations(grant, picture)
        yield from devices.device_violations(grant, picture)
        yield from devices.constraint_violations(grant, picture)
        yield from claims.derived_violations(grant, picture)
    yield from usage.violations(made, picture)
    yield from gangs.violations(batch, plan, picture)

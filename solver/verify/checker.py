"""The check of a plan: all kinds of rules, in their order; and of the nodes of an answer about nodes to add."""

from collections.abc import Iterable, Iterator

from solver.domain import AddedNode, Batch, NodeLimit, NodeShape, Plan, Policy, Snapshot, Violation
from solver.verify import (
    claims,
    devices,
    extended_resources,
    gangs,
    inter_pod,
    node_fit,
    preemption,
    requests,
    usage,
    volumes,
)
from solver.verify.holds import respected_holds
from solver.verify.plan_context import PlanContext, new_allocations
from solver.verify.quotas import quota_limits
from solver.verify.snapshot_index import VerifierCache
from solver.verify.violations import Rule, broken


def check(
    snapshot: Snapshot,
    batch: Batch,
    plan: Plan,
    policy: Policy = Policy(),  # noqa: B008 -- a frozen value
    cache: VerifierCache | None = None,
) -> tuple[Violation, ...]:
    """
    Return the violations of a plan; empty for a valid plan. Never raises on an invalid plan.

    A cache makes a check cost what the snapshot changed since the last one, and never changes the answer.
    """
    cache = VerifierCache() if cache is None else cache
    index = cache.take()

    def fits(then: Snapshot, part: Batch, placed: Plan, policy: Policy) -> tuple[Violation, ...]:
        """Check placements in some state of the cluster."""
        return tuple(_violations(PlanContext.of(then, part, policy, placed, index), part, placed))

    found = (*fits(snapshot, batch, plan, policy), *preemption.violations(snapshot, batch, plan, policy, fits))
    cache.keep(index)
    return found


def _violations(context: PlanContext, batch: Batch, plan: Plan) -> Iterator[Violation]:
    yield from node_fit.pod_violations(batch, plan, context)
    yield from node_fit.node_violations(plan, context)
    yield from inter_pod.violations(plan, context)
    yield from preemption.reservation_violations(batch, plan, context)
    yield from volumes.violations(plan, context)
    yield from claims.claim_violations(plan, context)
    yield from extended_resources.violations(plan, context)
    made = new_allocations(plan, context)
    for new in made:
        yield from requests.request_violations(new, context)
        yield from devices.device_violations(new, context)
        yield from requests.constraint_violations(new, context)
        yield from claims.derived_violations(new, context)
    yield from usage.violations(made, context)
    yield from quota_limits.violations(made, context)
    yield from gangs.violations(batch, plan, context)
    yield from respected_holds.violations(batch, plan, context)


def check_added(
    nodes: Iterable[AddedNode], shapes: Iterable[NodeShape], limits: Iterable[NodeLimit]
) -> tuple[Violation, ...]:
    """Return what nodes to add break of `NodeShape.most` and of limits; the plan on them is checked as any is."""
    return tuple(_of_added([each.shape for each in nodes], shapes, limits))


def _of_added(added: list[str], shapes: Iterable[NodeShape], limits: Iterable[NodeLimit]) -> Iterator[Violation]:
    for shape in shapes:
        count = added.count(shape.name)
        if shape.most is not None and count > shape.most:
            yield broken(Rule.NODE_LIMIT, shape.name, f"{count} such nodes are added, of at most {shape.most}")
    for limit in limits:
        amount = 0
        for name, size in limit.sizes:
            amount += size * added.count(name)
        if amount > limit.left:
            message = f"nodes with {amount} {limit.resource} are added, and {limit.left} are left of {limit.limit}"
            yield broken(Rule.NODE_LIMIT, limit.owner, message)

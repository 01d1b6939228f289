"""The oracles agree with each other: what the brute force finds verifies, and nothing that verifies beats it."""

from collections.abc import Iterator
from itertools import combinations, product
from math import prod

from hypothesis import HealthCheck, assume, given, settings

from solver.domain import AllocationMode, Claim, ClaimAllocation, Node, Pod, Policy
from solver.domain.claim import SubRequest
from solver.verify import check
from solver.verify.plan_context import PlanContext
from solver.verify.pools import Published
from tests.support import builders as b
from tests.support.bruteforce import best, completed, drafted_result, fits_alone
from tests.support.strategies import ALL_FEATURES, Feature, Situation, situations

MOST_DEVICES = 9
MOST_ALLOCATIONS = 5_000
"""Of one claim on one node: three requests for all devices have a hundred million, which no test can check."""
SLOW = settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large], max_examples=150)


@SLOW
@given(situation=situations())
def test_what_the_brute_force_finds_verifies(situation: Situation) -> None:
    found = best(situation.snapshot, situation.batch)
    assert check(situation.snapshot, situation.batch, found.plan) == ()
    assert sum(found.counts) == len(found.plan.placements)


@SLOW
@given(situation=situations(ALL_FEATURES - {Feature.SHARED_CLAIMS}, most_pods=1))
def test_no_plan_for_one_pod_verifies_where_the_brute_force_finds_none(situation: Situation) -> None:
    (pod,) = situation.batch.pods
    assume(sum(len(each.devices) for each in situation.snapshot.slices) <= MOST_DEVICES)
    picture = PlanContext.of(situation.snapshot, situation.batch, Policy())
    assume(_count(picture, _claim(picture, pod)) <= MOST_ALLOCATIONS)
    if not fits_alone(situation.snapshot, pod):
        assert not any(_verifies(situation, node) for node in situation.snapshot.nodes)


def _verifies(situation: Situation, node: Node) -> bool:
    """Whether any allocation of the pod's only claim, out of all devices published anywhere, verifies on the node."""
    (pod,) = situation.batch.pods
    picture = PlanContext.of(situation.snapshot, situation.batch, Policy())
    claim = _claim(picture, pod)
    if claim is None:
        return False
    if claim.allocation is not None:
        return not check(situation.snapshot, situation.batch, b.plan(b.placement(pod, node.name)))
    return any(
        not check(situation.snapshot, situation.batch, b.plan(b.placement(pod, node.name), allocation))
        for allocation in _allocations(picture, claim, node)
    )


def _claim(picture: PlanContext, pod: Pod) -> Claim | None:
    return picture.claims.get(pod.claims[0].claim) if pod.claims[0].claim is not None else None


def _count(picture: PlanContext, claim: Claim | None) -> int:
    """Count the allocations that are tried on a node."""
    return 0 if claim is None else prod(len(choice) for choice in _choices(picture, claim))


def _choices(picture: PlanContext, claim: Claim) -> list[list[tuple[str, SubRequest, tuple[Published, ...]]]]:
    everything = [
        published
        for pool_id in sorted({each.pool_id for each in picture.snapshot.slices})
        for published in picture.pools.view(pool_id).devices.values()
    ]
    return [
        [
            (str(request.result_name(rank)), wanted, devices)
            for rank, wanted in enumerate(request.alternatives)
            for devices in _sets(everything, wanted.count, takes_all=wanted.allocation_mode == AllocationMode.ALL)
        ]
        for request in claim.requests
    ]


def _allocations(picture: PlanContext, claim: Claim, node: Node) -> Iterator[ClaimAllocation]:
    for choice in product(*_choices(picture, claim)):
        results = [
            drafted_result(name, wanted, published, index)
            for index, (name, wanted, published) in enumerate(
                (name, wanted, published) for name, wanted, devices in choice for published in devices
            )
        ]
        made = b.claim_allocation(claim, *results)
        yield completed(picture, made, node)


def _sets(everything: list[Published], count: int, *, takes_all: bool) -> Iterator[tuple[Published, ...]]:
    for size in range(1, len(everything) + 1) if takes_all else (count,):
        yield from combinations(everything, size)

"""Every claim of a placed pod may be used by it, where it runs, and is allocated exactly once."""

from collections import Counter
from collections.abc import Iterator

from solver.domain import MOST_CONSUMERS, Allocation, Claim, ClaimId, Placement, Plan, Pod, PodClaim, Violation
from solver.verify import matching
from solver.verify.picture import Picture, consumers
from solver.verify.rules import Rule, broken


def violations(plan: Plan, picture: Picture) -> Iterator[Violation]:
    """Check the allocations as a whole, then every entry of every placed pod, then every claim's consumers."""
    users = consumers(plan, picture)
    yield from _allocations(plan, picture, users)
    for placement in plan.placements:
        pod = picture.pods.get(placement.pod)
        for entry in pod.claims if pod is not None else ():
            if pod is not None and not entry.is_skipped:
                yield from _entry(pod, entry, picture)
    allocated = {each.claim: each.allocation for each in plan.allocations}
    for claim_id, placements in users.items():
        claim = picture.claims.get(claim_id)
        if claim is not None:
            yield from _consumed(claim, allocated.get(claim_id), placements, picture)


def _allocations(plan: Plan, picture: Picture, users: dict[ClaimId, tuple[Placement, ...]]) -> Iterator[Violation]:
    times = Counter(each.claim for each in plan.allocations)
    for claim_id, count in times.items():
        if count > 1:
            yield broken(Rule.ALLOCATION_TWICE, claim_id, f"the plan allocates it {count} times")
        if claim_id not in users:
            yield broken(Rule.ALLOCATION_UNUSED, claim_id, "no placed pod uses it")
    for each in plan.allocations:
        claim = picture.claims.get(each.claim)
        if claim is None:
            yield broken(Rule.ALLOCATION_UID, each.claim, "there is no such claim")
        elif claim.uid != each.claim_uid:
            message = f"the plan means the claim with uid {each.claim_uid}, there is {claim.uid}"
            yield broken(Rule.ALLOCATION_UID, each.claim, message)
        elif claim.allocation is not None:
            yield broken(Rule.ALLOCATION_TWICE, each.claim, "it has an allocation already")


def _entry(pod: Pod, entry: PodClaim, picture: Picture) -> Iterator[Violation]:
    claim = picture.claims.get(entry.claim) if entry.claim is not None else None
    if claim is None:
        yield broken(Rule.CLAIM_MISSING, pod.id, f"the claim of its entry {entry.entry} does not exist")
        return
    if entry.template and not is_owned(pod, claim):
        yield broken(Rule.CLAIM_NOT_OWNED, claim.id, f"it was not made for {pod.id}")


def is_owned(pod: Pod, claim: Claim) -> bool:
    """A template's claim belongs to its pod, or to the pod's group (KEP-5729)."""
    return pod.uid == claim.owner_pod_uid or (bool(pod.pod_group) and pod.pod_group == claim.owner_pod_group)


def _consumed(
    claim: Claim, fresh: Allocation | None, placements: tuple[Placement, ...], picture: Picture
) -> Iterator[Violation]:
    if claim.is_deleting:
        yield broken(Rule.CLAIM_DELETING, claim.id, "it is being deleted")
    if claim.invalid:
        yield broken(Rule.CLAIM_INVALID, claim.id, claim.invalid)
    reserved = {each.uid for each in claim.reserved_for}
    pods = [picture.pods[each.pod] for each in placements]
    arriving = {_consumer(claim, pod, picture) for pod in pods if not is_reserved(claim, pod)}
    if arriving and len(arriving | reserved) > MOST_CONSUMERS:
        message = f"it would have {len(arriving | reserved)} consumers, at most {MOST_CONSUMERS} are allowed"
        yield broken(Rule.CLAIM_FULL, claim.id, message)
    allocation = claim.allocation or fresh
    if allocation is None:
        yield broken(Rule.CLAIM_UNALLOCATED, claim.id, f"{placements[0].pod} is placed and it has no allocation")
        return
    yield from _reachable(claim, allocation, placements, picture)
    if claim.allocation is not None and arriving:
        yield from _untainted(claim, claim.allocation, picture)


def _consumer(claim: Claim, pod: Pod, picture: Picture) -> str:
    """Give the uid of who gets an entry: the pod, or its group where the entry of its claim is the group's own."""
    gang = picture.gangs.get(pod.gang) if pod.gang is not None else None
    entries = ((each.entry, each.claim, each.template) for each in pod.claims if each.claim == claim.id)
    return gang.uid if gang is not None and any(entry in gang.claims for entry in entries) else pod.uid


def is_reserved(claim: Claim, pod: Pod) -> bool:
    """Whether the pod is a consumer already, by itself or through its group (one entry for any number of pods)."""
    groups = {
        each.name
        for each in claim.reserved_for
        if (each.api_group, each.resource) == ("scheduling.k8s.io", "podgroups")
    }
    return pod.uid in {each.uid for each in claim.reserved_for} or (bool(pod.pod_group) and pod.pod_group in groups)


def _reachable(
    claim: Claim, allocation: Allocation, placements: tuple[Placement, ...], picture: Picture
) -> Iterator[Violation]:
    if allocation.node_selector is None:
        return
    for placement in placements:
        node = picture.nodes.get(placement.node)
        if node is not None and not matching.selects(allocation.node_selector, node):
            message = f"its node selector does not match node {node.name}, where {placement.pod} is placed"
            yield broken(Rule.CLAIM_ELSEWHERE, claim.id, message)


def _untainted(claim: Claim, allocation: Allocation, picture: Picture) -> Iterator[Violation]:
    """Judge by the tolerations that the allocation holds, as the eviction controller does (KEP-5055)."""
    for result in allocation.results:
        for taint in matching.untolerated(picture.pools.taints(result.device), result.tolerations):
            message = f"its device {result.device} has got the taint {taint.key}={taint.value}:{taint.effect}"
            yield broken(Rule.CLAIM_TAINTED, claim.id, f"{message}: no new consumers")

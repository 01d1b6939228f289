"""Places in claims that are nearly full: the API allows so many consumers, and more pods want to join than may."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from solver.domain import MOST_CONSUMERS, Claim, ClaimId, Gang, GangId, Pod, Reason, ReasonCode
from solver.problem.limits import Limit, one_domain


def joined(pod: Pod, claims: Mapping[ClaimId, Claim]) -> tuple[ClaimId, ...]:
    """Give the claims that a pod would be a new consumer of."""
    return tuple(each for each in pod.claim_ids if not claims[each].is_reserved_for(pod.uid, pod.pod_group))


def entering(pod: Pod, claims: Mapping[ClaimId, Claim], gangs: Mapping[GangId, Gang]) -> tuple[ClaimId, ...]:
    """Give the claims that a pod would take a place in: not those that it shares through its PodGroup (KEP-5729)."""
    found, shared = joined(pod, claims), through_group(pod, claims, gangs)
    return tuple(each for each in found if each not in shared) if shared else found


def through_group(pod: Pod, claims: Mapping[ClaimId, Claim], gangs: Mapping[GangId, Gang]) -> tuple[ClaimId, ...]:
    """Give the claims that a pod joins by its PodGroup: one entry, which is not there yet, for all of its pods."""
    gang = gangs.get(pod.gang) if pod.gang is not None else None
    if gang is None or not gang.claims:
        return ()
    shared = {each.claim for each in pod.claims if each.claim and gang.reserves(each.entry, each.claim, each.template)}
    return tuple(each for each in joined(pod, claims) if each in shared)


@dataclass(slots=True)
class Groups:
    """Deals the last places in claims to PodGroups, which take one each: first come, first served."""

    claims: Mapping[ClaimId, Claim]
    gangs: Mapping[GangId, Gang]
    taken: Counter[ClaimId] = field(default_factory=Counter)
    known: dict[tuple[GangId | None, ClaimId], bool] = field(default_factory=dict)

    def objections(self, pod: Pod) -> Iterator[Reason]:
        """Refuse the pods of a group for which a claim has no place any more."""
        for claim in through_group(pod, self.claims, self.gangs):
            key = (pod.gang, claim)
            if key not in self.known:
                self.known[key] = len(self.claims[claim].reserved_for) + self.taken[claim] < MOST_CONSUMERS
                self.taken[claim] += self.known[key]
            if not self.known[key]:
                message = f"claim {claim.name} gets as many consumers as a claim can have, so that none is left"
                yield Reason(code=ReasonCode.CLAIM_FULL, message=f"{message} for the pod's group")


def nearly_full(users: Counter[ClaimId], groups: Groups) -> dict[ClaimId, int]:
    """Give the places that are left, groups apart, of claims that cannot take all their users."""
    claims, taken = groups.claims, groups.taken
    left = {claim: MOST_CONSUMERS - len(claims[claim].reserved_for) - taken[claim] for claim in users}
    return {claim: max(count, 0) for claim, count in left.items() if users[claim] > count}


def limits(
    left: Mapping[ClaimId, int], joining: Iterable[tuple[int, Collection[ClaimId]]], node_count: int
) -> Iterator[Limit]:
    """Give one limit a claim, over the whole cluster; `joining` are classes with the claims that their pods join."""
    joining = tuple(joining)
    for claim, count in left.items():
        takes = {index: 1 for index, claims in joining if claim in claims}
        if takes:
            message = f"node(s) would add a consumer to claim {claim.name}, which gets as many as a claim can have"
            reason = Reason(code=ReasonCode.CLAIM_FULL, message=message, node_count=1)
            yield Limit("claim-places", one_domain(node_count), (count,), takes, reason)

"""Pods that a policy expects: others like given ones."""

from collections.abc import Sequence

from msgspec.structs import replace

from solver.domain import Claim, ExpectedPod, Pod, Policy
from tests.support.strategies import Situation


def expecting(policy: Policy, situation: Situation) -> Policy:
    """Return a policy that expects pods like those of the batch."""
    return replace(policy, expected=kinds_of(situation.batch.pods, situation.snapshot.claims))


def kinds_of(pods: Sequence[Pod], claims: Sequence[Claim]) -> tuple[ExpectedPod, ...]:
    """Return a kind for each pod with a claim that asks for devices, twice as frequent as the one before."""
    known = {each.id: each for each in claims}
    found = list[ExpectedPod]()
    for pod in pods:
        claim = next((known[each] for each in pod.claim_ids if each in known and known[each].requests), None)
        if claim is not None:
            kind = ExpectedPod(
                share=2 ** len(found),
                requests=pod.requests,
                device_requests=claim.requests,
                constraints=claim.constraints,
            )
            found.append(kind)
    return tuple(found)

"""
Kin: pods of one namespace that cost the same to decide about, because their specs and those of their claims are equal.

What a decision took is remembered by kin and not by uid: a controller replaces a pod by another one with the same spec.
The owner is not a part of it, so that the next Job of a CronJob, or the next ReplicaSet, is known too.
"""

from collections.abc import Callable, Hashable
from typing import NamedTuple

from scheduler.queue.shapes import company, spec
from solver.domain import Claim, ClaimId, Pod, PodClaim


class Kin(NamedTuple):
    """The namespace, and a hash of everything in the specs that a decision looks at."""

    namespace: str
    spec: int


def kin_of(pod: Pod, claim: Callable[[ClaimId], Claim | None]) -> Kin:
    """Give the kin of a pod, by its claims as they are now; `claim` looks one up. Pods of a gang are one."""
    if pod.gang is not None:
        return Kin(pod.id.namespace, hash(pod.gang))
    asked = tuple(_asked(entry, claim) for entry in pod.claims)
    preferred = (pod.preferred_node_affinity, pod.preferred_affinity, pod.preferred_anti_affinity)
    volumes = tuple(each.claim is not None for each in pod.volumes)
    special = (pod.scheduler_name, preferred, volumes)
    return Kin(pod.id.namespace, hash((special, spec(pod), company(pod), asked)))


def _asked(entry: PodClaim, find: Callable[[ClaimId], Claim | None]) -> Hashable:
    claim = find(entry.claim) if entry.claim is not None else None
    if claim is None:
        return (entry.template, entry.is_skipped)
    return (claim.requests, claim.constraints, claim.allocation is not None)

"""
Taking over: claim writes that the leader before has sent and that have not arrived are refused by the API server.

Each claim write is guarded by the resourceVersion of the claim. A claim gets its finalizer before its allocation. So a
write of allocation or reservations can only be under way for a claim that has the finalizer: one without an allocation,
or one that a waiting pod uses. A new leader writes these once more before it decides, also where the one before ended
in order: that one may have taken over from one that crashed.

Of the other writes, a late finalizer or status says what the new leader would write as well. A late binding puts a pod
on the node of its allocated claims, where the new leader places it, too; so the new leader takes no such allocation
back for another lease duration, removes no allocated claim for extended resources, and evicts no pod. The kubelet
refuses a pod without claims that has no room.
"""

import asyncio
from collections.abc import Collection, Sequence
from typing import Final

from scheduler.cluster import Cluster
from scheduler.commit.claims import ClaimWriter
from scheduler.kube.leader_election.boot_clock import boot_time
from scheduler.observe import logs
from scheduler.observe.unexpected_errors import together
from solver.domain import FINALIZER, Claim

_PAUSE_SECONDS: Final = 1.0
"""Between two rounds of claims that cannot be written."""

_log: Final = logs.logger()


def was_led(cluster: Cluster, scheduler_names: Collection[str]) -> bool:
    """
    Whether a leader has worked here: it has bound a pod, or a write for a claim may be under way.

    The finalizer alone says nothing: kube-scheduler sets the same one.
    """
    is_claim_begun = any(_may_be_written(cluster, each, scheduler_names) for each in cluster.observed_claims())
    return is_claim_begun or any(each.scheduler_name in scheduler_names for each in cluster.snapshot().pods)


async def fence_claims(
    cluster: Cluster, writer: ClaimWriter, scheduler_names: Collection[str], late_seconds: float
) -> None:
    """
    Write the claims once more for which a write of the leader before may be under way.

    A claim that cannot be written is tried again for as long as a late write of that leader may arrive.
    """
    claims = [each for each in cluster.observed_claims() if _may_be_written(cluster, each, scheduler_names)]
    until, failed = boot_time() + late_seconds, await _fence(writer, claims)
    while failed and boot_time() < until:
        _report(claims, failed)
        await asyncio.sleep(_PAUSE_SECONDS)
        failed = await _fence(writer, failed)
    if claims:
        _report(claims, failed)


async def _fence(writer: ClaimWriter, claims: Sequence[Claim]) -> Sequence[Claim]:
    """Write claims once more; return those that could not be written."""
    fenced = await together(writer.fence(each) for each in claims)
    return [claim for claim, is_fenced in zip(claims, fenced, strict=True) if not is_fenced]


def _report(claims: Sequence[Claim], failed: Sequence[Claim]) -> None:
    log = _log.warning if failed else _log.info
    log(logs.CLAIMS_FENCED, claims=len(claims), failed=[str(each.id) for each in failed])


def _may_be_written(cluster: Cluster, claim: Claim, scheduler_names: Collection[str]) -> bool:
    if FINALIZER not in claim.finalizers or claim.invalid:
        return False
    pods = cluster.pods_using(claim.id)
    if not pods:
        return claim.allocation is None
    return any(not pod.node_name and pod.scheduler_name in scheduler_names for pod in pods)

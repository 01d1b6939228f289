"""
Taking over: claim writes that the leader before has sent and that have not arrived are refused by the API server.

Each claim write is guarded by the resourceVersion of the claim. A claim gets its finalizer before its allocation, so
that a write of allocation or reservations can only be under way for a claim that has the finalizer: one without an
allocation, or one that a waiting pod uses. A new leader writes these once more before it decides.

Of the other writes, a late finalizer or status says what the new leader would write as well. A late binding puts a pod
on the node of its allocated claims, where the new leader places it, too; so the new leader takes no such allocation
back for another lease duration, and evicts no pod. The kubelet refuses a pod without claims that has no room.
"""

from collections.abc import Collection
from typing import Final

from scheduler.cluster import Cluster
from scheduler.commit.claims import ClaimWriter
from scheduler.kube.encode import FINALIZER
from scheduler.observe import logs
from scheduler.observe.unexpected_errors import together
from solver.domain import Claim

_log: Final = logs.logger()


async def fence_claims(cluster: Cluster, writer: ClaimWriter, scheduler_names: Collection[str]) -> None:
    """Write the claims once more for which a write of the leader before may be under way."""
    claims = [each for each in cluster.seen_claims() if _may_be_written(cluster, each, scheduler_names)]
    fenced = await together(writer.fence(each) for each in claims)
    failed = [str(claim.id) for claim, is_fenced in zip(claims, fenced, strict=True) if not is_fenced]
    if claims:
        log = _log.warning if failed else _log.info
        log(logs.CLAIMS_FENCED, claims=len(claims), failed=failed)


def _may_be_written(cluster: Cluster, claim: Claim, scheduler_names: Collection[str]) -> bool:
    if FINALIZER not in claim.finalizers or claim.invalid:
        return False
    pods = cluster.pods_using(claim.id)
    if not pods:
        return claim.allocation is None
    return any(not pod.node_name and pod.scheduler_name in scheduler_names for pod in pods)

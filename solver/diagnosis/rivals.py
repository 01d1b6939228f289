"""Other waiting pods that may start first, where a change frees devices for a pod."""

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from msgspec.structs import replace

from solver.diagnosis.feasibility_probe import FeasibilityProbe, ProbeCase
from solver.domain import Batch, Claim, ClaimId, Plan, Pod, Snapshot

_MOST_RIVALS: Final = 64
"""Other waiting pods that are tried after a change."""


@dataclass(frozen=True, slots=True)
class Rivals:
    """
    The pods of a batch that may take what is freed before a pod does.

    `waiting` are those of its priority or a higher one. `winners` have a node by the plan, where no gang, shared claim
    or volume ties them to it: where a rival comes, they may go elsewhere. `before` are the claims without the plan,
    `later` is the pod's case in the cluster that the plan leaves.
    """

    waiting: Batch
    winners: Mapping[str, tuple[Pod, ...]]
    before: Mapping[ClaimId, Claim]
    later: ProbeCase

    @classmethod
    def of(cls, batch: Batch, plan: Plan, snapshot: Snapshot, later: ProbeCase) -> "Rivals":
        """Find the rivals of a pod in a plan for a snapshot."""
        own = {each.id for each in later.batch.pods}
        waiting = {each.pod for each in plan.unplaced} - own
        others = [each for each in batch.pods if each.id in waiting and each.priority >= later.pod.priority]
        pods = tuple(others[:_MOST_RIVALS])
        return cls(
            waiting=Batch(pods=pods, gangs=batch.gangs_of(pods)),
            winners=_winners(batch, plan, later) if pods else {},
            before={each.id: each for each in snapshot.claims},
            later=later,
        )

    def may_use(self, case: ProbeCase, probe: FeasibilityProbe) -> bool:
        """Whether some rival could use what a change of `later` frees: devices, and the cpu of their pods."""
        if not self.waiting.pods:
            return False
        now = {each.id: each.allocation for each in case.snapshot.claims}
        freed = {each.id for each in self.later.snapshot.claims if each.allocation != now.get(each.id)}
        ended = [each for each in self.later.snapshot.pods if not freed.isdisjoint(each.claim_ids)]
        moving = [each for node in {each.node_name for each in ended} for each in self.winners.get(node, ())]
        gone = {each.id for each in (*ended, *moving)}
        released = {claim for each in moving for claim in each.claim_ids}
        claims = [self.before.get(each.id) if each.id in released else each for each in case.snapshot.claims]
        left = replace(
            case.snapshot,
            pods=tuple(each for each in case.snapshot.pods if each.id not in gone),
            claims=tuple(each for each in claims if each is not None),
        )
        first, *others = self.waiting.pods
        together = (*others, *moving)
        alone = case._replace(snapshot=left, pod=first, together=together, gangs=self.waiting.gangs)
        return probe.starts_some(alone, {each.id for each in self.waiting.pods})


def _winners(batch: Batch, plan: Plan, later: ProbeCase) -> dict[str, tuple[Pod, ...]]:
    """Return by node the pods that the plan places and that may have another node."""
    seated = {each.id for each in later.snapshot.pods}
    users = Counter(claim for each in plan.placements for claim in each.claims)
    users.update(claim for pod in batch.pods if pod.id not in seated for claim in pod.claim_ids)
    by_id, found = {each.id: each for each in batch.pods}, defaultdict[str, list[Pod]](list)
    for each in plan.placements:
        pod = by_id[each.pod]
        is_tied = pod.gang is not None or pod.volumes or any(users[claim] > 1 for claim in each.claims)
        if each.pod in seated and not is_tied:
            found[each.node].append(pod)
    return {node: tuple(pods) for node, pods in found.items()}

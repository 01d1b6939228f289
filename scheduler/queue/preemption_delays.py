"""
For how long evictions for waiting pods have been held back (`preemption.delaySeconds`), by uid.

The time begins with the first plan that holds them back, and ends with the pod. It is kept in memory: after a restart
it begins anew, so that no pod is evicted before a node had its time to come. Times are seconds of the queue's clock.
Of a pod that gets room which others leave anyway it is noted that its time has not begun: it has a nominated node, too.
"""

from typing import Final

from msgspec import structs

from solver.domain import Batch, Plan, ReasonCode


class PreemptionDelays:
    """Remembers waiting pods for which others will be evicted; `forget` has to be told when they are bound or gone."""

    def __init__(self) -> None:
        self._since: Final[dict[str, float | None]] = {}

    def marked(self, batch: Batch, now: float) -> Batch:
        """Add to a batch how long its pods have waited."""
        waits = ((pod.uid, self._since[pod.uid]) for pod in batch.pods if pod.uid in self._since)
        seconds = tuple((uid, 0 if since is None else max(0, int(now - since))) for uid, since in waits)
        return structs.replace(batch, preemption_waits=seconds) if seconds else batch

    def decided(self, batch: Batch, plan: Plan, now: float) -> None:
        """Note the pods of a plan that wait from now on."""
        delayed = {
            each.pod
            for each in plan.unplaced
            if any(reason.code is ReasonCode.PREEMPTION_DELAYED for reason in each.reasons)
        }
        unhurried = {placement.pod for found in plan.preemptions if not found.victims for placement in found.placements}
        for pod in batch.pods if delayed or unhurried else ():
            if pod.id in delayed and self._since.get(pod.uid) is None:
                self._since[pod.uid] = now
            elif pod.id in unhurried and not pod.nominated_node_name:
                self._since.setdefault(pod.uid, None)

    def forget(self, uid: str) -> None:
        """Forget a pod that was bound or deleted."""
        self._since.pop(uid, None)

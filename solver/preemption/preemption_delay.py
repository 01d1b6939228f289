"""
Preemptors that wait first: within `PreemptionRules.delay_seconds` a node may come, and then no pod has to be evicted.

The time begins with the first decision that holds the evictions back: from then on the pod's condition tells
autoscalers that it needs room, and time in which it waited for something else does not count. Of pods that need the
room together the last one counts. Pods that have a nominated node do not wait again, nor do those that no protection
binds.
"""

from collections.abc import Sequence
from typing import NamedTuple

from msgspec.structs import replace

from solver.domain import Batch, Plan, PreemptionRules, Reason, ReasonCode
from solver.preemption.dry_run import Preemptor
from solver.preemption.preemption_state import priority_of
from solver.preemption.preemptions import with_reason


class DelayedPreemptors(NamedTuple):
    """Preemptors that may have pods evicted now, and the others with the seconds that are left to them."""

    ready: tuple[Preemptor, ...]
    delayed: tuple[tuple[Preemptor, int], ...] = ()

    @classmethod
    def of(cls, preemptors: Sequence[Preemptor], batch: Batch, rules: PreemptionRules) -> "DelayedPreemptors":
        """Separate preemptors of a batch by how long they have waited."""
        waits = dict(batch.preemption_waits)
        left = [(preemptor, _seconds_left(preemptor, waits, rules)) for preemptor in preemptors]
        return cls(
            tuple(preemptor for preemptor, seconds in left if seconds <= 0),
            tuple((preemptor, seconds) for preemptor, seconds in left if seconds > 0),
        )

    def explained(self, plan: Plan, rules: PreemptionRules) -> Plan:
        """Say of the delayed ones what they wait for, and when to decide again."""
        if not self.delayed:
            return plan
        reasons = {pod.id: _reason(seconds, rules) for preemptor, seconds in self.delayed for pod in preemptor}
        soonest = min(seconds for _, seconds in self.delayed)
        known = plan.next_victim_seconds
        return replace(
            plan,
            unplaced=tuple(with_reason(each, reasons.get(each.pod)) for each in plan.unplaced),
            next_victim_seconds=soonest if known is None else min(known, soonest),
        )


def _reason(seconds: int, rules: PreemptionRules) -> Reason:
    message = (
        f"preemption: no pod is evicted for it in the next {seconds} s: a node may come "
        f"(preemption.delaySeconds: {rules.delay_seconds})"
    )
    return Reason(code=ReasonCode.PREEMPTION_DELAYED, message=message)


def _seconds_left(preemptor: Preemptor, waits: dict[str, int], rules: PreemptionRules) -> int:
    is_bound = priority_of(preemptor) < rules.binds_below
    if not (rules.delay_seconds and is_bound) or any(pod.nominated_node_name for pod in preemptor):
        return 0
    return rules.delay_seconds - min(waits.get(pod.uid, 0) for pod in preemptor)

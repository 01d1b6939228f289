"""What the queue asks of the rule of quotas."""

from typing import Final

from solver.domain import ClusterEvent, ReasonCode

HINTS: Final = {
    ReasonCode.QUOTA_EXCEEDED: {
        ClusterEvent.QUOTA_CHANGED,
        ClusterEvent.NAMESPACE_CHANGED,
        ClusterEvent.NOMINATION_ENDED,
        # What counts for the quota's class may be less now.
        ClusterEvent.CLASS_CHANGED,
        ClusterEvent.CLAIM_CREATED,
        ClusterEvent.CLAIM_ALLOCATED,
    },
}
"""
Devices that are freed hint only the pods of namespaces that share a quota (`UnschedulablePods.hint_namespaces`).
"""

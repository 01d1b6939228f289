"""What the queue asks of the rule of taints."""

from typing import Final

from solver.domain import ClusterEvent, ReasonCode

READS: Final = ("tolerations",)
HINTS: Final = {
    ReasonCode.NODE_UNSCHEDULABLE: {ClusterEvent.NODE_ADDED, ClusterEvent.NODE_UNCORDONED},
    ReasonCode.NODE_TAINT: {ClusterEvent.NODE_ADDED, ClusterEvent.NODE_TAINT_REMOVED},
}

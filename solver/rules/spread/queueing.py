"""What the queue asks of topology spread."""

from typing import Final

from solver.domain import ClusterEvent, ReasonCode
from solver.rules.inter_pod.queueing import NEIGHBOUR_CHANGED

READS: Final = ("spread",)
HINTS: Final = {
    ReasonCode.TOPOLOGY_SPREAD: NEIGHBOUR_CHANGED
    | {
        ClusterEvent.ASSIGNED_POD_ADDED,
        ClusterEvent.ASSIGNED_POD_TERMINATING,
        # With one more domain there may be minDomains of them.
        ClusterEvent.NODE_TAINT_REMOVED,
        ClusterEvent.NODE_TAINT_ADDED,
    },
    ReasonCode.TOPOLOGY_LABEL: {ClusterEvent.NODE_ADDED, ClusterEvent.NODE_LABELS_CHANGED},
}

"""What the queue asks of pod affinity and anti-affinity."""

from typing import Final

from solver.domain import ClusterEvent, ReasonCode
from solver.rules.inter_pod.queueing import NEIGHBOUR_CHANGED

READS: Final = ("affinity", "anti_affinity")
HINTS: Final = {
    ReasonCode.POD_AFFINITY: NEIGHBOUR_CHANGED | {ClusterEvent.ASSIGNED_POD_ADDED, ClusterEvent.NAMESPACE_CHANGED},
    ReasonCode.POD_ANTI_AFFINITY: NEIGHBOUR_CHANGED | {ClusterEvent.NAMESPACE_CHANGED, ClusterEvent.NOMINATION_ENDED},
}

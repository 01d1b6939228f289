"""What the queue asks of node fit."""

from typing import Final

from solver.domain import ClusterEvent, ReasonCode

READS: Final = ("node_selector", "required_affinity", "required_features")
HINTS: Final = {
    ReasonCode.NODE_AFFINITY: {ClusterEvent.NODE_ADDED, ClusterEvent.NODE_LABELS_CHANGED},
    ReasonCode.NODE_FEATURES: {ClusterEvent.NODE_ADDED, ClusterEvent.NODE_FEATURES_DECLARED},
}

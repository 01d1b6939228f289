"""What the queue asks of every rule between pods."""

from typing import Final

from solver.domain import ClusterEvent

NEIGHBOUR_CHANGED: Final = {
    ClusterEvent.NODE_ADDED,
    ClusterEvent.NODE_LABELS_CHANGED,
    ClusterEvent.NODE_DELETED,
    ClusterEvent.ASSIGNED_POD_REMOVED,
    ClusterEvent.ASSIGNED_POD_LABELS_CHANGED,
}
"""Which pods run where; without any, required affinity lets the first pod of a kind go anywhere."""

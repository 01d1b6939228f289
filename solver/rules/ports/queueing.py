"""What the queue asks of the rule of host ports."""

from typing import Final

from solver.domain import ClusterEvent, ReasonCode

READS: Final = ("host_ports",)
HINTS: Final = {
    ReasonCode.NODE_PORTS: {
        ClusterEvent.NODE_ADDED,
        ClusterEvent.PORTS_FREED,
        ClusterEvent.NOMINATION_ENDED,
    },
}

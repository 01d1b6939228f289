"""What the queue asks of all rules: which cluster events may remove a reason, and by what of a pod it tells equals."""

from collections.abc import Mapping
from typing import Final

from solver.domain import ClusterEvent, ReasonCode
from solver.rules.affinity import queueing as affinity
from solver.rules.node_fit import queueing as node_fit
from solver.rules.ports import queueing as ports
from solver.rules.quotas import queueing as quotas
from solver.rules.spread import queueing as spread
from solver.rules.taints import queueing as taints
from solver.rules.volumes import queueing as volumes

RULES: Final = (node_fit.HINTS, taints.HINTS, ports.HINTS, spread.HINTS, affinity.HINTS, volumes.HINTS, quotas.HINTS)
"""The reasons of each rule; no two rules have one in common."""
RULE_HINTS: Final[Mapping[ReasonCode, frozenset[ClusterEvent]]] = {
    reason: frozenset(events) for rule in RULES for reason, events in rule.items()
}
NODE_READS: Final = (*node_fit.READS, *taints.READS, *ports.READS)
"""The fields of `Pod` that rules about nodes read, apart from volumes: these make a pod equal to no other."""
INTER_POD_READS: Final = (*affinity.READS, *spread.READS)
"""The fields of `Pod` with terms about other pods, which may select the pod itself by its namespace and labels."""
OWN_REASONS: Final = frozenset({*volumes.HINTS, *affinity.HINTS, *spread.HINTS})
"""Reasons in the volumes or labels of a pod itself: one that asks for the same may still fit."""

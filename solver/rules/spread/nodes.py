"""The nodes that topology spread rules out by their labels."""

from collections.abc import Iterator
from typing import Final

from solver.domain import ReasonCode, node_reason
from solver.rules.inter_pod.inter_pod_context import InterPodContext
from solver.rules.inter_pod.pod_keys import InterPodKey
from solver.rules.verdicts import ExcludedNodes

SKEWED: Final = node_reason(ReasonCode.TOPOLOGY_SPREAD, "node(s) didn't match pod topology spread constraints")
UNLABELLED: Final = node_reason(
    ReasonCode.TOPOLOGY_LABEL, "node(s) didn't match pod topology spread constraints (missing required label)"
)


def excluded(interpod_key: InterPodKey, context: InterPodContext) -> Iterator[ExcludedNodes]:
    """Return the nodes without the label of a constraint; how pods are spread is a matter of the whole batch."""
    for constraint in interpod_key.spread:
        yield ExcludedNodes(~context.topologies.of(constraint.topology_key).has_key, UNLABELLED)

"""The nodes that topology spread rules out by their labels, and those on which a constraint counts pods."""

from collections.abc import Iterator
from typing import Final, NamedTuple

from solver.arrays import Mask
from solver.domain import NodeSelector, Pod, ReasonCode, Toleration, TopologySpreadConstraint, node_reason
from solver.rules.inter_pod.inter_pod_context import InterPodCache, InterPodContext
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


class NodeInclusionPolicy(NamedTuple):
    """What a constraint honours of its pod (nodeAffinityPolicy, nodeTaintsPolicy); None where it ignores it."""

    node_selector: tuple[tuple[str, str], ...] | None = None
    required_affinity: NodeSelector | None = None
    tolerations: tuple[Toleration, ...] | None = None

    @classmethod
    def of(cls, constraint: TopologySpreadConstraint, pod: Pod) -> "NodeInclusionPolicy":
        """Take what a constraint of a pod honours."""
        return cls(
            node_selector=pod.node_selector if constraint.honours_affinity else None,
            required_affinity=pod.required_affinity if constraint.honours_affinity else None,
            tolerations=pod.tolerations if constraint.honours_taints else None,
        )

    def nodes(self, memory: InterPodCache) -> Mask:
        """Mark the nodes that count."""
        found = memory.included_nodes.get(self)
        if found is None:
            found = memory.node_matcher.suiting(self.node_selector or (), self.required_affinity)
            if self.tolerations is not None:
                _, tainted = memory.node_matcher.tainted.excluded(self.tolerations)
                found &= ~tainted.nodes
            memory.included_nodes[self] = found
        return found

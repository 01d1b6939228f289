"""The nodes that pod affinity and anti-affinity rule out whatever the batch does: by running pods, and by labels."""

from collections import defaultdict
from collections.abc import Iterator
from typing import Final

import numpy as np

from solver.arrays import Mask
from solver.domain import ReasonCode, node_reason
from solver.rules.inter_pod.inter_pod_context import InterPodContext
from solver.rules.inter_pod.pod_keys import InterPodKey, term_selector
from solver.rules.verdicts import ExcludedNodes

AFFINITY: Final = node_reason(ReasonCode.POD_AFFINITY, "node(s) didn't match pod affinity rules")
ANTI_AFFINITY: Final = node_reason(ReasonCode.POD_ANTI_AFFINITY, "node(s) didn't match pod anti-affinity rules")
EXISTING: Final = node_reason(ReasonCode.POD_ANTI_AFFINITY, "node(s) didn't satisfy existing pods anti-affinity rules")


def excluded(interpod_key: InterPodKey, context: InterPodContext) -> Iterator[ExcludedNodes]:
    """Return the nodes that are ruled out for pods with a key, in the order of kube-scheduler's reasons."""
    for term in interpod_key.affinity:
        yield ExcludedNodes(~context.topologies.of(term.topology_key).has_key, AFFINITY)
    for term in interpod_key.anti_affinity:
        topology = context.topologies.of(term.topology_key)
        occupied = context.counts(term_selector(term)).all > 0
        yield ExcludedNodes(topology.nodes_in(topology.of_nodes(occupied)), ANTI_AFFINITY)
    for key, nodes in _holders(interpod_key, context).items():
        topology = context.topologies.of(key)
        yield ExcludedNodes(topology.nodes_in(topology.of_nodes(nodes)), EXISTING)


def _holders(interpod_key: InterPodKey, context: InterPodContext) -> dict[str, Mask]:
    """Return the nodes of running pods whose anti-affinity selects a pod, by topology key: keys are few, terms many."""
    found: defaultdict[str, set[int]] = defaultdict(set)
    for number in interpod_key.selected_by & context.held.keys():
        for term in context.held[number]:
            found[term.topology_key] |= context.running.holders[term]
    masks = {}
    for key in sorted(found):
        masks[key] = np.zeros(len(context.running.node_index), dtype=np.bool_)
        masks[key][list(found[key])] = True
    return masks

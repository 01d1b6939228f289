"""Nodes that running pods and node labels rule out for a pod, with kube-scheduler's reasons."""

from collections import defaultdict
from collections.abc import Iterator
from typing import Final

import numpy as np

from solver.arrays import Mask
from solver.domain import PodAffinityTerm, ReasonCode, node_reason
from solver.problem.inter_pod.inter_pod_context import InterPodContext
from solver.problem.inter_pod.pod_keys import InterPodKey, term_selector
from solver.rules.ports import nodes as ports_nodes
from solver.rules.verdicts import ExcludedNodes

AFFINITY: Final = node_reason(ReasonCode.POD_AFFINITY, "node(s) didn't match pod affinity rules")
ANTI_AFFINITY: Final = node_reason(ReasonCode.POD_ANTI_AFFINITY, "node(s) didn't match pod anti-affinity rules")
EXISTING: Final = node_reason(ReasonCode.POD_ANTI_AFFINITY, "node(s) didn't satisfy existing pods anti-affinity rules")
SPREAD: Final = node_reason(ReasonCode.TOPOLOGY_SPREAD, "node(s) didn't match pod topology spread constraints")
UNLABELLED: Final = node_reason(
    ReasonCode.TOPOLOGY_LABEL, "node(s) didn't match pod topology spread constraints (missing required label)"
)


def exclusions_of(
    interpod_key: InterPodKey, context: InterPodContext, held: dict[int, list[PodAffinityTerm]]
) -> Iterator[ExcludedNodes]:
    """
    Return the nodes that are ruled out whatever the batch does, in the order of kube-scheduler's filters.

    `held` are the anti-affinity terms of running pods, by the number of their selector.
    """
    if interpod_key.host_ports:
        yield ports_nodes.excluded(interpod_key.host_ports, context.running.ports, len(context.running.node_index))
    for constraint in interpod_key.spread:
        yield ExcludedNodes(~context.topologies.of(constraint.topology_key).has_key, UNLABELLED)
    for term in interpod_key.affinity:
        yield ExcludedNodes(~context.topologies.of(term.topology_key).has_key, AFFINITY)
    for term in interpod_key.anti_affinity:
        topology = context.topologies.of(term.topology_key)
        yield ExcludedNodes(
            topology.nodes_in(topology.of_nodes(context.counts(term_selector(term)).all > 0)), ANTI_AFFINITY
        )
    for key, nodes in _held(interpod_key, context, held).items():
        topology = context.topologies.of(key)
        yield ExcludedNodes(topology.nodes_in(topology.of_nodes(nodes)), EXISTING)


def _held(
    interpod_key: InterPodKey, context: InterPodContext, held: dict[int, list[PodAffinityTerm]]
) -> dict[str, Mask]:
    """Return the nodes of running pods whose anti-affinity selects a pod, by topology key: keys are few, terms many."""
    found: defaultdict[str, set[int]] = defaultdict(set)
    for number in interpod_key.selected_by & held.keys():
        for term in held[number]:
            found[term.topology_key] |= context.running.holders[term]
    masks = {}
    for key in sorted(found):
        masks[key] = np.zeros(len(context.running.node_index), dtype=np.bool_)
        masks[key][list(found[key])] = True
    return masks

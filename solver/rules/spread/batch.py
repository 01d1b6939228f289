"""Topology spread of the pods of one batch, as forms."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np

from solver.arrays import Mask
from solver.domain import NodeSelector, Pod, Toleration, TopologySpreadConstraint
from solver.rules.forms.inter_pod import SpreadRule
from solver.rules.inter_pod.inter_pod_context import InterPodCache, InterPodContext
from solver.rules.inter_pod.pod_keys import InterPodKey, SelectedClasses, spread_selector
from solver.rules.spread.nodes import SKEWED
from solver.rules.taints.values import node_tolerations


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
            tolerations=node_tolerations(pod) if constraint.honours_taints else None,
        )

    def counted_nodes(self, cache: InterPodCache) -> Mask:
        """Mark the nodes on which a constraint counts pods, its labels apart."""
        found = cache.included_nodes.get(self)
        if found is None:
            found = cache.node_matcher.suiting(self.node_selector or (), self.required_affinity)
            if self.tolerations is not None:
                _, tainted = cache.node_matcher.tainted.excluded(self.tolerations)
                found &= ~tainted.nodes
            cache.included_nodes[self] = found
        return found


class _SharedConstraint(NamedTuple):
    """What classes have in common that are bound by one rule; a counted node has every label of `required_labels`."""

    constraint: TopologySpreadConstraint
    namespace: str
    required_labels: tuple[str, ...]
    inclusion: NodeInclusionPolicy


def spread_rules(
    interpod_keys: Mapping[int, InterPodKey],
    selected: SelectedClasses,
    pods: Mapping[int, Pod],
    context: InterPodContext,
) -> Iterator[SpreadRule]:
    """
    Return one rule for all classes with the same constraint and the same counted nodes; `pods` has one of each class.

    An empty selector counts no running pod, as in kube-scheduler, and therefore never refuses a node.
    """
    classes_of: dict[_SharedConstraint, set[int]] = {}
    for pod_class, interpod_key in interpod_keys.items():
        labels = tuple(sorted({each.topology_key for each in interpod_key.spread}))
        for constraint in interpod_key.spread:
            if constraint.selector is not None and constraint.selector.requirements:
                inclusion = NodeInclusionPolicy.of(constraint, pods[pod_class])
                shared = _SharedConstraint(constraint, interpod_key.namespace, labels, inclusion)
                classes_of.setdefault(shared, set()).add(pod_class)
    for shared, constrained in classes_of.items():
        number = context.selector_index.number(spread_selector(shared.constraint, shared.namespace))
        yield _rule(shared, frozenset(constrained), selected.get(number, frozenset()), context)


def _rule(
    shared: _SharedConstraint, constrained: frozenset[int], selected: frozenset[int], context: InterPodContext
) -> SpreadRule:
    constraint = shared.constraint
    topology = context.topologies.of(constraint.topology_key)
    counted = shared.inclusion.counted_nodes(context.memory)
    for label in shared.required_labels:
        counted = counted & context.topologies.of(label).has_key
    staying = context.counts(spread_selector(constraint, shared.namespace)).staying
    eligible = topology.of_nodes(counted)
    return SpreadRule(
        topology=topology,
        counted=counted,
        eligible=eligible,
        existing=topology.summed(np.where(counted, staying, 0)),
        max_skew=constraint.max_skew,
        is_floor_zero=int(eligible.sum()) < constraint.min_domains,
        constrained=constrained,
        selected=selected,
        reason=SKEWED,
    )

"""Topology spread of the pods of one batch, as forms."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np

from solver.domain import Pod, TopologySpreadConstraint
from solver.rules.forms.inter_pod import SpreadRule
from solver.rules.inter_pod.inter_pod_context import InterPodContext
from solver.rules.inter_pod.pod_keys import InterPodKey, SelectedClasses, spread_selector
from solver.rules.spread.nodes import SKEWED, NodeInclusionPolicy


class _Key(NamedTuple):
    constraint: TopologySpreadConstraint
    namespace: str
    keys: tuple[str, ...]
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
    found: dict[_Key, set[int]] = {}
    for pod_class, interpod_key in interpod_keys.items():
        keys = tuple(sorted({each.topology_key for each in interpod_key.spread}))
        for constraint in interpod_key.spread:
            if constraint.selector is not None and constraint.selector.requirements:
                inclusion = NodeInclusionPolicy.of(constraint, pods[pod_class])
                found.setdefault(_Key(constraint, interpod_key.namespace, keys, inclusion), set()).add(pod_class)
    for key, constrained in found.items():
        number = context.selector_index.number(spread_selector(key.constraint, key.namespace))
        yield _rule(key, frozenset(constrained), selected.get(number, frozenset()), context)


def _rule(key: _Key, constrained: frozenset[int], selected: frozenset[int], context: InterPodContext) -> SpreadRule:
    constraint = key.constraint
    topology = context.topologies.of(constraint.topology_key)
    counted = key.inclusion.nodes(context.memory)
    for each in key.keys:
        counted = counted & context.topologies.of(each).has_key
    staying = context.counts(spread_selector(constraint, key.namespace)).staying
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

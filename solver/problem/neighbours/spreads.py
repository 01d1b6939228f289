"""Topology spread constraints that must hold, over running pods and pods of a batch."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from solver.domain import Pod, SpreadConstraint
from solver.problem.devices.inventory import Mask
from solver.problem.limits import Domains
from solver.problem.neighbours.audience import of_spread
from solver.problem.neighbours.stance import Stance, by_audience
from solver.problem.neighbours.surroundings import Honoured, Surroundings
from solver.problem.neighbours.topology import Topology

RULE = "topology spread"


@dataclass(frozen=True, slots=True, eq=False)
class Spread:
    """
    Where a pod of `bound` is placed, its domain has at most `max_skew` more than the domain with least.

    Counted are pods of the constraint's audience on nodes of `counted`: `existing` by domain, and pods of the classes
    `wanted`. The least is taken over `eligible` domains, and is none at all where `is_floor_zero` says that there are
    fewer of them than the constraint wants.
    """

    topology: Topology
    counted: Mask
    eligible: Mask
    existing: Domains
    max_skew: int
    is_floor_zero: bool
    bound: frozenset[int]
    wanted: frozenset[int]

    def least(self, counts: Domains) -> int:
        """Give the count that others are measured against."""
        return 0 if self.is_floor_zero else int(counts[self.eligible].min())


class _Key(NamedTuple):
    constraint: SpreadConstraint
    namespace: str
    keys: tuple[str, ...]
    honoured: Honoured


def rules(stances: Mapping[int, Stance], pods: Mapping[int, Pod], around: Surroundings) -> Iterator[Spread]:
    """
    Give one rule for all classes of the same constraint and view of nodes; `pods` has one of each class.

    A selector without requirements counts nobody that runs, as kube-scheduler has it, and so it never refuses.
    """
    found: dict[_Key, set[int]] = {}
    for pod_class, stance in stances.items():
        keys = tuple(sorted({each.topology_key for each in stance.spread}))
        for constraint in stance.spread:
            if constraint.selector is not None and constraint.selector.requirements:
                key = _Key(constraint, stance.namespace, keys, _honoured(constraint, pods[pod_class]))
                found.setdefault(key, set()).add(pod_class)
    members = by_audience(stances)
    for key, bound in found.items():
        number = around.audiences.number(of_spread(key.constraint, key.namespace))
        yield _rule(key, frozenset(bound), members.get(number, frozenset()), around)


def _honoured(constraint: SpreadConstraint, pod: Pod) -> Honoured:
    return Honoured(
        node_selector=pod.node_selector if constraint.honours_affinity else None,
        required_affinity=pod.required_affinity if constraint.honours_affinity else None,
        tolerations=pod.tolerations if constraint.honours_taints else None,
    )


def _rule(key: _Key, bound: frozenset[int], wanted: frozenset[int], around: Surroundings) -> Spread:
    constraint = key.constraint
    topology = around.topologies.of(constraint.topology_key)
    counted = around.willing(key.honoured)
    for each in key.keys:
        counted = counted & around.topologies.of(each).has_key
    staying = around.counts(of_spread(constraint, key.namespace)).staying
    eligible = topology.of_nodes(counted)
    return Spread(
        topology=topology,
        counted=counted,
        eligible=eligible,
        existing=topology.summed(np.where(counted, staying, 0)),
        max_skew=constraint.max_skew,
        is_floor_zero=int(eligible.sum()) < constraint.min_domains,
        bound=bound,
        wanted=wanted,
    )

"""
How many nodes kube-scheduler's filters refuse, and with which reasons (FitError, NodeToStatus).

Filters run in the order of the default profile, and a node has the reasons of the first plugin that fails there.
NodeResourcesFit and VolumeBinding give every reason that they have, the others the first one. Nodes that only a rule
of Dovetail refuses (a reservation, held room, the topology of a gang) count for that rule.
"""

from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum, auto
from itertools import groupby
from typing import Final

import numpy as np

from solver.arrays import Mask
from solver.domain import Reason, ReasonCode
from solver.problem.problem import PodClass
from solver.rules.affinity import nodes as affinity
from solver.rules.node_fit import values as node_fit
from solver.rules.verdicts import ExcludedNodes, tallied
from solver.rules.volumes import values as volumes


class FilterPlugin(IntEnum):
    """The filters of kube-scheduler's default profile, in their order; the last one stands for rules of Dovetail."""

    PRE_FILTER = auto()
    NODE_UNSCHEDULABLE = auto()
    TAINT_TOLERATION = auto()
    NODE_AFFINITY = auto()
    NODE_PORTS = auto()
    NODE_RESOURCES_FIT = auto()
    VOLUME_RESTRICTIONS = auto()
    NODE_VOLUME_LIMITS = auto()
    VOLUME_BINDING = auto()
    VOLUME_ZONE = auto()
    POD_TOPOLOGY_SPREAD = auto()
    INTER_POD_AFFINITY = auto()
    DYNAMIC_RESOURCES = auto()
    NODE_DECLARED_FEATURES = auto()
    OWN = auto()


_PLUGINS: Final = {
    ReasonCode.NODE_UNSCHEDULABLE: FilterPlugin.NODE_UNSCHEDULABLE,
    ReasonCode.NODE_TAINT: FilterPlugin.TAINT_TOLERATION,
    ReasonCode.NODE_AFFINITY: FilterPlugin.NODE_AFFINITY,
    ReasonCode.NODE_PORTS: FilterPlugin.NODE_PORTS,
    ReasonCode.NODE_RESOURCES: FilterPlugin.NODE_RESOURCES_FIT,
    ReasonCode.NODE_TOO_SMALL: FilterPlugin.NODE_RESOURCES_FIT,
    ReasonCode.VOLUME_IN_USE: FilterPlugin.VOLUME_RESTRICTIONS,
    ReasonCode.VOLUME_EXCLUSIVE: FilterPlugin.VOLUME_RESTRICTIONS,
    ReasonCode.VOLUME_DRIVER_MISSING: FilterPlugin.NODE_VOLUME_LIMITS,
    ReasonCode.VOLUME_ATTACHMENTS: FilterPlugin.NODE_VOLUME_LIMITS,
    ReasonCode.VOLUME_MISSING: FilterPlugin.VOLUME_BINDING,
    ReasonCode.VOLUME_ELSEWHERE: FilterPlugin.VOLUME_BINDING,
    ReasonCode.VOLUME_NONE: FilterPlugin.VOLUME_BINDING,
    ReasonCode.VOLUME_CAPACITY: FilterPlugin.VOLUME_BINDING,
    ReasonCode.TOPOLOGY_LABEL: FilterPlugin.POD_TOPOLOGY_SPREAD,
    ReasonCode.TOPOLOGY_SPREAD: FilterPlugin.POD_TOPOLOGY_SPREAD,
    ReasonCode.POD_AFFINITY: FilterPlugin.INTER_POD_AFFINITY,
    ReasonCode.POD_ANTI_AFFINITY: FilterPlugin.INTER_POD_AFFINITY,
    ReasonCode.NODE_FEATURES: FilterPlugin.NODE_DECLARED_FEATURES,
    ReasonCode.GANG_TOPOLOGY: FilterPlugin.OWN,
    ReasonCode.NODE_RESERVED: FilterPlugin.OWN,
    ReasonCode.ROOM_HELD: FilterPlugin.OWN,
    ReasonCode.QUOTA_EXCEEDED: FilterPlugin.OWN,
}
"""The plugin of each code; every other code of a node is about its devices."""
_SEVERAL: Final = frozenset({FilterPlugin.NODE_RESOURCES_FIT, FilterPlugin.VOLUME_BINDING})
_INTER_POD_ORDER: Final = (affinity.AFFINITY.message, affinity.ANTI_AFFINITY.message, affinity.EXISTING.message)
_AFTER_ALLOCATION: Final = {
    ReasonCode.CLAIM_ELSEWHERE: 1,
    ReasonCode.CLAIM_OUT_OF_REACH: 1,
    ReasonCode.NODE_RESOURCES: 2,
}
"""What DynamicResources looks at once all open claims can be allocated."""
CANNOT_ALLOCATE: Final = Reason(
    code=ReasonCode.DEVICES_IN_USE, message="cannot allocate all claims", status="cannot allocate all claims"
)


def plugin_of(reason: Reason) -> FilterPlugin:
    """Return the filter that gives a reason."""
    if reason.message == node_fit.OTHER_NAME.message:
        return FilterPlugin.PRE_FILTER
    if reason.message == volumes.OTHER_ZONE.message:
        return FilterPlugin.VOLUME_ZONE
    if reason.code is ReasonCode.NODE_RESOURCES and reason.status:
        return FilterPlugin.DYNAMIC_RESOURCES  # what devices take of their node (KEP-5517)
    return _PLUGINS.get(reason.code, FilterPlugin.DYNAMIC_RESOURCES)


def passed(excluded: Sequence[ExcludedNodes], plugin: FilterPlugin, node_count: int) -> Mask:
    """Return the nodes that pass all filters before a plugin."""
    nodes = np.ones(node_count, dtype=np.bool_)
    for each in excluded:
        if plugin_of(each.reason) < plugin:
            nodes &= ~each.nodes
    return nodes


def own_nodes(pod_class: PodClass, family: Sequence[PodClass], node_count: int) -> Mask:
    """Return the nodes that a class of a family stands for; the first class stands for those of no class too."""
    own = np.zeros(node_count, dtype=np.bool_)
    own[slice(None) if pod_class.verdicts.nodes is None else pod_class.verdicts.nodes] = True
    if pod_class is family[0]:
        unclaimed = np.ones_like(own)
        for each in family:
            unclaimed &= np.zeros_like(own) if each.verdicts.nodes is None else ~each.verdicts.nodes
        own |= unclaimed
    return own


def counted_by_filter(excluded: Iterable[ExcludedNodes]) -> tuple[Reason, ...]:
    """Return the reasons with the numbers of their nodes, most frequent first."""
    ordered = sorted(excluded, key=lambda each: _order(each.reason))
    counts, seen = dict[Reason, int](), None
    for plugin, group in groupby(ordered, key=lambda each: plugin_of(each.reason)):
        found = list(group)
        for nodes, reason in _joined(found) if plugin in _SEVERAL else _firsts(found):
            lost = int(np.count_nonzero(nodes if seen is None else nodes & ~seen))
            if lost:
                counts[reason] = counts.get(reason, 0) + lost
        refused = np.logical_or.reduce([each.nodes for each in found])
        seen = refused if seen is None else seen | refused
    return tallied(counts)


def _order(reason: Reason) -> tuple[int, int]:
    if reason.message in _INTER_POD_ORDER:
        return FilterPlugin.INTER_POD_AFFINITY, _INTER_POD_ORDER.index(reason.message)
    return plugin_of(reason), _AFTER_ALLOCATION.get(reason.code, 0)


def _joined(found: Iterable[ExcludedNodes]) -> Iterator[ExcludedNodes]:
    """Join the nodes of equal reasons: a node has each of them once."""
    nodes = dict[Reason, Mask]()
    for each in found:
        nodes[each.reason] = nodes[each.reason] | each.nodes if each.reason in nodes else each.nodes
    return (ExcludedNodes(mask, reason) for reason, mask in nodes.items())


def _firsts(found: Iterable[ExcludedNodes]) -> Iterator[ExcludedNodes]:
    """Leave each node to the first reason."""
    seen: Mask | None = None
    for nodes, reason in found:
        yield ExcludedNodes(nodes if seen is None else nodes & ~seen, reason)
        seen = nodes if seen is None else seen | nodes

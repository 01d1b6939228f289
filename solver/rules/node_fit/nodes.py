"""Filters of single pods on all nodes at once: node selector, node affinity, taints and unschedulable nodes."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from solver.arrays import Mask
from solver.bounded_cache import BoundedCache
from solver.domain import (
    Node,
    NodeSelector,
    NodeSelectorTerm,
)
from solver.rules.node_fit import values as node_fit
from solver.rules.node_fit.label_index import LabelIndex, mask_of
from solver.rules.taints.nodes import TaintedNodes
from solver.rules.verdicts import ExcludedNodes, NodeVerdicts


@dataclass(slots=True, eq=False)
class NodeMatcher:
    """Evaluates demands on all nodes, with caches; equals `node_fit.objection` for each node (a property checks it)."""

    nodes: tuple[Node, ...]
    labels: tuple[Mapping[str, str], ...]
    tainted: TaintedNodes = field(init=False)
    _index: LabelIndex = field(init=False)
    _images: frozenset[str] | None = None
    _declared: dict[str, Mask] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self._index = LabelIndex(self.labels, tuple(node.name for node in self.nodes))
        self.tainted = TaintedNodes(self.nodes)

    @property
    def caches(self) -> tuple[BoundedCache[Any, Any], ...]:
        """The caches that are bounded in bytes and grow with what users write."""
        return (self.tainted.excluded_by_tolerations,)

    @property
    def images(self) -> frozenset[str]:
        """Names of images that some node has."""
        if self._images is None:
            self._images = frozenset(name for node in self.nodes for name, _ in node.images)
        return self._images

    def verdicts(self, demand: node_fit.NodeDemand) -> NodeVerdicts:
        """Evaluate a demand on every node; each node counts for the first reason against it."""
        suiting = self.suiting(demand.node_selector, demand.required_affinity)
        found = [*self._named(demand.required_affinity), *self.tainted.excluded(demand.tolerations)]
        found.append(ExcludedNodes(~suiting, node_fit.AFFINITY_MISMATCH))
        found += [ExcludedNodes(~self._declaring(each), node_fit.FEATURES) for each in demand.required_features]
        away, pinned = np.zeros_like(suiting), np.zeros_like(suiting)
        for selector in demand.claim_selectors:
            outside = ~self.matching(selector)
            away |= outside
            if node_fit.names_nodes(selector):
                pinned |= outside
        found += [
            ExcludedNodes(pinned, node_fit.CLAIM_ON_OTHER_NODES),
            ExcludedNodes(away, node_fit.CLAIM_OUT_OF_REACH),
        ]
        return NodeVerdicts.of(len(self.nodes), found)

    def _named(self, required: NodeSelector | None) -> Iterator[ExcludedNodes]:
        """Return the nodes that a required affinity does not name, if it names nodes."""
        names = node_fit.named_nodes(required)
        if names is not None:
            yield ExcludedNodes(~mask_of(self._index.named(names), len(self.nodes)), node_fit.OTHER_NAME)

    def suiting(self, node_selector: tuple[tuple[str, str], ...], required: NodeSelector | None) -> Mask:
        """Mark the nodes that match a nodeSelector and a required node affinity."""
        fits = self._index.everything
        for key, value in node_selector:
            fits &= self._index.with_value(key, value)
        if required is not None:
            fits &= self._index.matching(required)
        return mask_of(fits, len(self.nodes))

    def matching(self, selector: NodeSelector) -> Mask:
        """Nodes for which at least one term holds."""
        return mask_of(self._index.matching(selector), len(self.nodes))

    def matching_term(self, term: NodeSelectorTerm) -> Mask:
        """Nodes for which every requirement of a term holds; none where it has no requirement."""
        return mask_of(self._index.matching_term(term), len(self.nodes))

    def _declaring(self, feature: str) -> Mask:
        """Nodes that declare a feature; there are a handful of features that a pod can require."""
        known = self._declared.get(feature)
        if known is None:
            declares = [feature in node.declared_features for node in self.nodes]
            known = self._declared[feature] = np.array(declares, dtype=np.bool_)
        return known

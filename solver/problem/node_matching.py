"""Filters of single pods on all nodes at once: node selector, node affinity, taints and unschedulable nodes."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from solver.domain import (
    Node,
    NodeSelector,
    NodeSelectorTerm,
    Taint,
    Toleration,
)
from solver.feasibility import node_fit
from solver.problem.bounded_cache import MIB, BoundedCache
from solver.problem.devices.inventory import Mask
from solver.problem.label_index import LabelIndex, mask_of
from solver.problem.node_arrays import ExcludedNodes, NodeVerdicts

_MOST_BYTES: Final = 16 * MIB
"""Bound of the cache by tolerations: pods may name any number."""


@dataclass(slots=True, eq=False)
class NodeMatcher:
    """Evaluates demands on all nodes, with caches; equals `node_fit.objection` for each node (a property checks it)."""

    nodes: tuple[Node, ...]
    labels: tuple[Mapping[str, str], ...]
    examples: list[Node] = field(default_factory=list, init=False)
    """One node for each combination of unschedulable flag and taints."""
    _index: LabelIndex = field(init=False)
    _images: frozenset[str] | None = None
    _declared: dict[str, Mask] = field(default_factory=dict, init=False)
    _combination_of: npt.NDArray[np.int64] = field(init=False)
    _unwelcome: BoundedCache[tuple[Toleration, ...], tuple[ExcludedNodes, ...]] = field(
        default_factory=partial(BoundedCache, _MOST_BYTES)
    )

    def __post_init__(self) -> None:
        self._index = LabelIndex(self.labels, tuple(node.name for node in self.nodes))
        numbers: dict[tuple[bool, tuple[Taint, ...]], int] = {}
        combinations = [(node.is_unschedulable, node.taints) for node in self.nodes]
        self._combination_of = np.array(
            [numbers.setdefault(each, len(numbers)) for each in combinations], dtype=np.int64
        )
        self.examples = [self.nodes[index] for index in np.unique(self._combination_of, return_index=True)[1].tolist()]

    @property
    def caches(self) -> tuple[BoundedCache[Any, Any], ...]:
        """The caches that are bounded in bytes and grow with what users write."""
        return (self._unwelcome,)

    @property
    def images(self) -> frozenset[str]:
        """Names of images that some node has."""
        if self._images is None:
            self._images = frozenset(name for node in self.nodes for name, _ in node.images)
        return self._images

    def verdicts(self, demand: node_fit.NodeDemand) -> NodeVerdicts:
        """Evaluate a demand on every node; each node counts for the first reason against it."""
        suiting = self.suiting(demand.node_selector, demand.required_affinity)
        found = [*self._named(demand.required_affinity), *self._refused(demand.tolerations)]
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

    def _refused(self, tolerations: tuple[Toleration, ...]) -> tuple[ExcludedNodes, ...]:
        """Return the nodes whose unschedulable flag or taints these tolerations do not tolerate."""
        found = self._unwelcome.get(tolerations)
        if found is None:
            cordoned = np.array([node_fit.is_cordoned(each, tolerations) for each in self.examples], dtype=np.bool_)
            taints = [node_fit.first_untolerated_taint(each.taints, tolerations) for each in self.examples]
            tainted = np.array([taint is not None for taint in taints], dtype=np.bool_)
            counts = Counter[Taint]()
            sizes = np.bincount(self._combination_of, minlength=len(taints))
            for taint, count in zip(taints, np.where(cordoned, 0, sizes).tolist(), strict=True):
                if taint is not None and count:
                    counts[taint] += count
            found = self._unwelcome[tolerations] = (
                ExcludedNodes(cordoned[self._combination_of], node_fit.UNSCHEDULABLE),
                ExcludedNodes(tainted[self._combination_of], node_fit.untolerated(counts)),
            )
        return found

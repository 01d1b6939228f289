"""What pods demand of nodes, put to all nodes at once: a label is looked at once per value and not once per node."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from solver.domain import (
    Node,
    NodeSelector,
    NodeSelectorOperator,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Reason,
    Taint,
    Toleration,
)
from solver.feasibility import affinity, node_fit
from solver.problem.bounded import MIB, Bounded
from solver.problem.devices.inventory import Mask
from solver.problem.fit import NodeVerdicts, tallied

_MOST_BYTES: Final = 16 * MIB
"""Of labels, and of tolerations: pods may name any number of each."""
_NAME: Final = "metadata.name"
"""The only field that node selectors know."""


class _Column(NamedTuple):
    """The values of one label: a number for each, and per node the number of its value, -1 without the label."""

    numbers: dict[str, int]
    of_node: npt.NDArray[np.int64]

    def nodes_with(self, holds: Mapping[str, bool], *, otherwise: bool, without: bool) -> Mask:
        """Nodes by what holds for their value, for all values not named, and without the label."""
        looked_up = np.full(len(self.numbers) + 1, otherwise, dtype=np.bool_)
        looked_up[-1] = without
        for value, is_right in holds.items():
            if value in self.numbers:
                looked_up[self.numbers[value]] = is_right
        mask: Mask = looked_up[self.of_node]
        return mask


@dataclass(slots=True, eq=False)
class Judge:
    """Nodes and their labels, and what was found out about them so far; says the same as `node_fit.objection`."""

    nodes: tuple[Node, ...]
    labels: tuple[Mapping[str, str], ...]
    examples: list[Node] = field(default_factory=list, init=False)
    """One node of each sort: cordoned or not, and with which taints."""
    _columns: Bounded[str, _Column] = field(default_factory=partial(Bounded, _MOST_BYTES))
    _names: _Column | None = None
    _images: frozenset[str] | None = None
    _sort_of: npt.NDArray[np.int64] = field(init=False)
    _unwelcome: Bounded[tuple[Toleration, ...], tuple[Mask, Counter[Reason]]] = field(
        default_factory=partial(Bounded, _MOST_BYTES)
    )

    def __post_init__(self) -> None:
        numbers: dict[tuple[bool, tuple[Taint, ...]], int] = {}
        sorts = [(node.is_unschedulable, node.taints) for node in self.nodes]
        self._sort_of = np.array([numbers.setdefault(each, len(numbers)) for each in sorts], dtype=np.int64)
        self.examples = [self.nodes[index] for index in np.unique(self._sort_of, return_index=True)[1].tolist()]

    @property
    def caches(self) -> tuple[Bounded[Any, Any], ...]:
        """Give what is bounded in bytes and grows with what users write."""
        return self._columns, self._unwelcome

    @property
    def images(self) -> frozenset[str]:
        """Names of the images that some node has."""
        if self._images is None:
            self._images = frozenset(name for node in self.nodes for name, _ in node.images)
        return self._images

    def verdicts(self, demand: node_fit.NodeDemand) -> NodeVerdicts:
        """Put a demand to every node; each node counts for the first reason against it."""
        refused, unwelcome = self._refused(demand.tolerations)
        allowed, counts = ~refused, unwelcome.copy()
        counts += _taken_from(allowed, ~self.suiting(demand.node_selector, demand.required_affinity), node_fit.UNFIT)
        away, pinned = np.zeros_like(allowed), np.zeros_like(allowed)
        for selector in demand.claim_selectors:
            outside = ~self.matching(selector)
            away |= outside
            if node_fit.names_nodes(selector):
                pinned |= outside
        counts += _taken_from(allowed, pinned, node_fit.ELSEWHERE)
        counts += _taken_from(allowed, away, node_fit.OUT_OF_REACH)
        return NodeVerdicts(allowed, tallied(counts))

    def suiting(self, node_selector: tuple[tuple[str, str], ...], required: NodeSelector | None) -> Mask:
        """Nodes that a nodeSelector and a required node affinity let a pod use."""
        fits = np.ones(len(self.nodes), dtype=np.bool_)
        for key, value in node_selector:
            fits &= self._column(key).nodes_with({value: True}, otherwise=False, without=False)
        if required is not None:
            fits &= self.matching(required)
        return fits

    def matching(self, selector: NodeSelector) -> Mask:
        """Nodes for which at least one term holds."""
        found = np.zeros(len(self.nodes), dtype=np.bool_)
        for term in selector.terms:
            found |= self.matching_term(term)
        return found

    def matching_term(self, term: NodeSelectorTerm) -> Mask:
        """Nodes for which every requirement of a term holds; none where it has no requirement."""
        found = np.full(len(self.nodes), bool(term.match_expressions or term.match_fields), dtype=np.bool_)
        for requirement in term.match_fields:
            found &= self._meeting(requirement, self._field(requirement.key))
        for requirement in term.match_expressions:
            found &= self._meeting(requirement, self._column(requirement.key))
        return found

    def _refused(self, tolerations: tuple[Toleration, ...]) -> tuple[Mask, Counter[Reason]]:
        """Nodes that want no pods with these tolerations, and why."""
        found = self._unwelcome.get(tolerations)
        if found is None:
            reasons = [node_fit.unwelcome(each, tolerations) for each in self.examples]
            counts = Counter[Reason]()
            for reason, count in zip(reasons, np.bincount(self._sort_of, minlength=len(reasons)).tolist(), strict=True):
                if reason is not None:
                    counts[reason] += count
            refuses = np.array([reason is not None for reason in reasons], dtype=np.bool_)
            found = self._unwelcome[tolerations] = refuses[self._sort_of], counts
        return found

    def _meeting(self, requirement: NodeSelectorRequirement, column: _Column) -> Mask:
        """Nodes that meet one requirement; where it names its values, no others are looked at."""
        named = requirement.operator in {NodeSelectorOperator.IN, NodeSelectorOperator.NOT_IN}
        values = requirement.values if named else column.numbers
        holds = {value: affinity.holds(requirement, {requirement.key: value}) for value in values}
        return column.nodes_with(
            holds,
            otherwise=requirement.operator == NodeSelectorOperator.NOT_IN,
            without=affinity.holds(requirement, {}),
        )

    def _column(self, key: str) -> _Column:
        found = self._columns.get(key)
        if found is None:
            found = self._columns[key] = _numbered([labels.get(key) for labels in self.labels])
        return found

    def _field(self, key: str) -> _Column:
        if key != _NAME:
            return _numbered([None] * len(self.nodes))
        if self._names is None:
            self._names = _numbered([node.name for node in self.nodes])
        return self._names


def _numbered(values: list[str | None]) -> _Column:
    numbers: dict[str, int] = {}
    found = [-1 if value is None else numbers.setdefault(value, len(numbers)) for value in values]
    return _Column(numbers, np.array(found, dtype=np.int64))


def _taken_from(allowed: Mask, refused: Mask, reason: Reason) -> Counter[Reason]:
    """Take refused nodes away, and count those that were allowed so far."""
    count = int(np.count_nonzero(allowed & refused))
    allowed &= ~refused
    return Counter({reason: count}) if count else Counter()

"""What no node of the cluster can ever be for a pod: labels that none has, and room that none is large enough for."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from solver.domain import NodeSelector, NodeSelectorOperator, NodeSelectorRequirement, Reason, ReasonCode
from solver.domain.quantity import NANO, format_nano
from solver.feasibility import affinity, nearness
from solver.problem.problem import PodClass, Problem

_BYTES: Final = ("memory", "ephemeral-storage")
_MEBI: Final = 2**20


@dataclass(slots=True, eq=False)
class Never:
    """Compares pods of one problem with what its nodes are; labels are collected once."""

    problem: Problem
    known: dict[str, dict[str, str]] = field(default_factory=dict)
    """For each label key its values, each with a node that has it."""

    def reasons(self, pod_class: PodClass) -> Iterator[Reason]:
        """Say which labels of a pod's selectors no node has, and for which resource no node is large enough."""
        pod = self.problem.pod(pod_class.members[0])
        for key, value in pod.node_selector:
            if value not in self.labels().get(key, {}):
                yield _told(ReasonCode.NODE_AFFINITY, f"nodeSelector {key}={value}: {self.instead(key, (value,))}")
        if pod.required_affinity is not None:
            yield from self._of_affinity(pod.required_affinity)
        yield from self._too_large(pod_class)

    def labels(self) -> dict[str, dict[str, str]]:
        """Give the values of every label that nodes have, each with the first node that has it."""
        if not self.known:
            found: defaultdict[str, dict[str, str]] = defaultdict(dict)
            for node, labels in zip(self.problem.inventory.nodes, self.problem.inventory.labels, strict=True):
                for key, value in labels.items():
                    found[key].setdefault(value, node.name)
            self.known = dict(found) or {"": {}}
        return self.known

    def instead(self, key: str, values: tuple[str, ...]) -> str:
        """Say what nodes have instead of a label, by the nearest key or value."""
        there = self.labels()
        if key not in there:
            close = nearness.nearest(key, there)
            return f"no node has a label {key}" + (f": did you mean {close}?" if close else "")
        return f"no node has it: {nearness.suggestion(values[0], there[key], what='value')}"

    def _of_affinity(self, required: NodeSelector) -> Iterator[Reason]:
        """Say it of node affinity where every term has a requirement that no node meets; of the first term's."""
        missing = [
            next((each for each in term.match_expressions if self._is_absent(each)), None) for term in required.terms
        ]
        first = missing[0] if missing else None
        if first is not None and all(missing):
            wanted = f"{first.key} {first.operator}" + (f" {', '.join(first.values)}" if first.values else "")
            yield _told(ReasonCode.NODE_AFFINITY, f"node affinity {wanted}: {self.instead(first.key, first.values)}")

    def _is_absent(self, requirement: NodeSelectorRequirement) -> bool:
        """Whether a requirement names a label that no node has; those that compare numbers are left out."""
        if requirement.operator not in {NodeSelectorOperator.IN, NodeSelectorOperator.EXISTS}:
            return False
        values = self.labels().get(requirement.key, {})
        return not any(affinity.holds(requirement, {requirement.key: value}) for value in values)

    def _too_large(self, pod_class: PodClass) -> Iterator[Reason]:
        """Say for which resource even an empty node would not do, among those that the pod may use."""
        allowed = np.flatnonzero(pod_class.verdicts.allowed).tolist()
        nodes = [self.problem.inventory.nodes[each] for each in allowed]
        for resource, amount in pod_class.requests if nodes else ():
            sizes = [(dict(node.allocatable).get(resource, 0), node.name) for node in nodes]
            largest, name = max(sizes, key=lambda pair: pair[0])
            if amount <= largest:
                continue
            there = f"the largest node that it may use ({name}) has {amount_of(resource, largest)}"
            there = there if largest else "no node that it may use has any"
            text = f"the pod asks for {amount_of(resource, amount)} {resource}, and {there}"
            yield _told(ReasonCode.NODE_RESOURCES, text)


def amount_of(resource: str, amount: int) -> str:
    """Write an amount of a node's resource as a quantity: `190`, `189900m`, `64Gi`, bytes in whole mebibytes."""
    if resource == "cpu":
        return format_nano(amount * (NANO // 1000))
    if resource in _BYTES or resource.startswith("hugepages-"):
        whole = amount - amount % _MEBI if amount > _MEBI else amount
        return format_nano(whole * NANO, like="Mi")
    return str(amount)


def _told(code: ReasonCode, message: str) -> Reason:
    return Reason(code=code, message=message)

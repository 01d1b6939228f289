"""What no node of the cluster can ever be for a pod: labels that none has, and room that none is large enough for."""

from bisect import bisect
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from solver.domain import NodeSelector, NodeSelectorOperator, NodeSelectorRequirement, Reason, ReasonCode
from solver.domain.quantity import NANO, format_nano, unit_of
from solver.feasibility import nearness
from solver.problem.fit import PODS, Amounts, allocatable
from solver.problem.problem import PodClass, Problem

_BYTES: Final = ("memory", "ephemeral-storage")
_MEBI: Final = 2**20
_MOST_COMPARED: Final = 32
"""Of more labels than twice so many (host names, say), only the nearest in the alphabet are looked at."""


@dataclass(slots=True, eq=False)
class Never:
    """Compares pods of one problem with what its nodes are; labels and sizes are collected once."""

    problem: Problem
    known: dict[str, dict[str, str]] = field(default_factory=dict)
    """For each label key its values, each with a node that has it."""
    told: dict[tuple[str, ...], str] = field(default_factory=dict)
    """What `instead` said of a key and a value."""
    sizes: dict[str, Amounts] = field(default_factory=dict)
    """By resource what each node has of it."""

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
        asked = (key, *values[:1])
        if asked not in self.told:
            self.told[asked] = self._instead(*asked)
        return self.told[asked]

    def _instead(self, key: str, value: str = "") -> str:
        there = self.labels()
        if not self.problem.policy.tells_inventory:
            return "no node has it" if value else f"no node has a label {key}"
        if key not in there:
            close = nearness.nearest(key, _around(key, there))
            return f"no node has a label {key}" + (f": did you mean {close}?" if close else "")
        close = nearness.nearest(value, _around(value, there[key]))
        return f"no node has it: {f'did you mean {close}?' if close else nearness.there_are(there[key], 'value')}"

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
        return not values or (
            requirement.operator == NodeSelectorOperator.IN and values.keys().isdisjoint(requirement.values)
        )

    def _too_large(self, pod_class: PodClass) -> Iterator[Reason]:
        """Say for which resource even an empty node would not do, among those that the pod may use."""
        allowed = np.flatnonzero(pod_class.verdicts.allowed)
        for resource, amount in pod_class.requests if len(allowed) else ():
            node = self.problem.inventory.nodes[allowed[np.argmax(self.sizes_of(resource)[allowed])]]
            largest, name = dict(node.allocatable).get(resource, 0), node.name
            if amount <= largest:
                continue
            named = f" ({name})" if self.problem.policy.tells_inventory else ""
            there = f"the largest node that it may use{named} has {amount_of(resource, largest)}"
            there = there if largest else "no node that it may use has any"
            text = f"the pod asks for {amount_of(resource, amount)} {resource}, and {there}"
            own = self.asked(pod_class, resource)
            yield _told(ReasonCode.NODE_TOO_SMALL if own > largest else ReasonCode.NODE_RESOURCES, text)

    def asked(self, pod_class: PodClass, resource: str) -> int:
        """Give what a pod itself asks for of a resource; what devices take for it may be less when they change."""
        return 1 if resource == PODS else dict(self.problem.pod(pod_class.members[0]).requests).get(resource, 0)

    def sizes_of(self, resource: str) -> Amounts:
        """Give what each node has of a resource with no pod on it."""
        if resource not in self.sizes:
            self.sizes[resource] = allocatable(self.problem.inventory.nodes, resource)
        return self.sizes[resource]


def amount_of(resource: str, amount: int) -> str:
    """Write an amount of a node's resource as a quantity: `190`, `189900m`, `64Gi`, bytes in whole mebibytes."""
    if resource == "cpu":
        return format_nano(amount * unit_of(resource))
    if resource in _BYTES or resource.startswith("hugepages-"):
        whole = amount - amount % _MEBI if amount > _MEBI else amount
        return format_nano(whole * NANO, like="Mi")
    return str(amount)


def _around(name: str, known: Iterable[str]) -> Sequence[str]:
    """Give the names that one may be meant to be: each comparison takes longer than to find a place for a pod."""
    every = sorted(known)
    if len(every) <= 2 * _MOST_COMPARED:
        return every
    place = bisect(every, name)
    return every[max(0, place - _MOST_COMPARED) : place + _MOST_COMPARED]


def _told(code: ReasonCode, message: str) -> Reason:
    return Reason(code=code, message=message)

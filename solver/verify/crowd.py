"""Pods and where they are, once a plan has been carried out; found by what selectors say of them."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from solver.domain import LabelRequirement, LabelSelector, Node, Pod


class Seat(NamedTuple):
    """A pod on a node; `is_new` where the plan puts it there."""

    pod: Pod
    node: Node
    labels: Mapping[str, str]
    """The node's labels."""
    is_new: bool


def requirement_holds(requirement: LabelRequirement, labels: Mapping[str, str]) -> bool:
    """Whether one requirement of a label selector holds; one with an unknown operator does not."""
    if requirement.operator in {"In", "Exists"} and requirement.key not in labels:
        return False
    if requirement.operator in {"NotIn", "DoesNotExist"} and requirement.key not in labels:
        return True
    outcomes = {"Exists": True, "DoesNotExist": False}
    is_listed = labels.get(requirement.key) in requirement.values
    outcomes |= {"In": is_listed, "NotIn": not is_listed}
    return outcomes.get(requirement.operator, False)


def selected(selector: LabelSelector | None, labels: Mapping[str, str]) -> bool:
    """Whether a label selector selects; one that is absent selects nothing, an empty one everything."""
    return selector is not None and all(requirement_holds(each, labels) for each in selector.requirements)


@dataclass(slots=True, eq=False)
class Crowd:
    """Seats by namespace and labels; a selector that demands a value of a label only looks at those that have it."""

    by_labels: dict[str, dict[tuple[tuple[str, str], ...], list[Seat]]] = field(default_factory=dict)
    by_pair: defaultdict[tuple[str, str, str], list[tuple[tuple[str, str], ...]]] = field(
        default_factory=lambda: defaultdict(list)
    )

    def add(self, seat: Seat) -> None:
        """Take a pod in."""
        namespace, labels = seat.pod.id.namespace, seat.pod.labels
        known = self.by_labels.setdefault(namespace, {})
        if labels not in known:
            known[labels] = []
            for key, value in labels:
                self.by_pair[namespace, key, value].append(labels)
        known[labels].append(seat)

    def select(self, namespace: str, selector: LabelSelector | None) -> Iterator[Seat]:
        """Give the pods of a namespace that a selector selects."""
        if selector is None:
            return
        known = self.by_labels.get(namespace, {})
        demanded = next((each for each in selector.requirements if each.operator == "In"), None)
        tried = list(known)
        if demanded is not None:
            tried = [
                labels for value in set(demanded.values) for labels in self.by_pair[namespace, demanded.key, value]
            ]
        for labels in tried:
            if selected(selector, dict(labels)):
                yield from known[labels]

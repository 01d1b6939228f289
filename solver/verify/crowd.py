"""Pods and where they are, once a plan has been carried out; found by what selectors say of them."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from solver.domain import LabelRequirement, LabelSelector, Node, Pod

_REFUSING: Final = frozenset({"NotIn", "DoesNotExist"})


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
    """
    Seats in groups of one namespace and equal labels; which groups a selector selects is settled by sets of groups.

    So a selector costs as much as it has requirements, and not that for every group.
    """

    groups: list[list[Seat]] = field(default_factory=list)
    _numbers: dict[tuple[str, tuple[tuple[str, str], ...]], int] = field(default_factory=dict)
    _of_namespace: defaultdict[str, set[int]] = field(default_factory=lambda: defaultdict(set))
    _with_key: dict[str, set[int]] = field(default_factory=dict)
    _with_pair: dict[tuple[str, str], set[int]] = field(default_factory=dict)

    def add(self, seat: Seat) -> None:
        """Take a pod in."""
        namespace, labels = seat.pod.id.namespace, seat.pod.labels
        number = self._numbers.setdefault((namespace, labels), len(self.groups))
        if number == len(self.groups):
            self.groups.append([])
            self._of_namespace[namespace].add(number)
            for key, value in labels:
                self._with_key.setdefault(key, set()).add(number)
                self._with_pair.setdefault((key, value), set()).add(number)
        self.groups[number].append(seat)

    def select(self, selector: LabelSelector | None, namespaces: Iterable[str] | None = None) -> Iterator[list[Seat]]:
        """Give the groups that a selector selects, of all namespaces or of some."""
        if selector is None:
            return
        demanded = [self._meeting(each) for each in selector.requirements if each.operator not in _REFUSING]
        if namespaces is not None:
            demanded.append(set[int]().union(*(self._of_namespace.get(each, ()) for each in set(namespaces))))
        if not all(demanded):
            return
        demanded.sort(key=len)
        found = demanded[0].intersection(*demanded[1:]) if demanded else set(range(len(self.groups)))
        for each in selector.requirements:
            if not found:
                return
            if each.operator in _REFUSING:
                found = found - self._refused(each)
        for number in sorted(found):
            yield self.groups[number]

    def _meeting(self, requirement: LabelRequirement) -> set[int]:
        """Groups with a label that a requirement demands; nobody meets one with an unknown operator."""
        if requirement.operator == "Exists":
            return self._with_key.get(requirement.key, set())
        return self._valued(requirement) if requirement.operator == "In" else set()

    def _refused(self, requirement: LabelRequirement) -> set[int]:
        """Groups with a label that a requirement refuses."""
        if requirement.operator == "DoesNotExist":
            return self._with_key.get(requirement.key, set())
        return self._valued(requirement)

    def _valued(self, requirement: LabelRequirement) -> set[int]:
        pairs = {(requirement.key, value) for value in requirement.values}
        return set[int]().union(*(self._with_pair[each] for each in pairs & self._with_pair.keys()))

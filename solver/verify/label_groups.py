"""
Label selectors, and pods in groups of one namespace and equal labels.

A selector costs as much as it has requirements, and not as there are pods.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final

from solver.domain import LabelRequirement, LabelSelector, Pod
from solver.verify.object_index import Key, ObjectIndex

_REFUSING: Final = frozenset({"NotIn", "DoesNotExist"})
_Labels = tuple[tuple[str, str], ...]


def requirement_holds(requirement: LabelRequirement, labels: Mapping[str, str]) -> bool:
    """Whether a requirement of a label selector holds; an unknown operator never holds."""
    has = requirement.key in labels
    is_listed = has and labels[requirement.key] in requirement.values
    outcomes = {"In": is_listed, "NotIn": not is_listed, "Exists": has, "DoesNotExist": not has}
    return outcomes.get(requirement.operator, False)


def selected(selector: LabelSelector | None, labels: Mapping[str, str]) -> bool:
    """Whether a label selector matches labels; an absent one selects nothing, an empty one everything."""
    return selector is not None and all(requirement_holds(each, labels) for each in selector.requirements)


class LabelGroups(ObjectIndex[Pod]):
    """
    Pods in groups of one namespace and equal labels.

    `select` intersects sets of groups by label, so its cost does not grow with the number of groups.
    """

    def __init__(self) -> None:
        super().__init__()
        self._groups: dict[int, dict[int, Pod]] = {}
        self._numbers: dict[tuple[str, _Labels], int] = {}
        self._next = 0
        self._of_namespace: defaultdict[str, set[int]] = defaultdict(set)
        self._with_key: defaultdict[str, set[int]] = defaultdict(set)
        self._with_pair: defaultdict[tuple[str, str], set[int]] = defaultdict(set)

    def _set(self, each: Pod, *, present: bool) -> None:
        namespace, labels = each.id.namespace, each.labels
        number = self._numbers.get((namespace, labels))
        if number is None:
            number = self._open(namespace, labels)
        group = self._groups[number]
        if present:
            group[id(each)] = each
        else:
            del group[id(each)]
        if not group:
            self._close(namespace, labels, number)

    def _open(self, namespace: str, labels: _Labels) -> int:
        number, self._next = self._next, self._next + 1
        self._numbers[namespace, labels] = number
        self._groups[number] = {}
        self._of_namespace[namespace].add(number)
        for key, value in labels:
            self._with_key[key].add(number)
            self._with_pair[key, value].add(number)
        return number

    def _close(self, namespace: str, labels: _Labels, number: int) -> None:
        del self._numbers[namespace, labels], self._groups[number]
        _discard(self._of_namespace, namespace, number)
        for key, value in labels:
            _discard(self._with_key, key, number)
            _discard(self._with_pair, (key, value), number)

    def select(
        self, selector: LabelSelector | None, namespaces: Iterable[str] | None = None
    ) -> Iterator[Collection[Pod]]:
        """Return the groups that a selector selects, in all namespaces or in some."""
        if selector is None:
            return
        demanded = [self._meeting(each) for each in selector.requirements if each.operator not in _REFUSING]
        if namespaces is not None:
            demanded.append(set[int]().union(*(self._of_namespace.get(each, ()) for each in set(namespaces))))
        if not all(demanded):
            return
        demanded.sort(key=len)
        found = demanded[0].intersection(*demanded[1:]) if demanded else set(self._groups)
        for each in selector.requirements:
            if not found:
                return
            if each.operator in _REFUSING:
                found = found - self._refused(each)
        for number in sorted(found):
            yield self._groups[number].values()

    def _meeting(self, requirement: LabelRequirement) -> set[int]:
        """Return the groups that an In or Exists requirement selects; an unknown operator selects none."""
        if requirement.operator == "Exists":
            return self._with_key.get(requirement.key, set())
        return self._valued(requirement) if requirement.operator == "In" else set()

    def _refused(self, requirement: LabelRequirement) -> set[int]:
        """Return the groups that a NotIn or DoesNotExist requirement excludes."""
        if requirement.operator == "DoesNotExist":
            return self._with_key.get(requirement.key, set())
        return self._valued(requirement)

    def _valued(self, requirement: LabelRequirement) -> set[int]:
        pairs = {(requirement.key, value) for value in requirement.values}
        return set[int]().union(*(self._with_pair[each] for each in pairs & self._with_pair.keys()))


def _discard(sets: dict[Key, set[int]], key: Key, number: int) -> None:
    sets[key].discard(number)
    if not sets[key]:
        del sets[key]

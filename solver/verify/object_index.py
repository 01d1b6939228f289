"""
Indexes over one kind of object of a snapshot, updated by what changed since the snapshot before.

`LabelGroups` are pods in groups of one namespace and equal labels: a selector costs as much as it has requirements, and
not as there are pods.

An index follows the tuples of its kind: objects that are gone are taken out and objects that were added are put in. An
index from scratch is an empty one that follows its first tuple, so there is no second way to fill it.
"""

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from typing import Final, Generic, TypeVar

from solver.domain import LabelRequirement, LabelSelector, Pod
from solver.domain.changed_objects import changed_objects

Key = TypeVar("Key", bound=Hashable)
Item = TypeVar("Item")


class ObjectIndex(ABC, Generic[Item]):
    """An index over the objects of one tuple, each of which is in it once."""

    def __init__(self) -> None:
        self._followed: tuple[Item, ...] = ()

    def follow(self, now: tuple[Item, ...]) -> None:
        """Make this the index of a tuple. If that raises, the index is of no tuple and must be dropped."""
        if now is self._followed:
            return
        gone, added = changed_objects(self._followed, now)
        for each in gone:
            self._set(each, present=False)
        for each in added:
            self._set(each, present=True)
        self._followed = now

    @abstractmethod
    def _set(self, each: Item, *, present: bool) -> None:
        """Put an object in, or take it out; an object that comes for another of its key comes after that is gone."""


class ObjectsByKey(ObjectIndex[Item], Generic[Key, Item]):
    """Objects by a key of their own."""

    def __init__(self, key: Callable[[Item], Key]) -> None:
        super().__init__()
        self._key = key
        self.objects: dict[Key, Item] = {}

    def _set(self, each: Item, *, present: bool) -> None:
        if present:
            self.objects[self._key(each)] = each
        else:
            del self.objects[self._key(each)]


class ObjectGroups(Generic[Key, Item]):
    """Objects in groups by a key; an object is in a group once, and a group without objects is none."""

    def __init__(self) -> None:
        self._groups: dict[Key, dict[int, Item]] = {}

    def of(self, key: Key) -> Collection[Item]:
        """Return the objects of a key, in no particular order."""
        return self._groups.get(key, {}).values()

    def __iter__(self) -> Iterator[Key]:
        """Iterate over the keys that objects have."""
        return iter(self._groups)

    def __len__(self) -> int:
        """Return how many keys objects have."""
        return len(self._groups)

    def set(self, key: Key, each: Item, *, present: bool) -> None:
        """Put an object into the group of a key, or take it out."""
        if present:
            self._groups.setdefault(key, {})[id(each)] = each
            return
        group = self._groups[key]
        del group[id(each)]
        if not group:
            del self._groups[key]


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

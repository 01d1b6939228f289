"""
Indexes over one kind of object of a snapshot, updated by what changed since the snapshot before.

An index follows the tuples of its kind: objects that are gone are taken out and objects that were added are put in. An
index from scratch is an empty one that follows its first tuple, so there is no second way to fill it.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Hashable, Iterator
from typing import Generic, TypeVar

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

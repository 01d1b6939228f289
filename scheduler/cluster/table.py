"""`Table`: the objects of one kind by key, with a sorted tuple; sums by key without zeros, changed keys, `expect`."""

from bisect import bisect_left
from collections.abc import Mapping
from typing import Generic, TypeVar

from solver.domain import ClaimId, PodId

_K = TypeVar("_K")


def add(amounts: dict[_K, int], key: _K, amount: int) -> None:
    """Add to the amount of a key; a zero is removed, so that equal sums are equal dictionaries."""
    total = amounts.get(key, 0) + amount
    if total:
        amounts[key] = total
    else:
        amounts.pop(key, None)


def changed_keys(before: Mapping[_K, object], after: Mapping[_K, object]) -> set[_K]:
    """Return the keys that were added, removed or have another value."""
    return {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}


T = TypeVar("T")


def expect(value: object | None, kind: type[T]) -> T | None:
    """Return the value of a change. Raise `TypeError` where it is not of the change's kind."""
    if value is None or isinstance(value, kind):
        return value
    raise TypeError(f"a change of a {kind.__name__} carries a {type(value).__name__}: decode it as its own kind")


K = TypeVar("K", str, PodId, ClaimId)
V = TypeVar("V")


class Table(Generic[K, V]):
    """
    Objects by key, with their sorted tuple, which is cached until something changes.

    `replace` takes O(log n) comparisons, and moves pointers if the set of keys changes. `values` copies n pointers
    after a change and is free otherwise.
    """

    __slots__ = ("_by_key", "_frozen", "_keys", "_values")

    def __init__(self) -> None:
        self._by_key: dict[K, V] = {}
        self._keys: list[K] = []
        self._values: list[V] = []
        self._frozen: tuple[V, ...] | None = ()

    def __len__(self) -> int:
        return len(self._keys)

    def __contains__(self, key: object) -> bool:
        return key in self._by_key

    def get(self, key: K) -> V | None:
        """Return the object of a key, or None."""
        return self._by_key.get(key)

    def values(self) -> tuple[V, ...]:
        """Return all objects, sorted by key."""
        if self._frozen is None:
            self._frozen = tuple(self._values)
        return self._frozen

    def replace(self, key: K, value: V | None) -> None:
        """Set the object of a key, or remove it if the value is None."""
        index = bisect_left(self._keys, key)
        if key in self._by_key:
            if value is None:
                del self._by_key[key], self._keys[index], self._values[index]
            else:
                self._by_key[key] = self._values[index] = value
        elif value is not None:
            self._by_key[key] = value
            self._keys.insert(index, key)
            self._values.insert(index, value)
        self._frozen = None

"""
A least recently used cache that is bounded in bytes.

Users write the keys and values of the solver's caches, so a number of entries would bound nothing. Sizes are estimates:
an object that several entries share counts for each of them.
"""

from collections import OrderedDict
from collections.abc import Iterator, MutableMapping
from typing import Any, Final, TypeVar

import msgspec
import numpy as np

K = TypeVar("K")
V = TypeVar("V")

MIB: Final = 1024 * 1024
_HEAD: Final = 56
_SLOT: Final = 8


class BoundedCache(MutableMapping[K, V]):
    """
    A mapping that drops least recently used entries beyond `most_bytes`; the newest entry stays.

    With `patient` it drops entries in `trim` only, so that a decision keeps all that it uses.
    """

    def __init__(self, most_bytes: int, *, patient: bool = False) -> None:
        """Start empty."""
        self.most_bytes = most_bytes
        self.bytes = 0
        self._patient = patient
        self._entries: OrderedDict[K, tuple[V, int]] = OrderedDict()

    def __getitem__(self, key: K) -> V:
        """Return an entry and mark it as used; raise KeyError."""
        found = self._entries[key]
        self._entries.move_to_end(key)
        return found[0]

    def __contains__(self, key: object) -> bool:
        """Whether there is an entry; does not mark it as used."""
        return key in self._entries

    def __setitem__(self, key: K, value: V) -> None:
        """Store an entry."""
        self.put(key, value, bytes_of(value))

    def put(self, key: K, value: V, size: int) -> None:
        """Store an entry whose value has a known size in bytes."""
        self.pop(key, None)
        size += bytes_of(key)
        self._entries[key] = (value, size)
        self.bytes += size
        if not self._patient:
            self.trim()

    def __delitem__(self, key: K) -> None:
        """Drop an entry; raise KeyError."""
        self.bytes -= self._entries.pop(key)[1]

    def __iter__(self) -> Iterator[K]:
        """Return the keys, least recently used first."""
        return iter(tuple(self._entries))

    def __len__(self) -> int:
        """How many entries there are."""
        return len(self._entries)

    def trim(self) -> None:
        """Drop least recently used entries until the rest fits `most_bytes`."""
        while self.bytes > self.most_bytes and len(self._entries) > 1:
            self.bytes -= self._entries.popitem(last=False)[1][1]


def bytes_of(value: object) -> int:
    """Estimate the bytes of a value with all its parts."""
    total, rest = 0, [value]
    while rest:
        each: Any = rest.pop()
        if isinstance(each, str | bytes):
            total += _HEAD + len(each)
        elif isinstance(each, np.ndarray):
            total += 2 * _HEAD + each.nbytes
        elif isinstance(each, tuple | list | set | frozenset):
            total += _HEAD + _SLOT * len(each)
            rest.extend(each)
        elif isinstance(each, dict):
            total += 2 * _HEAD + 3 * _SLOT * len(each)
            rest.extend(each)
            rest.extend(each.values())
        elif isinstance(each, msgspec.Struct):
            total += _HEAD
            rest.extend(getattr(each, name) for name in each.__struct_fields__)
        else:
            names = getattr(each, "__slots__", ())
            total += _HEAD
            rest.extend(getattr(each, name) for name in names if hasattr(each, name))
    return total

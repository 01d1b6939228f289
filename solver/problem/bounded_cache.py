"""
Memory bounded in bytes: what was used least recently goes first.

What users write are keys and values of what the solver remembers, so that numbers of entries bound nothing. Sizes are
estimates: what several entries share counts for each of them.
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
    A mapping that forgets what was used least recently once it holds more than `most_bytes`; the newest entry stays.

    One that is `patient` forgets in `trim` only: a decision keeps what it uses, however much that is.
    """

    def __init__(self, most_bytes: int, *, patient: bool = False) -> None:
        """Start empty."""
        self.most_bytes = most_bytes
        self.bytes = 0
        self._patient = patient
        self._entries: OrderedDict[K, tuple[V, int]] = OrderedDict()

    def __getitem__(self, key: K) -> V:
        """Give an entry, which counts as used; raise KeyError."""
        found = self._entries[key]
        self._entries.move_to_end(key)
        return found[0]

    def __contains__(self, key: object) -> bool:
        """Whether there is an entry; that is no use of it."""
        return key in self._entries

    def __setitem__(self, key: K, value: V) -> None:
        """Remember an entry."""
        self.put(key, value, bytes_of(value))

    def put(self, key: K, value: V, size: int) -> None:
        """Remember an entry whose value has a known size in bytes."""
        self.pop(key, None)
        size += bytes_of(key)
        self._entries[key] = (value, size)
        self.bytes += size
        if not self._patient:
            self.trim()

    def __delitem__(self, key: K) -> None:
        """Forget an entry; raise KeyError."""
        self.bytes -= self._entries.pop(key)[1]

    def __iter__(self) -> Iterator[K]:
        """Give the keys, those used least recently first."""
        return iter(tuple(self._entries))

    def __len__(self) -> int:
        """How many entries there are."""
        return len(self._entries)

    def trim(self) -> None:
        """Forget what was used least recently while there is too much."""
        while self.bytes > self.most_bytes and len(self._entries) > 1:
            self.bytes -= self._entries.popitem(last=False)[1][1]


def bytes_of(value: object) -> int:
    """Estimate the bytes of a value and of all that it is made of."""
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

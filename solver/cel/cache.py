"""A cache with a limit in bytes."""

from collections.abc import Callable, Hashable
from threading import Lock
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class GenerationalCache(Generic[K, V]):
    """
    A cache of two generations, each with at most half of the bytes.

    A lookup moves an entry to the young generation. When that is full, the old generation is dropped: it holds only
    entries without a lookup since the last drop, so a flood of new keys does not push out entries in use. Threads may
    share a cache. `size_of` gives the bytes of a key and its value. Callers may read `young` first, to save a call.
    """

    def __init__(self, most_bytes: int, size_of: Callable[[K, V], int]) -> None:
        self._half_bytes = most_bytes // 2
        self._size_of = size_of
        self.young: dict[K, V] = {}
        self._old: dict[K, V] = {}
        self._young_bytes = 0
        self._old_bytes = 0
        self._lock = Lock()

    @property
    def bytes(self) -> int:
        """The bytes of all entries."""
        return self._young_bytes + self._old_bytes

    def get(self, key: K) -> V | None:
        """Return the value of a key, or None."""
        value = self.young.get(key)
        if value is None:
            value = self._old.get(key)
            if value is not None:
                self.put(key, value)
        return value

    def put(self, key: K, value: V) -> None:
        """Add a value (not None) under a new key; a value larger than a generation is not added."""
        size = self._size_of(key, value)
        if size > self._half_bytes:
            return
        if self._young_bytes + size > self._half_bytes:
            self._begin_generation(size)
        self._young_bytes += size  # a race of two threads miscounts an entry until the next generation
        self.young[key] = value

    def _begin_generation(self, size: int) -> None:
        with self._lock:
            if self._young_bytes + size > self._half_bytes:  # another thread may have begun it
                self._old, self._old_bytes = self.young, self._young_bytes
                self.young, self._young_bytes = {}, 0

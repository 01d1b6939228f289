"""A cache bounded in bytes, for what is shared by all pods of a process."""

from collections.abc import Callable, Hashable
from threading import Lock
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class GenerationalCache(Generic[K, V]):
    """
    Remembers values in two generations, each at most half of the bytes.

    What is asked for moves to the young one. When that is full the old one goes, and with it only what was not asked
    for since the last time: a flood of new keys cannot push out what is in use. Threads may share it. `size_of` gives
    the bytes of a key and its value. Where a call is too slow, `young` may be read first.
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
        """What it holds now."""
        return self._young_bytes + self._old_bytes

    def get(self, key: K) -> V | None:
        """Give what is remembered under a key, or None."""
        value = self.young.get(key)
        if value is None:
            value = self._old.get(key)
            if value is not None:
                self.put(key, value)
        return value

    def put(self, key: K, value: V) -> None:
        """Remember a value (not None) under a new key. One larger than a generation is not remembered."""
        size = self._size_of(key, value)
        if size > self._half_bytes:
            return
        if self._young_bytes + size > self._half_bytes:
            self._begin_generation(size)
        self._young_bytes += size  # threads that put at once may miscount an entry, until the next generation
        self.young[key] = value

    def _begin_generation(self, size: int) -> None:
        with self._lock:
            if self._young_bytes + size > self._half_bytes:  # no other thread was quicker
                self._old, self._old_bytes = self.young, self._young_bytes
                self.young, self._young_bytes = {}, 0

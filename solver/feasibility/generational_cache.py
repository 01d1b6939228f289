"""A cache bounded in bytes, for what is shared by all pods of a process."""

from collections.abc import Hashable
from threading import Lock
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class GenerationalCache(Generic[K, V]):
    """
    Remembers values in two generations, each at most half of the bytes.

    What is asked for moves to the young one. When that is full the old one goes, and with it only what was not asked
    for since the last time: a flood of new keys cannot push out what is in use. Threads may share it.
    """

    def __init__(self, most_bytes: int) -> None:
        self._half_bytes = most_bytes // 2
        self._young: dict[K, tuple[V, int]] = {}
        self._old: dict[K, tuple[V, int]] = {}
        self._young_bytes = 0
        self._old_bytes = 0
        self._lock = Lock()

    @property
    def bytes(self) -> int:
        """What it holds now, by the sizes that it was given."""
        return self._young_bytes + self._old_bytes

    def get(self, key: K) -> V | None:
        """Give what is remembered under a key, or None."""
        entry = self._young.get(key)
        if entry is None:
            entry = self._old.get(key)
            if entry is None:
                return None
            self.put(key, *entry)
        return entry[0]

    def put(self, key: K, value: V, size: int) -> None:
        """Remember a value; `size` is its and its key's, in bytes. One larger than a generation is not remembered."""
        if size > self._half_bytes:
            return
        with self._lock:
            if self._young_bytes + size > self._half_bytes:
                self._old, self._old_bytes = self._young, self._young_bytes
                self._young, self._young_bytes = {}, 0
            previous = self._young.get(key)
            self._young[key] = (value, size)
            self._young_bytes += size - (previous[1] if previous is not None else 0)

"""A queue with classes of writes that is fair between namespaces."""

from collections.abc import Collection, Hashable, Iterable
from enum import IntEnum
from typing import Final, Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class WriteClass(IntEnum):
    """Why something is written; see `status_queue`."""

    FIRST = 0
    CHANGED = 1
    EVENT = 2
    REFRESH = 3
    RENEWAL = 4


class FairQueue(Generic[K, V]):
    """Values by key and class; within a class round robin over namespaces, and first in, first out in each of them."""

    def __init__(self) -> None:
        self._waiting: Final = {each: dict[str, dict[K, V]]() for each in WriteClass}
        """By class and namespace, the namespace whose turn is next first; no namespace is empty."""
        self._places: Final[dict[K, tuple[WriteClass, str]]] = {}
        self._counts: Final = dict.fromkeys(WriteClass, 0)

    def count(self, of: WriteClass) -> int:
        """Return the number of values of a class."""
        return self._counts[of]

    def get(self, key: K) -> V | None:
        """Return a value, None where it is not here."""
        if key not in self._places:
            return None
        write_class, namespace = self._places[key]
        return self._waiting[write_class][namespace][key]

    def put(self, write_class: WriteClass, namespace: str, key: K, value: V) -> None:
        """Add a value, or replace it; it keeps its place unless its class has changed."""
        if self._places.get(key) != (write_class, namespace):
            self.pop(key)
            self._places[key] = write_class, namespace
            self._counts[write_class] += 1
        self._waiting[write_class].setdefault(namespace, {})[key] = value

    def pop(self, key: K) -> V | None:
        """Remove a value, if it is here."""
        if key not in self._places:
            return None
        write_class, namespace = self._places.pop(key)
        self._counts[write_class] -= 1
        waiting = self._waiting[write_class][namespace]
        value = waiting.pop(key)
        if not waiting:
            del self._waiting[write_class][namespace]
        return value

    def namespaces(self, of: WriteClass) -> Iterable[str]:
        """Return the namespaces that have values of a class, the one whose turn is next first."""
        return self._waiting[of].keys()

    def take(self, of: WriteClass, without: Collection[str] = ()) -> V | None:
        """Remove the first value of the namespace whose turn it is; namespaces among `without` have no turn."""
        waiting = self._waiting[of]
        namespace = next((each for each in waiting if each not in without), None)
        if namespace is None:
            return None
        value = self.pop(next(iter(waiting[namespace])))
        if namespace in waiting:
            waiting[namespace] = waiting.pop(namespace)
        return value

    def drop(self, of: WriteClass) -> None:
        """Remove the oldest value of the namespace that has most of a class, which must not be empty."""
        waiting = self._waiting[of]
        most = max(waiting, key=lambda namespace: len(waiting[namespace]))
        self.pop(next(iter(waiting[most])))

"""A queue in which namespaces take turns: however much one of them has waiting, the others wait no longer for it."""

from collections.abc import Collection, Hashable, Iterable
from typing import Final, Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class FairQueue(Generic[K, V]):
    """Values by key, first come first served within a namespace; a value that is put again keeps its place."""

    def __init__(self) -> None:
        self._waiting: Final[dict[str, dict[K, V]]] = {}
        """By namespace, the one whose turn is next first; none of them is empty."""
        self._namespaces: Final[dict[K, str]] = {}

    def __len__(self) -> int:
        """How many values wait."""
        return len(self._namespaces)

    def get(self, key: K) -> V | None:
        """Give a value that waits."""
        namespace = self._namespaces.get(key)
        return None if namespace is None else self._waiting[namespace][key]

    def put(self, namespace: str, key: K, value: V) -> None:
        """Let a value wait."""
        self._waiting.setdefault(namespace, {})[key] = value
        self._namespaces[key] = namespace

    def pop(self, key: K) -> V | None:
        """Take a value out, if it waits."""
        namespace = self._namespaces.get(key)
        return None if namespace is None else self._out(namespace, key)

    @property
    def namespaces(self) -> Iterable[str]:
        """The namespaces of which something waits."""
        return self._waiting.keys()

    def has(self, without: Collection[str]) -> bool:
        """Whether something waits of a namespace that is none of these."""
        return any(namespace not in without for namespace in self._waiting)

    def take(self, without: Collection[str] = ()) -> V:
        """
        Take the first value of the namespace whose turn it is.

        Namespaces that are among `without` have no turn. Raise StopIteration where nothing waits of any other.
        """
        namespace = next(each for each in self._waiting if each not in without)
        value = self._out(namespace, next(iter(self._waiting[namespace])))
        if namespace in self._waiting:
            self._waiting[namespace] = self._waiting.pop(namespace)
        return value

    def drop(self) -> V:
        """Take the oldest value of the namespace that has most of them; raise ValueError where none waits."""
        most = max(self._waiting, key=lambda namespace: len(self._waiting[namespace]))
        return self._out(most, next(iter(self._waiting[most])))

    def _out(self, namespace: str, key: K) -> V:
        del self._namespaces[key]
        waiting = self._waiting[namespace]
        value = waiting.pop(key)
        if not waiting:
            del self._waiting[namespace]
        return value

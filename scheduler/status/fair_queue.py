"""A queue in which namespaces take turns: however much one of them has waiting, the others wait no longer for it.

How fast the first words about a namespace's pods are written: by the size of the pods, which the API server handles.

The generic cell rate algorithm, a token bucket of bytes for each namespace. What a write costs is known from its
answer, which is the whole pod, so that it is paid afterwards: a namespace that is in debt waits.
"""

from collections.abc import Collection, Hashable, Iterable
from typing import Final, Generic, TypeVar

_BYTES_PER_SECOND: Final = 512 * 1024
"""Some 60 usual pods a second; writing into one of 40 KiB takes the API server several milliseconds."""
_BURST_BYTES: Final = 2 * 1024 * 1024
_SLACK: Final = 64
"""Namespaces whose debts may be kept although they are paid by now."""


class ByteRateLimit:
    """Remembers by namespace until when what was written is paid for, in seconds of the caller's clock."""

    def __init__(self) -> None:
        self._paid_at: Final[dict[str, float]] = {}

    def spend(self, namespace: str, size: int, now: float) -> None:
        """Note a write about a pod of so many bytes."""
        self._paid_at[namespace] = max(now, self._paid_at.get(namespace, now)) + size / _BYTES_PER_SECOND
        if len(self._paid_at) > _SLACK and min(self._paid_at.values()) <= now:
            for paid in [each for each, at in self._paid_at.items() if at <= now]:
                del self._paid_at[paid]

    def wait_seconds(self, namespace: str, now: float) -> float:
        """Give the seconds until a first word about a pod of a namespace may be written; 0 for now."""
        return max(0.0, self._paid_at.get(namespace, now) - _BURST_BYTES / _BYTES_PER_SECOND - now)

    def in_debt(self, now: float) -> frozenset[str]:
        """Give the namespaces that have to wait."""
        return frozenset(each for each in self._paid_at if self.wait_seconds(each, now) > 0.0)


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

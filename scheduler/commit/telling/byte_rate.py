"""
How fast the first words about a namespace's pods are written: by the size of the pods, which the API server handles.

The generic cell rate algorithm, a token bucket of bytes for each namespace. What a write costs is known from its
answer, which is the whole pod, so that it is paid afterwards: a namespace that is in debt waits.
"""

from typing import Final

_BYTES_PER_SECOND: Final = 512 * 1024
"""Some 60 usual pods a second; writing into one of 40 KiB takes the API server several milliseconds."""
_BURST_BYTES: Final = 2 * 1024 * 1024
_SLACK: Final = 64
"""Namespaces whose debts may be kept although they are paid by now."""


class ByteRate:
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

"""Keeps what was read of objects that are not watched, for a few seconds, so that many pods read it once."""

from collections.abc import Awaitable, Callable
from typing import Final, Generic, TypeVar

_KNOWN_SECONDS: Final = 10.0
_MOST_KNOWN: Final = 1000

Key = TypeVar("Key")
Answer = TypeVar("Answer")


class RecentAnswers(Generic[Key, Answer]):
    """Answers of `read` by key; one that is ten seconds old is read again."""

    def __init__(self, read: Callable[[Key], Awaitable[Answer]], clock: Callable[[], float]) -> None:
        self._read: Final = read
        self._clock: Final = clock
        self._known: Final[dict[Key, tuple[Answer, float]]] = {}
        """The answer, and when it was read."""

    async def of(self, key: Key) -> Answer:
        """Return the answer for a key. Raises what `read` raises; nothing is kept then."""
        known = self._known.get(key)
        if known is not None and self._clock() - known[1] < _KNOWN_SECONDS:
            return known[0]
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
        answer = await self._read(key)
        self._known[key] = answer, self._clock()
        return answer

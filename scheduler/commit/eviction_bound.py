"""The bound on evictions per minute, which also holds where one leader follows another."""

import math
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from typing import Annotated, Final, NamedTuple, Protocol

import msgspec

_WINDOW_SECONDS: Final = 60.0

_Whole = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
_decoder: Final = msgspec.json.Decoder(dict[str, list[tuple[_Whole, _Whole]]])


class Record(Protocol):
    """Where a leader leaves a text for the next one: the Lease."""

    @property
    def inherited(self) -> str:
        """What leaders before this one left; empty: nothing."""
        ...

    async def hand_down(self, record: str) -> None:
        """Leave a text. Raises KubeError where it may not be there."""
        ...


class _Spent(NamedTuple):
    """So many evictions: when by the monotonic clock, and in whole seconds since the epoch, rounded up."""

    at: float
    when: int
    pods: int


class Bound:
    """
    What was evicted within the last minute, by profile, in this process and by leaders before it.

    Times that another leader has written are compared with `wall` (seconds since the epoch): what is off between the
    clocks of two machines is off here. Without a record nothing is known of earlier processes.
    """

    def __init__(self, record: Record | None, clock: Callable[[], float], wall: Callable[[], float]) -> None:
        self._record: Final = record
        self._clock: Final = clock
        self._wall: Final = wall
        self._recent: Final[defaultdict[str, deque[_Spent]]] = defaultdict(deque)
        self._kept = record.inherited if record is not None else ""
        for profile, spent in self._read():
            self._recent[profile].append(spent)

    def left(self, profile: str, ceiling: int) -> int:
        """How many more may be evicted now."""
        recent, now = self._recent[profile], self._clock()
        while recent and recent[0].at <= now - _WINDOW_SECONDS:
            recent.popleft()
        return max(0, ceiling - sum(each.pods for each in recent))

    def spend(self, profile: str, count: int) -> None:
        """Count evictions that are about to be made."""
        self._recent[profile].append(_Spent(self._clock(), math.ceil(self._wall()), count))

    async def keep(self) -> None:
        """Have all that was spent recorded before it is made use of. Raises KubeError where it may not be."""
        if self._record is None:
            return
        text = self._text()
        if text != self._kept:
            await self._record.hand_down(text)
            self._kept = text

    def _text(self) -> str:
        oldest = self._clock() - _WINDOW_SECONDS
        rows = {
            profile: [(each.when, each.pods) for each in spent if each.at > oldest]
            for profile, spent in sorted(self._recent.items())
        }
        return msgspec.json.encode({profile: each for profile, each in rows.items() if each}).decode()

    def _read(self) -> Iterator[tuple[str, _Spent]]:
        """Read what was left for us; what nobody of ours has written is not read."""
        try:
            rows = _decoder.decode(self._kept or "{}")
        except msgspec.MsgspecError:
            return
        now, wall = self._clock(), self._wall()
        for profile, spent in rows.items():
            for when, count in spent:
                yield profile, _Spent(now - max(0.0, wall - when), when, count)

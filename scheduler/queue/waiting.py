"""The lines of pods that wait, by reason, and which of them were woken."""

from collections.abc import Iterable
from typing import Final

from scheduler.queue.entry import Entry
from scheduler.queue.line import Line, Rank
from solver.domain import ReasonCode


class Waiting:
    """
    Lines by reason. To wake a reason marks its whole line, whatever its length.

    Who comes to wait for it later stands in a new line. Wake-ups and batches are numbered in one sequence; `last` has
    the number of the last wake-up of each reason.
    """

    def __init__(self) -> None:
        self.last: Final[dict[ReasonCode, int]] = {}
        self._number = 0
        self._lines: Final[dict[ReasonCode, Line[Rank]]] = {}
        self._singly: Final[Line[Rank]] = Line()
        self._woken: list[Line[Rank]] = [self._singly]

    def count(self) -> int:
        """Begin the next wake-up or batch, and give its number."""
        self._number += 1
        return self._number

    def enter(self, entry: Entry, codes: Iterable[ReasonCode]) -> None:
        """Let a pod stand in the lines of these reasons too."""
        for code in codes:
            line = self._lines.setdefault(code, Line())
            if entry.pod.id not in line:
                enter(entry, line)

    def wake(self, code: ReasonCode) -> None:
        """Wake who waits for a reason, as part of the wake-up that was begun last."""
        self.last[code] = self._number
        if line := self._lines.pop(code, None):
            self._woken.append(line)

    def wake_singly(self, entry: Entry) -> None:
        """Wake one pod."""
        if entry.pod.id not in self._singly:
            enter(entry, self._singly)

    def is_woken_singly(self, entry: Entry) -> bool:
        """Whether a pod was woken by itself."""
        return entry.pod.id in self._singly

    def first_woken(self) -> Rank | None:
        """Give the first of those that were woken and still stand in a line."""
        heads = (line.head() for line in self._woken)
        return min((rank for rank in heads if rank is not None), default=None)

    def has_woken(self) -> bool:
        """Whether anybody was woken and still stands in a line."""
        return any(self._woken)

    def drop_empty(self) -> None:
        """Forget woken lines that everybody has left."""
        self._woken = [self._singly, *(line for line in self._woken[1:] if line)]


def enter(entry: Entry, line: Line[Rank]) -> None:
    """Let a pod stand in one line more."""
    line.add(entry.pod.id, entry.rank)
    entry.lines.append(line)

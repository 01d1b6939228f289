"""
Watches the scheduler's event loop: its longest stretches without a turn for others, and what ran in them.

The loop beats ten times a second. A thread looks at the loop's stack when a beat is overdue, and again while it is.
What ran is the innermost module of Dovetail that most looks show, and the kind of object that it was about. A stretch
counts from when a beat was due: it may have begun up to 0.1 s before.
"""

import asyncio
import contextlib
import gc
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Final, NamedTuple

from scheduler.change import Kind
from scheduler.observe import logs
from scheduler.observe.metrics import Metrics

_BEAT_SECONDS: Final = 0.1
_OVERDUE_SECONDS: Final = 0.05
_SHORTEST_SECONDS: Final = 0.1
"""The shortest stretch that is reported: one that long has been looked at."""
_LOGGED_SECONDS: Final = 0.5
_LOG_PAUSE_SECONDS: Final = 10.0
_HANGS_SECONDS: Final = 5.0
"""A stretch is reported once before it ends when it is this long: it may have no end."""
_WINDOW_SECONDS: Final = 120.0
"""How long a stretch is shown: more than one interval of scrapes."""
_MOST_SHOWN: Final = 32
"""The most pairs of labels at once; further ones count as other."""
_OURS: Final = ("scheduler.", "solver.")
_OUTER: Final = ("scheduler.run", "scheduler.cli", "scheduler.__main__", "scheduler.observe.loop_watch")
_OTHER: Final = "other"
_COLLECTOR: Final = "gc"
_NOTHING: Final = (_OTHER, "")
"""The labels that are always there."""

_log: Final = logs.logger()


class Running(NamedTuple):
    """
    What a look at the stack shows: the innermost module of Dovetail, the kind of object, and all modules from outside.

    `module` is "other" where the loop runs nothing of Dovetail: it waits for CPU time, or a library works.
    """

    module: str = _OTHER
    kind: str = ""
    stack: tuple[str, ...] = ()

    @classmethod
    def of(cls, frame: FrameType | None) -> "Running":
        """Read a stack from its innermost frame."""
        modules, kind = list[str](), ""
        while frame is not None:
            name = str(frame.f_globals.get("__name__", ""))
            if name.startswith(_OURS) and not name.startswith(_OUTER):
                if not modules or modules[-1] != name:
                    modules.append(name)
                kind = kind or _kind(frame)
            frame = frame.f_back
        return cls(modules[0], kind, tuple(reversed(modules))) if modules else cls()


class Stretch(NamedTuple):
    """A time without a beat: when one was due, how late it is, the loop's CPU time, and whether it has ended."""

    due: float
    seconds: float
    cpu_seconds: float
    has_ended: bool = True


class LoopWatch:
    """
    Watches the event loop that runs `watching`.

    All but the beats happens in a thread: series and log lines too, so that a loop that never comes back is seen.
    """

    def __init__(self, metrics: Metrics, clock: Callable[[], float] = time.monotonic) -> None:
        self._series: Final = metrics.event_loop_longest
        self._clock: Final = clock
        self._due = clock() + _BEAT_SECONDS
        self._cpu_seconds = 0.0
        self._ended: Final[deque[Stretch]] = deque(maxlen=64)
        self._looks: Counter[Running] = Counter()
        self._looked_at = 0.0
        """The beat that was due at the looks."""
        self._hung_since = 0.0
        """The beat that was due when a stretch was reported that had not ended."""
        self._collected = self._collection_began = 0.0
        self._shown: Final[dict[tuple[str, str], tuple[float, float]]] = {}
        """What is shown of each module and kind: seconds, and until when."""
        self._next_log = float("-inf")
        self._unlogged = 0
        self._stop: Final = threading.Event()

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Watch the running event loop for the block."""
        loop, loop_thread = asyncio.get_running_loop(), threading.get_ident()
        handle: asyncio.TimerHandle

        def beat() -> None:
            nonlocal handle
            self._beat()
            handle = loop.call_later(_BEAT_SECONDS, beat)

        self._due = self._clock() + _BEAT_SECONDS
        handle = loop.call_later(_BEAT_SECONDS, beat)
        gc.callbacks.append(self._note_collection)
        thread = threading.Thread(target=self._watch, args=(loop_thread,), name="loop-watch", daemon=True)
        thread.start()
        try:
            yield
        finally:
            handle.cancel()
            gc.callbacks.remove(self._note_collection)
            self._stop.set()
            thread.join()

    def _beat(self) -> None:
        now, cpu_seconds = self._clock(), time.thread_time()
        if (late := now - self._due) >= _SHORTEST_SECONDS:
            self._ended.append(Stretch(self._due, late, cpu_seconds - self._cpu_seconds))
        self._due, self._cpu_seconds = now + _BEAT_SECONDS, cpu_seconds

    def _note_collection(self, phase: str, _: object) -> None:
        """Sum up the garbage collector's time, which stops all threads."""
        if phase == "start":
            self._collection_began = self._clock()
        elif (seconds := self._clock() - self._collection_began) >= _OVERDUE_SECONDS:
            self._collected += seconds

    # the thread

    def _watch(self, loop_thread: int) -> None:
        pause = _OVERDUE_SECONDS
        while not self._stop.wait(pause):
            pause = self.look(lambda: sys._current_frames().get(loop_thread))  # noqa: SLF001 - documented

    def look(self, stack: Callable[[], FrameType | None]) -> float:
        """Look at the loop's stack if a beat is overdue; return the seconds until the next look."""
        now, due = self._clock(), self._due
        while self._ended:
            stretch = self._ended.popleft()
            ran = self._ran(stretch)
            self._collected = 0.0
            self._show(ran, stretch.seconds, now)
            if stretch.seconds >= _LOGGED_SECONDS:
                self._log(stretch, ran, now)
        late = now - due
        if late < _OVERDUE_SECONDS:
            self._drop_old(now)
            return _OVERDUE_SECONDS - min(late, 0.0)
        if due != self._looked_at:
            self._looked_at, self._looks = due, Counter()
        self._looks[Running.of(stack())] += 1
        stretch = Stretch(due, late, 0.0, has_ended=False)
        self._show(self._ran(stretch), late, now)
        if late >= _HANGS_SECONDS and self._hung_since != due:
            self._hung_since = due
            self._log(stretch, self._ran(stretch), now)
        return max(_OVERDUE_SECONDS, late / 4)

    def _ran(self, stretch: Stretch) -> Running:
        """Return what most looks at a stretch have shown."""
        if self._collected >= stretch.seconds / 2:
            return Running(_COLLECTOR)
        return self._looks.most_common(1)[0][0] if self._looks and stretch.due == self._looked_at else Running()

    def _show(self, ran: Running, seconds: float, now: float) -> None:
        labels = ran.module, ran.kind
        if labels not in self._shown and len(self._shown) >= _MOST_SHOWN:
            labels = _NOTHING
        before, until = self._shown.get(labels, (0.0, 0.0))
        if seconds >= max(before if now <= until else 0.0, _SHORTEST_SECONDS):
            self._shown[labels] = seconds, now + _WINDOW_SECONDS
            self._series.labels(*labels).set(seconds)

    def _drop_old(self, now: float) -> None:
        for labels in [each for each, (_, until) in self._shown.items() if now > until]:
            del self._shown[labels]
            if labels == _NOTHING:
                self._series.labels(*labels).set(0)
            else:
                self._series.remove(*labels)

    def _log(self, stretch: Stretch, ran: Running, now: float) -> None:
        """Log a stretch; of many only a few, with the number of those in between."""
        if stretch.has_ended and now < self._next_log:
            self._unlogged += 1
            return
        _log.warning(
            logs.EVENT_LOOP_STALLED,
            module=ran.module,
            kind=ran.kind,
            seconds=round(stretch.seconds, 2),
            cpu_seconds=round(stretch.cpu_seconds, 2) if stretch.has_ended else None,
            stack=" > ".join(ran.stack),
            has_ended=stretch.has_ended,
            unlogged=self._unlogged,
        )
        self._next_log, self._unlogged = now + _LOG_PAUSE_SECONDS, 0


def _kind(frame: FrameType) -> str:
    """Return the kind of object that a frame is about, "" where it does not say. Runs no code of objects."""
    names = frame.f_locals
    owners = (names.get("self"), names.get("change"))
    for value in (names.get("kind"), *(getattr(each, "__dict__", {}).get("kind") for each in owners)):
        if isinstance(value, Kind):
            return value.value
    return ""

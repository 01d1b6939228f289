"""
Unexpected exceptions: logged once with their traceback, counted, and confined to the object that caused them.

The exception of a task that is never awaited is lost, and a loop that raises ends the process. So the shell starts its
background tasks through `Tasks`, and its loops handle each object in a `Confined` block.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Final, TypeVar

from scheduler.observe import logs
from scheduler.observe.metrics import Metrics, Subsystem
from scheduler.observe.tracebacks import traceback_text

T = TypeVar("T")

_PAUSE_SECONDS: Final = 1.0
"""Before a loop begins again that an unexpected exception has ended."""

_log: Final = logs.logger()


def note(metrics: Metrics, part: Subsystem, error: BaseException, **about: object) -> None:
    """Log an exception with its traceback and count it; `about` names the objects."""
    _log.error(logs.DEFECT, part=part, error=traceback_text(error), **about)
    metrics.defects.labels(part).inc()


class Confined:
    """A block whose exceptions are logged and suppressed, except `passing` ones and cancellation."""

    def __init__(
        self, metrics: Metrics, part: Subsystem, *, passing: tuple[type[Exception], ...] = (), **about: object
    ) -> None:
        """`about` names the objects of the block in the log."""
        self._metrics: Final = metrics
        self._part: Final = part
        self._passing: Final = passing
        self._about: Final = about

    def __enter__(self) -> None:
        """Begin the block."""

    def __exit__(self, _: object, error: BaseException | None, trace: object) -> bool:
        """Log and suppress an unexpected exception; return whether there was one."""
        if not isinstance(error, Exception) or isinstance(error, self._passing):
            return False
        note(self._metrics, self._part, error, **self._about)
        return True


class Tasks:
    """Background tasks; each unexpected exception is logged and counted."""

    def __init__(self, metrics: Metrics, part: Subsystem, on_end: Callable[[], None] | None = None) -> None:
        """`on_end` is called whenever a task ends."""
        self._metrics: Final = metrics
        self._part: Final = part
        self._on_end: Final = on_end
        self._tasks: Final[set[asyncio.Task[None]]] = set()

    def __len__(self) -> int:
        """Return the number of running tasks."""
        return len(self._tasks)

    def begin(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine in a new task."""
        task = asyncio.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    async def finish(self, seconds: float = 0.0) -> bool:
        """Wait at most `seconds` for all tasks, then cancel the rest; return whether none was cancelled."""
        if self._tasks and seconds > 0:
            await asyncio.wait(self._tasks, timeout=seconds)
        rest = tuple(self._tasks)
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)  # `_ended` reads what they raise
        return not rest

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            note(self._metrics, self._part, error)
        if self._on_end is not None:
            self._on_end()


async def kept_running(loop: Callable[[], Coroutine[Any, Any, None]], metrics: Metrics, part: Subsystem) -> None:
    """
    Run a loop until it returns: where an unexpected exception ends it, it begins again after a pause.

    A loop that lives through the exceptions of its objects needs this only for what belongs to no object.
    """
    while True:
        with Confined(metrics, part):
            await loop()
            return
        await asyncio.sleep(_PAUSE_SECONDS)


async def together(coroutines: Iterable[Coroutine[Any, Any, T]]) -> tuple[T, ...]:
    """
    Run all coroutines to their end and return their results, in order.

    An error is raised only when all have ended: a roll-back must know the result of every write.
    """
    pending = tuple(coroutines)
    if len(pending) == 1:
        return (await pending[0],)
    results = await asyncio.gather(*pending, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return tuple(results)  # type: ignore[arg-type]  # the exceptions among them were raised above

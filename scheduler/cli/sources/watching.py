"""`--watch`: asks again and prints what has changed, until Ctrl-C."""

import sys
import time
from collections.abc import Callable
from typing import Final, TextIO, TypeVar

Answer = TypeVar("Answer")

_LEAST_SECONDS: Final = 2.0
_MOST_SHARE: Final = 0.1
"""The most of the time that asking may take, so that a watch is no load on the API server."""
_CLEAR: Final = "\x1b[H\x1b[2J"


def shown(ask: Callable[[], Answer], show: Callable[[Answer], object], *, is_watched: bool) -> Answer:
    """Ask, show and return the answer; where it is watched go on for ever, as `watch`."""
    if is_watched:
        watch(ask, show)
    answer = ask()
    show(answer)
    return answer


def watch(
    ask: Callable[[], Answer],
    show: Callable[[Answer], object],
    to: TextIO = sys.stdout,
    *,
    sleep: Callable[[float], object] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """
    Show an answer, and again whenever it differs from the one before; on a terminal it replaces that one.

    It ends only by an exception: that of `ask`, or the KeyboardInterrupt of Ctrl-C.
    """
    last: Answer | None = None
    while True:
        started = clock()
        answer = ask()
        if answer != last:
            to.write(_CLEAR if to.isatty() else "")
            show(answer)
            to.flush()
            last = answer
        sleep(max(_LEAST_SECONDS, (clock() - started) / _MOST_SHARE))

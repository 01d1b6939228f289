"""Tracebacks as texts of a bounded length: an exception may quote a user's text of any length."""

import traceback
from typing import Final

from scheduler.unreadable import cut

FRAMES: Final = 20
"""The most innermost frames of an exception."""


class LongText(str):
    """A text whose quotes of users are cut already, such as a traceback: the log keeps more of it."""

    __slots__ = ()


def traceback_text(error: BaseException) -> LongText:
    """Write an exception and its causes; of each message only the beginning stays."""
    parts = traceback.TracebackException.from_exception(error, limit=-FRAMES).format()
    return LongText("".join(f"{cut(part.rstrip())}\n" for part in parts))

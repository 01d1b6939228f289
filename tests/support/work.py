"""What a piece of code does, counted: a measure of its cost that no loaded machine changes."""

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any, Final

_WHOLE: Final = frozenset(
    (
        *("casefold", "count", "decode", "encode", "expandtabs", "find", "index", "isascii", "isprintable", "lower"),
        *("lstrip", "partition", "replace", "rfind", "rindex", "rpartition", "rsplit", "rstrip", "split", "splitlines"),
        *("strip", "swapcase", "title", "translate", "upper", "zfill"),
    )
)
"""Methods of texts that may look at all of them."""


@dataclass
class Work:
    """
    Lines that were executed; each turn of a loop on one line counts, and each resumption of a generator.

    `scanned` are the characters and bytes of texts whose methods were called that may look at the whole text: work in C
    that no line shows.
    """

    lines: int = 0
    scanned: int = 0


@contextmanager
def counted(*, scans: bool = False) -> Iterator[Work]:
    """
    Count the lines that the block executes, in everything that it calls; with `scans` also what it scans.

    Cyclic garbage is left alone meanwhile: a collection would count the finalizers of what other tests left behind.
    """
    work, before, profiled = Work(), sys.gettrace(), sys.getprofile()
    collects = gc.isenabled()
    gc.disable()

    def trace(_: FrameType, event: str, __: Any) -> Any:
        work.lines += event in {"line", "call"}
        return trace

    def profile(_: FrameType, event: str, called: Any) -> None:
        if event == "c_call" and called.__name__ in _WHOLE:
            text = getattr(called, "__self__", None)
            work.scanned += len(text) if isinstance(text, str | bytes | bytearray) else 0

    sys.settrace(trace)
    if scans:
        sys.setprofile(profile)
    try:
        yield work
    finally:
        sys.settrace(before)
        if scans:
            sys.setprofile(profiled)
        if collects:
            gc.enable()

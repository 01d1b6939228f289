"""What a piece of code does, counted: a measure of its cost that no loaded machine changes."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any


@dataclass
class Work:
    """Lines that were executed; each turn of a loop on one line counts, and each resumption of a generator."""

    lines: int = 0


@contextmanager
def counted() -> Iterator[Work]:
    """Count the lines that the block executes, in everything that it calls."""
    work, before = Work(), sys.gettrace()

    def trace(_: FrameType, event: str, __: Any) -> Any:
        work.lines += event in {"line", "call"}
        return trace

    sys.settrace(trace)
    try:
        yield work
    finally:
        sys.settrace(before)

"""
Work in pieces: a generator stops between two of them, so that the event loop can run, which renews the Lease.

Each stop gives the bytes that were gone over since the last one; what the generator returns is the result of the work.
"""

import asyncio
from collections.abc import Generator
from typing import Final, TypeVar

T = TypeVar("T")
Pieces = Generator[int, None, T]

PIECE_BYTES: Final = 256 * 1024
"""After so many bytes the event loop runs: each is gone over within some nanoseconds, some milliseconds in all."""


def at_once(work: Pieces[T]) -> T:
    """Do all pieces of some work."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return] # StopIteration.value is what the generator returns


async def in_turns(work: Pieces[T]) -> T:
    """Do some work while other tasks of the event loop run in between."""
    done = 0
    while True:
        try:
            done += next(work)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return] # as above
        if done >= PIECE_BYTES:
            done = 0
            await asyncio.sleep(0)

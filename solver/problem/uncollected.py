"""
Build much that stays without looking for garbage in it meanwhile.

What is made of a large cluster is hundreds of thousands of values that are kept and refer to one another in no circle.
Python's collector goes through all of them, and through the snapshot, every time their number has grown by a quarter.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def uncollected() -> Iterator[None]:
    """Put the search for circles of garbage off to the end of the block; what is counted is freed at once as ever."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()

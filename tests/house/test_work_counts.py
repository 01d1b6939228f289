"""Counts of work (`tests.support.work`) are those of the counted block, whatever ran before it in the process."""

import gc

from tests.support.work import counted


class Litter:
    """Garbage in a cycle whose finalizer runs lines of Python, as those of clients, loops and files do."""

    def __init__(self) -> None:
        self.me = self

    def __del__(self) -> None:
        for _ in range(10):
            pass


def lines_beside(litter: int) -> int:
    """Count the lines of a block that allocates enough to have the garbage collected which is there before it."""
    gc.collect()
    gc.disable()
    for _ in range(litter):
        Litter()
    thresholds = gc.get_threshold()
    gc.set_threshold(litter + 100)
    gc.enable()
    try:
        with counted() as work:
            kept = [list[int]() for _ in range(500)]
    finally:
        gc.set_threshold(*thresholds)
    assert len(kept) == 500
    return work.lines


def test_finalizers_of_garbage_are_no_part_of_the_block_that_they_interrupt() -> None:
    assert lines_beside(20) == lines_beside(0)
    assert gc.isenabled()

"""
In which order tasks arrive.

The orders of FGD's published runs are not published. Here a list is shuffled and taken to its end, shuffled anew and
taken again, until the tasks that came ask for `LOAD` of all GPUs. Each seed is one order, the same for every policy.
"""

import random
from collections.abc import Sequence
from typing import Final

from e2e.traces.workload import Shape, TraceError

LOAD: Final = 1.3
"""The last task is the one with which the load that has arrived is this part of the GPUs or more."""
FIRST_SEED: Final = 42


def draw(tasks: Sequence[Shape], capacity: int, seed: int) -> tuple[Shape, ...]:
    """Return arrivals, for machines with GPUs of `capacity` thousandths. Raises TraceError where none asks for any."""
    if not any(task.amount for task in tasks):
        raise TraceError("no task of the list asks for a GPU")
    chance = random.Random(seed)  # noqa: S311 - a workload, not a secret
    arrivals: list[Shape] = []
    load = 0
    while True:
        for task in chance.sample(tasks, len(tasks)):
            arrivals.append(task)
            load += task.amount
            if load >= LOAD * capacity:
                return tuple(arrivals)

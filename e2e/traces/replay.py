"""One policy over one draw of arrivals, and its curve by the load that has arrived."""

import random
import time
from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec
import numpy as np

from e2e.traces import policies
from e2e.traces.bound import most_allocated
from e2e.traces.dovetail import Dovetail, expected
from e2e.traces.draws import draw
from e2e.traces.fragmentation import Fragmentation
from e2e.traces.machines import Machines
from e2e.traces.workload import Machine, Shape, TraceError, capacity
from solver.domain import Policy

DOVETAIL: Final = "dovetail"
EXPECTING: Final = "dovetail-expecting"
"""The same with `policy.expected`: what the list of tasks has, as FGD knows it."""
NAMES: Final = (*policies.MAKE, DOVETAIL, EXPECTING)
_SURELY_FITS: Final = 50


class Curve(msgspec.Struct, frozen=True, kw_only=True):
    """
    What one policy made of one draw; all in per cent of the GPUs of all machines.

    `allocated` and `fragmented` have a value for each whole per cent of load that had arrived, from 0. `failed` counts
    tasks that were not placed, of `tasks`. `seconds` are CPU seconds.
    """

    tasks_of: str
    policy: str
    seed: int
    tasks: int
    failed: int
    allocated: tuple[float, ...]
    fragmented: tuple[float, ...]
    seconds: float = 0.0


class Setting(NamedTuple):
    """Machines, and one list of tasks by its name."""

    machines: tuple[Machine, ...]
    name: str
    tasks: tuple[Shape, ...]


def replay(setting: Setting, name: str, seed: int) -> Curve:
    """
    Let a policy place one draw of tasks, one by one in the order in which they arrive; none ends.

    A task without room on any machine fails; no policy is asked. Raises TraceError where a policy takes what is not
    there.
    """
    machines, total = setting.machines, capacity(setting.machines)
    left, fragmentation = Machines(machines), Fragmentation(setting.tasks)
    arrivals, began = draw(setting.tasks, total, seed), time.process_time()
    policy: policies.Policy
    if name in {DOVETAIL, EXPECTING}:
        policy = Dovetail(machines, Policy(expected=expected(setting.tasks) if name == EXPECTING else ()))
    else:
        policy = policies.MAKE[name](left, fragmentation, random.Random(seed))  # noqa: S311 - no secret
    load, used, failed = 0, 0, 0
    allocated, fragmented = list[float](), list[float]()
    for shape in arrivals:
        load += shape.amount
        candidates = np.flatnonzero(left.fitting(shape))
        choice = policy.choose(shape, candidates) if len(candidates) else None
        if choice is None:
            failed += 1
        else:
            _take(left, shape, *choice)
            used += shape.amount
        while len(allocated) <= 100 * load // total:
            allocated.append(round(100 * used / total, 3))
            fragmented.append(round(100 * fragmentation.total(left) / total, 3))
    return Curve(
        tasks_of=setting.name,
        policy=name,
        seed=seed,
        tasks=len(arrivals),
        failed=failed,
        allocated=tuple(allocated),
        fragmented=tuple(fragmented),
        seconds=round(time.process_time() - began, 3),
    )


def bounds(setting: Setting, seed: int) -> tuple[float, ...]:
    """Return what could be allocated at most, in per cent, for each whole per cent of load of one draw."""
    total = capacity(setting.machines)
    load, found, arrived = 0, list[float](), list[Shape]()
    for shape in draw(setting.tasks, total, seed):
        load += shape.amount
        arrived.append(shape)
        while len(found) <= 100 * load // total:
            # All of it fits where little has arrived: the program is asked where it can say something else.
            most = load if 100 * load < _SURELY_FITS * total else most_allocated(setting.machines, arrived)
            found.append(round(100 * most / total, 3))
    return tuple(found)


def _take(left: Machines, shape: Shape, machine: int, gpus: Sequence[int]) -> None:
    """Take what a policy chose. Raises TraceError where it is not free."""
    has_gpus = len(set(gpus)) == shape.gpus and all(left.gpus[machine, gpu] >= shape.milli for gpu in gpus)
    if not has_gpus or not left.fitting(shape)[machine]:
        raise TraceError(f"machine {machine} has no room for {shape} on its GPUs {list(gpus)}")
    left.take(machine, shape, gpus)

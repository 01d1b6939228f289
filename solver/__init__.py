"""
The core: a snapshot of the cluster and a batch of pods go in, a plan comes out.

The core knows no cluster, no log, no file, no clock except the budget's and no randomness except its seed. It never
imports `kubernetes`, `aiohttp`, `structlog`, `prometheus_client` or `asyncio`. A pod that cannot be placed is a value
with reasons; an exception is a bug or invalid input.

In the order of the layers: `domain` has the values, `cel` and `feasibility` the rules of single pods, nodes and
devices, `problem` the dense form, `fleet` what is held and what is free. `model` writes rules as rows of integers,
which `engines` solve. `greedy` and `search` find a `solution`; `extract` and `volume_matching` make it concrete;
`explain` and `unplaced` give the reasons of pods that wait. `preemption` chooses victims, `reservations` keeps nodes
for overdue pods. `decide` is the story on one page. `feasible` and `diagnosis` answer questions about single pods,
`warm_up` loads engines before the first batch, and `verify` checks plans independently of all this.

This module is the door: the scheduler imports `solver`, `solver.domain` and `solver.verify`, and nothing else. Its
names stand in `entry_points`, which is imported when one of them is first used: a command that needs only the values
of `domain` starts a second earlier.
"""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from solver.entry_points import *  # noqa: F403 - its __all__ has the names


def __getattr__(name: str) -> Any:
    """Return a name of `entry_points`; modules of this package are imported by their own names."""
    if name.startswith("_") or find_spec(f"{__name__}.{name}") is not None:
        raise AttributeError(name)
    return getattr(import_module("solver.entry_points"), name)

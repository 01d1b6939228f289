"""How good a place is for a pod: what it costs, folded into one number that the greedy compares over all nodes."""

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from solver.greedy.device_fit import Cost
from solver.problem.problem import State

NEVER: Final = np.iinfo(np.int64).max
RANK: Final = 10**16
"""What a later alternative counts: more than all that follows."""
_SUSPECT, _NODE, _DEVICE, _VALUE = 10**14, 10**13, 10**10, 10**4
_MOST_FREE: Final = 10**4
"""Free devices of a node beyond which no difference is made."""


class Rating(NamedTuple):
    """How good a place is, less being better: alternatives, then preferences, then what it costs of devices."""

    rank: int
    taste: int
    devices: int


FREE: Final = Rating(-1, 0, 0)
"""A way that takes no device."""
FIRST: Final = Rating(0, 0, 0)


@dataclass(slots=True, eq=False)
class NodeRatings:
    """How nodes are rated for a class, `NEVER` where it cannot go: after so many changes, with so much left beside."""

    ratings: npt.NDArray[np.int64]
    changes: int
    wide: State


def score(cost: Cost) -> int:
    """Fold a cost into one number; each part is far below the weight of the one before."""
    folded = _first_of(cost) + cost.opened_nodes * _NODE + cost.opened_devices * _DEVICE + cost.value * _VALUE
    return folded + min(cost.leftover, _VALUE - 1)


def spread_score(cost: Cost, free: int) -> int:
    """Fold a cost where devices are to be spread: the node with most free ones is best."""
    return _first_of(cost) + (_MOST_FREE - min(free, _MOST_FREE)) * _DEVICE + cost.value * _VALUE


def _first_of(cost: Cost) -> int:
    """Fold what goes before packing: alternatives, and then devices that work failed on."""
    return cost.rank * RANK + min(cost.suspects, RANK // _SUSPECT - 1) * _SUSPECT

"""The score of a node for a pod: its costs as one number that the greedy compares over all nodes."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from solver.greedy.device_fit import Condition, Cost, DeviceFit, FitCache
from solver.problem.devices import fragmentation
from solver.problem.devices.layout import State
from solver.problem.problem import Part

NEVER: Final = np.iinfo(np.int64).max
RANK: Final = 10**16
"""What a later alternative counts: more than all that follows."""
_SUSPECT, _DISTANCE, _NODE, _DEVICE, _VALUE = 10**15, 2 * 10**13, 10**13, 10**10, 10**4
_MOST_FREE: Final = 10**4
"""Free devices of a node beyond which no difference is made."""


class Rating(NamedTuple):
    """How good a place is, less being better: alternatives, then preferences, then what it costs of devices."""

    rank: int
    preference: int
    devices: int


FREE: Final = Rating(-1, 0, 0)
"""A way that takes no device."""
FIRST: Final = Rating(0, 0, 0)


@dataclass(slots=True, eq=False)
class NodeRatings:
    """The ratings of nodes for a class, `NEVER` where it cannot go, and the state for which they are valid."""

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
    """Fold what goes before packing: alternatives, devices that work failed on, and devices that are not at hand."""
    suspects, distance = min(cost.suspects, RANK // _SUSPECT - 1), min(cost.distance, _SUSPECT // _DISTANCE - 1)
    return cost.rank * RANK + suspects * _SUSPECT + distance * _DISTANCE


@dataclass(slots=True, eq=False)
class ScoreCache:
    """
    Scores of node conditions: nodes in the same condition are served alike, and each condition is asked once.

    A condition (description of the node, budgets left, whether it is whole) has a number; `scores` holds one array by
    number for the parts of a pod and what is left of the cluster-wide budgets and of quotas, -1 where nothing was asked
    yet.
    """

    fits: FitCache
    stop: Callable[[], bool]
    conditions: list[tuple[int, State, bool]] = field(default_factory=list)
    _numbers: dict[tuple[int, State, bool], int] = field(default_factory=dict)
    """The numbers of conditions once one is asked for: a pod that takes no device changes none."""
    scores: dict[tuple[tuple[Part, ...], State, State], npt.NDArray[np.int64]] = field(default_factory=dict)
    is_cut: bool = False
    """Whether time ended while conditions were scored: those that were not asked count as unfit."""

    def number(self, condition: tuple[int, State, bool]) -> int:
        """Return the number of a condition."""
        if not self._numbers:
            self._numbers = {each: number for number, each in enumerate(self.conditions)}
        number = self._numbers.setdefault(condition, len(self.conditions))
        if number == len(self.conditions):
            self.conditions.append(condition)
        return number

    def serve(self, parts: tuple[Part, ...], number: int, wide: State, quota: State = ()) -> DeviceFit | None:
        """Serve parts on a node in a condition."""
        group, state, is_unused = self.conditions[number]
        return self.fits.serve(parts, Condition(group, state, wide, is_unused, quota))

    def of(
        self, parts: tuple[Part, ...], wide: State, wanted: npt.NDArray[np.int64], quota: State = ()
    ) -> npt.NDArray[np.int64]:
        """Return the scores of all conditions for some parts, by number; those that are wanted are up to date."""
        scores = self.scores.get((parts, wide, quota))
        if scores is None or len(scores) < len(self.conditions):
            grown = np.full(2 * len(self.conditions), -1, dtype=np.int64)
            if scores is not None:
                grown[: len(scores)] = scores
            scores = self.scores[parts, wide, quota] = grown
        missing = wanted[scores[wanted] < 0]
        for count, number in enumerate(np.unique(missing).tolist() if len(missing) else ()):
            if count and self.stop():
                self.is_cut = True
                return np.where(scores < 0, NEVER, scores)
            served = self.serve(parts, number, wide, quota)
            scores[number] = NEVER if served is None else self._score(number, served.cost)
        return scores

    def _score(self, number: int, cost: Cost) -> int:
        """Fold what a way costs into one number; where devices are to be spread, the node with most free is best."""
        problem = self.fits.problem
        if "crowded-nodes" not in problem.policy.levels:
            return score(cost)
        group, state, _ = self.conditions[number]
        return spread_score(cost, fragmentation.free_devices(problem.layout.groups[group], state))

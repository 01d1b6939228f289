"""
The policies that FGD was compared with, and FGD itself.

They score as its simulator does (hkust-adsl/kubernetes-scheduler-simulator): in whole numbers from 0 to 100, and one of
the best machines is drawn.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

from e2e.traces.fragmentation import Fragmentation
from e2e.traces.machines import Machines
from e2e.traces.workload import WHOLE, Shape

Scores = npt.NDArray[np.int64]
_MOST_CPU: Final = 128_000.0
_MOST_GPUS: Final = 8.0 * WHOLE
"""What the largest machine has; amounts are compared as parts of these."""
_BEST: Final = 100


class Policy(Protocol):
    """Chooses machine and GPUs for a task that has room on some machines, given by their indices."""

    def choose(self, shape: Shape, candidates: npt.NDArray[np.int64], /) -> tuple[int, Sequence[int]] | None:
        """Return the machine and its GPUs; None to place it nowhere."""


class Random:
    """Any machine, and any of its GPUs."""

    def __init__(self, machines: Machines, _: Fragmentation, chance: random.Random) -> None:
        self._machines: Final = machines
        self._chance: Final = chance

    def choose(self, shape: Shape, candidates: npt.NDArray[np.int64]) -> tuple[int, Sequence[int]]:
        """Return the machine and its GPUs."""
        machine = self._chance.choice(candidates.tolist())
        usable = np.flatnonzero(self._machines.gpus[machine] >= shape.milli).tolist()
        return machine, self._chance.sample(usable, shape.gpus)


class _ByScore:
    """The machine with the best score, and the GPUs of which the least is left."""

    def __init__(self, machines: Machines, _: Fragmentation, chance: random.Random) -> None:
        self._machines: Final = machines
        self._chance: Final = chance

    def choose(self, shape: Shape, candidates: npt.NDArray[np.int64]) -> tuple[int, Sequence[int]]:
        """Return the machine and its GPUs."""
        scores = (_BEST * self._scores(shape, candidates)).astype(np.int64)
        machine = self._chance.choice(candidates[scores == scores.max()].tolist())
        return machine, self._machines.fullest_gpus(machine, shape)

    def _scores(self, shape: Shape, candidates: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        raise NotImplementedError


class BestFit(_ByScore):
    """The machine of which the least cpu and GPUs are left afterwards, as parts of the largest machine."""

    def _scores(self, shape: Shape, candidates: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        cpu = (self._machines.cpu[candidates] - shape.cpu) / _MOST_CPU
        gpus = (self._machines.gpus[candidates].sum(axis=1) - shape.amount) / _MOST_GPUS
        return np.asarray(1 - (cpu + gpus) / 2)


class DotProduct(_ByScore):
    """The machine whose free cpu and GPUs have the smallest dot product with what the task asks for."""

    def _scores(self, shape: Shape, candidates: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        cpu = self._machines.cpu[candidates] / _MOST_CPU * (shape.cpu / _MOST_CPU)
        gpus = self._machines.gpus[candidates].sum(axis=1) / _MOST_GPUS * (shape.amount / _MOST_GPUS)
        return np.asarray(1 - (cpu + gpus) / 2)


class Descent:
    """Fragmentation gradient descent (FGD): the machine and GPU where fragmentation grows least, or shrinks most."""

    def __init__(self, machines: Machines, fragmentation: Fragmentation, chance: random.Random) -> None:
        self._machines: Final = machines
        self._fragmentation: Final = fragmentation
        self._chance: Final = chance
        self._scores: Final[dict[Shape, tuple[Scores, dict[int, list[int]]]]] = {}
        self._taken: Final[list[int]] = []
        """Machines in the order in which tasks were placed there."""
        self._seen: Final[dict[Shape, int]] = {}

    def choose(self, shape: Shape, candidates: npt.NDArray[np.int64]) -> tuple[int, Sequence[int]]:
        """Return the machine and its GPUs."""
        scores, gpus = self._scores.setdefault(shape, (np.full(len(self._machines.models), -1, dtype=np.int64), {}))
        for machine in set(self._taken[self._seen.get(shape, 0) :]):  # others are as they were
            scores[machine] = -1
        self._seen[shape] = len(self._taken)
        for machine in candidates[scores[candidates] < 0].tolist():
            scores[machine], gpus[machine] = self._scored(machine, shape)
        best = scores[candidates].max()
        machine = self._chance.choice(candidates[scores[candidates] == best].tolist())
        self._taken.append(machine)
        return machine, gpus[machine]

    def _scored(self, machine: int, shape: Shape) -> tuple[int, list[int]]:
        """Return the score of a machine, and the GPUs that give it; of equal GPUs of a share the first one counts."""
        cpu, left, model = (
            int(self._machines.cpu[machine]),
            self._machines.gpus[machine],
            self._machines.models[machine],
        )
        before = self._fragmentation.of(cpu, left.tolist(), model)
        choices = [self._machines.fullest_gpus(machine, shape)]
        if 0 < shape.milli < WHOLE:
            usable = {int(left[gpu]): gpu for gpu in range(len(left) - 1, -1, -1) if left[gpu] >= shape.milli}
            choices = [[gpu] for gpu in sorted(usable.values())]
        scored = []
        for choice in choices:
            after = left.copy()
            after[choice] -= shape.milli
            less = before - self._fragmentation.of(cpu - shape.cpu, after.tolist(), model)
            scored.append((int(_BEST / (1 + np.exp(-less / WHOLE))), choice))
        return max(scored, key=lambda pair: pair[0])


MAKE: Final[Mapping[str, Callable[[Machines, Fragmentation, random.Random], Policy]]] = {
    "random": Random,
    "dot-product": DotProduct,
    "best-fit": BestFit,
    "fgd": Descent,
}

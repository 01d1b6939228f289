"""
Fragmentation as FGD counts it: how many thousandths of GPUs are left that a typical task cannot use.

A task that has no room on a machine can use none of its GPUs; one that has room cannot use the GPUs of which too little
is left for it alone. A machine's fragmentation is the mean over the typical tasks, weighted by how often they come
(Weng et al., Beware of Fragmentation, USENIX ATC '23, section 3.2).
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from e2e.traces.machines import Machines
from e2e.traces.workload import Shape

_TYPICAL_SHARE: Final = 0.95
"""The most frequent shapes with GPUs that make up this part of such tasks are typical."""


class Fragmentation:
    """The measure for one list of tasks; machines in the same state are looked at once."""

    def __init__(self, tasks: Iterable[Shape]) -> None:
        counts = Counter(task for task in tasks if task.gpus)
        typical, covered = list[tuple[Shape, int]](), 0
        for shape, count in sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])):
            if covered >= _TYPICAL_SHARE * counts.total():
                break
            typical.append((shape, count))
            covered += count
        self._shapes: Final = [shape for shape, _ in typical]
        self._shares: Final = np.array([count / covered for _, count in typical])
        self._cpu: Final = np.array([shape.cpu for shape in self._shapes])
        self._gpus: Final = np.array([shape.gpus for shape in self._shapes])
        self._milli: Final = np.array([shape.milli for shape in self._shapes])
        self._accepts: Final[dict[str, npt.NDArray[np.bool_]]] = {}
        self._known: Final[dict[tuple[int, tuple[int, ...], str], float]] = {}

    def of(self, cpu: int, gpus: Sequence[int], model: str) -> float:
        """Return the thousandths that are fragmented on a machine of which this is left."""
        key = (cpu, tuple(sorted(gpus)), model)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._computed(cpu, np.array(key[1]), model)
        return found

    def total(self, machines: Machines) -> float:
        """Return the thousandths that are fragmented on all machines."""
        rows = zip(machines.cpu.tolist(), machines.gpus.tolist(), machines.models, strict=True)
        return sum(self.of(cpu, gpus, model) for cpu, gpus, model in rows)

    def _computed(self, cpu: int, left: npt.NDArray[np.int64], model: str) -> float:
        accepts = self._accepts.get(model)
        if accepts is None:
            accepts = self._accepts[model] = np.array([not s.models or model in s.models for s in self._shapes])
        is_short = left[None, :] < self._milli[:, None]
        has_room = (cpu >= self._cpu) & ((~is_short).sum(axis=1) >= self._gpus) & accepts
        unusable = np.where(has_room, (is_short * left).sum(axis=1), left.sum())
        return float(self._shares @ unusable)

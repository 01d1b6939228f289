"""What is left of machines, as arrays."""

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from e2e.traces.workload import WHOLE, Machine, Shape

Mask = npt.NDArray[np.bool_]


class Machines:
    """
    What is left of machines: `cpu` and `memory` by machine, `gpus` by machine and GPU, in thousandths.

    A machine with fewer GPUs than another has 0 of the others.
    """

    def __init__(self, machines: Sequence[Machine]) -> None:
        self.models: Final = [machine.model for machine in machines]
        self.cpu: Final = np.array([machine.cpu for machine in machines], dtype=np.int64)
        self.memory: Final = np.array([machine.memory for machine in machines], dtype=np.int64)
        most = max(machine.gpus for machine in machines)
        self.gpus: Final = np.array(
            [[WHOLE] * machine.gpus + [0] * (most - machine.gpus) for machine in machines], dtype=np.int64
        )
        self._with_model: Final[dict[tuple[str, ...], Mask]] = {}

    def fitting(self, shape: Shape) -> Mask:
        """Return which machines have room for a task."""
        fits: Mask = (self.cpu >= shape.cpu) & (self.memory >= shape.memory) & self._accepted(shape.models)
        if shape.gpus:
            fits &= (self.gpus >= shape.milli).sum(axis=1) >= shape.gpus
        return fits

    def fullest_gpus(self, machine: int, shape: Shape) -> list[int]:
        """Return the GPUs for a task of which the least is left."""
        left = self.gpus[machine]
        return [int(gpu) for gpu in np.argsort(left, kind="stable") if left[gpu] >= shape.milli][: shape.gpus]

    def take(self, machine: int, shape: Shape, gpus: Sequence[int]) -> None:
        """Place a task on some GPUs of a machine."""
        self.cpu[machine] -= shape.cpu
        self.memory[machine] -= shape.memory
        for gpu in gpus:
            self.gpus[machine, gpu] -= shape.milli

    def _accepted(self, models: tuple[str, ...]) -> Mask:
        found = self._with_model.get(models)
        if found is None:
            found = self._with_model[models] = np.array([not models or each in models for each in self.models])
        return found

"""Machines, and what tasks ask for."""

from dataclasses import dataclass
from typing import Final

WHOLE: Final = 1000
"""Thousandths of a GPU."""


class TraceError(Exception):
    """A file of a trace is missing or says something else; the message names file and line."""


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine: `cpu` in thousandths of a core, `memory` in MiB, GPUs of one model."""

    name: str
    cpu: int
    memory: int
    gpus: int
    model: str


@dataclass(frozen=True, slots=True, order=True)
class Shape:
    """What a task asks for: `milli` thousandths of each of `gpus` GPUs, of one of these models if any are named."""

    cpu: int
    memory: int
    gpus: int = 0
    milli: int = 0
    models: tuple[str, ...] = ()

    @property
    def amount(self) -> int:
        """Thousandths of GPUs, all together."""
        return self.gpus * self.milli


def capacity(machines: tuple[Machine, ...]) -> int:
    """Return the thousandths of GPUs that machines have."""
    return sum(machine.gpus for machine in machines) * WHOLE

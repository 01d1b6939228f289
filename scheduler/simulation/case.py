"""What a simulation decides on, and what there is to say about the manifests that it came from."""

from dataclasses import dataclass, field

from scheduler.simulation.manifests.documents import Problem
from solver.domain import Batch, Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """
    A snapshot and the pods that wait, in queue order.

    `problems` are manifests that the API server would refuse; `warnings` are worth knowing and stop nothing.
    """

    snapshot: Snapshot
    batch: Batch
    problems: tuple[Problem, ...] = ()
    warnings: tuple[str, ...] = field(default=())

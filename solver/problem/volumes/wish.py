"""What one pod asks of volumes, and what is refused it whatever the batch does."""

from dataclasses import dataclass
from typing import NamedTuple

from solver.domain import InlineDisk, VolumeClaimId
from solver.problem.neighbours.refusals import Refusal
from solver.problem.volumes.attachments import Attachable


class Terms(NamedTuple):
    """
    What makes pods of one class equal in what their volumes ask of others of the batch.

    `shapes` are those of the claims that wait for the pod, in the order of `Store.waiting`; at the same places `joint`
    has those that pods of the batch share, None for the pod's own. `alone` are claims of which only one pod of the
    batch is placed at a time. `disks` are those that other pods of the batch use too. `named` are volumes that are
    attached somewhere or that several pods of the batch use, `drivers` counts the others by driver.
    """

    refused: tuple[tuple[bytes, str], ...]
    shapes: tuple[int, ...] = ()
    joint: tuple[VolumeClaimId | None, ...] = ()
    alone: tuple[VolumeClaimId, ...] = ()
    disks: tuple[InlineDisk, ...] = ()
    named: tuple[Attachable, ...] = ()
    drivers: tuple[tuple[str, str, int], ...] = ()

    @property
    def own_shapes(self) -> tuple[int, ...]:
        """Shapes of the claims that no other pod of the batch uses."""
        return tuple(shape for shape, claim in zip(self.shapes, self.joint, strict=True) if claim is None)

    @property
    def shared(self) -> tuple[VolumeClaimId, ...]:
        """Claims that wait and that other pods of the batch use too."""
        return tuple(claim for claim in self.joint if claim is not None)


@dataclass(slots=True, eq=False)
class Wish:
    """A pod's volumes: nodes that are refused, in kube-scheduler's order of reasons, and what it asks of others."""

    refusals: tuple[Refusal, ...]
    terms: Terms

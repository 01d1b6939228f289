"""What the commit of a unit came to: a closed union, so that whoever reads it names every case."""

from dataclasses import dataclass

from scheduler.cluster.unit import Unit
from solver.domain import ClaimId, DeviceId, Placement, Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """Every pod of the unit is bound. `seconds` ran from the first write to the last binding; None: not known."""

    unit: Unit
    seconds: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """Nothing was written: the unit does not fit the cluster as it is now."""

    unit: Unit
    reasons: tuple[Reason, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Undone:
    """
    No pod was bound, and what was written was taken back.

    `kept` are claims whose allocation or reservation had to stay, or of which that is not known.
    """

    unit: Unit
    reasons: tuple[Reason, ...]
    kept: tuple[ClaimId, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Yielded:
    """Another allocation holds devices of the unit; ours was taken back, except for claims in `kept`."""

    unit: Unit
    devices: tuple[DeviceId, ...]
    reasons: tuple[Reason, ...]
    kept: tuple[ClaimId, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PartlyBound:
    """Some pods are bound, which stays so; `unbound` could not be, each with its reason."""

    unit: Unit
    bound: tuple[Placement, ...]
    unbound: tuple[tuple[Placement, Reason], ...]
    kept: tuple[ClaimId, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Halted:
    """Writing stopped half-way, or never began, because the process is about to end."""

    unit: Unit


Outcome = Bound | Refused | Undone | Yielded | PartlyBound | Halted

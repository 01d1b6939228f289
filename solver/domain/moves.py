"""Defragmentation: pods to be moved so that others fit."""

import msgspec

from solver.domain.ids import PodId
from solver.domain.plan import ClaimAllocation, Placement


class Move(msgspec.Struct, frozen=True, kw_only=True):
    """A pod that leaves its node; what replaces it is expected on `target`."""

    pod: PodId
    pod_uid: str
    source: str
    target: str


class Staying(msgspec.Struct, frozen=True, kw_only=True):
    """A pod that may not be moved, on a node that others could use, and a sentence fragment that says why."""

    pod: PodId
    node: str
    reason: str


class Relocation(msgspec.Struct, frozen=True, kw_only=True):
    """
    The fewest moves after which some pods fit.

    `placements` and `allocations` are of those pods. `moves` are in an order in which each replacement fits when its
    turn comes, if `is_stepwise`. `least` is a proven bound: it cannot be done with fewer moves; `is_proven` says that
    they are as few. `is_found` is false where no moves do, or none were found; `reason` says which, and
    `staying` who stands in the way and may not be moved.
    """

    is_found: bool
    placements: tuple[Placement, ...] = ()
    allocations: tuple[ClaimAllocation, ...] = ()
    moves: tuple[Move, ...] = ()
    least: int = 0
    is_proven: bool = False
    is_stepwise: bool = True
    reason: str = ""
    staying: tuple[Staying, ...] = ()

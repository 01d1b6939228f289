"""
What counts of an object that cannot be read, or used, any more: it holds what it held, and gives nothing out.

Pure. `closed` makes the value that stands for such an object in the mirror, in the queue and in the solver's replica.
docs/isolation.md has the table that this follows.
"""

from typing import Final

import msgspec

from scheduler.change import Object
from solver.domain import (
    Claim,
    DisruptionBudget,
    Node,
    Pod,
    PodGroup,
    ResourceSlice,
    StorageCapacity,
    Volume,
    VolumeClaim,
)

LONGEST_TEXT: Final = 500
"""Characters that are kept of a user's text in a message or a log line."""
_CUT: Final = "… (cut)"


def cut(text: str, longest: int = LONGEST_TEXT) -> str:
    """
    Keep the beginning of a text that may be of any length, with a mark where something is left out.

    >>> cut("abcdefghijkl", 10)
    'abc… (cut)'
    """
    return text if len(text) <= longest else text[: longest - len(_CUT)] + _CUT


def closed(value: Object, why: str) -> Object:
    """
    Give what stands for an object whose present version cannot be read, from the last one that could be.

    What it holds or forbids counts as before. A pod is not placed, a claim is not allocated, a node and a pool take
    nothing new, a free volume is bound to no claim, a PodDisruptionBudget grants no eviction, a gang waits. A kind that
    is not named here keeps its last readable effect.
    """
    match value:
        case Pod() | Claim() | ResourceSlice() | VolumeClaim() | PodGroup():
            return msgspec.structs.replace(value, invalid=cut(why))
        case Node():
            return msgspec.structs.replace(value, is_unschedulable=True, allocatable=())
        case DisruptionBudget():
            return msgspec.structs.replace(value, is_stale=True)
        case Volume(claim=None):
            return msgspec.structs.replace(value, phase="")
        case StorageCapacity():
            return msgspec.structs.replace(value, most=None)
        case _:
            return value

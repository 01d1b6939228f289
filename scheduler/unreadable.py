"""
Unreadable objects: an object that cannot be read any more uses what it used, and nothing new is placed on it.

`closed` makes the value that stands for it in the cluster cache, the queue and the worker's replica, by the table
in docs/tenancy.md.
"""

from typing import Final

import msgspec

from scheduler.change import Object
from solver.domain import (
    Claim,
    CSIStorageCapacity,
    DeviceHold,
    Node,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    PodDisruptionBudget,
    PodGroup,
    ResourceSlice,
)

LONGEST_TEXT: Final = 500
"""Characters of a user's text that a message or a log line keeps."""
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
    Return the value for an object whose present version cannot be read, from the last readable one.

    What it uses or forbids counts as before. A pod is not placed, and without a node it takes no room. A claim is not
    allocated. A node and a pool take
    nothing new. A free volume is bound to no claim. A PodDisruptionBudget allows no eviction. A gang waits. An object
    of any other kind counts as its last readable version.
    """
    match value:
        case Pod(node_name=""):
            return msgspec.structs.replace(value, nominated_node_name="", invalid=cut(why))
        case Pod() | Claim() | ResourceSlice() | PersistentVolumeClaim() | PodGroup() | DeviceHold():
            return msgspec.structs.replace(value, invalid=cut(why))
        case Node():
            return msgspec.structs.replace(value, is_unschedulable=True, allocatable=())
        case PodDisruptionBudget():
            return msgspec.structs.replace(value, is_stale=True)
        case PersistentVolume(claim=None):
            return msgspec.structs.replace(value, phase="")
        case CSIStorageCapacity():
            return msgspec.structs.replace(value, most=None)
        case _:
            return value

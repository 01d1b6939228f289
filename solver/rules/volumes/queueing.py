"""
What the queue asks of the rule of volumes.

A pod with volumes is equal to no other: what they are may change. Events of a claim reach only the pods that use it.
The end of a nomination frees no volume: nominated pods hold none.
"""

from typing import Final

from solver.domain import ClusterEvent, ReasonCode

_CLAIM: Final = {
    ClusterEvent.VOLUME_CLAIM_CREATED,
    ClusterEvent.VOLUME_CLAIM_CHANGED,
    ClusterEvent.VOLUME_CLAIM_DELETED,
}
"""Something about the PersistentVolumeClaim itself."""
_PLACE: Final = _CLAIM | {ClusterEvent.NODE_ADDED, ClusterEvent.NODE_LABELS_CHANGED, ClusterEvent.VOLUME_OFFERED}
"""Which volumes exist or can be provisioned, by which driver, and where."""
_USE: Final = {
    ClusterEvent.NODE_ADDED,
    ClusterEvent.VOLUMES_RELEASED,
    ClusterEvent.VOLUME_CLAIM_CREATED,
    ClusterEvent.VOLUME_CLAIM_DELETED,
}
"""Which pods use volumes."""
_CLASS: Final = {ClusterEvent.STORAGE_CLASS_CHANGED}
"""The class may have WaitForFirstConsumer; claims of a class that does not exist count as bound at once."""

HINTS: Final = {
    ReasonCode.VOLUME_CLAIM_MISSING: _CLAIM,
    ReasonCode.VOLUME_CLAIM_UNUSABLE: _CLAIM,
    ReasonCode.VOLUME_CLAIM_UNBOUND: _CLAIM | _CLASS,
    ReasonCode.VOLUME_MISSING: _PLACE,
    ReasonCode.VOLUME_ELSEWHERE: _PLACE,
    ReasonCode.VOLUME_NONE: _PLACE | _CLASS,
    ReasonCode.VOLUME_CAPACITY: _PLACE | _CLASS | {ClusterEvent.STORAGE_GREW},
    ReasonCode.VOLUME_DRIVER_MISSING: _PLACE | _CLASS | {ClusterEvent.CSI_DRIVER_INSTALLED},
    ReasonCode.VOLUME_IN_USE: _USE,
    ReasonCode.VOLUME_EXCLUSIVE: _USE,
    ReasonCode.VOLUME_ATTACHMENTS: _USE | {ClusterEvent.ATTACHMENTS_GREW},
}

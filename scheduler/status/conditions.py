"""
Reason and message of the condition PodScheduled=False. Pure.

The message follows kube-scheduler's: `0/12 nodes are available: 8 Insufficient cpu, 4 node(s) had untolerated taint.`,
then what is not about nodes: `request gpus: 12 devices match, 3 are free, 2 needed.`

The reason is one of a closed list (docs/conditions.md). Autoscalers (Cluster Autoscaler, Karpenter) act on
`Unschedulable` and simulate by kube-scheduler's rules whether a new node helps. So this reason is used only where by
those rules a new node could help.

With `messages.inventory: false` no message names a node or device. The solver leaves them out of its reasons itself
(`Policy.tells_inventory`); reasons that the shell adds are replaced by fixed texts (`without_inventory`).
"""

import functools
from collections import Counter
from collections.abc import Sequence
from enum import StrEnum
from typing import Final

import msgspec
from msgspec.structs import replace

from solver.domain import Reason, ReasonCode, wording


class ConditionReason(StrEnum):
    """What `kubectl get pod -o yaml` shows as the reason of PodScheduled=False."""

    UNSCHEDULABLE = "Unschedulable"
    """No existing node can take the pod; a new one could."""
    POD_INVALID = "PodInvalid"
    """The pod or its group cannot be decoded, or the pods of the group contradict each other."""
    CLAIM_INVALID = "ClaimInvalid"
    """A claim cannot be allocated as it is written, or belongs to another pod."""
    WAITING_FOR_CLAIMS = "WaitingForClaims"
    """A claim or its class does not exist yet or is being deleted, or reservedFor is full."""
    CLAIM_ELSEWHERE = "ClaimElsewhere"
    """A claim is allocated on nodes where the pod does not fit, or its device has an untolerated taint."""
    WAITING_FOR_VOLUMES = "WaitingForVolumes"
    """A volume does not exist or is not bound yet."""
    WAITING_FOR_MEMBERS = "WaitingForMembers"
    """The pod's group is not complete."""
    WAITING_FOR_VICTIMS = "WaitingForVictims"
    """Pods were evicted for this one and still terminate."""
    BINDING_CONDITIONS = "BindingConditionsPending"
    """A node is chosen, and the binding conditions of the pod's devices are not True yet."""
    BINDING_FAILED = "BindingFailed"
    """Binding conditions of devices failed; the pod is scheduled again."""
    DEVICES_NOT_OWNED = "DevicesNotOwned"
    """Matching devices are left to another scheduler by the configuration."""
    DEVICES_OFFERED_TWICE = "DevicesOfferedTwice"
    """Matching devices are offered by a device plugin of their node too."""
    DEVICES_AVOIDED = "DevicesAvoided"
    """Matching devices are not used for a while, because their binding conditions failed."""
    NODE_RESERVED = "NodeReserved"
    """A fitting node is reserved for a pod that waits for too long."""
    TOO_COSTLY = "TooCostly"
    """A decision about the pod takes too much time or memory, or the namespace has used its share."""
    WAITING_FOR_ROOM = "WaitingForRoom"
    """The pod fits alone, but other pods were placed there, or no plan with it was found yet."""
    SCHEDULER_ERROR = "SchedulerError"
    """The scheduler or a write failed; the pod is tried again."""


CONDITION: Final[dict[ReasonCode, ConditionReason]] = {
    ReasonCode.POD_INVALID: ConditionReason.POD_INVALID,
    ReasonCode.CLAIM_MISSING: ConditionReason.WAITING_FOR_CLAIMS,
    ReasonCode.CLAIM_NOT_OWNED: ConditionReason.CLAIM_INVALID,
    ReasonCode.CLAIM_DELETING: ConditionReason.WAITING_FOR_CLAIMS,
    ReasonCode.CLAIM_INVALID: ConditionReason.CLAIM_INVALID,
    ReasonCode.CLAIM_FULL: ConditionReason.WAITING_FOR_CLAIMS,
    ReasonCode.CLAIM_ELSEWHERE: ConditionReason.CLAIM_ELSEWHERE,
    ReasonCode.CLAIM_OUT_OF_REACH: ConditionReason.UNSCHEDULABLE,
    ReasonCode.CLAIM_TAINTED: ConditionReason.CLAIM_ELSEWHERE,
    ReasonCode.CLAIM_TOO_LARGE: ConditionReason.CLAIM_INVALID,
    ReasonCode.CLASS_MISSING: ConditionReason.WAITING_FOR_CLAIMS,
    ReasonCode.SELECTOR_INVALID: ConditionReason.CLAIM_INVALID,
    ReasonCode.SELECTOR_FAILED: ConditionReason.CLAIM_INVALID,
    ReasonCode.NO_NODES: ConditionReason.UNSCHEDULABLE,
    ReasonCode.NODE_UNSCHEDULABLE: ConditionReason.UNSCHEDULABLE,
    ReasonCode.NODE_TAINT: ConditionReason.UNSCHEDULABLE,
    ReasonCode.NODE_AFFINITY: ConditionReason.UNSCHEDULABLE,
    ReasonCode.NODE_FEATURES: ConditionReason.UNSCHEDULABLE,
    ReasonCode.NODE_RESOURCES: ConditionReason.UNSCHEDULABLE,
    ReasonCode.NODE_TOO_SMALL: ConditionReason.UNSCHEDULABLE,
    ReasonCode.NODE_PORTS: ConditionReason.UNSCHEDULABLE,
    ReasonCode.POD_AFFINITY: ConditionReason.UNSCHEDULABLE,
    ReasonCode.POD_ANTI_AFFINITY: ConditionReason.UNSCHEDULABLE,
    ReasonCode.TOPOLOGY_SPREAD: ConditionReason.UNSCHEDULABLE,
    ReasonCode.TOPOLOGY_LABEL: ConditionReason.UNSCHEDULABLE,
    ReasonCode.DEVICES_NONE: ConditionReason.UNSCHEDULABLE,
    ReasonCode.DEVICES_IN_USE: ConditionReason.UNSCHEDULABLE,
    ReasonCode.DEVICES_TAINTED: ConditionReason.UNSCHEDULABLE,
    ReasonCode.DEVICES_AVOIDED: ConditionReason.DEVICES_AVOIDED,
    ReasonCode.DEVICES_CAPACITY: ConditionReason.UNSCHEDULABLE,
    ReasonCode.DEVICES_COUNTERS: ConditionReason.UNSCHEDULABLE,
    ReasonCode.DEVICES_CONSTRAINT: ConditionReason.UNSCHEDULABLE,
    ReasonCode.DEVICES_NOT_OWNED: ConditionReason.DEVICES_NOT_OWNED,
    ReasonCode.DEVICES_OFFERED_TWICE: ConditionReason.DEVICES_OFFERED_TWICE,
    ReasonCode.POOL_INCOMPLETE: ConditionReason.UNSCHEDULABLE,
    ReasonCode.POOL_INVALID: ConditionReason.UNSCHEDULABLE,
    ReasonCode.VOLUME_CLAIM_MISSING: ConditionReason.WAITING_FOR_VOLUMES,
    ReasonCode.VOLUME_CLAIM_UNUSABLE: ConditionReason.WAITING_FOR_VOLUMES,
    ReasonCode.VOLUME_CLAIM_UNBOUND: ConditionReason.WAITING_FOR_VOLUMES,
    ReasonCode.VOLUME_MISSING: ConditionReason.WAITING_FOR_VOLUMES,
    ReasonCode.VOLUME_ELSEWHERE: ConditionReason.UNSCHEDULABLE,
    ReasonCode.VOLUME_NONE: ConditionReason.UNSCHEDULABLE,
    ReasonCode.VOLUME_CAPACITY: ConditionReason.UNSCHEDULABLE,
    ReasonCode.VOLUME_EXCLUSIVE: ConditionReason.WAITING_FOR_VOLUMES,
    ReasonCode.VOLUME_IN_USE: ConditionReason.UNSCHEDULABLE,
    ReasonCode.VOLUME_ATTACHMENTS: ConditionReason.UNSCHEDULABLE,
    ReasonCode.PREEMPTING: ConditionReason.WAITING_FOR_VICTIMS,
    ReasonCode.NO_VICTIMS: ConditionReason.UNSCHEDULABLE,
    ReasonCode.GANG_INCOMPLETE: ConditionReason.WAITING_FOR_MEMBERS,
    ReasonCode.GANG_INVALID: ConditionReason.POD_INVALID,
    # Enough members exist; nodes are missing.
    ReasonCode.GANG_UNPLACED: ConditionReason.UNSCHEDULABLE,
    ReasonCode.GANG_TOPOLOGY: ConditionReason.UNSCHEDULABLE,
    ReasonCode.NODE_RESERVED: ConditionReason.NODE_RESERVED,
    ReasonCode.RESERVATION_PENDING: ConditionReason.UNSCHEDULABLE,
    ReasonCode.OUTRANKED: ConditionReason.WAITING_FOR_ROOM,
    ReasonCode.BUDGET: ConditionReason.WAITING_FOR_ROOM,
    ReasonCode.TOO_COSTLY: ConditionReason.TOO_COSTLY,
    ReasonCode.SOLVER_FAILED: ConditionReason.SCHEDULER_ERROR,
    ReasonCode.BINDING_FAILED: ConditionReason.BINDING_FAILED,
    ReasonCode.VOLUME_BINDING_FAILED: ConditionReason.WAITING_FOR_VOLUMES,
    ReasonCode.VOLUME_CONTENDED: ConditionReason.WAITING_FOR_VOLUMES,
    ReasonCode.CONFLICT: ConditionReason.SCHEDULER_ERROR,
    ReasonCode.API_ERROR: ConditionReason.SCHEDULER_ERROR,
}
"""
The condition reason of each code.

Where devices are in use, tainted or in an incomplete pool, a new node may bring others: Unschedulable. Devices that
only our own configuration excludes are free by kube-scheduler's rules: a new node is not what is missing.
"""

_FITS_ALONE: Final = frozenset({ReasonCode.OUTRANKED, ReasonCode.BUDGET})
"""Codes of pods that fit alone; the reasons after them say what prevents it once the plan is carried out."""


def condition_reason(reasons: Sequence[Reason]) -> ConditionReason:
    """
    Return the condition's reason for all reasons of a pod.

    A reason that no new node can remove decides, at any position. A pod that fits alone is Unschedulable where further
    reasons say that the plan leaves no room for it, else WaitingForRoom.
    """
    return _of_codes(tuple(each.code for each in reasons))


@functools.lru_cache(maxsize=1024)
def _of_codes(codes: tuple[ReasonCode, ...]) -> ConditionReason:
    """Cache by codes: thousands of waiting pods have the same few."""
    found = [CONDITION.get(code, ConditionReason.UNSCHEDULABLE) for code in codes if code not in _FITS_ALONE]
    if not found:
        return ConditionReason.WAITING_FOR_ROOM if codes else ConditionReason.UNSCHEDULABLE
    others = set(found) - {ConditionReason.UNSCHEDULABLE}
    return next((each for each in ConditionReason if each in others), ConditionReason.UNSCHEDULABLE)


def leading_code(reasons: Sequence[Reason]) -> ReasonCode | None:
    """
    Return the code whose change is written at once: the first that does not say that the pod fits alone.

    Of pods that wait for the same device, each attempt gives one or the other of these: that is no change.
    """
    codes = [each.code for each in reasons]
    return next((each for each in codes if each not in _FITS_ALONE), codes[0] if codes else None)


_NO_DEVICES: Final = "cannot allocate all claims"
_ABOUT_DEVICES: Final = frozenset(
    {
        ReasonCode.SELECTOR_FAILED,
        ReasonCode.DEVICES_NONE,
        ReasonCode.DEVICES_IN_USE,
        ReasonCode.DEVICES_TAINTED,
        ReasonCode.DEVICES_AVOIDED,
        ReasonCode.DEVICES_CAPACITY,
        ReasonCode.DEVICES_COUNTERS,
        ReasonCode.DEVICES_CONSTRAINT,
        ReasonCode.DEVICES_NOT_OWNED,
        ReasonCode.DEVICES_OFFERED_TWICE,
    }
)
"""Reasons about a pod's claims, which are sentences and too long for the histogram of nodes."""
LONGEST_BYTES: Final = 8 * 1024
"""The longest message of a condition; the API takes 32 KiB."""
_LONGEST_REASON_BYTES: Final = 2 * 1024
"""The longest part of it: a user's long text leaves room for the other reasons."""


def condition_message(reasons: Sequence[Reason], node_count: int) -> str:
    """
    Compose the condition's message: a histogram of nodes in kube-scheduler's words, then the other reasons.

    Nodes whose devices do not match are counted as kube-scheduler counts them; what is wrong with the devices follows
    in sentences. Where only a write failed a node was found, and there is no histogram.
    """
    if reasons and all(reason.code is ReasonCode.API_ERROR for reason in reasons):
        return truncated(" ".join(map(_sentence, reasons)), LONGEST_BYTES)
    counts = Counter[str]()
    for reason in reasons:
        if reason.code in _ABOUT_DEVICES:
            counts[_NO_DEVICES] = max(counts[_NO_DEVICES], reason.node_count)
        elif reason.node_count:
            counts[_fragment(reason)] += reason.node_count
    histogram = ", ".join(f"{count} {text}" for text, count in counts.most_common() if count)
    others = [_sentence(reason) for reason in reasons if not reason.node_count or reason.code in _ABOUT_DEVICES]
    head = f"0/{node_count} nodes are available" + (f": {histogram}." if histogram else ".")
    return truncated(" ".join((head, *others)), LONGEST_BYTES)


def truncated(text: str, longest_bytes: int) -> str:
    """
    Cut a text to a number of UTF-8 bytes at a character boundary, ending in " ..." where something is missing.

    Characters that are not printable (control characters, line breaks, lone surrogates) are escaped.
    """
    text = wording.printable(text)
    encoded = text.encode()
    if len(encoded) <= longest_bytes:
        return text
    return encoded[: longest_bytes - 4].decode(errors="ignore") + " ..."


def _fragment(reason: Reason) -> str:
    return truncated(reason.message.rstrip(". "), _LONGEST_REASON_BYTES)


def _sentence(reason: Reason) -> str:
    text = _fragment(reason)
    return text if text.endswith("?") else text + "."


class ConditionState(msgspec.Struct, frozen=True, kw_only=True):
    """Reason and message of a pod's condition, and the leading code that they were made from."""

    reason: ConditionReason
    message: str
    code: ReasonCode | None


MESSAGES_WITHOUT_INVENTORY: Final = {
    ReasonCode.CONFLICT: "the cluster changed between decision and write; it is tried again",
    ReasonCode.API_ERROR: "a write was refused or could not be sent; it is tried again",
    ReasonCode.BINDING_FAILED: "a binding condition of a device failed, or was not True in time",
    ReasonCode.VOLUME_BINDING_FAILED: "a volume was not made or not bound in time, or was refused on the node",
}
"""Texts for the codes of the shell's own reasons that name no object of the cluster."""


def without_inventory(reasons: Sequence[Reason]) -> tuple[Reason, ...]:
    """Return reasons that name no nodes and devices, equal ones once."""
    found = (replace(each, message=MESSAGES_WITHOUT_INVENTORY.get(each.code, each.message)) for each in reasons)
    return tuple(dict.fromkeys(found))

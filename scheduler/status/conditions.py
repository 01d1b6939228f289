"""What a waiting pod's owner reads: the text of PodScheduled=False.

Pure. The text follows kube-scheduler's: `0/12 nodes are available: 8 Insufficient cpu, 4 node(s) had untolerated
taint.`, then what is not about nodes: `request gpus: 12 devices match, 3 are free, 2 needed.`

The reason of PodScheduled=False: a closed list, documented in docs/conditions.md.

Autoscalers (Cluster Autoscaler, Karpenter) act on the reason `Unschedulable` and simulate with kube-scheduler's rules
what one more node would do. So it stands only where by those rules one more node could help; whatever waits for
something else says so by a reason that no autoscaler takes for a call.

What is told where messages do not name nodes and devices (`messages.inventory: false`).

The solver leaves them out of its reasons by itself (`Policy.tells_inventory`). What the shell finds between decision
and write is about nodes and devices as a whole, and is told by its code alone.
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
    """No node does, and one more could."""
    POD_INVALID = "PodInvalid"
    """The pod or its group cannot be read, or what its pods say of the group disagrees."""
    CLAIM_INVALID = "ClaimInvalid"
    """A claim can be allocated nowhere as it is written, or belongs to another pod."""
    WAITING_FOR_CLAIMS = "WaitingForClaims"
    """A claim or its class does not exist yet, is being deleted, or has as many consumers as it may have."""
    CLAIM_ELSEWHERE = "ClaimElsewhere"
    """A claim is allocated on nodes that do not do, or holds a device that takes nobody any more."""
    WAITING_FOR_VOLUMES = "WaitingForVolumes"
    """A volume is not there or not bound yet."""
    WAITING_FOR_MEMBERS = "WaitingForMembers"
    """The pod's group is not complete."""
    WAITING_FOR_VICTIMS = "WaitingForVictims"
    """Pods were evicted for this one, and are not gone yet."""
    BINDING_CONDITIONS = "BindingConditionsPending"
    """A node is chosen, and the pod's devices are being got ready there."""
    BINDING_FAILED = "BindingFailed"
    """Devices did not get ready; the pod is decided anew."""
    DEVICES_NOT_OWNED = "DevicesNotOwned"
    """Devices that would do are left to another scheduler by the configuration."""
    DEVICES_OFFERED_TWICE = "DevicesOfferedTwice"
    """Devices that would do are offered by a device plugin of their node too."""
    DEVICES_AVOIDED = "DevicesAvoided"
    """Devices that would do are avoided for a while, because they did not get ready for a pod."""
    NODE_RESERVED = "NodeReserved"
    """A node that would do is kept for a pod that was passed over for too long."""
    TOO_COSTLY = "TooCostly"
    """To decide about the pod takes too much time or memory, or has to wait for the namespace's share of it."""
    WAITING_FOR_ROOM = "WaitingForRoom"
    """There is room for the pod alone: it is kept for others, or no plan with it was found yet."""
    SCHEDULER_ERROR = "SchedulerError"
    """Something failed in the scheduler or on the way to the API server; it is tried again."""


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
    # Enough members are there: nodes for those that have none are what is missing.
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
What each code says to an autoscaler.

Of a device that is in use, tainted or of an incomplete pool a new node may have another one, as kube-scheduler sees it;
one that only our configuration or caution withholds is free by its rules, and no node that it would add is missing.
"""

_LOST: Final = frozenset({ReasonCode.OUTRANKED, ReasonCode.BUDGET})
"""Codes of pods that fit alone; what follows them says what is in the way once the plan is carried out."""


def condition_reason(reasons: Sequence[Reason]) -> ConditionReason:
    """
    Give the condition's reason for all reasons of a pod.

    One that no node can remove decides, wherever it stands. A pod that lost is unschedulable where the plan leaves no
    room for it, by the reasons that follow, and waits for room where it would still fit.
    """
    return _of_codes(tuple(each.code for each in reasons))


@functools.lru_cache(maxsize=1024)
def _of_codes(codes: tuple[ReasonCode, ...]) -> ConditionReason:
    """Give it by the codes, of which thousands of pods that wait for the same have the same few."""
    found = [CONDITION.get(code, ConditionReason.UNSCHEDULABLE) for code in codes if code not in _LOST]
    if not found:
        return ConditionReason.WAITING_FOR_ROOM if codes else ConditionReason.UNSCHEDULABLE
    others = set(found) - {ConditionReason.UNSCHEDULABLE}
    return next((each for each in ConditionReason if each in others), ConditionReason.UNSCHEDULABLE)


def leading_code(reasons: Sequence[Reason]) -> ReasonCode | None:
    """
    Give the code that tells one state of a waiting pod from another: the first that is not about having lost.

    Pods that wait for the same device lose one time, and find it taken the next: that is no news.
    """
    codes = [each.code for each in reasons]
    return next((each for each in codes if each not in _LOST), codes[0] if codes else None)


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
"""Reasons that say why nodes cannot serve a pod's claims, in more words than a histogram has room for."""
LONGEST_BYTES: Final = 8 * 1024
"""The longest message of a condition; the API takes 32 KiB."""
_LONGEST_REASON_BYTES: Final = 2 * 1024
"""The longest of its parts: a user's long text leaves room for the other reasons."""


def condition_message(reasons: Sequence[Reason], node_count: int) -> str:
    """
    Compose the condition's message of the reasons: a histogram of nodes in kube-scheduler's words, then the rest.

    Nodes whose devices do not do are counted as kube-scheduler counts them, and what is wrong with the devices
    follows in sentences. Where a write failed there is a node, and none is counted.
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
    Cut a text to a number of UTF-8 bytes, at a character, ending in " ..." where something is missing.

    What is not printable (control characters, line breaks, half a surrogate pair) is escaped.
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
    """What a pod's condition says, which code it came from, and when it was written (monotonic seconds)."""

    reason: ConditionReason
    message: str
    code: ReasonCode | None


MESSAGES_WITHOUT_INVENTORY: Final = {
    ReasonCode.CONFLICT: "the cluster changed between decision and write; it is tried again",
    ReasonCode.API_ERROR: "a write was refused or could not be sent; it is tried again",
    ReasonCode.BINDING_FAILED: "a binding condition of a device failed, or was not True in time",
    ReasonCode.VOLUME_BINDING_FAILED: "a volume was not made or not bound in time, or was refused on the node",
}
"""Codes of the shell's own reasons, in words that name nothing of the cluster."""


def without_inventory(reasons: Sequence[Reason]) -> tuple[Reason, ...]:
    """Give reasons as they are told without nodes and devices; equal ones once."""
    told = (replace(each, message=MESSAGES_WITHOUT_INVENTORY.get(each.code, each.message)) for each in reasons)
    return tuple(dict.fromkeys(told))

"""
Reason and message of the condition PodScheduled=False. Pure.

The message begins with kube-scheduler's, word for word: `0/12 nodes are available: 4 Insufficient cpu, 8 cannot
allocate all claims.` Then comes what to write instead, where that is known, and then what Dovetail knows besides:
`Hint: split it over pods with at most 8 each. request gpus: needs 16 devices, 12 match, 3 free.`

The reason is one of a closed list (docs/reference/reasons.md). It is `Unschedulable` wherever kube-scheduler writes
that: autoscalers (Cluster Autoscaler, Karpenter) act on it, and simulate by its rules whether a new node helps.
Where only a rule or a wait of Dovetail keeps a pod from a node, kube-scheduler would bind it, and no new node helps.

With `messages.inventory: false` no message names a node or device. The solver leaves them out of its reasons itself
(`Policy.tells_inventory`); reasons that the shell adds are replaced by fixed texts (`without_inventory`).
"""

import functools
import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from enum import StrEnum
from typing import Final

import msgspec
from msgspec.structs import replace

from solver.domain import FITS_ALONE, Reason, ReasonCode, wording


class ConditionReason(StrEnum):
    """
    What `kubectl get pod -o yaml` shows as the reason of PodScheduled=False.

    The docstrings are the reference of these reasons (docs/reference/reasons.md): when there is one, and what helps.
    """

    UNSCHEDULABLE = "Unschedulable"
    """
    No existing node can take the pod by kube-scheduler's rules, or a claim is in use by other pods or on other nodes,
    or a DeviceClass or volume is missing. A node helps (autoscalers act on this reason), the end of a running pod, the
    class, or the volume.
    """
    POD_INVALID = "PodInvalid"
    """The pod or its group cannot be read, or the pods of the group contradict each other. Another pod helps."""
    MEMBER_CANNOT_START = "MemberCannotStart"
    """
    A pod that the group needs can start on no node, existing or new: its claim is another pod's or invalid, its class
    does not exist, its volume is lost, or its node selection contradicts itself. All waiting pods of the group have
    this reason, and the message names the pod that has to change.
    """
    CLAIM_INVALID = "ClaimInvalid"
    """
    No node can serve the claim as it is written: a selector fails, it asks for more than 32 devices, belongs to another
    pod, or costs too much. A new claim or template helps, as a claim cannot be changed.
    """
    WAITING_FOR_CLAIMS = "WaitingForClaims"
    """
    A claim does not exist yet or is being deleted. If its template is missing, or a ResourceQuota keeps it from being
    created, the message says so.
    """
    CLAIM_TAINTED = "ClaimTainted"
    """
    A device of an allocated claim has got a taint since. The end of the claim's other consumers helps, or a toleration
    in a new claim.
    """
    WAITING_FOR_VOLUMES = "WaitingForVolumes"
    """A volume was not provisioned or bound in time, or went to other pods of the same decision."""
    WAITING_FOR_MEMBERS = "WaitingForMembers"
    """The pod's group is not complete: other members are missing."""
    NO_SHAPE_HELPS = "NoShapeHelps"
    """
    With `autoscaling.shapesComplete`: the pod would fit on no node, even an empty one. Another pod helps, or a new kind
    of node.
    """
    WAITING_FOR_VICTIMS = "WaitingForVictims"
    """Pods were evicted for this one and have not ended yet. `nominatedNodeName` is its node."""
    BINDING_CONDITIONS = "BindingConditionsPending"
    """A node is chosen (`nominatedNodeName`), and the driver prepares the devices there."""
    BINDING_FAILED = "BindingFailed"
    """The devices failed or were not ready in time. The pod is decided again."""
    DEVICES_NOT_OWNED = "DevicesNotOwned"
    """The devices that match belong to another scheduler by the configuration (`devices.owned`)."""
    DEVICES_OFFERED_TWICE = "DevicesOfferedTwice"
    """
    A device plugin of the node offers the devices that match as well. `devices.allocateOnDevicePluginNodes` helps, or
    another setup of the driver.
    """
    DEVICES_AVOIDED = "DevicesAvoided"
    """The devices that match rest because they were not ready for a pod (`commit.avoidFailedDeviceSeconds`)."""
    QUOTA_EXCEEDED = "QuotaExceeded"
    """
    A DeviceQuota of the pod's namespace, or one above it, has no room for the devices that the pod needs. The end of a
    claim of the quota helps, or a higher limit; a new node does not.
    """
    NODE_RESERVED = "NodeReserved"
    """
    A node that could take the pod now is reserved for a pod that others passed for longer than
    `queue.starvationSeconds`.
    """
    ROOM_HELD = "RoomHeld"
    """There is room, and a DeviceHold keeps it for other pods to come (docs/holds.md). The end of the hold helps."""
    TOO_COSTLY = "TooCostly"
    """
    The decision takes too much time or memory, or the namespace has used up its time for such decisions. Simpler
    selectors help, fewer alternatives and constraints, or time.
    """
    WAITING_FOR_ROOM = "WaitingForRoom"
    """The pod alone would fit: the room goes to pods before it, or no plan with it was found in time."""
    SCHEDULER_ERROR = "SchedulerError"
    """Something failed in the scheduler or on the way to the API server; the scheduler tries again."""


CONDITION: Final[dict[ReasonCode, ConditionReason]] = {
    ReasonCode.POD_INVALID: ConditionReason.POD_INVALID,
    # Only in answers, about manifests and about nodes to add: no pod has these conditions.
    ReasonCode.POD_NOT_CREATED: ConditionReason.POD_INVALID,
    ReasonCode.NODE_LIMIT: ConditionReason.UNSCHEDULABLE,
    ReasonCode.CLAIM_MISSING: ConditionReason.WAITING_FOR_CLAIMS,
    ReasonCode.CLAIM_NOT_OWNED: ConditionReason.CLAIM_INVALID,
    ReasonCode.CLAIM_DELETING: ConditionReason.WAITING_FOR_CLAIMS,
    ReasonCode.CLAIM_INVALID: ConditionReason.CLAIM_INVALID,
    ReasonCode.CLAIM_FULL: ConditionReason.UNSCHEDULABLE,
    ReasonCode.CLAIM_ELSEWHERE: ConditionReason.UNSCHEDULABLE,
    ReasonCode.CLAIM_OUT_OF_REACH: ConditionReason.UNSCHEDULABLE,
    ReasonCode.CLAIM_TAINTED: ConditionReason.CLAIM_TAINTED,
    ReasonCode.CLAIM_TOO_LARGE: ConditionReason.CLAIM_INVALID,
    ReasonCode.CLASS_MISSING: ConditionReason.UNSCHEDULABLE,
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
    ReasonCode.DEVICES_INCOMPATIBLE: ConditionReason.UNSCHEDULABLE,
    ReasonCode.DEVICES_CONSTRAINT: ConditionReason.UNSCHEDULABLE,
    ReasonCode.DEVICES_NOT_OWNED: ConditionReason.DEVICES_NOT_OWNED,
    ReasonCode.DEVICES_OFFERED_TWICE: ConditionReason.DEVICES_OFFERED_TWICE,
    ReasonCode.POOL_INCOMPLETE: ConditionReason.UNSCHEDULABLE,
    ReasonCode.POOL_INVALID: ConditionReason.UNSCHEDULABLE,
    ReasonCode.VOLUME_CLAIM_MISSING: ConditionReason.UNSCHEDULABLE,
    ReasonCode.VOLUME_CLAIM_UNUSABLE: ConditionReason.UNSCHEDULABLE,
    ReasonCode.VOLUME_CLAIM_UNBOUND: ConditionReason.UNSCHEDULABLE,
    ReasonCode.VOLUME_MISSING: ConditionReason.UNSCHEDULABLE,
    ReasonCode.VOLUME_ELSEWHERE: ConditionReason.UNSCHEDULABLE,
    ReasonCode.VOLUME_NONE: ConditionReason.UNSCHEDULABLE,
    ReasonCode.VOLUME_CAPACITY: ConditionReason.UNSCHEDULABLE,
    ReasonCode.VOLUME_EXCLUSIVE: ConditionReason.UNSCHEDULABLE,
    ReasonCode.VOLUME_IN_USE: ConditionReason.UNSCHEDULABLE,
    ReasonCode.VOLUME_ATTACHMENTS: ConditionReason.UNSCHEDULABLE,
    ReasonCode.VOLUME_DRIVER_MISSING: ConditionReason.UNSCHEDULABLE,
    ReasonCode.PREEMPTING: ConditionReason.WAITING_FOR_VICTIMS,
    ReasonCode.NO_VICTIMS: ConditionReason.UNSCHEDULABLE,
    ReasonCode.PREEMPTION_DELAYED: ConditionReason.UNSCHEDULABLE,
    ReasonCode.GANG_INCOMPLETE: ConditionReason.WAITING_FOR_MEMBERS,
    ReasonCode.GANG_INVALID: ConditionReason.POD_INVALID,
    # Enough members exist; nodes are missing.
    ReasonCode.GANG_UNPLACED: ConditionReason.UNSCHEDULABLE,
    ReasonCode.GANG_TOPOLOGY: ConditionReason.UNSCHEDULABLE,
    ReasonCode.QUOTA_EXCEEDED: ConditionReason.QUOTA_EXCEEDED,
    ReasonCode.GANG_BLOCKED: ConditionReason.MEMBER_CANNOT_START,
    ReasonCode.NO_SHAPE: ConditionReason.NO_SHAPE_HELPS,
    ReasonCode.NODE_RESERVED: ConditionReason.NODE_RESERVED,
    ReasonCode.ROOM_HELD: ConditionReason.ROOM_HELD,
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

KEEPS_NOMINATION: Final = frozenset(
    {
        ReasonCode.PREEMPTING,
        ReasonCode.BUDGET,
        ReasonCode.TOO_COSTLY,
        ReasonCode.SOLVER_FAILED,
        ReasonCode.CONFLICT,
        ReasonCode.API_ERROR,
    }
)
"""
Codes with which status.nominatedNodeName stays as it is, and the room on that node reserved.

A preemption has written it itself; with the others no decision against the pod was made.
"""


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
    found = [CONDITION.get(code, ConditionReason.UNSCHEDULABLE) for code in codes if code not in FITS_ALONE]
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
    return next((each for each in codes if each not in FITS_ALONE), codes[0] if codes else None)


def only_waits_for_claims(reasons: Sequence[Reason]) -> bool:
    """Whether nothing is wrong but that claims do not exist yet, as of nearly every pod with a template at first."""
    return bool(reasons) and all(each.code is ReasonCode.CLAIM_MISSING for each in reasons)


_NODE_FOUND: Final = frozenset({ReasonCode.API_ERROR, ReasonCode.BINDING_FAILED, ReasonCode.VOLUME_BINDING_FAILED})
"""Codes of pods that had a node: what failed is a write, or the preparation of devices and volumes there."""
_WITHOUT_NODES: Final = frozenset({ReasonCode.NO_NODES, ReasonCode.QUOTA_EXCEEDED})
"""Codes of pods for which nodes are not what is missing, or of which there are none."""
HINT_LEAD: Final = "Hint: "
"""The start of a hint in a condition; it stands behind the counts."""
LONGEST_BYTES: Final = 8 * 1024
"""The longest message of a condition; the API takes 32 KiB."""
_LONGEST_REASON_BYTES: Final = 2 * 1024
"""The longest part of it: a user's long text leaves room for the other reasons."""


def condition_message(reasons: Sequence[Reason], node_count: int) -> str:
    """
    Compose the condition's message: kube-scheduler's FitError word for word, then what Dovetail knows besides.

    FitError is `0/8 nodes are available:` and the sorted numbers of nodes by reason. If a PreFilter plugin refuses all
    nodes, its reason stands there instead. A pod that had a node or that a quota keeps back, or a cluster without
    nodes, has none.
    """
    codes = {each.code for each in reasons}
    if codes & _WITHOUT_NODES or (codes and codes <= _NODE_FOUND):
        return truncated(" ".join(_own_words(reasons)), LONGEST_BYTES)
    counts = Counter[str]()
    for each in reasons:
        if each.node_count:
            counts[_fragment(each.counted_as)] += each.node_count
    refused = next((_fragment(each.status) for each in reasons if each.status), "") if not counts else ""
    listed = refused or ", ".join(sorted(f"{count} {text}" for text, count in counts.items()))
    head = f"0/{node_count} nodes are available" + (f": {listed}." if listed else ".")
    return truncated(" ".join((head, *_own_words(reasons, {refused, *counts}))), LONGEST_BYTES)


def _own_words(reasons: Sequence[Reason], said: Collection[str] = ()) -> Iterable[str]:
    """Return the hints and then a sentence of all reasons, but for those that kube-scheduler's words have said."""
    statuses = [each.status for each in reasons if each.code is ReasonCode.GANG_UNPLACED and each.status]
    of_gangs = [_ended(each) for each in statuses if _fragment(each) not in said]
    parts = [(each, *each.message.partition(wording.HINT)[::2]) for each in reasons]
    hints = [_ended(f"{HINT_LEAD}{_fragment(hint)}") for _, _, hint in parts if hint]
    fragments = [(each, _fragment(text)) for each, text, _ in parts]
    own = dict.fromkeys(_counted(each, text) for each, text in fragments if not _is_said(each, text, said))
    return dict.fromkeys((*of_gangs, *hints, *([_ended("; ".join(own))] if own else ())))


def _is_said(reason: Reason, text: str, said: Collection[str]) -> bool:
    """Whether kube-scheduler's words say all of it; `claim c, request r: …` has but the claim before its own status."""
    status = _fragment(reason.status)
    return text in said or (bool(status) and status in said and text.endswith(f", {status}"))


COUNTS: Final = re.compile(r"^0/\d+ nodes are available(?:: (?P<counts>.*?))?\.(?: |$)")
"""kube-scheduler's part of a message."""
_HINT: Final = re.compile(rf"(?:^|(?<=[.?] )){HINT_LEAD}(?P<hint>.*?)(?:\.|(?<=\?))(?: |$)")


def hints_of(message: str) -> list[str]:
    """Return the hints of a condition's message."""
    return [each["hint"] for each in _HINT.finditer(message)]


def without_hints(message: str, told: Collection[str]) -> str:
    """Return a condition's message without some hints."""
    return _HINT.sub(lambda found: "" if found["hint"] in told else found[0], message).rstrip()


def with_binding_failure(message: str, failure: str) -> str:
    """Add that devices did not get ready in an earlier attempt (KEP-5007): users look for it until the pod is bound."""
    if not failure:
        return truncated(message, LONGEST_BYTES)
    earlier = f" Before that: {_fragment(failure)}."
    return truncated(message.rstrip(".") + ".", LONGEST_BYTES - len(earlier.encode())) + earlier


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


def _fragment(text: str) -> str:
    return truncated(text.rstrip(". "), _LONGEST_REASON_BYTES)


def _counted(reason: Reason, text: str) -> str:
    return f"{reason.node_count} {text}" if reason.node_count and text.startswith("node(s)") else text


def _ended(text: str) -> str:
    return text if text.endswith("?") else text + "."


class ConditionState(msgspec.Struct, frozen=True, kw_only=True):
    """Reason and message of a pod's condition, and the leading code that they were made from."""

    reason: ConditionReason
    message: str
    code: ReasonCode | None


MESSAGES_WITHOUT_INVENTORY: Final = {
    ReasonCode.CONFLICT: "the cluster changed between decision and write; the scheduler tries again",
    ReasonCode.API_ERROR: "a write was refused or could not be sent; the scheduler tries again",
    ReasonCode.BINDING_FAILED: "device binding failed, or binding timeout: a binding condition failed or was not True "
    "in time",
    ReasonCode.VOLUME_BINDING_FAILED: "a volume was not provisioned or bound in time, or the node refused it",
}
"""Texts for the codes of the shell's own reasons that name no object of the cluster."""


def without_inventory(reasons: Sequence[Reason]) -> tuple[Reason, ...]:
    """Return reasons that name no nodes and devices, equal ones once."""
    found = (replace(each, message=MESSAGES_WITHOUT_INVENTORY.get(each.code, each.message)) for each in reasons)
    return tuple(dict.fromkeys(found))

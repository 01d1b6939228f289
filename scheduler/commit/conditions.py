"""
What a waiting pod's owner reads: the text of PodScheduled=False, and when it is worth another write.

Pure. The text follows kube-scheduler's: `0/12 nodes are available: 8 Insufficient cpu, 4 node(s) had untolerated
taint.`, then what is not about nodes: `request gpus: 12 devices match, 3 are free, 2 needed.`
"""

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Final

import msgspec

from solver.domain import Reason, ReasonCode

UNSCHEDULABLE: Final = "Unschedulable"
SCHEDULER_ERROR: Final = "SchedulerError"
BINDING_CONDITIONS: Final = "BindingConditionsPending"
"""A node is chosen, and its devices are being got ready: the pod is anything but unschedulable."""

_ERRORS: Final = frozenset(
    {
        ReasonCode.POD_INVALID,
        ReasonCode.CLAIM_INVALID,
        ReasonCode.SELECTOR_INVALID,
        ReasonCode.SELECTOR_FAILED,
        ReasonCode.SOLVER_FAILED,
        ReasonCode.CONFLICT,
        ReasonCode.API_ERROR,
    }
)
_NO_DEVICES: Final = "cannot allocate all claims"
_ABOUT_DEVICES: Final = frozenset(
    {
        ReasonCode.SELECTOR_FAILED,
        ReasonCode.DEVICES_NONE,
        ReasonCode.DEVICES_IN_USE,
        ReasonCode.DEVICES_TAINTED,
        ReasonCode.DEVICES_CAPACITY,
        ReasonCode.DEVICES_COUNTERS,
        ReasonCode.DEVICES_CONSTRAINT,
        ReasonCode.DEVICES_NOT_OWNED,
        ReasonCode.DEVICES_OFFERED_TWICE,
    }
)
"""Reasons that say why nodes cannot serve a pod's claims, in more words than a histogram has room for."""
_LONGEST_BYTES: Final = 8 * 1024
_REWRITE_SECONDS: Final = 60.0


def condition_reason(reasons: Sequence[Reason]) -> str:
    """Give the condition's reason: an error of the scheduler or the objects, or plainly unschedulable."""
    return SCHEDULER_ERROR if reasons and reasons[0].code in _ERRORS else UNSCHEDULABLE


def condition_message(reasons: Sequence[Reason], node_count: int) -> str:
    """
    Compose the condition's message of the reasons: a histogram of nodes in kube-scheduler's words, then the rest.

    Nodes whose devices do not do are counted as kube-scheduler counts them, and what is wrong with the devices
    follows in sentences.
    """
    counts = Counter[str]()
    for reason in reasons:
        if reason.code in _ABOUT_DEVICES:
            counts[_NO_DEVICES] = max(counts[_NO_DEVICES], reason.node_count)
        elif reason.node_count:
            counts[_fragment(reason)] += reason.node_count
    histogram = ", ".join(f"{count} {text}" for text, count in counts.most_common() if count)
    others = [_sentence(reason) for reason in reasons if not reason.node_count or reason.code in _ABOUT_DEVICES]
    head = f"0/{node_count} nodes are available" + (f": {histogram}." if histogram else ".")
    return shortened(" ".join((head, *others)), _LONGEST_BYTES)


def shortened(text: str, longest_bytes: int) -> str:
    """Cut a text to a number of UTF-8 bytes, at a character, ending in " ..." where something is missing."""
    encoded = text.encode()
    if len(encoded) <= longest_bytes:
        return text
    return encoded[: longest_bytes - 4].decode(errors="ignore") + " ..."


def _fragment(reason: Reason) -> str:
    return reason.message.rstrip(". ")


def _sentence(reason: Reason) -> str:
    text = _fragment(reason)
    return text if text.endswith("?") else text + "."


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """What a pod's condition says, which reason codes it came from, and when it was written (monotonic seconds)."""

    reason: str
    message: str
    codes: frozenset[ReasonCode]
    at: float


class Conditions:
    """
    Remembers what each waiting pod was told, so that equal texts are not written again.

    A text that changed while the codes are the same (numbers in it went up or down) is written once a minute.
    """

    def __init__(self) -> None:
        self._told: Final[dict[str, Told]] = {}

    def next(self, pod_uid: str, reasons: Sequence[Reason], node_count: int, now: float) -> Told | None:
        """Give what is to be written about the pod now, or None where the last text still does."""
        told = Told(
            reason=condition_reason(reasons),
            message=condition_message(reasons, node_count),
            codes=frozenset(reason.code for reason in reasons),
            at=now,
        )
        before = self._told.get(pod_uid)
        if before is not None and before.reason == told.reason:
            if before.message == told.message:
                return None
            if before.codes == told.codes and now - before.at < _REWRITE_SECONDS:
                return None
        self._told[pod_uid] = told
        return told

    def say(self, pod_uid: str, message: str, now: float) -> Told | None:
        """Give what is to be written about a pod that waits for its devices to get ready, None where it was told."""
        message = shortened(message, _LONGEST_BYTES)
        told = Told(reason=BINDING_CONDITIONS, message=message, codes=frozenset(), at=now)
        before = self._told.get(pod_uid)
        if before is not None and (before.reason, before.message) == (told.reason, told.message):
            return None
        self._told[pod_uid] = told
        return told

    def forget(self, pod_uids: Collection[str]) -> None:
        """Drop pods that are gone or bound, or whose text could not be written."""
        for uid in pod_uids:
            self._told.pop(uid, None)

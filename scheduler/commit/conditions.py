"""
What a waiting pod's owner reads: the text of PodScheduled=False, and when it is worth another write.

Pure. The text follows kube-scheduler's: `0/12 nodes are available: 8 Insufficient cpu, 4 node(s) had untolerated
taint.`, then what is not about nodes: `request gpus: 12 devices match, 3 are free, 2 needed.`
"""

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
_LONGEST_BYTES: Final = 8 * 1024
_REWRITE_SECONDS: Final = 60.0


def condition_reason(reasons: Sequence[Reason]) -> str:
    """Give the condition's reason: an error of the scheduler or the objects, or plainly unschedulable."""
    return SCHEDULER_ERROR if reasons and reasons[0].code in _ERRORS else UNSCHEDULABLE


def condition_message(reasons: Sequence[Reason], node_count: int) -> str:
    """Compose the condition's message of the reasons, in their order; the histogram of nodes stands first."""
    per_node = [reason for reason in reasons if reason.node_count]
    per_node.sort(key=lambda reason: -reason.node_count)
    histogram = ", ".join(f"{reason.node_count} {_fragment(reason)}" for reason in per_node)
    others = [_sentence(reason) for reason in reasons if not reason.node_count]
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
    return _fragment(reason) + "."


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

    def say(self, pod_uid: str, message: str, now: float) -> Told:
        """Give what is to be written about a pod that waits for its devices to get ready."""
        message = shortened(message, _LONGEST_BYTES)
        told = Told(reason=BINDING_CONDITIONS, message=message, codes=frozenset(), at=now)
        self._told[pod_uid] = told
        return told

    def forget(self, pod_uids: Collection[str]) -> None:
        """Drop pods that are gone or bound, or whose text could not be written."""
        for uid in pod_uids:
            self._told.pop(uid, None)

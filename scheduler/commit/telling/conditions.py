"""
What a waiting pod's owner reads: the text of PodScheduled=False.

Pure. The text follows kube-scheduler's: `0/12 nodes are available: 8 Insufficient cpu, 4 node(s) had untolerated
taint.`, then what is not about nodes: `request gpus: 12 devices match, 3 are free, 2 needed.`
"""

from collections import Counter
from collections.abc import Sequence
from typing import Final

import msgspec

from scheduler.commit.telling.condition_reasons import ConditionReason
from solver.domain import Reason, ReasonCode, wording

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
        return shortened(" ".join(map(_sentence, reasons)), LONGEST_BYTES)
    counts = Counter[str]()
    for reason in reasons:
        if reason.code in _ABOUT_DEVICES:
            counts[_NO_DEVICES] = max(counts[_NO_DEVICES], reason.node_count)
        elif reason.node_count:
            counts[_fragment(reason)] += reason.node_count
    histogram = ", ".join(f"{count} {text}" for text, count in counts.most_common() if count)
    others = [_sentence(reason) for reason in reasons if not reason.node_count or reason.code in _ABOUT_DEVICES]
    head = f"0/{node_count} nodes are available" + (f": {histogram}." if histogram else ".")
    return shortened(" ".join((head, *others)), LONGEST_BYTES)


def shortened(text: str, longest_bytes: int) -> str:
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
    return shortened(reason.message.rstrip(". "), _LONGEST_REASON_BYTES)


def _sentence(reason: Reason) -> str:
    text = _fragment(reason)
    return text if text.endswith("?") else text + "."


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """What a pod's condition says, which code it came from, and when it was written (monotonic seconds)."""

    reason: ConditionReason
    message: str
    code: ReasonCode | None
    at: float

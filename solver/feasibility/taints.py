"""Taints and tolerations of nodes and of devices: the same relation with different effects."""

from collections.abc import Iterable
from typing import Final

from solver.domain import BINDING_FAILED_TAINT, UNREADABLE_TAINT, Taint, TaintEffect, Toleration

_BLOCKING: Final = frozenset({TaintEffect.NO_SCHEDULE, TaintEffect.NO_EXECUTE})
UNSCHEDULABLE: Final = Taint(key="node.kubernetes.io/unschedulable", effect=TaintEffect.NO_SCHEDULE)
"""What spec.unschedulable means for tolerations."""


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Whether a toleration covers a taint (core/v1 ToleratesTaint; empty key or effect match all but our own)."""
    if taint.key == UNREADABLE_TAINT:
        return False
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key != taint.key and (toleration.key or taint.key == BINDING_FAILED_TAINT):
        return False
    match toleration.operator:
        case "Exists":
            return True
        case "Equal" | "":
            return toleration.value == taint.value
        case _:
            return False


def first_untolerated(taints: Iterable[Taint], tolerations: tuple[Toleration, ...]) -> Taint | None:
    """Give the first taint that keeps new work away: NoSchedule or NoExecute, and covered by no toleration."""
    for taint in taints:
        if taint.effect in _BLOCKING and not any(tolerates(toleration, taint) for toleration in tolerations):
            return taint
    return None

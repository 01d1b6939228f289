"""Which taints a pod tolerates, and what that says of a node: single values, without arrays."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from msgspec.structs import replace

from solver.domain import (
    BINDING_FAILED_TAINT,
    EXCLUDING_EFFECTS,
    GOING_TAINTS,
    UNREADABLE_TAINT,
    Node,
    Pod,
    Reason,
    ReasonCode,
    Taint,
    TaintEffect,
    Toleration,
    node_reason,
    wording,
)
from solver.domain.label_selectors import integer

_CANONICAL: Final = re.compile(r"0|-?[1-9][0-9]*", re.ASCII)
_SHOWN_TAINTS: Final = 4
UNSCHEDULABLE: Final = node_reason(ReasonCode.NODE_UNSCHEDULABLE, "node(s) were unschedulable")
NOT_READY_TAINTS: Final = frozenset({"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"})
"""The keys of the taints of nodes whose kubelet is silent, or says that it is not ready."""
UNSCHEDULABLE_TAINT: Final = Taint(key="node.kubernetes.io/unschedulable", effect=TaintEffect.NO_SCHEDULE)
"""The taint of spec.unschedulable, for tolerations."""


_NAMED: Final = frozenset({BINDING_FAILED_TAINT, *GOING_TAINTS})
"""Keys that a toleration has to name."""


def node_tolerations(pod: Pod) -> tuple[Toleration, ...]:
    """
    Return the tolerations of a pod for taints of nodes.

    A pod that belongs to its node, as of a DaemonSet, runs there until the node is gone: where it tolerates every key,
    it tolerates those of nodes that go, too. Other pods would be evicted at once (`GOING_TAINTS`).
    """
    blanket = [each for each in pod.tolerations if not each.key] if pod.belongs_to_node else []
    named = (replace(each, key=key) for each in blanket for key in sorted(GOING_TAINTS))
    return (*pod.tolerations, *named) if blanket else pod.tolerations


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Whether a toleration tolerates a taint (core/v1 ToleratesTaint; the keys of `_NAMED` have to be named)."""
    if taint.key == UNREADABLE_TAINT:
        return False
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key != taint.key and (toleration.key or taint.key in _NAMED):
        return False
    match toleration.operator:
        case "Exists":
            return True
        case "Equal" | "":
            return toleration.value == taint.value
        case "Gt":
            return _is_less(toleration.value, taint.value)
        case "Lt":
            return _is_less(taint.value, toleration.value)
        case _:
            return False


def _is_less(lower: str, upper: str) -> bool:
    """Compare as a toleration does (KEP-5471): 64-bit integers in canonical form; anything else does not match."""
    if not (_CANONICAL.fullmatch(lower) and _CANONICAL.fullmatch(upper)):
        return False
    low, high = integer(lower), integer(upper)
    return low is not None and high is not None and low < high


def first_untolerated_taint(taints: Iterable[Taint], tolerations: tuple[Toleration, ...]) -> Taint | None:
    """Return the first NoSchedule or NoExecute taint that no toleration tolerates."""
    for taint in taints:
        if taint.effect in EXCLUDING_EFFECTS and not any(tolerates(toleration, taint) for toleration in tolerations):
            return taint
    return None


def objection(node: Node, tolerations: tuple[Toleration, ...]) -> Reason | None:
    """Return the reason against a node that is cordoned or has a taint that these tolerations do not tolerate."""
    if is_cordoned(node, tolerations):
        return UNSCHEDULABLE
    taint = first_untolerated_taint(node.taints, tolerations) if node.taints else None
    return untolerated({taint: 1}) if taint is not None else None


def is_cordoned(node: Node, tolerations: tuple[Toleration, ...]) -> bool:
    """Whether a node is unschedulable for a pod with these tolerations."""
    return node.is_unschedulable and first_untolerated_taint((UNSCHEDULABLE_TAINT,), tolerations) is not None


def untolerated(counts: Mapping[Taint, int]) -> Reason:
    """Return the reason of nodes with untolerated taints, given on how many nodes each comes first."""
    named = Counter[str]()
    for taint, count in counts.items():
        named[f"{{{taint.key}: {taint.value}}}"] += count
    ordered = sorted(named.items(), key=lambda item: (-item[1], item[0]))
    several = wording.shortened([f"{count} {name}" for name, count in ordered], _SHOWN_TAINTS)
    message = f"node(s) had untolerated taint{f's: {several}' if len(named) > 1 else f' {next(iter(named), str())}'}"
    return Reason(code=ReasonCode.NODE_TAINT, message=message, node_count=1, status="node(s) had untolerated taint(s)")


def prefer_no_schedule_taints(node: Node) -> tuple[Taint, ...]:
    """Return the PreferNoSchedule taints of a node."""
    return tuple(each for each in node.taints if each.effect == TaintEffect.PREFER_NO_SCHEDULE)


def untolerated_count(node: Node, tolerations: tuple[Toleration, ...]) -> int:
    """Count the PreferNoSchedule taints that no toleration tolerates."""
    return sum(not any(tolerates(each, taint) for each in tolerations) for taint in prefer_no_schedule_taints(node))

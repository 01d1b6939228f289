"""Node selectors, taints and tolerations, implemented from the API documentation (core/v1)."""

import re
from collections.abc import Iterable, Iterator
from typing import Final

from solver.domain import (
    BINDING_FAILED_TAINT,
    GOING_TAINTS,
    UNREADABLE_TAINT,
    Node,
    NodeScope,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Pod,
    Taint,
    Toleration,
)

_DECIMAL: Final = re.compile(r"0|-?[1-9][0-9]*", re.ASCII)
_INTEGER: Final = re.compile(r"([+-]?)0*([0-9]{1,19})", re.ASCII)
_LARGEST: Final = 2**63 - 1


def selects(selector: NodeSelector, node: Node) -> bool:
    """Whether a node selector matches a node: one of its terms holds."""
    return any(term_holds(term, node) for term in selector.terms)


def term_holds(term: NodeSelectorTerm, node: Node) -> bool:
    """Whether all requirements of a term hold; an empty term never holds."""
    fields = {"metadata.name": node.name}
    labels = dict(node.labels)
    outcomes = [_holds(each, fields) for each in term.match_fields]
    outcomes += [_holds(each, labels) for each in term.match_expressions]
    return bool(outcomes) and all(outcomes)


def _holds(requirement: NodeSelectorRequirement, values: dict[str, str]) -> bool:
    has = requirement.key in values
    value = values.get(requirement.key, "")
    match requirement.operator:
        case "In":
            return has and value in requirement.values
        case "NotIn":
            return not has or value not in requirement.values
        case "Exists":
            return has
        case "DoesNotExist":
            return not has
        case "Gt":
            return has and _is_ordered(requirement.values, (value,))
        case "Lt":
            return has and _is_ordered((value,), requirement.values)
        case _:
            return False


def _is_ordered(lower: tuple[str, ...], upper: tuple[str, ...]) -> bool:
    """Whether both have one value, a 64-bit integer, and the first is smaller."""
    if len(lower) != 1 or len(upper) != 1:
        return False
    low, high = _INTEGER.fullmatch(lower[0]), _INTEGER.fullmatch(upper[0])
    if low is None or high is None:
        return False
    return -_LARGEST - 1 <= int("".join(low.groups())) < int("".join(high.groups())) <= _LARGEST


def reaches(scope: NodeScope, node: Node) -> bool:
    """Whether a slice's or device's scope includes the node; a scope of an unknown kind includes none."""
    if scope.node_name:
        return scope.node_name == node.name
    if scope.node_selector is not None:
        return selects(scope.node_selector, node)
    return scope.all_nodes


def untolerated(taints: Iterable[Taint], tolerations: tuple[Toleration, ...]) -> Iterator[Taint]:
    """Return the NoSchedule and NoExecute taints that no toleration tolerates."""
    for taint in taints:
        blocks = taint.effect in {"NoSchedule", "NoExecute"}
        if blocks and not any(_tolerates(each, taint) for each in tolerations):
            yield taint


def untolerated_by(pod: Pod, taints: Iterable[Taint]) -> Iterator[Taint]:
    """Return the taints of a node that a pod does not tolerate; a DaemonSet's pod stays on a node that goes."""
    has_every_key = pod.belongs_to_node and any(not each.key and each.operator == "Exists" for each in pod.tolerations)
    for taint in untolerated(taints, pod.tolerations):
        effects = {each.effect for each in pod.tolerations if not each.key and each.operator == "Exists"}
        if not (has_every_key and taint.key in GOING_TAINTS and effects & {"", taint.effect}):
            yield taint


def _tolerates(toleration: Toleration, taint: Taint) -> bool:
    if taint.key == UNREADABLE_TAINT:
        return False
    same_effect = toleration.effect in {"", taint.effect}
    is_named = taint.key == BINDING_FAILED_TAINT or taint.key in GOING_TAINTS
    same_key = toleration.key == taint.key or (not toleration.key and not is_named)
    match toleration.operator:
        case "Exists":
            same_value = True
        case "Equal" | "":
            same_value = toleration.value == taint.value
        case "Gt":
            same_value = _is_decimal_above(taint.value, toleration.value)
        case "Lt":
            same_value = _is_decimal_above(toleration.value, taint.value)
        case _:
            same_value = False
    return same_effect and same_key and same_value


def _is_decimal_above(high: str, low: str) -> bool:
    return all(_DECIMAL.fullmatch(each) for each in (high, low)) and _is_ordered((low,), (high,))

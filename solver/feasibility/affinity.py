"""Node selectors against nodes, as core/v1 defines them (k8s.io/component-helpers nodeaffinity)."""

import re
from collections.abc import Mapping
from typing import Final

from solver.domain import NodeSelector, NodeSelectorOperator, NodeSelectorRequirement, NodeSelectorTerm, is_met

_INTEGER: Final = re.compile(r"(?P<sign>[+-]?)0*(?P<digits>[0-9]{1,19})", re.ASCII)
"""Python refuses to read numbers of thousands of digits, zeros in front among them."""


def matches(selector: NodeSelector, node_name: str, labels: Mapping[str, str]) -> bool:
    """Whether at least one term holds for a node."""
    return any(matches_term(term, node_name, labels) for term in selector.terms)


def matches_term(term: NodeSelectorTerm, node_name: str, labels: Mapping[str, str]) -> bool:
    """Whether every requirement of a term holds; a term without requirements matches nothing."""
    if not term.match_expressions and not term.match_fields:
        return False
    fields = {"metadata.name": node_name}
    return all(holds(requirement, fields) for requirement in term.match_fields) and all(
        holds(requirement, labels) for requirement in term.match_expressions
    )


def holds(requirement: NodeSelectorRequirement, labels: Mapping[str, str]) -> bool:
    """Whether labels (or fields) meet one requirement."""
    value = labels.get(requirement.key)
    if requirement.operator in (NodeSelectorOperator.GT, NodeSelectorOperator.LT):
        return value is not None and _compares(value, requirement)
    return is_met(requirement.operator, value, requirement.values)


def _compares(value: str, requirement: NodeSelectorRequirement) -> bool:
    """Compare as 64-bit integers; what is not one does not match."""
    if len(requirement.values) != 1:
        return False
    left, right = integer(value), integer(requirement.values[0])
    if left is None or right is None:
        return False
    return left > right if requirement.operator == NodeSelectorOperator.GT else left < right


def integer(text: str) -> int | None:
    """Read a 64-bit integer as Gt and Lt do; None for any other text."""
    match = _INTEGER.fullmatch(text)
    if match is None:
        return None
    number = int(match["sign"] + match["digits"])
    return number if -(2**63) <= number < 2**63 else None

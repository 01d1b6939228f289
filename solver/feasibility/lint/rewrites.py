"""Expressions that do not compile, where it is clear what they mean: the same comparison as the language has it."""

import functools
from typing import Final

from solver.feasibility.cel import tree
from solver.feasibility.cel.errors import ExpressionError
from solver.feasibility.cel.parse import parse
from solver.feasibility.lint import expressions, published
from solver.feasibility.lint.expressions import Amount, Comparison

_LONGEST: Final = 4096


@functools.lru_cache(maxsize=256)
def of_uncompiled(expression: str) -> str:
    """Write the first comparison of a quantity or version that is not made by a method; empty where there is none."""
    if len(expression) > _LONGEST:
        return ""
    try:
        parts = expressions.parts(parse(expression))
        return next((f"write {hint}" for part in parts if (hint := _rewritten(part))), "")
    except (ExpressionError, RecursionError):
        return ""


def _rewritten(node: tree.Node) -> str:
    comparison = expressions.comparison_of(node)
    if comparison is None:
        return ""
    if isinstance(comparison.constant, Amount):
        is_method = not isinstance(node, tree.Call) or all(expressions.read_of(each) is None for each in node.arguments)
        return "" if is_method or comparison.operator in {"==", "!="} else _by_method(comparison)
    amount = expressions.quantity_of(comparison.constant) if comparison.read.is_capacity else None
    return _by_method(comparison._replace(constant=Amount("quantity", amount.text))) if amount is not None else ""


def _by_method(comparison: Comparison) -> str:
    read, operator, amount = comparison
    place = published.written(read._replace(is_capacity=amount.function == "quantity"))
    constant = expressions.shown(amount)
    match operator:
        case ">":
            return f"{place}.isGreaterThan({constant})"
        case "<":
            return f"{place}.isLessThan({constant})"
        case "==":
            return f"{place}.compareTo({constant}) >= 0"
        case _:
            return f"{place}.compareTo({constant}) {operator} 0"

"""
Selectors split into conditions that must all hold: the one that fails is explained.

Also matchAttribute over attributes that the selected devices do not publish, and expressions that do not compile but
have a clear meaning.
"""

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from solver.cel import tree
from solver.cel.compile import compile_part
from solver.cel.errors import ExpressionError
from solver.cel.parse import parse
from solver.cel.reads import Read
from solver.domain import Allowance
from solver.domain.wording import nearest
from solver.feasibility.device_attributes import AttributeName, lookup
from solver.feasibility.lint import expressions, near_values, published
from solver.feasibility.lint.expressions import Amount, Comparison
from solver.feasibility.lint.published import Candidate
from solver.feasibility.selectors import Selector, SelectorError, compile_selector


def of_constraint(
    attribute: AttributeName,
    selected: Mapping[str, Sequence[Candidate]],
    others: Sequence[Candidate],
    can_hold: Callable[[str], bool],
) -> str:
    """
    Say for which request no device publishes a constraint's attribute, and which one they share instead.

    `selected` are the matching devices by request name; `others` match no request. `can_hold` says of the full name of
    an attribute whether its values allow what the constraint asks for: only such a one is suggested.
    """
    name = f"{attribute.domain}/{attribute.id}"
    for request, candidates in selected.items():
        if not candidates or any(lookup(each.driver, each.device, attribute) for each in candidates):
            continue
        text = f"no device that request {request} selects publishes {name}"
        if any(lookup(each.driver, each.device, attribute) for each in others):
            text += ", only others do"
        every = [
            {f"{domain}/{each}" for domain, each in published.names(candidate, is_capacity=False)}
            for group in selected.values()
            for candidate in group
        ]
        in_all = set.intersection(*every) if every else set()
        known = {each.partition("/")[2]: each for each in sorted(in_all) if can_hold(each)}
        close = nearest(attribute.id, known)
        return f"{text}: write {known[close]}" if close else text
    return ""


@functools.lru_cache(maxsize=256)
def of_uncompiled(expression: str) -> str:
    """Rewrite the first comparison of a quantity or version by operators as a method call; empty if there is none."""
    if len(expression) > _LONGEST:
        return ""
    try:
        parts = expressions.parts(parse(expression))
        return next((f"write {hint}" for part in parts if (hint := _rewritten(part)) and _compiles(hint)), "")
    except (ExpressionError, RecursionError):
        return ""


def _rewritten(node: tree.AstNode) -> str:
    joined = expressions.joined_comparison(node)
    comparison = joined or expressions.comparison_of(node)
    if comparison is None:
        return ""
    if isinstance(comparison.constant, Amount):
        is_method = not isinstance(node, tree.Call) or all(expressions.read_of(each) is None for each in node.arguments)
        is_right = joined is None and (is_method or comparison.operator in {"==", "!="})
        return "" if is_right else _by_method(comparison)
    amount = expressions.quantity_of(comparison.constant) if comparison.read.is_capacity else None
    if amount is not None:
        return _by_method(comparison._replace(constant=Amount("quantity", amount.text)))
    if joined is None:
        return ""
    return f"{published.written(joined.read)} {joined.operator} {expressions.shown(joined.constant)}"


def _compiles(expression: str) -> bool:
    try:
        compile_selector(expression)
    except SelectorError:
        return False
    return True


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


_MOST_CANDIDATES: Final = 512
_MOST_COSTLY: Final = 16
"""The most devices for selectors with loops."""
_MOST_NODES: Final = 100
_LONGEST: Final = 4096
"""The most characters of selectors; longer ones are generated."""


class Term(NamedTuple):
    """One condition of a selector, with its own program."""

    node: tree.AstNode
    selector: Selector

    def holds(self, candidate: Candidate, allowance: Allowance | None) -> bool:
        """Whether a device meets the condition; a failure counts as no."""
        return self.selector.evaluate(candidate.driver, candidate.device, allowance=allowance) is True


def of_selectors(selectors: Sequence[str], candidates: Sequence[Candidate], allowance: Allowance | None = None) -> str:
    """
    Say why selectors (all must hold) select none of some devices, and what to write instead.

    Empty if they select one, or if nothing useful is known. Raises AllowanceSpentError.
    """
    if sum(map(len, selectors)) > _LONGEST:
        return ""
    terms = [term for text in selectors for term in _terms(text)]
    is_costly = any(_loops(term.node) for term in terms)
    kinds = _kinds(candidates, terms, _MOST_COSTLY if is_costly else _MOST_CANDIDATES)
    if not terms or not kinds:
        return ""
    holds = [[term.holds(each, allowance) for each in kinds] for term in terms]
    if any(all(column) for column in zip(*holds, strict=True)):
        return ""
    for failing in _failing_terms(holds, kinds):
        hint = _explained(terms[failing.term].node, failing.judged, _Effort(_MOST_NODES, allowance))
        if hint:
            is_relative = any(holds[failing.term])
            return f"among the devices that meet its other conditions, {hint}" if is_relative else hint
    return ""


def is_selected(selectors: Sequence[str], candidate: Candidate, allowance: Allowance | None = None) -> bool:
    """Whether all selectors select a device. Raises AllowanceSpentError."""
    compiled = (compile_selector(text) for text in selectors)
    return all(each.evaluate(candidate.driver, candidate.device, allowance=allowance) is True for each in compiled)


@dataclass(slots=True, eq=False)
class _Effort:
    """The rest of the limits of one explanation: nodes of conditions, and evaluations."""

    nodes_left: int
    allowance: Allowance | None


class _FailingTerm(NamedTuple):
    """The position of a failing condition, and the devices to compare it with."""

    term: int
    judged: list[Candidate]


def _failing_terms(holds: list[list[bool]], kinds: list[Candidate]) -> Iterator[_FailingTerm]:
    """
    Return failing conditions, the most likely mistake first.

    First conditions that are the only failing one for some devices, compared with these devices: those that no device
    meets before the others, later ones before earlier ones. Then conditions that no device meets, compared with all
    devices; then the first condition that leaves no device, compared with the devices left before it.
    """
    alone, never = [], []
    for index, row in enumerate(holds):
        rest = [
            each
            for place, each in enumerate(kinds)
            if all(other[place] for position, other in enumerate(holds) if position != index)
        ]
        if rest:
            alone.append(_FailingTerm(index, rest))
        elif not any(row):
            never.append(_FailingTerm(index, kinds))
    alone.sort(key=lambda each: (any(holds[each.term]), -each.term))
    yield from (*alone, *never)
    left = list(range(len(kinds)))
    for index, row in enumerate(holds):
        still_held = [place for place in left if row[place]]
        if not still_held:
            yield _FailingTerm(index, [kinds[place] for place in left])
            return
        left = still_held


def _explained(node: tree.AstNode, candidates: Sequence[Candidate], effort: _Effort) -> str:
    """Go through the nodes of a condition and return the first hint."""
    effort.nodes_left -= 1
    if effort.nodes_left < 0 or _holds_somewhere(node, candidates, effort.allowance):
        return ""  # it holds somewhere (an operand of `||` or `!`), so it is not the cause
    for rule in _RULES:
        hint = rule(node, candidates)
        if hint:
            return hint
    return next((hint for child in node.children() if (hint := _explained(child, candidates, effort))), "")


def _holds_somewhere(node: tree.AstNode, candidates: Sequence[Candidate], allowance: Allowance | None) -> bool:
    """Whether a subtree holds for some device; subtrees with loops count as holding."""
    if _loops(node):
        return True
    try:
        term = Term(node, Selector("", compile_part(node)))
    except ExpressionError:
        return False
    return any(term.holds(each, allowance) for each in candidates)


def _loops(node: tree.AstNode) -> bool:
    return any(isinstance(part, tree.Comprehension | tree.SortBy) for part in expressions.parts(node))


_Rule = Callable[[tree.AstNode, Sequence[Candidate]], str]
_RULES: Final[tuple[_Rule, ...]] = (
    published.of_suffix,
    published.of_comparison,
    near_values.of_driver,
    near_values.of_capacity,
    near_values.of_version,
    near_values.of_attribute,
    near_values.of_changed_case,
    published.of_read,
)


@functools.lru_cache(maxsize=64)  # of selectors with at most _LONGEST characters
def _terms(text: str) -> tuple[Term, ...]:
    """Split an expression at its outermost `&&`; empty if its parts do not compile."""
    try:
        return tuple(Term(node, Selector(text, compile_part(node))) for node in _conjuncts(parse(text)))
    except ExpressionError:
        return ()


def _conjuncts(node: tree.AstNode) -> Iterator[tree.AstNode]:
    if isinstance(node, tree.Logic) and node.is_and:
        for term in node.terms:
            yield from _conjuncts(term)
    else:
        yield node


def _kinds(candidates: Sequence[Candidate], terms: Sequence[Term], most: int) -> list[Candidate]:
    """Keep one device of each kind: driver, names, sizes, and values that the terms read."""
    reads = [
        read
        for term in terms
        for part in expressions.parts(term.node)
        if (read := expressions.read_of(part)) is not None
    ]
    kinds: dict[tuple[object, ...], Candidate] = {}
    for each in candidates:
        device = each.device
        key = (
            each.driver,
            tuple(name for name, _ in device.attributes),
            device.capacities,
            tuple(published.value(each, Read(*read)) for read in reads),
        )
        kinds.setdefault(key, each)
        if len(kinds) >= most:
            break
    return list(kinds.values())

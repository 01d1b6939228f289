"""Comparisons and capacity requests that no device meets, and the nearest value or size."""

import string
from collections.abc import Mapping, Sequence
from typing import Final

from solver.cel import tree
from solver.cel.reads import Read, device_field
from solver.domain import AttributeKind, AttributeValue, Quantity
from solver.domain.wording import nearest, suggestion, there_are
from solver.feasibility import capacity
from solver.feasibility.lint import expressions, published
from solver.feasibility.lint.expressions import Amount, Comparison
from solver.feasibility.lint.published import Candidate

_FAR: Final = 1024
"""A request that is so many times as large as the largest device is a mistake in its unit."""
_NEAR: Final = 2
"""Sizes that differ by more than this factor are not suggested: another device was meant."""


def of_requests(requested: Mapping[str, Quantity], candidates: Sequence[Candidate]) -> str:
    """Hint on `capacity.requests` that no candidate meets; the candidates match the selectors."""
    for text, wanted in sorted(requested.items()):
        domain, slash, name = text.partition("/")
        read = Read(is_capacity=True, domain=domain if slash else "", name=name if slash else text)
        found = published.values(candidates, read)
        if not found and candidates:
            known = {each for candidate in candidates for _, each in published.names(candidate, is_capacity=True)}
            near = suggestion(read.name, known, what="capacity")
            return f"no device that it selects publishes capacity {text}: {near}"
        largest = max((each.nano for _, each in found if isinstance(each, Quantity)), default=None)
        if largest is not None and largest < wanted.nano:
            return f"the largest {read.name} is {published.size(largest)}{_less(largest, wanted)}"
        if refused := _refused(candidates, text, wanted):
            return f"no device gives a share of {wanted} of its {read.name}: {refused}"
    if len(requested) > 1 and not any(_gives(each, requested) for each in candidates):
        return "no device gives all of the capacities that are requested"
    return ""


def _refused(candidates: Sequence[Candidate], text: str, wanted: Quantity) -> str:
    """Say why no device that has as much gives such a share, of the largest one; empty where one gives it."""
    found = []
    for each in candidates:
        capacities = dict(each.device.capacities)
        name = capacity.published_name(each.driver, text, capacities)
        if name is None or capacities[name].value.nano < wanted.nano:
            continue
        if not each.device.allow_multiple_allocations or not (why := capacity.refusal(capacities[name], wanted)):
            return ""
        found.append((capacities[name].value.nano, why))
    return max(found, default=(0, ""))[1]


def _gives(candidate: Candidate, requested: Mapping[str, Quantity]) -> bool:
    return capacity.consumption(candidate.driver, candidate.device, requested) is not None


def _less(largest: int, wanted: Quantity) -> str:
    """Say by how much a size is below the requested one; where the units differ by far, both are shown instead."""
    if wanted.nano > _FAR * max(largest, 1):
        return f", and {wanted} is requested"
    return f", {published.size(wanted.nano - largest)} less than the {wanted} requested"


def _missed(read: Read, operator: str, wanted: Quantity, candidates: Sequence[Candidate]) -> str:
    """Say by how much a capacity comparison fails, and what would hold; `operator` as in `capacity > wanted`."""
    sizes = [(each, found.nano) for each, found in published.values(candidates, read) if isinstance(found, Quantity)]
    if not sizes:
        return ""
    candidate, nano = min(sizes, key=lambda pair: (abs(pair[1] - wanted.nano), pair[0].id))
    gap = published.size(abs(nano - wanted.nano))
    text = dict(candidate.device.capacities)
    as_published = next(
        (text[name].value.text for name in (read.name, f"{read.domain}/{read.name}") if name in text), ""
    )
    has = as_published or published.size(nano)
    place = published.written(read)
    if operator == "==":
        if nano == wanted.nano:
            return ""
        more = "less" if nano < wanted.nano else "more"
        instead = f'{place}.compareTo(quantity("{published.round_size(min(nano, wanted.nano))}")) >= 0'
        missed_by = f"no {read.name} is exactly {wanted}: the nearest is {has}, {gap} {more} ({candidate.id})"
        return missed_by + _write(instead, nano, wanted)
    if operator in {">=", ">"}:
        if nano == wanted.nano:
            return f"no {read.name} is larger than {wanted}, but the largest is equal: write compareTo(…) >= 0"
        missed_by = f"the largest {read.name} is {has}, {gap} less than {wanted} ({candidate.id})"
        return missed_by + _write(f'quantity("{published.round_size(nano)}")', nano, wanted)
    if nano == wanted.nano:
        return f"no {read.name} is smaller than {wanted}, but the smallest is equal: write compareTo(…) <= 0"
    missed_by = f"the smallest {read.name} is {has}, {gap} more than {wanted} ({candidate.id})"
    return missed_by + _write(f'quantity("{has}")', nano, wanted)


def _write(instead: str, nano: int, wanted: Quantity) -> str:
    """Suggest an expression, if the device's size is near the wanted one."""
    is_near = max(nano, wanted.nano) <= _NEAR * min(nano, wanted.nano)
    return f": write {instead}" if is_near else ""


_KINDS: Final = {
    AttributeKind.STRING: str,
    AttributeKind.INT: int,
    AttributeKind.BOOL: bool,
    AttributeKind.VERSION: Amount,
}
_TEXT_METHODS: Final = frozenset({"contains", "startsWith", "endsWith", "matches"})
_SEARCHES: Final = frozenset({"@in", *_TEXT_METHODS})


def of_driver(node: tree.AstNode, candidates: Sequence[Candidate]) -> str:
    """Hint on `device.driver == "nvidia.com"` with an unknown driver."""
    if not isinstance(node, tree.Call) or node.function != "_==_":
        return ""
    for left, right in (node.arguments, node.arguments[::-1]):
        name = expressions.constant_of(right)
        if device_field(left) == "driver" and isinstance(name, str):
            drivers = {each.driver for each in candidates}
            if name not in drivers:
                return f"no driver {name} publishes such devices: {suggestion(name, drivers, what='driver')}"
    return ""


def of_capacity(node: tree.AstNode, candidates: Sequence[Candidate]) -> str:
    """Hint on a size that no device has."""
    comparison = expressions.comparison_of(node)
    if comparison is None or not comparison.read.is_capacity:
        return ""
    wanted = expressions.quantity_of(comparison.constant)
    if wanted is None:
        return ""
    return _missed(comparison.read, comparison.operator, wanted, candidates)


def of_version(node: tree.AstNode, candidates: Sequence[Candidate]) -> str:
    """Hint on a version that is compared as a text, or that no device has."""
    comparison = expressions.comparison_of(node)
    if comparison is None or comparison.read.is_capacity:
        return ""
    read, operator, constant = comparison
    versions = [str(each) for each in published.scalars(candidates, read, AttributeKind.VERSION)]
    if not versions:
        return ""
    place = published.written(read)
    if not isinstance(constant, Amount):
        text = published.semantic(str(constant))
        call = f'semver("{text}")'
        written = {">": f"isGreaterThan({call})", "<": f"isLessThan({call})"}.get(
            operator, f"compareTo({call}) {operator} 0"
        )
        return f"{read.name} is a version ({there_are(versions, 'version')}), not a text: write {place}.{written}"
    if constant.function != "semver":
        return f'{read.name} is a version: write semver("…")'
    if published.version_key(constant.text) is None:  # the expression raises: it is not false
        strict = published.semantic(constant.text)
        instead = f'semver("{strict if published.version_key(strict) is not None else "1.2.0"}")'
        return f'"{constant.text}" is no semantic version: write three numbers without leading zeros, as {instead}'
    return _nearest_version(comparison, constant.text, versions)


def _nearest_version(comparison: Comparison, wanted: str, versions: list[str]) -> str:
    keys = {text: key for text in versions if (key := published.version_key(text)) is not None}
    malformed = [text for text in versions if text not in keys]
    if malformed:
        return f"{comparison.read.name} {malformed[0]} as the driver publishes it is not a semantic version"
    if comparison.operator in {">", ">="}:
        return f"the newest {comparison.read.name} is {max(keys, key=keys.__getitem__)}, and {wanted} is asked for"
    if comparison.operator in {"<", "<="}:
        return f"the oldest {comparison.read.name} is {min(keys, key=keys.__getitem__)}, and {wanted} is asked for"
    return f"no {comparison.read.name} is {wanted}: {there_are(keys, 'version')}"


def of_attribute(node: tree.AstNode, candidates: Sequence[Candidate]) -> str:
    """Hint on a value that no device has: of another type, or similar to a published one."""
    comparison = expressions.comparison_of(node) or _search_of(node)
    if comparison is None or comparison.read.is_capacity:
        return ""
    read, operator, constant = comparison
    found = [each for _, each in published.values(candidates, read) if isinstance(each, AttributeValue)]
    if not found or isinstance(constant, Amount | Quantity) or operator == "!=":
        return ""
    kinds = {kind for each in found for kind, _ in each.items()}
    if found[0].kind.is_list and operator == "==":
        return f"{read.name} is a list: write {expressions.shown(constant)} in {published.written(read)}"
    if operator in _SEARCHES:
        return _among(comparison, [str(each) for each in published.scalars(candidates, read, AttributeKind.STRING)])
    known = {kind: python for kind, python in _KINDS.items() if kind in kinds}
    if known and type(constant) not in known.values():
        kind = next(iter(known))
        example = published.scalars(candidates, read, kind)[0]
        article = "an" if kind is AttributeKind.INT else "a"
        mistaken = expressions.shown(constant)
        return f"{read.name} is {article} {kind.value}, not {mistaken}: write for example {expressions.shown(example)}"
    if isinstance(constant, str):
        return _among(comparison, [str(each) for each in published.scalars(candidates, read, AttributeKind.STRING)])
    kind = AttributeKind.BOOL if isinstance(constant, bool) else AttributeKind.INT
    others = [expressions.shown(each) for each in published.scalars(candidates, read, kind)]
    wanted = expressions.shown(constant) if operator == "==" else f"{operator} {expressions.shown(constant)}"
    return f"no {read.name} is {wanted}: {there_are(others, 'value')}" if others else ""


_CASES: Final = {
    "lowerAscii": (string.ascii_uppercase, string.ascii_lowercase, "capital"),
    "upperAscii": (string.ascii_lowercase, string.ascii_uppercase, "small"),
}
"""Methods that change letters: which, to which, and what the first are called."""


def of_changed_case(node: tree.AstNode, candidates: Sequence[Candidate]) -> str:
    """Hint on `read.lowerAscii() == "A100"` and its like, and on values that no device has in these letters."""
    if not isinstance(node, tree.Call) or node.function not in _SEARCHES | {"_==_"}:
        return ""
    operands = node.arguments if node.target is None else (node.target, *node.arguments)
    pairs = (operands, operands[::-1]) if node.function == "_==_" else (operands,)
    operator = "==" if node.function == "_==_" else node.function
    found = ((_changed(left), expressions.constant_of(right)) for left, right in pairs)
    changed, wanted = next(((read, constant) for read, constant in found if read is not None), (None, None))
    if changed is None:
        return ""
    read, function = changed
    old, new, called = _CASES[function]
    table = str.maketrans(old, new)
    texts = [str(each).translate(table) for each in published.scalars(candidates, read, AttributeKind.STRING)]
    read = read._replace(name=f"{read.name}.{function}()")
    if not isinstance(wanted, str) or operator == "matches":
        return _among(Comparison(read, operator, wanted if isinstance(wanted, str) else ""), texts)
    right = wanted.translate(table)
    if right == wanted or not any(_meets(each, operator, right) for each in texts):
        return _among(Comparison(read, operator, right), texts)
    text, instead = expressions.shown(wanted), expressions.shown(right)
    return f"{read.name} has no {called} letters, and {text} has: write {instead}"


def _changed(node: tree.AstNode) -> tuple[Read, str] | None:
    """Recognise a read whose letters a method changes."""
    if not isinstance(node, tree.Call) or node.function not in _CASES or node.target is None:
        return None
    read = expressions.read_of(node.target)
    return (read, node.function) if read is not None else None


def _meets(text: str, operator: str, wanted: str) -> bool:
    match operator:
        case "contains":
            return wanted in text
        case "startsWith":
            return text.startswith(wanted)
        case "endsWith":
            return text.endswith(wanted)
    return text == wanted


def _search_of(node: tree.AstNode) -> Comparison | None:
    """Recognise `read in ["a", "b"]` and `read.contains("a")`."""
    if not isinstance(node, tree.Call) or node.function not in _SEARCHES:
        return None
    operands = (*node.arguments, None) if node.target is None else (node.target, *node.arguments)
    read = expressions.read_of(operands[0]) if operands[0] is not None else None
    if read is None or operands[1] is None:
        return None
    constant = expressions.constant_of(operands[1])
    return Comparison(read, node.function, constant if isinstance(constant, str) else "")


def _among(comparison: Comparison, texts: list[str]) -> str:
    if not texts:
        return ""
    read, operator, constant = comparison
    close = nearest(constant, texts) if isinstance(constant, str) and constant else ""
    relation = "is" if operator in {"==", "@in"} else operator
    text = f"no {read.name} {relation} {expressions.shown(constant) if constant else 'one of these'}"
    quoted = [f'"{each}"' for each in texts]
    return f'{text}: the nearest is "{close}"' if close else f"{text}: {there_are(quoted, 'value')}"

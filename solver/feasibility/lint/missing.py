"""Names that no device publishes: domains, attributes, capacities."""

from collections.abc import Sequence
from typing import Final

from solver.domain import AttributeKind
from solver.feasibility.cel import tree
from solver.feasibility.cel.access import SUFFIXES
from solver.feasibility.cel.reads import Read
from solver.feasibility.lint import expressions, published
from solver.feasibility.lint.published import Candidate
from solver.feasibility.nearness import listed, nearest

_SIGN: Final = {"==": ">="}


def of_suffix(node: tree.Node, candidates: Sequence[Candidate]) -> str:
    """Values are read bare: `….productName.string` and `device.attributes["model"].string` are no fields."""
    comparison = expressions.comparison_of(node)
    read = comparison.read if comparison is not None else expressions.read_of(node)
    wanted = comparison.constant if comparison is not None else None
    if read is not None and read.name in SUFFIXES and "." not in read.domain and not _is_published(read, candidates):
        return _of_bare_domain(read, wanted, candidates)
    if isinstance(node, tree.Select) and node.field in SUFFIXES:
        inner = expressions.read_of(node.operand)
        if inner is not None and _is_published(inner, candidates):
            return f"a value is read without .{node.field}: write {published.written(inner)}"
    return ""


def _of_bare_domain(read: Read, wanted: object, candidates: Sequence[Candidate]) -> str:
    """`device.attributes["model"].string`: the name stands where the domain belongs."""
    which = "capacity" if read.is_capacity else "attributes"
    told = f'device.{which}["{read.domain}"].{read.name} has no driver domain, and a value is read without .{read.name}'
    ways = (read.is_capacity, not read.is_capacity)
    meant = next((found for way in ways if (found := _meant(read.domain, wanted, candidates, is_capacity=way))), None)
    if meant is None:
        domain = _driver(candidates)
        return f"{told}: as in {published.written(Read(read.is_capacity, domain, '<name>'))}"
    return f"{told}: write {published.written(meant)}{_holding(wanted, meant, candidates)}"


def _holding(wanted: object, read: Read, candidates: Sequence[Candidate]) -> str:
    """Complete a comparison with a text by a published value that has it in it."""
    if not isinstance(wanted, str):
        return ""
    texts = [str(each) for each in published.scalars(candidates, read, AttributeKind.STRING)]
    close = wanted if wanted in texts else nearest(wanted, texts)
    return f' == "{close}"' if close else ""


def _meant(name: str, wanted: object, candidates: Sequence[Candidate], *, is_capacity: bool) -> Read | None:
    """Find the attribute that is called nearly so, or else that has nearly the wanted text as its value."""
    reads = _reads(candidates, is_capacity=is_capacity)
    if isinstance(wanted, str) and not is_capacity:
        for read in reads:
            texts = [str(each) for each in published.scalars(candidates, read, AttributeKind.STRING)]
            if nearest(wanted, texts):
                return read
    names = {read.name: read for read in reversed(reads)}
    close = nearest(name, names)
    return names[close] if close else None


def of_comparison(node: tree.Node, candidates: Sequence[Candidate]) -> str:
    """An attribute that is a capacity, with what it is compared with made a quantity."""
    comparison = expressions.comparison_of(node)
    if comparison is None or comparison.read.is_capacity or _is_published(comparison.read, candidates):
        return ""
    read = comparison.read._replace(is_capacity=True)
    amount = expressions.quantity_of(comparison.constant)
    if not _is_published(read, candidates) or amount is None:
        return ""
    sign = _SIGN.get(comparison.operator, comparison.operator)
    return (
        f"{read.name} is a capacity and no attribute: write "
        f'{published.written(read)}.compareTo(quantity("{amount}")) {sign} 0'
    )


def of_read(node: tree.Node, candidates: Sequence[Candidate]) -> str:
    """A name that none of the devices publishes, and the nearest that they do."""
    read = expressions.read_of(node)
    if read is None or _is_published(read, candidates):
        return ""
    what = "capacity" if read.is_capacity else "attribute"
    turned = read._replace(is_capacity=not read.is_capacity)
    if _is_published(turned, candidates):
        other = "an attribute and no capacity" if read.is_capacity else "a capacity and no attribute"
        return f"{read.name} is {other}: write {published.written(turned)}"
    reads = _reads(candidates, is_capacity=read.is_capacity)
    elsewhere = next((each for each in reads if each.name == read.name), None)
    if elsewhere is not None:
        where = read.domain or "that domain"
        return f"nothing is published under {where} as {read.name}: write {published.written(elsewhere)}"
    names = [each.name for each in reads if each.domain in {read.domain, ""} or not read.domain]
    close = nearest(read.name, names or [each.name for each in reads])
    found = next((each for each in reads if each.name == close), None)
    told = f"no device that could be selected publishes {what} {read.name} under {read.domain or 'its driver'}"
    if found is not None:
        return f"{told}: write {published.written(found)}"
    known = [each.name for each in reads]
    return f"{told}: there are {listed(known)}" if known else f"{told}, nor any other"


def _is_published(read: Read, candidates: Sequence[Candidate]) -> bool:
    return any(published.value(each, read) is not None for each in candidates)


def _reads(candidates: Sequence[Candidate], *, is_capacity: bool) -> list[Read]:
    """Give everything that is published, each once; the drivers' own before shared domains."""
    found = dict.fromkeys(
        (domain != each.driver, domain, name)
        for each in candidates
        for domain, name in published.names(each, is_capacity=is_capacity)
    )
    return [Read(is_capacity, domain, name) for _, domain, name in sorted(found)]


def _driver(candidates: Sequence[Candidate]) -> str:
    return min((each.driver for each in candidates), default="")

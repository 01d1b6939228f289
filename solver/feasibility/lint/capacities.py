"""Sizes that no device has: which comes nearest, and by how much it misses."""

from collections.abc import Mapping, Sequence
from typing import Final

from solver.domain import Quantity
from solver.feasibility.cel.reads import Read
from solver.feasibility.lint import published
from solver.feasibility.lint.published import Candidate
from solver.feasibility.nearness import suggestion

_NEAR: Final = 2
"""Sizes that differ by more than this factor are not proposed in place of each other: another device was meant."""


def of_capacity(requested: Mapping[str, Quantity], candidates: Sequence[Candidate]) -> str:
    """Say which of a request's `capacity.requests` no device can give; the candidates match its selectors."""
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
            short = published.size(wanted.nano - largest)
            return f"the largest {read.name} is {published.size(largest)}, {short} less than the {wanted} requested"
    return ""


def missed(read: Read, operator: str, wanted: Quantity, candidates: Sequence[Candidate]) -> str:
    """Say how a comparison of a capacity misses, and what would hold; `operator` is as in `capacity > wanted`."""
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
            return f"no {read.name} is larger than {wanted}, and the largest is just that: write compareTo(…) >= 0"
        missed_by = f"the largest {read.name} is {has}, {gap} less than {wanted} ({candidate.id})"
        return missed_by + _write(f'quantity("{published.round_size(nano)}")', nano, wanted)
    if nano == wanted.nano:
        return f"no {read.name} is smaller than {wanted}, and the smallest is just that: write compareTo(…) <= 0"
    missed_by = f"the smallest {read.name} is {has}, {gap} more than {wanted} ({candidate.id})"
    return missed_by + _write(f'quantity("{has}")', nano, wanted)


def _write(instead: str, nano: int, wanted: Quantity) -> str:
    """Say what to write, where the device's size is near enough to the wanted one to be meant."""
    is_near = max(nano, wanted.nano) <= _NEAR * min(nano, wanted.nano)
    return f": write {instead}" if is_near else ""

"""How much of a pod's terms about other pods, constraints and host ports can be looked at in every decision."""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from scheduler.kube.decode.shared import MalformedError
from solver.domain import LabelSelector, PodTerm, SpreadConstraint

MOST_PORTS: Final = 256
"""Host ports of a pod."""


class Bulk(NamedTuple):
    """How many terms or constraints there are, and requirements, values and namespaces in all of them."""

    terms: int = 0
    parts: int = 0

    def plus(self, other: "Bulk") -> "Bulk":
        """Take both together."""
        return Bulk(self.terms + other.terms, self.parts + other.parts)

    def fits(self, bound: "Bulk") -> bool:
        """Whether neither number is above that of a bound."""
        return self.terms <= bound.terms and self.parts <= bound.parts


OWN: Final = Bulk(64, 1_000)
"""The most that is about the pod's own namespace, which alone pays for it."""
WIDE: Final = Bulk(16, 128)
"""The most that is about other namespaces: decisions about all of their pods look at it."""


def bulk(terms: Iterable[PodTerm | SpreadConstraint]) -> Bulk:
    """Add up terms or constraints."""
    sizes = [_size(each) for each in terms]
    return Bulk(len(sizes), sum(sizes))


def _size(term: PodTerm | SpreadConstraint) -> int:
    if isinstance(term, SpreadConstraint):
        return _selector(term.selector)
    return len(term.namespaces) + _selector(term.selector) + _selector(term.namespace_selector)


def _selector(selector: LabelSelector | None) -> int:
    return sum(1 + len(each.values) for each in selector.requirements) if selector is not None else 0


def refuse_more(bound: Bulk, field: str, what: str, found: Sequence[PodTerm | SpreadConstraint]) -> None:
    """Raise MalformedError, which says what to write instead, for more than a bound."""
    given = bulk(found)
    if not given.fits(bound):
        message = (
            f"{given.terms} {what} with {given.parts} requirements, values and namespaces are more than can be looked "
            f"at; use at most {bound.terms} {what} with {bound.parts} of these together"
        )
        raise MalformedError(field, message)

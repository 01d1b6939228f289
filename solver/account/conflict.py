"""A smallest set of facts that cannot hold together on one node."""

from collections.abc import Sequence

from solver.account.facts import Fact
from solver.account.trial import Case, Trials


def smallest(trials: Trials, case: Case, node: str, found: Sequence[Fact]) -> tuple[Fact, ...]:
    """
    Delete facts one after the other while the rest still keeps the pod from the node; what is left is a conflict.

    No part of it is one: without any of its facts, and without those that were deleted, the pod fits. Empty where the
    pod fits, where it would not fit without all of them either, and where that could not be told.
    """
    if trials.fits(case, node) is not False:
        return ()
    if trials.fits(_without(case, found), node) is not True:
        return ()
    kept = list(found)
    for fact in found:
        rest = [each for each in kept if each is not fact]
        gone = [each for each in found if each not in rest]
        if trials.fits(_without(case, gone), node) is False:
            kept = rest
    return tuple(kept)


def _without(case: Case, gone: Sequence[Fact]) -> Case:
    for fact in gone:
        case = fact.without(case)
    return case

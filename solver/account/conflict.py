"""A smallest set of facts that cannot hold together on one node: assumed all at once, then deleted one by one."""

from collections.abc import Sequence

from solver.account import guide
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
    kept = _assumed(trials, case, node, found)
    for fact in tuple(kept):
        rest = [each for each in kept if each is not fact]
        gone = [each for each in found if not any(each is one for one in rest)]
        if trials.fits(_without(case, gone), node) is False:
            kept = rest
    return tuple(kept)


def _assumed(trials: Trials, case: Case, node: str, found: Sequence[Fact]) -> list[Fact]:
    """Ask a model which facts clash, and take its word where the trial confirms it; else all of them."""
    problem = trials.prepare(case)
    core = guide.clash(case, problem, found) if problem.classes else None
    if core:
        gone = [each for each in found if not any(each is one for one in core)]
        if trials.fits(_without(case, gone), node) is False:
            return list(core)
    return list(found)


def _without(case: Case, gone: Sequence[Fact]) -> Case:
    for fact in gone:
        case = fact.without(case)
    return case

"""
Which pods are hard to decide about, and share nothing with those that are not.

A part of a batch is hard while its bound leaves open who of it can be placed, or how. Who asks for a plan can have the
rest first: what is cheap need not wait until a search has ended that has nothing to do with it.
"""

from typing import Final

from solver.domain import Budget
from solver.model import build
from solver.problem.problem import Problem
from solver.search import apart, bound, exact
from solver.search.allowance import only_packs
from solver.search.apart import Piece
from solver.search.bound import Bounds
from solver.search.values import Values, values
from solver.solution import Solution

_SMALL_TERMS: Final = 2_000
"""Estimated size up to which a search is short: small hard parts need not wait for large ones either."""


def hard(problem: Problem, start: Solution, budget: Budget) -> frozenset[int]:
    """
    Give the classes that are to be left for a solve of their own; none where all are alike.

    The first answer is without any hard part, the next one without the large ones. `start` is the best solution known.
    """
    known = values(problem, start)
    if only_packs(problem, exact.levels_from_bounds(problem, known, _nothing(known))):
        return frozenset()
    pieces = apart.divide(problem, start)
    if len(pieces) == 1:
        return frozenset()
    hard_ones = [piece for piece in pieces if _is_hard(piece, budget)]
    if len(hard_ones) == len(pieces):
        hard_ones = [piece for piece in pieces if build.estimated_terms(piece.problem) > _SMALL_TERMS]
    if len(hard_ones) == len(pieces):
        return frozenset()
    return frozenset(each.index for piece in hard_ones for each in piece.problem.classes if each.size)


def _is_hard(piece: Piece, budget: Budget) -> bool:
    known = values(piece.problem, piece.start)
    if only_packs(piece.problem, exact.levels_from_bounds(piece.problem, known, _nothing(known))):
        return False
    limits = bound.bounds(piece.problem, known, budget)
    return not only_packs(piece.problem, exact.levels_from_bounds(piece.problem, known, limits))


def _nothing(known: Values) -> Bounds:
    return Bounds((None,) * len(known), (0, 0))

"""
Upper bounds from the linear relaxation over node classes; contradictions; and the budget of packing levels.

Equal nodes are merged, so the relaxation stays small at any cluster size. The floor of its optimum bounds the integer
optimum of a level while all earlier levels keep their values. So the bound counts only while those are proven.

    SearchError              a bug in the solver, never a property of a cluster
    ├── ModelMismatchError   greedy and model disagree about what is possible
    └── ContradictionError   a bound below a known value, or no solution beside a known one
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TypeVar

from solver.domain import Budget, LevelReport, SearchStage
from solver.engines import linear
from solver.model import build, cells, objective
from solver.model.form import IntegerForm, OutOfTimeError
from solver.model.objective import Values
from solver.problem.problem import Problem
from solver.solution import Solution


class SearchError(Exception):
    """A search contradicts what is known: nothing that it says may be used."""


class ModelMismatchError(SearchError):
    """Greedy and model disagree about what is possible: a bug in one of them."""


class ContradictionError(SearchError):
    """A proof that cannot be: of a bound, a rule of the model or an engine one is wrong."""


def proves(level: str, bound: int | None, value: int) -> bool:
    """Whether a bound proves that a value of a level is the best; raises `ContradictionError` where it is below."""
    if bound is not None and bound < value:
        raise ContradictionError(f"level {level}: a bound of {bound} is below the value {value}, which is known")
    return bound is not None and bound == value


_T = TypeVar("_T")


def guarded(stage: SearchStage, budget: Budget, run: Callable[[], _T], otherwise: _T) -> _T:
    """Return what a stage finds; where it contradicts what is known, its result is dropped and noted, or it raises."""
    try:
        return run()
    except SearchError as error:
        budget.note_defect(stage, error)
        return otherwise


@dataclass(frozen=True, slots=True)
class Bounds:
    """Bounds of the leading levels (None: not reached); `size` is the relaxation's (variables, rows)."""

    levels: tuple[int | None, ...]
    size: tuple[int, int]

    @classmethod
    def unknown(cls, count: int) -> "Bounds":
        """Return no bound for any of some levels."""
        return cls((None,) * count, (0, 0))

    def tightened(self, other: "Bounds") -> "Bounds":
        """Return the lower bound of each level, of two that both hold; with the other one's size."""
        pairs = zip(self.levels, other.levels, strict=True)
        lower = (min((each for each in pair if each is not None), default=None) for pair in pairs)
        return Bounds(tuple(lower), other.size)


@dataclass(frozen=True, slots=True)
class BoundedSolution:
    """The best solution of a stage, the bounds that hold for it, and deterministic seconds spent."""

    solution: Solution
    bounds: Bounds
    deterministic_seconds: float


def bounds(problem: Problem, known: Values, budget: Budget) -> Bounds:
    """
    Bound level after level until one is not met by the values known; none where the time is up already.

    A level that has the most that any solution has (`ObjectiveLevel.upper_bound`) needs no relaxation; without a level
    that needs one no model is written.
    """
    nothing = Bounds.unknown(len(known))
    if budget.should_stop() or not problem.params.runs(SearchStage.LP_BOUND):
        return nothing
    trivial = tuple(level.upper_bound(problem) for level in objective.objective_levels(problem))
    if all(most == value for most, value in zip(trivial, known, strict=True)):
        return Bounds(known, (0, 0))
    try:
        form = build.build(problem, cells.merged(problem), stop=budget.should_stop).form
    except OutOfTimeError:
        return nothing
    found: list[int | None] = []
    for number, (most, value) in enumerate(zip(trivial, known, strict=True)):
        found.append(value if most == value else _relaxed(form, number, budget))
        if not proves(form.levels[number].name, found[-1], value):
            break
        require_at_least(form, number, value)
    found += [None] * (len(known) - len(found))
    return Bounds(tuple(found), (len(form.lower), len(form.rows)))


def levels_from_bounds(problem: Problem, known: Values, bounds: Bounds) -> tuple[LevelReport, ...]:
    """
    Say what bounds prove of a solution.

    A bound counts only where all levels before it are proven: it holds for solutions that keep their values. Behind an
    open level each level is reported with the most that any solution has.
    """
    levels, proven = [], True
    for level, value, found in zip(objective.objective_levels(problem), known, bounds.levels, strict=True):
        most = level.upper_bound(problem)
        limit = min(found, most) if proven and found is not None else most
        proven = proven and proves(level.name, found, value)
        levels.append(LevelReport(name=level.name, value=value, bound=limit, proven=proven))
    return tuple(levels)


def _relaxed(form: IntegerForm, number: int, budget: Budget) -> int | None:
    """Return the floor of the relaxation's optimum of a level; None where the engine did not reach it in time."""
    level = form.levels[number]
    relaxed = linear.bound(form, level.expression, budget.remaining_seconds())
    if relaxed.is_infeasible:
        raise ContradictionError(f"level {level.name}: the relaxation has no solution beside one that is known")
    return relaxed.value


def require_at_least(form: IntegerForm, level: int, value: int) -> None:
    """Keep a level at a value from now on."""
    form.require(form.levels[level].expression, f"level {form.levels[level].name}", low=value)


def only_packing_open(problem: Problem, levels: Iterable[LevelReport]) -> bool:
    """Whether only packing levels are open."""
    pairs = zip(levels, objective.objective_levels(problem), strict=True)
    return all(
        known.proven or known.value >= level.upper_bound(problem) for known, level in pairs if level.decides_pods
    )


def packing_seconds(problem: Problem, budget: Budget) -> float:
    """Deterministic seconds for all packing levels together; more pods are worth a longer search."""
    pods = sum(family[0].size for family in problem.families)
    params = problem.params
    return min(budget.deterministic_seconds, params.packing_seconds + params.packing_seconds_per_pod * pods)


def for_packing(problem: Problem, budget: Budget) -> Budget:
    """
    What of a budget is left to a search while only packing levels are open.

    Of the wall time it gets twice the share that it gets of the work: the caller waits that long.
    """
    seconds, left = packing_seconds(problem, budget), budget.remaining_seconds()
    factor, whole = problem.params.packing_wall_factor, budget.deterministic_seconds
    share = min(1.0, factor * seconds / whole) if whole > 0 else 1.0
    return replace(budget, deterministic_seconds=seconds, seconds=budget.seconds - left * (1.0 - share))

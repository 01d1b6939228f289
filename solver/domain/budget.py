"""
The limits of a decision: wall time, deterministic search time, and cost units for selectors and claim options.

A budget is passed from stage to stage. All its derived budgets share one `BudgetUsage`, which counts what was spent and
numbers the looks at the clock. A stop is recorded by its look (`StageStop`), so that a replay stops at the same points
on any machine.
"""

import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Final

import msgspec

from solver.domain.ids import PodId
from solver.domain.reasons import Reason
from solver.domain.search_params import SearchParams

DEFAULT_COST_UNITS: Final = 120_000_000
"""Cost units for two minutes of work: for callers that wait for the answer and run nothing else."""
_LEAST_SHARE: Final = 0.125


class QuarantinedObject(msgspec.Struct, frozen=True, kw_only=True):
    """An object on which the solver failed ("pod namespace/name") and the error: a defect to report."""

    subject: str
    error: str


class LeftOutPod(msgspec.Struct, frozen=True, kw_only=True):
    """A pod that a stage left out of the plan, with the reason."""

    pod: PodId
    reason: Reason


class StageStop(msgspec.Struct, frozen=True, kw_only=True):
    """
    Where a stage was stopped: the time was up at the looks after `after` and before `until` (0: to the end).

    With `left`, the cost allowance (`Budget.cost_units`) or its share of the time ended the stage: `after` are the
    units spent until then, `left` the pods that it left out. What such a stage costs depends on caches of earlier
    decisions, so a replay leaves out the same pods instead of counting.
    """

    stage: str
    after: int
    until: int = 0
    left: tuple[LeftOutPod, ...] = ()

    def says(self, look: int) -> bool:
        """Whether the time was up at a look."""
        return not self.left and self.after < look and (not self.until or look < self.until)


@dataclass(slots=True, eq=False)
class BudgetUsage:
    """What one decision has used so far; in a replay `recorded` are the stops of the earlier decision, else None."""

    recorded: tuple[StageStop, ...] | None = None
    spent_units: int = 0
    left_out: dict[tuple[str, tuple[LeftOutPod, ...]], StageStop] = field(default_factory=dict)
    quarantined: dict[str, QuarantinedObject] = field(default_factory=dict)
    defects: list[str] = field(default_factory=list)
    """How stages contradicted what is known; their results were dropped."""
    _looks: Counter[str] = field(default_factory=Counter)
    _changes: defaultdict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    """By stage the looks at which the answer changed; the first change is always to "time is up"."""

    def look(self, stage: str, is_over: Callable[[], bool]) -> bool:
        """Whether the time of a stage is up, by the clock or by the record."""
        self._looks[stage] += 1
        look = self._looks[stage]
        if self.recorded is not None:
            found = any(each.stage == stage and each.says(look) for each in self.recorded)
        else:
            found = is_over()
        changes = self._changes[stage]
        if found is not (len(changes) % 2 == 1):
            changes.append(look)
        return found

    def leave(self, stage: str, left: tuple[LeftOutPod, ...]) -> None:
        """Record the pods that a stage leaves out; a repeated call changes nothing."""
        before = (each for each in self.recorded or () if (each.stage, each.left) == (stage, left))
        new = StageStop(stage=stage, after=self.spent_units, left=left)
        self.left_out.setdefault((stage, left), next(before, new))

    @property
    def stops(self) -> tuple[StageStop, ...]:
        """The stops so far, by stage name."""
        found = [
            StageStop(stage=stage, after=first - 1, until=until)
            for stage, changes in sorted(self._changes.items())
            for first, until in zip(changes[::2], (*changes[1::2], 0), strict=False)
        ]
        return (*found, *self.left_out.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """
    The limits of one solve.

    `seconds` is wall time; every stage checks it. Stages after the search always have a share left (`at_least`). Each
    decision tries at least one pod or gang, so it makes progress and may end some time after `seconds`.
    `deterministic_seconds` is CP-SAT's deterministic time, the same on every machine: the limit of tests and replays.
    `cost_units` is the allowance for work without a cached result: evaluations of selectors, options to serve a claim.
    One unit is about a microsecond.

    `may_defer` lets a plan leave pods to another solve (`Plan.undecided`). With `is_forgiving` the
    result of a stage that contradicts what is known is dropped and reported (`SearchReport.defects`); else it raises.
    `params` are the constants of the search. `stage` names the stage that checks the budget. `clock` and `started`
    are in seconds.
    """

    seconds: float = 2.0
    deterministic_seconds: float = 4.0
    cost_units: int = DEFAULT_COST_UNITS
    seed: int = 0
    workers: int = 1
    may_defer: bool = False
    is_forgiving: bool = False
    params: SearchParams = field(default_factory=SearchParams)
    clock: Callable[[], float] = time.monotonic
    started: float = field(default_factory=time.monotonic)
    stage: str = "decision"
    work: BudgetUsage = field(default_factory=BudgetUsage, compare=False, repr=False)

    def anew(self) -> "Budget":
        """Return the same budget with nothing spent, for the next decision."""
        return replace(self, work=BudgetUsage(self.work.recorded))

    def replaying(self, stopped: Iterable[StageStop]) -> "Budget":
        """Return a budget that stops exactly where `SearchReport.stopped` of an earlier decision says."""
        return replace(self, work=BudgetUsage(tuple(stopped)))

    def at(self, stage: str) -> "Budget":
        """Return the budget of a stage."""
        return replace(self, stage=stage)

    def until(self, share: float) -> "Budget":
        """Return a budget that ends after a share of the wall time, and has an eighth of that in any case."""
        return replace(self, seconds=self.seconds * share).at_least(_LEAST_SHARE)

    def at_least(self, share: float) -> "Budget":
        """Return a budget with the remaining wall time, at least with a share of the whole."""
        used = 0.0 if self.work.recorded is not None else self.clock() - self.started
        return replace(self, seconds=max(self.seconds, used + self.seconds * share))

    def note_defect(self, stage: str, error: Exception) -> None:
        """Note that a stage failed and that its result is dropped; raise the error unless the budget is forgiving."""
        if not self.is_forgiving:
            raise error
        self.work.defects.append(f"{stage}: {type(error).__name__}: {error}")

    def spend(self, units: int) -> None:
        """Subtract cost units from the allowance; the last piece of work may exceed it."""
        self.work.spent_units += units

    @classmethod
    def unbounded(cls) -> "Budget":
        """Return a budget that never ends, for small cases."""
        return cls(seconds=1e12, cost_units=sys.maxsize)

    @property
    def units_left(self) -> int:
        """The rest of the allowance, at least 0; all of it in a replay, which knows what to leave out."""
        if self.work.recorded is not None:
            return self.cost_units
        return max(0, self.cost_units - self.work.spent_units)

    def remaining_seconds(self) -> float:
        """The rest of the wall time in seconds, at least 0; the whole time in a replay."""
        if self.work.recorded is not None:
            return self.seconds
        return max(0.0, self.started + self.seconds - self.clock())

    def has_half(self) -> bool:
        """Whether at least half of the wall time is left."""
        return not self.work.look(f"half of {self.stage}", lambda: self.remaining_seconds() < self.seconds / 2)

    def has_seconds(self, seconds: float) -> bool:
        """Whether at least `seconds` of wall time are left."""
        return not self.work.look(f"rest of {self.stage}", lambda: self.remaining_seconds() < seconds)

    def sparing(self) -> "Budget":
        """
        Reserve wall time for the stages after the search: extraction and explanation.

        They take about a quarter of the time of problem building and greedy, which measures machine and load.
        """
        left = self.remaining_seconds()
        return replace(self, seconds=self.seconds - min(left / 4, (self.seconds - left) / 4))

    def should_stop(self) -> bool:
        """Whether the wall time is used up."""
        return self.work.look(self.stage, lambda: self.remaining_seconds() <= 0.0)

"""
The limits of a decision: wall time, deterministic search time, and cost units for what pods ask for.

A budget is passed from stage to stage. All its derived budgets share one `BudgetUsage`, which counts what was spent and
numbers the looks at the clock. A stop is recorded by its look (`StageStop`), so that a replay stops at the same points
on any machine. What pods cost depends on caches of earlier decisions, and what the time allows on the machine. So a
replay counts neither, and leaves out the recorded pods (`LeftOutPod`).

Cost units are each about a microsecond of work: their number is the same on every machine. Allowances of them nest: a
decision, of it the selectors and demands of its pods and the options of a component, of the selectors one that takes
its turn. What a part spends, its whole has spent, too.
"""

import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

import msgspec

from solver.domain.ids import PodId
from solver.domain.reasons import Reason
from solver.domain.search_params import SearchParams

DEFAULT_COST_UNITS: Final = 120_000_000
"""Cost units for two minutes of work: for callers that wait for the answer and run nothing else."""
_LEAST_SHARE: Final = 0.125
LOOK_EVERY: Final = 2_000
"""Units between two looks at the clock."""
_MUCH: Final = 50_000
"""Units after which work counts as costly, and not the machine as slow."""


class AllowanceSpentError(Exception):
    """Units or time do not suffice for a step, which is neither paid nor done."""


class Allowance:
    """
    The units that are `left` for some work, and those that it has `spent`.

    The units of a part are not set aside: its whole may give others the same ones. `is_over` says whether the time is
    up. It is asked at the first payment, and then about every `LOOK_EVERY` units; `is_time_up` says that it was.
    """

    __slots__ = ("_unlooked", "_whole", "is_over", "is_time_up", "left", "spent")

    def __init__(
        self, units: int, is_over: Callable[[], bool] = lambda: False, whole: "Allowance | None" = None
    ) -> None:
        self.left = units
        self.spent = 0
        self.is_over = is_over
        self._whole = whole
        self._unlooked = LOOK_EVERY
        self.is_time_up = False

    def part(self, units: int) -> "Allowance":
        """Return an allowance for a part of the work."""
        return Allowance(units, self.is_over, self)

    def allow(self, units: int) -> None:
        """Give units in place of those that are left."""
        self.left, self._unlooked = units, LOOK_EVERY

    def spend(self, units: int) -> None:
        """Pay for a step before it is done; raise AllowanceSpentError if units or time do not suffice."""
        if units > self.left:
            raise AllowanceSpentError(f"{units} units are needed, and {self.left} are left")
        self._unlooked += units
        if self._unlooked >= LOOK_EVERY:
            self._unlooked = 0
            if not self.has_time():
                raise AllowanceSpentError("the time is used up")
        self.charge(units)

    def charge(self, units: int) -> None:
        """Count work that is done, also beyond what is left; a negative number takes it back."""
        self.left -= units
        self.spent += units
        if self._whole is not None:
            self._whole.charge(units)

    def has_time(self) -> bool:
        """Whether the time is not up."""
        self.is_time_up = self.is_time_up or self.is_over()
        return not self.is_time_up

    @property
    def is_late(self) -> bool:
        """Whether the time ended the work, or its whole, before it had spent so much that it counts as costly."""
        return self.spent < _MUCH and (self.is_time_up or (self._whole is not None and self._whole.is_time_up))

    @property
    def insufficient_units(self) -> int:
        """The units that were not enough: all that the work was given, or what it spent until the time ended it."""
        return self.spent if self.is_time_up else self.spent + self.left


class QuarantinedObject(msgspec.Struct, frozen=True, kw_only=True):
    """An object on which the solver failed ("pod namespace/name") and the error: a defect to report."""

    subject: str
    error: str


class LeftOutPod(msgspec.Struct, frozen=True, kw_only=True):
    """A pod that a decision left out because its selectors, demands or options were not worked out, with the reason."""

    pod: PodId
    reason: Reason


class StageStop(msgspec.Struct, frozen=True, kw_only=True):
    """Where a stage was stopped: the time was up at the looks after `after` and before `until` (0: to the end)."""

    stage: str
    after: int
    until: int = 0

    def says(self, look: int) -> bool:
        """Whether the time was up at a look."""
        return self.after < look and (not self.until or look < self.until)


@dataclass(slots=True, eq=False)
class BudgetUsage:
    """
    What one decision has used so far.

    In a replay `recorded` and `recorded_left_out` are of the report of the earlier decision; `recorded` is else None.
    """

    recorded: tuple[StageStop, ...] | None = None
    recorded_left_out: tuple[tuple[LeftOutPod, ...], ...] = ()
    cost: Allowance = field(default_factory=lambda: Allowance(0))
    """Of this all allowances of the decision are parts, so that it counts what they spend."""
    left_out: list[tuple[LeftOutPod, ...]] = field(default_factory=list)
    """The pods that were left out each time that a problem was prepared."""
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

    def next_left_out(self) -> dict[PodId, Reason] | None:
        """Return the pods that the next problem is prepared without, in a replay; else None."""
        if self.recorded is None:
            return None
        number = len(self.left_out)
        return {each.pod: each.reason for left in self.recorded_left_out[number : number + 1] for each in left}

    def leave_out(self, pods: Mapping[PodId, Reason]) -> None:
        """Record the pods that a problem is prepared without."""
        self.left_out.append(tuple(LeftOutPod(pod=pod, reason=reason) for pod, reason in pods.items()))

    @property
    def stops(self) -> tuple[StageStop, ...]:
        """The stops so far, by stage name."""
        return tuple(
            StageStop(stage=stage, after=first - 1, until=until)
            for stage, changes in sorted(self._changes.items())
            for first, until in zip(changes[::2], (*changes[1::2], 0), strict=False)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """
    The limits of one solve.

    `seconds` is wall time; every stage checks it. Stages after the search always have a share left (`at_least`). Each
    decision tries at least one pod or gang, so it makes progress and may end some time after `seconds`.
    `deterministic_seconds` is CP-SAT's deterministic time, the same on every machine: the limit of tests and replays.
    `cost_units` is the allowance for work without a cached result (`allowance`): evaluations of selectors, answers to
    demands, options to serve a claim. One unit is about a microsecond.

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
        return replace(self, work=BudgetUsage(self.work.recorded, self.work.recorded_left_out))

    def replaying(self, stopped: Iterable[StageStop], left_out: Iterable[tuple[LeftOutPod, ...]] = ()) -> "Budget":
        """Return a budget that stops where the `SearchReport` of an earlier decision says, and leaves out its pods."""
        return replace(self, work=BudgetUsage(tuple(stopped), tuple(left_out)))

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

    @classmethod
    def unbounded(cls) -> "Budget":
        """Return a budget that never ends, for small cases."""
        return cls(seconds=1e12, cost_units=sys.maxsize)

    def allowance(self, share: float, least: int = 0) -> Allowance:
        """Return the cost units that are left, at least `least`, with time until a share of the wall time."""
        until = self.until(share)
        units = max(least, self.cost_units - self.work.cost.spent)
        return Allowance(units, lambda: until.remaining_seconds() <= 0.0, self.work.cost)

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

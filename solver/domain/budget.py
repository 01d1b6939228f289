"""
What a decision may use: wall time, the search's own work, and work for what is not known yet.

A budget is passed down from stage to stage, and its shares all write into one `Work`: what was spent, and at which look
at the clock a stage was stopped. With that a replay stops at the same looks, whatever its clock says.
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

GENEROUS_UNITS: Final = 120_000_000
"""Two minutes of work for what is not known yet: for a caller that waits for the answer and shares with nothing."""


class Quarantined(msgspec.Struct, frozen=True, kw_only=True):
    """An object on which the solver failed, a pod as "pod namespace/name", and the error: a defect to report."""

    subject: str
    error: str


class LeftOut(msgspec.Struct, frozen=True, kw_only=True):
    """A pod that a stage left out of the plan, and why."""

    pod: PodId
    reason: Reason


class Stop(msgspec.Struct, frozen=True, kw_only=True):
    """
    Where a stage was stopped: after so many looks at the clock, to its end or until a look from which it went on.

    With `left` it was the allowance (`Budget.cost_units`) or its share of the time that ended a stage which pays from
    it: `after` are the units paid until then, and `left` are the pods that could not be decided about for it. What such
    a stage does depends on what is known from decisions before, and so a replay leaves out the same pods.
    """

    stage: str
    after: int
    until: int = 0
    left: tuple[LeftOut, ...] = ()

    def says(self, look: int) -> bool:
        """Whether the time was up at a look."""
        return not self.left and self.after < look and (not self.until or look < self.until)


@dataclass(slots=True, eq=False)
class Work:
    """What one decision has used so far; `recorded` are the stops of one that it repeats, None where it is new."""

    recorded: tuple[Stop, ...] | None = None
    spent_units: int = 0
    left_out: dict[tuple[str, tuple[LeftOut, ...]], Stop] = field(default_factory=dict)
    quarantined: dict[str, Quarantined] = field(default_factory=dict)
    defects: list[str] = field(default_factory=list)
    """How stages contradicted what is known; their results were dropped."""
    _looks: Counter[str] = field(default_factory=Counter)
    _changes: defaultdict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    """By stage the looks from which on the answer was another one, the first of which is that the time is up."""

    def look(self, stage: str, is_over: Callable[[], bool]) -> bool:
        """Say whether the time of a stage is up: by the clock, or as it was recorded."""
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

    def leave(self, stage: str, left: tuple[LeftOut, ...]) -> None:
        """Note the pods that a stage leaves out; once, however often it does."""
        before = (each for each in self.recorded or () if (each.stage, each.left) == (stage, left))
        new = Stop(stage=stage, after=self.spent_units, left=left)
        self.left_out.setdefault((stage, left), next(before, new))

    @property
    def stops(self) -> tuple[Stop, ...]:
        """Give where stages were stopped so far, by name."""
        found = [
            Stop(stage=stage, after=first - 1, until=until)
            for stage, changes in sorted(self._changes.items())
            for first, until in zip(changes[::2], (*changes[1::2], 0), strict=False)
        ]
        return (*found, *self.left_out.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """
    How long a solve may take.

    `seconds` is wall time, which every stage looks at. Stages after the search always have some of it left (see
    `at_least`), and each decision tries one pod or gang at least, so that it comes to its end some time after `seconds`
    and never without a step forward. `deterministic_seconds` is the search's own measure of work, the same on every
    machine, and what tests and replays are bounded by. `cost_units` is the allowance of one solve for what is not known
    yet: evaluations of selectors, ways to serve a claim; one unit is about a microsecond on a usual machine.

    `may_leave` lets a plan leave pods for a solve of their own (`Plan.later`, `Plan.costly`). With `is_forgiving` the
    result of a stage that contradicts what is known is dropped and reported (`SearchReport.defects`); else it raises.
    `params` are the constants of the search. `stage` names what looks at the budget. `clock` and `started` are in
    seconds.
    """

    seconds: float = 2.0
    deterministic_seconds: float = 4.0
    cost_units: int = GENEROUS_UNITS
    seed: int = 0
    workers: int = 1
    may_leave: bool = False
    is_forgiving: bool = False
    params: SearchParams = field(default_factory=SearchParams)
    clock: Callable[[], float] = time.monotonic
    started: float = field(default_factory=time.monotonic)
    stage: str = "decision"
    work: Work = field(default_factory=Work, compare=False, repr=False)

    def anew(self) -> "Budget":
        """Give the same budget with nothing spent: a decision starts with it, so that a budget serves for several."""
        return replace(self, work=Work(self.work.recorded))

    def replaying(self, stopped: Iterable[Stop]) -> "Budget":
        """Give a budget that stops where `SearchReport.stopped` of an earlier decision says, and nowhere else."""
        return replace(self, work=Work(tuple(stopped)))

    def at(self, stage: str) -> "Budget":
        """Give the budget under the name of a stage."""
        return replace(self, stage=stage)

    def until(self, share: float) -> "Budget":
        """Give the budget that ends at a share of the wall time, so that what comes after has the rest."""
        return replace(self, seconds=self.seconds * share)

    def at_least(self, share: float) -> "Budget":
        """Give what is left of the wall time, and at least a share of all of it, however long the rest took."""
        used = 0.0 if self.work.recorded is not None else self.clock() - self.started
        return replace(self, seconds=max(self.seconds, used + self.seconds * share))

    def note_defect(self, stage: str, error: Exception) -> None:
        """Note that a stage failed and that its result is dropped; raise the error unless the budget is forgiving."""
        if not self.is_forgiving:
            raise error
        self.work.defects.append(f"{stage}: {type(error).__name__}: {error}")

    def spend(self, units: int) -> None:
        """Pay for work out of the allowance; it may end below zero, by what the last piece of work took."""
        self.work.spent_units += units

    @classmethod
    def unbounded(cls) -> "Budget":
        """Give a budget that never ends: for a case that is known to be small."""
        return cls(seconds=1e12, cost_units=sys.maxsize)

    @property
    def units_left(self) -> int:
        """What is left of the allowance, never below zero; all of it in a replay, which knows what it leaves out."""
        if self.work.recorded is not None:
            return self.cost_units
        return max(0, self.cost_units - self.work.spent_units)

    def remaining_seconds(self) -> float:
        """Wall seconds left, never below zero; all of them in a replay."""
        if self.work.recorded is not None:
            return self.seconds
        return max(0.0, self.started + self.seconds - self.clock())

    def has_half(self) -> bool:
        """Whether not more than half of the wall time is used up."""
        return not self.work.look(f"half of {self.stage}", lambda: self.remaining_seconds() < self.seconds / 2)

    def has_seconds(self, seconds: float) -> bool:
        """Whether so much wall time is left."""
        return not self.work.look(f"rest of {self.stage}", lambda: self.remaining_seconds() < seconds)

    def sparing(self) -> "Budget":
        """
        Keep something back of the wall time for what comes after the search: to write the plan down and explain it.

        That takes about a quarter of what preparing and the greedy took, on the machine and at the load of today.
        """
        left = self.remaining_seconds()
        return replace(self, seconds=self.seconds - min(left / 4, (self.seconds - left) / 4))

    def should_stop(self) -> bool:
        """Whether the wall time is used up."""
        return self.work.look(self.stage, lambda: self.remaining_seconds() <= 0.0)

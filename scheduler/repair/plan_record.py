"""What the plans say of moves so far: what is used up of the budgets, who rests, who was moved, and what was tried."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from scheduler.kube.repair_plans import MoveProgress, PlannedMove, RepairPlan, seconds_of
from scheduler.settings.repairs import RepairSettings
from solver.domain import RepairRules

HOUR_SECONDS: Final = 3600.0
DAY_SECONDS: Final = 86_400.0
"""For so long no move is undone: a successor makes no room for others."""


@dataclass(frozen=True, slots=True)
class PlanRecord:
    """
    All plans of the cluster at a time (`now`, seconds since the epoch); finished ones too, for a day.

    `halted` says why no pod may move now, empty where nothing keeps them.
    """

    plans: Sequence[RepairPlan]
    settings: RepairSettings
    now: float
    halted: str = ""

    def begun(self) -> Iterator[tuple[PlannedMove, MoveProgress]]:
        """Yield the moves that were begun, of all plans."""
        for plan in self.plans:
            for move in plan.spec.moves:
                progress = plan.progress(move.uid)
                if progress is not None:
                    yield move, progress

    def rules(self) -> RepairRules:
        """Return what protects pods, with those that were moved a short time ago."""
        settled, resting, moved = set[str](), set[str](), Counter[str]()
        for move, progress in self.begun():
            age = self.now - seconds_of(progress.time)
            moved[move.controller_uid] += 1
            if age < DAY_SECONDS and progress.successor_uid:
                settled.add(progress.successor_uid)
            if age < self.settings.cool_down_seconds and move.controller_uid:
                resting.add(move.controller_uid)
        return msgspec.structs.replace(
            self.settings.rules(),
            now=int(self.now),
            settled=tuple(sorted(settled)),
            resting=tuple(sorted(resting)),
            moved_before=tuple(sorted((uid, count) for uid, count in moved.items() if uid)),
        )

    @property
    def on_the_way(self) -> int:
        """How many pods of all plans are on the way."""
        return sum(plan.on_the_way for plan in self.plans)

    def refusal(self, moves: Iterable[PlannedMove]) -> str:
        """Say which budget keeps moves of some steps back now; empty where none does. One step may exceed the last."""
        wanted = list(moves)
        budget = self.settings.budget
        lately = [move for move, progress in self.begun() if self.now - seconds_of(progress.time) < HOUR_SECONDS]
        if len(lately) + len(wanted) > budget.moves_per_hour:
            return f"{len(lately)} of {budget.moves_per_hour} moves within the hour are used up"
        used = Counter(move.namespace for move in lately)
        for namespace, count in Counter(move.namespace for move in wanted).items():
            most = budget.moves_per_hour_of_namespace
            if used[namespace] + count > most:
                return f"{used[namespace]} of {most} moves of namespace {namespace} within the hour are used up"
        is_alone = not self.on_the_way and len({move.step for move in wanted}) == 1
        if not is_alone and self.on_the_way + len(wanted) > budget.moves_at_once:
            return f"{self.on_the_way} pods are on the way"
        return ""

    def disposable(self) -> list[RepairPlan]:
        """Return the finished plans whose moves count no more."""
        return [plan for plan in self.plans if not plan.is_open and self.now - self._last(plan) > DAY_SECONDS]

    def _last(self, plan: RepairPlan) -> float:
        times = (progress.time for progress in plan.status.moves)
        return max((seconds_of(each) for each in (*times, plan.status.since)), default=0.0)

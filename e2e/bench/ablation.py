"""
What each stage of the search earns: every case is searched with all stages, and again without each one of them.

Only the search is run, on a problem that is prepared once. The levels and the work are the same on every machine;
processor seconds are shown as a ratio.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from rich import box
from rich.table import Table

from e2e.bench.measure import Effort, budget_of
from e2e.bench.workloads import Case
from solver import SolverCache, greedy
from solver.domain import LevelReport, Policy, SearchParams, SearchStage
from solver.model.objective import best_of
from solver.problem.prepare import prepare
from solver.problem.problem import Problem
from solver.search import scoring

_WARM_UP = 3
"""Runs with all stages, of which the fastest counts: what is worked out once and kept belongs to no stage."""
COLUMNS = ("STAGE", "CASE", "LEVELS", "PROVEN", "WORK", "CPU")


@dataclass(frozen=True, slots=True)
class SearchRun:
    """One search: its levels, its work in deterministic seconds, and processor seconds with the greedy."""

    levels: tuple[LevelReport, ...]
    work: float
    seconds: float

    @property
    def proven(self) -> int:
        """How many leading levels are proven."""
        return next((index for index, level in enumerate(self.levels) if not level.proven), len(self.levels))


@dataclass(frozen=True, slots=True)
class Ablation:
    """One case without one stage (None: with all), beside the same case with all stages."""

    case: str
    stage: SearchStage | None
    run: SearchRun
    whole: SearchRun

    @property
    def is_changed(self) -> bool:
        """Whether the plan's value or what is proven of it differs."""
        return self.run.levels != self.whole.levels

    def changes(self) -> str:
        """Say by how much levels differ, from the first that does."""
        pairs = zip(self.run.levels, self.whole.levels, strict=True)
        return ", ".join(f"{one.name} {one.value - all_.value:+d}" for one, all_ in pairs if one.value != all_.value)


def ablated(name: str, case: Case, policy: Policy, effort: Effort, stages: Sequence[SearchStage]) -> Iterator[Ablation]:
    """Search a case with all stages, and without each of some."""
    problem = prepare(case.snapshot, case.batch, policy, SolverCache())
    whole = min((_searched(problem, SearchParams(), effort) for _ in range(_WARM_UP)), key=lambda run: run.seconds)
    yield Ablation(name, None, whole, whole)
    for stage in stages:
        yield Ablation(name, stage, _searched(problem, SearchParams(without=frozenset({stage})), effort), whole)


def _searched(problem: Problem, params: SearchParams, effort: Effort) -> SearchRun:
    made, budget, started = replace(problem, params=params), budget_of(effort), time.process_time()
    found = scoring.search_and_score(made, best_of(made, greedy.candidates(made)), budget)
    return SearchRun(found.levels, found.deterministic_seconds, time.process_time() - started)


def render(found: Sequence[Ablation]) -> Table:
    """Lay out the cases that a stage changes; of the others only how many there are, and their time together."""
    table = Table(*COLUMNS, box=box.SIMPLE_HEAD, pad_edge=False)
    for stage in dict.fromkeys(each.stage for each in found if each.stage is not None):
        own = [each for each in found if each.stage is stage]
        for each in own:
            if each.is_changed:
                proven = f"{each.run.proven} of {len(each.run.levels)} ({each.run.proven - each.whole.proven:+d})"
                work = f"{each.run.work:.2f} ({each.run.work - each.whole.work:+.2f})"
                table.add_row(stage, each.case, each.changes() or "–", proven, work, _ratio([each]))
        rest = [each for each in own if not each.is_changed]
        table.add_row(
            stage, f"{len(rest)} others", "equal", "equal", "", _ratio(rest) if rest else "", end_section=True
        )
    return table


def _ratio(found: Sequence[Ablation]) -> str:
    return f"×{sum(each.run.seconds for each in found) / sum(each.whole.seconds for each in found):.2f}"

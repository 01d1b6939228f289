"""Solve one case several times and compare: with first fit, with the greedy, with the bound, and with itself."""

import statistics
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from e2e.bench.workloads import Case
from solver import SolverCache, greedy, solve, verify
from solver.domain import Budget, Plan, Policy, SearchParams, SearchStage, Violation
from solver.greedy.device_fit import FitCache
from solver.model.objective import evaluate, level_names
from solver.problem.prepare import prepare

PATIENCE_SECONDS = 86_400.0
"""No end for the clock of a busy machine: work is the limit."""


class LevelMeasure(msgspec.Struct, frozen=True, kw_only=True):
    """One level: what three ways of deciding make of it (larger is better; costs are negative), and what is proven."""

    name: str
    first_fit: int
    greedy: int
    final: int
    bound: int
    proven: bool


class Measure(msgspec.Struct, frozen=True, kw_only=True):
    """
    One workload with one seed.

    `seconds` are CPU seconds of each run with a warm memory, `cold` those of a first solve, which reads the whole
    cluster; `work` is the solver's own measure of the search. `findings` say what must not be.
    """

    workload: str
    seed: int
    nodes: int
    pods: int
    placed: int
    levels: tuple[LevelMeasure, ...]
    stages: tuple[str, ...]
    cold: float
    seconds: tuple[float, ...]
    work: float
    findings: tuple[str, ...] = ()

    @property
    def median(self) -> float:
        """The median of the warm runs."""
        return statistics.median(self.seconds)


class Effort(msgspec.Struct, frozen=True, kw_only=True):
    """How long a search may go on, by its own measure of work, with which seed and stages, and how many warm runs."""

    work: float = 4.0
    seed: int = 0
    runs: int = 2
    without: tuple[SearchStage, ...] = ()


def measure(name: str, seed: int, case: Case, policy: Policy, effort: Effort) -> Measure:
    """Solve a case and say how well."""
    memory = SolverCache()
    cold, first = timed(case, policy, effort, memory)
    runs = [timed(case, policy, effort, memory) for _ in range(effort.runs)]
    problem = prepare(case.snapshot, case.batch, policy, memory)
    kept = FitCache(problem)
    first_fit = evaluate(problem, greedy.Greedy(problem, kept, greedy.Order.QUEUE_FIRST_FIT).run())
    best = max(evaluate(problem, each) for each in greedy.candidates(problem))
    # A plan that first makes room for some pods reports the levels of those alone.
    found = {level.name: level for level in first.report.levels}
    rows = [row for row in zip(level_names(problem), first_fit, best, strict=True) if row[0] in found]
    return Measure(
        workload=name,
        seed=seed,
        nodes=len(case.snapshot.nodes),
        pods=len(case.batch.pods),
        placed=len(first.placements),
        levels=tuple(
            LevelMeasure(
                name=level.name, first_fit=low, greedy=middle, final=level.value, bound=level.bound, proven=level.proven
            )
            for level, low, middle in ((found[name], low, middle) for name, low, middle in rows)
        ),
        stages=first.report.stages,
        cold=cold,
        seconds=tuple(seconds for seconds, _ in runs),
        work=first.report.deterministic_seconds,
        findings=tuple(_findings(case, policy, first, [plan for _, plan in runs])),
    )


def timed(case: Case, policy: Policy, effort: Effort, memory: SolverCache) -> tuple[float, Plan]:
    """Solve once; return the CPU seconds of the process, which other work changes little, and the plan."""
    started = time.process_time()
    plan = solve(case.snapshot, case.batch, policy, budget_of(effort), memory)
    return time.process_time() - started, plan


def budget_of(effort: Effort) -> Budget:
    """Give a budget that work ends, never the clock."""
    params = SearchParams(without=frozenset(effort.without))
    return Budget(seconds=PATIENCE_SECONDS, deterministic_seconds=effort.work, seed=effort.seed, params=params)


def worse_levels(measured: Measure) -> tuple[str, ...]:
    """Say where the final plan is worth less than first fit or the greedy: levels count in their order."""
    final = [level.final for level in measured.levels]
    return tuple(
        f"the plan is worth less than {name}"
        for name, other in (
            ("first fit", [level.first_fit for level in measured.levels]),
            ("the greedy", [level.greedy for level in measured.levels]),
        )
        if final < other
    )


def write(path: Path, measures: tuple[Measure, ...]) -> None:
    """Record measures as JSON."""
    path.write_bytes(msgspec.json.format(msgspec.json.encode(measures)))


def read(path: Path) -> tuple[Measure, ...]:
    """Read recorded measures. Raises msgspec.ValidationError where the file holds something else."""
    return msgspec.json.decode(path.read_bytes(), type=tuple[Measure, ...])


def _findings(case: Case, policy: Policy, first: Plan, others: list[Plan]) -> Iterator[str]:
    if any(plan != first for plan in others):
        yield "runs gave different plans"
    yield from map(_sentence, verify.check(case.snapshot, case.batch, first, policy))


def _sentence(violation: Violation) -> str:
    return f"{violation.rule}: {violation.subject}: {violation.message}"

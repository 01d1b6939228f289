"""What the shell reports about the solver: log lines, series, the readiness check `solver`, saved snapshots."""

import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from scheduler.observe import logs
from scheduler.observe.health import Check
from scheduler.observe.metrics import Metrics, Subsystem
from scheduler.observe.tracebacks import LongText
from scheduler.worker import recording
from scheduler.worker.supervisor import SolveFailedError, WorkerError
from solver.domain import Batch, Pod, QuarantinedObject, Violation

_OVER_BUDGET: Final = 1.5
"""A decision counts as over its budget above this multiple: the check and the encoding of the plan come on top."""

_MOST_SAVED: Final = 3
"""Saved decisions that are remembered by the paths of their files."""

_log: Final = logs.logger()


class SolverTelemetry:
    """
    Logs, counts and reports how the worker process does; saves the input of failed decisions.

    `saved` are the newest of their files.
    """

    def __init__(
        self, metrics: Metrics, check: Check, folder: Path, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._metrics: Final = metrics
        self._check: Final = check
        self._folder: Final = folder
        self._clock: Final = clock
        self._absent_since: float | None = None
        self._starts = 0
        self.saved: Final[deque[str]] = deque(maxlen=_MOST_SAVED)
        metrics.without_worker_seconds.set_function(self._seconds_without_worker)

    def _seconds_without_worker(self) -> float:
        return 0.0 if self._absent_since is None else self._clock() - self._absent_since

    def started(self, pid: int) -> None:
        """Report that a worker takes batches."""
        _log.info(logs.WORKER_STARTED, pid=pid)
        if self._starts:
            self._metrics.worker_restarts.inc()
        self._starts += 1
        self._solve_again()

    def not_started(self, error: Exception) -> None:
        """Report that the worker could not be started; it is tried again."""
        _log.error(logs.WORKER_LOST, error=f"it could not be started: {error!r}")
        self.no_worker("the worker process could not be started")

    def decided(self, seconds: float, budget_seconds: float) -> None:
        """Report that the solver gave a plan after `seconds` of wall time."""
        if seconds > _OVER_BUDGET * budget_seconds:
            self._metrics.decisions_over_budget.inc()
        self._solve_again()

    def _solve_again(self) -> None:
        """Report that the solver gives plans."""
        self._absent_since = None
        self._check.succeed()

    def no_worker(self, cause: str) -> None:
        """Report that pods wait until there is a worker."""
        if self._absent_since is None:
            self._absent_since = self._clock()
            _log.warning(logs.NO_WORKER, cause=cause)
        self._check.degrade(f"no pod is scheduled until there is a worker process: {cause}")

    def lost(self, error: WorkerError, batch: Batch) -> None:
        """Report that the worker was lost, or that the solver raised, on a batch."""
        event = logs.SOLVER_FAILED if isinstance(error, SolveFailedError) else logs.WORKER_LOST
        _log.error(event, error=LongText(error), batch=len(batch.pods))
        self.no_worker(str(error).strip().rpartition("\n")[2])

    def violated(self, violations: tuple[Violation, ...]) -> None:
        """Count and log the rules that a dropped plan broke."""
        for violation in violations:
            self._metrics.plan_violations.labels(violation.rule).inc()
        first = violations[0]
        _log.error(
            logs.PLAN_VIOLATED, rule=first.rule, subject=first.subject, message=first.message, count=len(violations)
        )

    def contradicted(self, defects: Sequence[str], batch: Batch) -> None:
        """Count and log that stages of a search contradicted what is known; their results were dropped."""
        for defect in defects:
            self._metrics.defects.labels(Subsystem.SEARCH).inc()
            _log.error(logs.DEFECT, part=Subsystem.SEARCH, error=defect, batch=len(batch.pods))

    def quarantined(self, found: QuarantinedObject) -> None:
        """Count and log that the solver failed on an object and decided without it."""
        self._metrics.defects.labels(Subsystem.DECISION).inc()
        _log.error(logs.DEFECT, part=Subsystem.DECISION, object=found.subject, error=found.error)

    def poison_pod(self, pods: Sequence[Pod], error: WorkerError) -> None:
        """Report pods of one equivalence class whose isolated decision broke a limit or failed."""
        event = logs.SOLVER_FAILED if isinstance(error, SolveFailedError) else logs.DECISION_ENDED
        _log.warning(event, pod=str(pods[0].id), pods=len(pods), error=LongText(error), alone=True)

    def save(self, saved: recording.Record) -> None:
        """Save a record to the configured folder; a failure (disk full) is only logged."""
        try:
            path = recording.save(self._folder, saved)
        except OSError as error:
            _log.warning(logs.SNAPSHOT_SAVED, error=str(error), cause=saved.cause)
        else:
            self.saved.append(str(path))
            _log.warning(logs.SNAPSHOT_SAVED, path=str(path), cause=saved.cause)

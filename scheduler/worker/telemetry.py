"""What is seen of the solver from outside: log lines, series, the readiness check, saved snapshots."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from scheduler.observe import logs
from scheduler.observe.health import Check
from scheduler.observe.metrics import Metrics, Subsystem
from scheduler.worker import recording
from scheduler.worker.supervisor import SolveFailedError, WorkerError
from solver.domain import Batch, Pod, Quarantined, Violation

_log: Final = logs.logger()


class Sight:
    """What is seen of all this from outside: log lines, series, the readiness check `solver`, saved snapshots."""

    def __init__(
        self, metrics: Metrics, check: Check, folder: Path, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._metrics: Final = metrics
        self._check: Final = check
        self._folder: Final = folder
        self._clock: Final = clock
        self._covering_since: float | None = None
        self._starts = 0
        metrics.fallback_seconds.set_function(self.fallback_seconds)

    def fallback_seconds(self) -> float:
        """Seconds for which the solver's process has not decided; 0 while it works."""
        return 0.0 if self._covering_since is None else self._clock() - self._covering_since

    def started(self, pid: int) -> None:
        """Note that a process takes batches."""
        _log.info(logs.WORKER_STARTED, pid=pid)
        if self._starts:
            self._metrics.worker_restarts.inc()
        self._starts += 1
        self.solved()

    def not_started(self, error: Exception) -> None:
        """Note that the process could not be started; it is tried again."""
        _log.error(logs.WORKER_LOST, error=f"it could not be started: {error!r}")
        self.covers("the solver's process could not be started")

    def solved(self) -> None:
        """Note that the solver gave a plan, or can give one."""
        self._covering_since = None
        self._check.succeed()

    def covers(self, cause: str) -> None:
        """Note that only pods are decided about which the shell itself may look at."""
        if self._covering_since is None:
            self._covering_since = self._clock()
            _log.warning(logs.FALLBACK, cause=cause)
        self._check.degrade(f"only pods without claims to allocate are decided about: {cause}")

    def lost(self, error: WorkerError, batch: Batch) -> None:
        """Note that the solver failed on a batch."""
        event = logs.SOLVER_FAILED if isinstance(error, SolveFailedError) else logs.WORKER_LOST
        _log.error(event, error=str(error), batch=len(batch.pods))
        self.covers(str(error).strip().rpartition("\n")[2])

    def failed(self, trace: str, batch: Batch) -> None:
        """Note that the fall-back itself raised."""
        _log.error(logs.SOLVER_FAILED, error=trace, batch=len(batch.pods), fallback=True)

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

    def quarantined(self, found: Quarantined) -> None:
        """Count and log that the solver failed on an object, which it left out of the decision."""
        self._metrics.defects.labels(Subsystem.DECISION).inc()
        _log.error(logs.DEFECT, part=Subsystem.DECISION, object=found.subject, error=found.error)

    def guilty(self, pods: Sequence[Pod], error: WorkerError) -> None:
        """Note equal pods whose decision, aside and alone, broke a limit or failed."""
        event = logs.SOLVER_FAILED if isinstance(error, SolveFailedError) else logs.DECISION_ENDED
        _log.warning(event, pod=str(pods[0].id), pods=len(pods), error=str(error), alone=True)

    def save(self, saved: recording.Record) -> None:
        """Save a record to the configured folder; a full disk is logged and stops nothing."""
        try:
            path = recording.save(self._folder, saved)
        except OSError as error:
            _log.warning(logs.SNAPSHOT_SAVED, error=str(error), cause=saved.cause)
        else:
            _log.warning(logs.SNAPSHOT_SAVED, path=str(path), cause=saved.cause)

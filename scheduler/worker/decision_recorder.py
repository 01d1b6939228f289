"""Saves decisions in the background, for `dovetail replay`; off unless a folder is configured."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from scheduler.observe import logs
from scheduler.observe.metrics import Metrics, Subsystem
from scheduler.observe.unexpected_errors import Tasks
from scheduler.settings import DecisionFiles
from scheduler.worker import recording
from solver.domain import Snapshot

_log: Final = logs.logger()


class DecisionRecorder:
    """Writes one file at a time; what is decided meanwhile is not saved."""

    def __init__(
        self, settings: DecisionFiles, metrics: Metrics, now: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self._folder: Final = Path(settings.folder) if settings.folder else None
        self._limits: Final = recording.FolderLimits(settings.max_files, settings.max_mib * 1024 * 1024)
        self._now: Final = now
        self._writes: Final = Tasks(metrics, Subsystem.DECISION)

    def begin(self, snapshot: Callable[[], Snapshot]) -> Snapshot | None:
        """Return the snapshot before a decision that is to be saved; None where it is not."""
        return None if self._folder is None or len(self._writes) else snapshot()

    def save(self, record: recording.Record) -> str:
        """Save a record in a thread, and return the path of its file; "" where another one is being saved."""
        if self._folder is None or len(self._writes):
            return ""
        now = self._now()
        self._writes.begin(self._save(self._folder, record, now))
        return str(recording.new_path(self._folder, now))

    async def _save(self, folder: Path, record: recording.Record, now: datetime) -> None:
        try:
            await asyncio.to_thread(recording.save, folder, record, now, self._limits)
        except OSError as error:
            _log.warning(logs.SNAPSHOT_SAVED, error=str(error), cause=record.cause)

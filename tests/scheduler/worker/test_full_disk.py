"""A disk that is full costs the files that would be saved, and nothing else."""

import asyncio
from pathlib import Path

from structlog.testing import capture_logs

from scheduler.observe.health import Health
from scheduler.observe.metrics import Metrics
from scheduler.settings import DecisionFiles
from scheduler.worker import recording
from scheduler.worker.decision_recorder import DecisionRecorder
from scheduler.worker.telemetry import SolverTelemetry
from solver.domain import Policy
from tests.support.builders import batch, node, pod, snapshot
from tests.support.full_disk import full_disk

RECORD = recording.Record(
    cause="test",
    snapshot=snapshot(node("n1")),
    batch=batch(pod("p")),
    policy=Policy(),
    seconds=1.0,
    deterministic_seconds=1.0,
)


async def saved(recorder: DecisionRecorder) -> None:
    """Save a decision, and wait until the recorder may save another one."""
    recorder.save(RECORD)
    async with asyncio.timeout(60):
        while recorder.begin(lambda: RECORD.snapshot) is None:  # noqa: ASYNC110 - it ends in a thread
            await asyncio.sleep(0.01)


async def test_decisions_that_cannot_be_saved_are_logged_and_the_next_ones_are_saved(tmp_path: Path) -> None:
    metrics = Metrics()
    recorder = DecisionRecorder(DecisionFiles(folder=str(tmp_path / "files")), metrics)
    with full_disk(tmp_path / "files") as folder, capture_logs() as lines:
        await saved(recorder)
        left = list(folder.glob("*dovetail*"))

    assert left == []
    assert [(line["event"], line["cause"]) for line in lines] == [("snapshot_saved", "test")]
    assert "error" in lines[0]
    assert metrics.registry.get_sample_value("dovetail_defects_total", {"part": "decision"}) == 0.0
    await saved(recorder)
    assert [recording.read(each).cause for each in (tmp_path / "files").iterdir()] == ["test"]


def test_a_failed_decision_whose_input_cannot_be_saved_is_logged(tmp_path: Path) -> None:
    telemetry = SolverTelemetry(Metrics(), Health().ready("solver"), tmp_path / "files")
    with full_disk(tmp_path / "files") as folder, capture_logs() as lines:
        telemetry.save(RECORD)
        left = list(folder.glob("*dovetail*"))

    assert left == []
    assert [(line["event"], "error" in line) for line in lines] == [("snapshot_saved", True)]

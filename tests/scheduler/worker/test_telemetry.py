from pathlib import Path

import pytest

from scheduler.observe.health import Health
from scheduler.observe.metrics import Metrics
from scheduler.worker.telemetry import SolverTelemetry


@pytest.mark.parametrize(("seconds", "count"), [(2.0, 0), (2.9, 0), (3.1, 1)])
def test_decisions_far_over_their_budget_are_counted(seconds: float, count: int, tmp_path: Path) -> None:
    metrics = Metrics()
    telemetry = SolverTelemetry(metrics, Health().ready("solver"), tmp_path)
    telemetry.decided(seconds, budget_seconds=2.0)
    (family,) = metrics.decisions_over_budget.collect()
    assert family.samples[0].value == count

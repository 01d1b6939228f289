"""What attempts count as."""

from scheduler.observe.metrics import Metrics
from scheduler.status.attempt_metrics import AttemptMetrics
from solver.domain import Pod, Reason, ReasonCode
from tests.support.builders import pod

P = pod("p", "c")
LATE = Reason(code=ReasonCode.CLAIM_MISSING, message="claim c does not exist yet")
FULL = Reason(code=ReasonCode.NODE_RESOURCES, message="Insufficient cpu", node_count=1)


class Counted:
    """Attempt metrics with their registry."""

    def __init__(self) -> None:
        self.metrics = Metrics()
        self.attempts = AttemptMetrics(self.metrics, lambda: 7.0)

    def of(self, result: str, on: Pod = P) -> float:
        """How many attempts ended so."""
        labels = {"result": result, "profile": on.scheduler_name}
        return self.metrics.registry.get_sample_value("scheduler_schedule_attempts_total", labels) or 0.0


def test_a_pod_whose_claim_is_late_is_not_unschedulable() -> None:
    counted = Counted()
    counted.attempts.failed(P, (LATE,), 6.0)

    assert (counted.of("waiting-for-claims"), counted.of("unschedulable")) == (1, 0)


def test_a_pod_that_lacks_more_than_its_claim_is_unschedulable() -> None:
    counted = Counted()
    counted.attempts.failed(P, (FULL, LATE), 6.0)

    assert (counted.of("waiting-for-claims"), counted.of("unschedulable")) == (0, 1)


def test_waiting_for_a_claim_is_no_attempt_of_the_pod() -> None:
    counted = Counted()
    counted.attempts.add(P)
    counted.attempts.failed(P, (LATE,), 6.0)
    counted.attempts.bound(P, 6.0)

    assert counted.of("scheduled") == 1
    count = counted.metrics.registry.get_sample_value(
        "scheduler_pod_scheduling_sli_duration_seconds_count", {"attempts": "1"}
    )
    assert count == 1

"""What attempts count as."""

from collections import Counter

from scheduler.observe.metrics import Metrics
from scheduler.status.attempt_metrics import AttemptMetrics
from solver.domain import Pod, Reason, ReasonCode
from tests.support.builders import allocation, alternative, claim, first_available, pod, request, result

P = pod("p", "c")
LATE = Reason(code=ReasonCode.CLAIM_MISSING, message="claim c does not exist yet")
FULL = Reason(code=ReasonCode.NODE_RESOURCES, message="Insufficient cpu", node_count=1)


class Counted:
    """Attempt metrics with their registry."""

    def __init__(self) -> None:
        self.metrics = Metrics()
        self.attempts = AttemptMetrics(self.metrics, Counter, lambda: 7.0)

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


def test_the_oldest_waiting_pod_of_each_reason() -> None:
    now = [0.0]
    metrics = Metrics()
    attempts = AttemptMetrics(metrics, Counter, lambda: now[0])
    for at, name in enumerate(("first", "second", "new")):
        now[0] = float(at)
        attempts.add(pod(name, "c"))
    for name in ("first", "second"):
        attempts.failed(pod(name, "c"), (FULL,), 2.0)
    now[0] = 10.0
    attempts.report_oldest()

    value = metrics.registry.get_sample_value
    assert value("dovetail_oldest_waiting_pod_seconds", {"reason": FULL.code}) == 10.0
    assert value("dovetail_oldest_waiting_pod_seconds", {"reason": ""}) == 8.0
    attempts.bound(pod("first", "c"), 9.0)
    attempts.report_oldest()
    assert value("dovetail_oldest_waiting_pod_seconds", {"reason": FULL.code}) == 9.0


def test_the_time_to_placement_by_the_classes_that_were_allocated() -> None:
    metrics = Metrics()
    either = first_available("r", alternative("a", "large"), alternative("b", "small"))
    done = claim(
        "c", either, request("nic", "rdma"), allocation=allocation(result("r/b", "g", "n"), result("nic", "x", "n"))
    )
    attempts = AttemptMetrics(metrics, Counter, lambda: 7.0, claim={done.id: done}.get)
    attempts.bound(P, 6.0)
    attempts.bound(pod("q"), 6.0)

    def count(name: str) -> float | None:
        return metrics.registry.get_sample_value("dovetail_placement_seconds_count", {"device_class": name})

    assert (count("small"), count("rdma"), count(""), count("large")) == (1, 1, 1, None)

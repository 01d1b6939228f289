"""The series of Kueue's admission check."""

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram

RESULTS: Final = "ready", "parked", "activated"
_SECONDS: Final = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)


class AdmissionMetrics:
    """What the check has answered, and how long that took."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.answers: Final = Counter(
            "dovetail_admission_check_answers",
            "Answers to Workloads of Kueue: ready (room is held), parked (no room), activated (it fits now).",
            ("result",),
            registry=registry,
        )
        for result in RESULTS:
            self.answers.labels(result)
        self.seconds: Final = Histogram(
            "dovetail_admission_check_seconds",
            "Seconds from the time a Workload was seen with quota and its check Pending to Ready.",
            registry=registry,
            buckets=_SECONDS,
        )

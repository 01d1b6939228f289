"""
Every series that Dovetail exports, in one place.

Where the meaning is kube-scheduler's the name and labels are too (`scheduler_…`), so that existing dashboards and
alerts work; what only Dovetail has is called `dovetail_…`.
"""

from collections.abc import Iterable
from enum import StrEnum
from typing import Final

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    GCCollector,
    Histogram,
    Info,
    ProcessCollector,
    disable_created_metrics,
)
from prometheus_client.exposition import choose_encoder

from scheduler.change import Kind
from solver.domain import ReasonCode
from solver.verify import Rule

# When a counter was made says when the process started, which has a series of its own.
disable_created_metrics()  # type: ignore[no-untyped-call]  # the library has no type for it


def _doubling(first: float, count: int) -> tuple[float, ...]:
    """Bucket bounds that double, as kube-scheduler's do."""
    return tuple(first * 2**step for step in range(count))


_ATTEMPT_SECONDS: Final = _doubling(0.001, 15)
_SLI_SECONDS: Final = _doubling(0.01, 20)
_SOLVER_SECONDS: Final = _doubling(0.001, 16)
_ATTEMPTS: Final = _doubling(1, 5)
_PODS: Final = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000)

QUEUES: Final = ("active", "backoff", "unschedulable", "gated")
"""Where a pending pod can wait (label `queue`)."""


class Subsystem(StrEnum):
    """Where an exception was met that no code expects (label `part`)."""

    DECISION = "decision"
    SEARCH = "search"
    COMMIT = "commit"
    SETTLEMENT = "settlement"
    EVICTION = "eviction"
    STALE_ALLOCATIONS = "stale_allocations"
    ORPHANED_CLAIMS = "orphaned_claims"
    MANUALLY_BOUND = "manually_bound"
    POD_GROUPS = "pod_groups"
    STATUS = "status"
    QUEUE = "queue"
    FAILED_DEVICES = "failed_devices"


class Metrics:
    """
    The series of one process, in a registry of their own.

    Label values that are known beforehand start at zero, so that a rate over them works from the first scrape.
    """

    def __init__(self, version: str = "") -> None:
        self.registry: Final = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        GCCollector(registry=self.registry)
        self._add_pods()
        self._add_decisions()
        self._add_decisions_aside()
        self._add_memory()
        self._add_writes()
        self._add_objects()
        self.defects = self._counter(
            "dovetail_defects",
            "Exceptions that no code expects, by where one object met them. The log has each with its traceback.",
            ("part",),
            tuple(Subsystem),
        )
        self.build: Final = Info("dovetail_build", "The version that runs.", registry=self.registry)
        self.build.info({"version": version})

    def exposition(self, accept: str = "") -> tuple[bytes, str]:
        """Give the text that Prometheus scrapes, in the format that an Accept header asks for, and its content type."""
        encode, content_type = choose_encoder(accept)
        return encode(self.registry), content_type

    def _add_pods(self) -> None:
        """Add the series about pods and their way through the queue."""
        self.schedule_attempts = self._counter(
            "scheduler_schedule_attempts",
            "Attempts to schedule pods: scheduled (bound), unschedulable (no place now), error (something failed).",
            ("result", "profile"),
        )
        self.attempt_seconds = self._histogram(
            "scheduler_scheduling_attempt_duration_seconds",
            "Seconds from the start of the decision about a pod to its binding, or to its reasons.",
            _ATTEMPT_SECONDS,
            ("result", "profile"),
        )
        self.sli_seconds = self._histogram(
            "scheduler_pod_scheduling_sli_duration_seconds",
            "Seconds from the moment a pod could first be scheduled (seen, not gated) to its binding.",
            _SLI_SECONDS,
            ("attempts",),
        )
        self.attempts = self._histogram(
            "scheduler_pod_scheduling_attempts", "Attempts that a pod took until it was bound.", _ATTEMPTS
        )
        self.pending_pods = self._gauge(
            "scheduler_pending_pods",
            "Pods that wait: active (to be decided), backoff, unschedulable (for a change), gated.",
            ("queue",),
            QUEUES,
        )
        self.incoming_pods = self._counter(
            "scheduler_queue_incoming_pods",
            "Pods put into a queue, by the event that put them there.",
            ("queue", "event"),
        )

    def _add_decisions(self) -> None:
        """Add the series about batches, plans and the solver's process."""
        self.batch_pods = self._histogram("dovetail_batch_pods", "Pods decided together.", _PODS)
        self.solver_seconds = self._histogram(
            "dovetail_solver_seconds",
            "Wall seconds of one solve, by how it ended: Optimal (proven), Feasible, Fallback (greedy alone).",
            _SOLVER_SECONDS,
            ("status",),
        )
        self.solver_gap = self._gauge(
            "dovetail_solver_gap",
            "Distance of the last plan from its proven bound, as a share of the bound; 0 is proven optimal.",
            ("level",),
        )
        self.placed_pods = self._counter("dovetail_placed_pods", "Pods for which a plan had a place.")
        self.unplaced_pods = self._counter(
            "dovetail_unplaced_pods",
            "Pods for which a plan had no place, by the most telling reason.",
            ("reason",),
            tuple(ReasonCode),
        )
        self.preemption_attempts = self._counter(
            "scheduler_preemption_attempts", "Preemptions in plans: pods that wait until others are gone."
        )
        self.preemption_victims = self._histogram(
            "scheduler_preemption_victims", "Pods evicted by one preemption.", _doubling(1, 7)
        )
        self.evictions = self._counter(
            "dovetail_evictions",
            "Evictions for pods of higher priority: evicted, blocked (by a PodDisruptionBudget), failed.",
            ("result",),
            ("evicted", "blocked", "failed"),
        )
        self.plan_violations = self._counter(
            "dovetail_plan_violations",
            "Broken rules that the independent check found in plans, which were dropped. Every one is a defect.",
            ("rule",),
            tuple(Rule),
        )
        self.fallback_seconds = self._gauge(
            "dovetail_fallback_seconds",
            "Seconds for which the solver's process has not decided; 0 while it works.",
        )
        self.worker_restarts = self._counter(
            "dovetail_worker_restarts", "Times that the solver's process was started again."
        )

    def _add_decisions_aside(self) -> None:
        """Add the series about decisions beside the batches."""
        self.aside_decisions = self._counter(
            "dovetail_aside_decisions",
            "Decisions beside the batches: decided, parked (broke a limit: it rests for minutes), divided (to find "
            "the pod that ends the process), lost (the process ended), gone (its pods are), failed.",
            ("outcome",),
            ("decided", "parked", "divided", "lost", "gone", "failed"),
        )
        self.aside_seconds = self._counter(
            "dovetail_aside_seconds", "Wall seconds of decisions beside the batches, of which there is one at a time."
        )
        self.aside_pods = self._gauge(
            "dovetail_aside_pods", "Pods that wait for a decision beside the batches: costly ones, and suspects."
        )
        self.parked_specs = self._gauge(
            "dovetail_parked_specs",
            "Specs of pods whose last decision broke a limit of time or memory, or ended the solver's process.",
        )

    def _add_memory(self) -> None:
        """Add the series about what is kept in memory."""
        self.shed_objects = self._gauge(
            "dovetail_shed_objects",
            "Waiting pods and unallocated claims that are not taken in, because memory for them is used up.",
            ("resource",),
            (Kind.PODS, Kind.CLAIMS),
        )
        self.waiting_bytes = self._gauge(
            "dovetail_waiting_objects_bytes",
            "Estimated memory of waiting pods and unallocated claims, in both processes.",
        )
        self.memory_resident = self._gauge(
            "dovetail_memory_resident_bytes", "Resident memory of the scheduler and its solver's process together."
        )

    def _add_writes(self) -> None:
        """Add the series about the API server, in both directions."""
        self.commit_seconds = self._histogram(
            "dovetail_commit_seconds", "Seconds from the first write for a unit to its last binding.", _ATTEMPT_SECONDS
        )
        self.writes = self._counter(
            "dovetail_writes",
            "Writes sent to the API server: placing (claims, bindings), status (conditions and events).",
            ("purpose",),
            ("placing", "status"),
        )
        self.commit_conflicts = self._counter(
            "dovetail_commit_conflicts", "Units given up because the cluster had changed before or during their writes."
        )
        self.gangs_partly_bound = self._counter(
            "dovetail_gangs_partly_bound",
            "Gangs of which some pods were bound and others could not be; the others are tried again.",
        )
        self.duplicate_devices = self._counter(
            "dovetail_duplicate_devices",
            "Devices seen in two allocations at once. Another scheduler may allocate from the same pools.",
        )
        self.write_concurrency = self._gauge(
            "dovetail_write_concurrency", "Writes that may be under way at once, as adapted to the API server."
        )

    def _add_objects(self) -> None:
        """Add the series about what is watched and kept of it, and what is told."""
        self.watch_relists = self._counter(
            "dovetail_watch_relists",
            "Times that a kind was listed again because its watch could not be resumed.",
            ("resource",),
            tuple(Kind),
        )
        self.quarantined_objects = self._gauge(
            "dovetail_quarantined_objects",
            "Objects that cannot be read or used now: nothing is decided with them, what they hold counts.",
            ("kind",),
            tuple(Kind),
        )
        self.events_dropped = self._counter(
            "dovetail_events_dropped", "Kubernetes events not written because too many were waiting."
        )

    def _counter(self, name: str, text: str, labels: tuple[str, ...] = (), known: Iterable[str] = ()) -> Counter:
        """Make a counter (`_total` is appended to its name); `known` are values of its one label."""
        counter = Counter(name, text, labels, registry=self.registry)
        for value in known:
            counter.labels(value)
        return counter

    def _gauge(self, name: str, text: str, labels: tuple[str, ...] = (), known: Iterable[str] = ()) -> Gauge:
        """Make a gauge; `known` are values of its one label."""
        gauge = Gauge(name, text, labels, registry=self.registry)
        for value in known:
            gauge.labels(value)
        return gauge

    def _histogram(self, name: str, text: str, buckets: tuple[float, ...], labels: tuple[str, ...] = ()) -> Histogram:
        """Make a histogram with upper bounds of buckets."""
        return Histogram(name, text, labels, registry=self.registry, buckets=buckets)

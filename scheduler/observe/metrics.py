"""
Every Prometheus series of Dovetail.

A series with the meaning of one of kube-scheduler's has the same name and labels (`scheduler_…`), so that existing
dashboards and alerts work. Series that only Dovetail has are named `dovetail_…`.
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
from scheduler.observe.admission_metrics import AdmissionMetrics
from scheduler.observe.quota_series import QuotaSeries
from solver.domain import ReasonCode
from solver.verify import Rule

# The creation time of a counter is the start time of the process, which has its own series.
disable_created_metrics()  # type: ignore[no-untyped-call]  # the library has no type for it


def _doubling(first: float, count: int) -> tuple[float, ...]:
    """Return bucket bounds that double, as in kube-scheduler."""
    return tuple(first * 2**step for step in range(count))


_ATTEMPT_SECONDS: Final = _doubling(0.001, 15)
_SLI_SECONDS: Final = _doubling(0.01, 20)
_SOLVER_SECONDS: Final = _doubling(0.001, 16)
_ATTEMPTS: Final = _doubling(1, 5)
_PODS: Final = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000)

QUEUES: Final = ("active", "backoff", "unschedulable", "gated")
"""The queues of pending pods (label `queue`)."""
STATUS_WRITES: Final = ("first", "changed", "event", "refresh", "renewal")
"""Why a condition or an event is written (label `write`)."""


class Subsystem(StrEnum):
    """Where an unexpected exception occurred (label `part`)."""

    DECISION = "decision"
    SEARCH = "search"
    COMMIT = "commit"
    SETTLEMENT = "settlement"
    EVICTION = "eviction"
    STALE_ALLOCATIONS = "stale_allocations"
    ORPHANED_CLAIMS = "orphaned_claims"
    MANUALLY_BOUND = "manually_bound"
    MISSPELLED_SCHEDULERS = "misspelled_schedulers"
    POD_GROUPS = "pod_groups"
    STATUS = "status"
    QUEUE = "queue"
    FAILED_DEVICES = "failed_devices"
    FLEET = "fleet"
    HOLDS = "holds"
    REPAIR = "repair"
    QUOTAS = "quotas"
    API = "api"
    WATCHES = "watches"
    READMISSION = "readmission"
    TAKE_OVER = "take_over"
    ADMISSION_CHECK = "admission_check"


class Metrics:
    """
    The series of one process, in its own registry.

    Label values that are known in advance start at zero, so that a rate over them works from the first scrape.
    """

    def __init__(self, version: str = "") -> None:
        self.registry: Final = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        GCCollector(registry=self.registry)
        self._add_pods()
        self._add_decisions()
        self._add_isolated_decisions()
        self._add_memory()
        self._add_writes()
        self._add_objects()
        self._add_fleet()
        self.api_requests = self._counter(
            "dovetail_api_requests", "Requests to the scheduler's own API, by path and HTTP status.", ("path", "code")
        )
        self.defects = self._counter(
            "dovetail_defects",
            "Unexpected exceptions, by the part of the scheduler in which they occurred. The log has the tracebacks.",
            ("part",),
            tuple(Subsystem),
        )
        self.build: Final = Info("dovetail_build", "The version that runs.", registry=self.registry)
        self.build.info({"version": version})

    def exposition(self, accept: str = "") -> tuple[bytes, str]:
        """Return the text for a scrape, in the format that the Accept header asks for, and its content type."""
        encode, content_type = choose_encoder(accept)
        return encode(self.registry), content_type

    def defect_count(self) -> float:
        """Return how many unexpected exceptions and broken rules were counted since the process began."""
        found = (metric for each in (self.defects, self.plan_violations) for metric in each.collect())
        return sum(sample.value for metric in found for sample in metric.samples)

    def _add_pods(self) -> None:
        """Add the series about pods and their way through the queues."""
        self.schedule_attempts = self._counter(
            "scheduler_schedule_attempts",
            "Attempts to schedule pods: scheduled (bound), unschedulable (fits nowhere now), waiting-for-claims (a "
            "claim does not exist yet), error (a failure).",
            ("result", "profile"),
        )
        self.attempt_seconds = self._histogram(
            "scheduler_scheduling_attempt_duration_seconds",
            "Seconds from the start of the decision about a pod to its binding, or to the reasons why it waits.",
            _ATTEMPT_SECONDS,
            ("result", "profile"),
        )
        self.sli_seconds = self._histogram(
            "scheduler_pod_scheduling_sli_duration_seconds",
            "Seconds from the time a pod could first be scheduled (seen, not gated) to its binding.",
            _SLI_SECONDS,
            ("attempts",),
        )
        self.attempts = self._histogram(
            "scheduler_pod_scheduling_attempts", "Attempts until a pod was bound.", _ATTEMPTS
        )
        self.pending_pods = self._gauge(
            "scheduler_pending_pods",
            "Pending pods of the leader by queue (0 for a standby): active (ready), backoff, unschedulable (until an "
            "event), gated.",
            ("queue",),
            QUEUES,
        )
        self.incoming_pods = self._counter(
            "scheduler_queue_incoming_pods",
            "Pods added to a queue, by the event that added them.",
            ("queue", "event"),
        )

    def _add_decisions(self) -> None:
        """Add the series about batches, plans and the worker process."""
        self.batch_pods = self._histogram("dovetail_batch_pods", "Pods in one batch.", _PODS)
        self.solver_seconds = self._histogram(
            "dovetail_solver_seconds",
            "Wall seconds of one solve, by its result: Optimal (proven), Feasible, Fallback (greedy only).",
            _SOLVER_SECONDS,
            ("status",),
        )
        self.solver_gap = self._gauge(
            "dovetail_solver_gap",
            "Gap between the last plan and its proven bound, relative to the bound; 0 is proven optimal.",
            ("level",),
        )
        self.placed_pods = self._counter("dovetail_placed_pods", "Pods that a plan placed.")
        self.unplaced_pods = self._counter(
            "dovetail_unplaced_pods",
            "Pods that a plan did not place, by their first reason, without those that only wait for claims.",
            ("reason",),
            tuple(ReasonCode),
        )
        self.preemption_attempts = self._counter(
            "scheduler_preemption_attempts", "Preemptions in plans: pods that wait until their victims are gone."
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
            "Rules broken by a plan, found by the independent check; the plan was dropped. Each is a defect.",
            ("rule",),
            tuple(Rule),
        )
        self.without_worker_seconds = self._gauge(
            "dovetail_without_worker_seconds",
            "Seconds since the worker process stopped giving plans; 0 while it works.",
        )
        self.worker_restarts = self._counter("dovetail_worker_restarts", "Restarts of the worker process.")
        self.decisions_over_budget = self._counter(
            "dovetail_decisions_over_budget",
            "Decisions about a batch that took longer than 1.5 times solver.budgetSeconds.",
        )

    def _add_isolated_decisions(self) -> None:
        """Add the series about isolated decisions: those of costly pods and of suspected poison pods."""
        self.isolated_decisions = self._counter(
            "dovetail_isolated_decisions",
            "Isolated decisions: decided, parked (broke a limit; retried after minutes), divided (to find the pod that "
            "ends the process), lost (the process ended), gone (the pods no longer wait), failed.",
            ("outcome",),
            ("decided", "parked", "divided", "lost", "gone", "failed"),
        )
        self.isolated_seconds = self._counter(
            "dovetail_isolated_seconds", "Wall seconds of isolated decisions; there is one at a time."
        )
        self.isolated_pods = self._gauge(
            "dovetail_isolated_pods", "Pods that wait for an isolated decision: costly pods and suspected poison pods."
        )
        self.parked_specs = self._gauge(
            "dovetail_parked_specs",
            "Pod specs whose last decision broke a limit of time or memory, or ended the worker process.",
        )

    def _add_memory(self) -> None:
        """Add the series about memory."""
        self.shed_objects = self._gauge(
            "dovetail_shed_objects",
            "Waiting pods and unallocated claims that are ignored because queue.maxWaitingMiB is used up.",
            ("resource",),
            (Kind.PODS, Kind.CLAIMS),
        )
        self.waiting_bytes = self._gauge(
            "dovetail_waiting_objects_bytes",
            "Estimated memory of waiting pods and unallocated claims, in both processes.",
        )
        self.memory_resident = self._gauge(
            "dovetail_memory_resident_bytes", "Resident memory of the scheduler and its worker process together."
        )

    def _add_writes(self) -> None:
        """Add the series about writes to the API server."""
        self.commit_seconds = self._histogram(
            "dovetail_commit_seconds",
            "Seconds from the first write for a unit (pod or gang) to its last binding.",
            _ATTEMPT_SECONDS,
        )
        self.writes = self._counter(
            "dovetail_writes",
            "Writes sent to the API server: placing (claims, bindings), status (conditions and events).",
            ("purpose",),
            ("placing", "status"),
        )
        self.commit_conflicts = self._counter(
            "dovetail_commit_conflicts", "Units given up because the cluster changed before or during their writes."
        )
        self.gangs_partly_bound = self._counter(
            "dovetail_gangs_partly_bound",
            "Gangs with some pods bound and others not; the others are retried.",
        )
        self.waiting_status_writes = self._gauge(
            "dovetail_waiting_status_writes",
            "Conditions and events that wait to be written: first (the first condition of a pod), changed (another "
            "reason), event, refresh (other numbers only), renewal (an event that would expire).",
            ("write",),
            STATUS_WRITES,
        )
        self.duplicate_devices = self._counter(
            "dovetail_duplicate_devices",
            "Devices in allocations that exclude each other: held twice, or above capacity or counters. Another "
            "scheduler may allocate from the same pools.",
        )
        self.write_concurrency = self._gauge(
            "dovetail_write_concurrency", "The present limit of concurrent writes, adapted to the API server."
        )

    def _add_objects(self) -> None:
        """Add the series about the Lease, the event loop, watches, unreadable objects and events."""
        self.master_status = self._gauge(
            "leader_election_master_status", "1 while this replica leads, 0 while it stands by.", ("name",)
        )
        self.event_loop_longest = self._gauge(
            "dovetail_event_loop_longest_seconds",
            "The longest stretch of the last two minutes in which the event loop did one thing, from 0.1 s on, by what "
            "ran: module (gc: the garbage collector; other: nothing of Dovetail, or no CPU time) and kind of object.",
            ("module", "kind"),
        )
        self.event_loop_longest.labels("other", "")
        self.watch_relists = self._counter(
            "dovetail_watch_relists",
            "Relists of a kind because its watch could not be resumed.",
            ("resource",),
            tuple(Kind),
        )
        self.watch_age = self._gauge(
            "dovetail_watch_age_seconds",
            "Seconds since the last event, bookmark or listing of a kind. Above commit.maxWatchAgeSeconds nothing is "
            "written.",
            ("resource",),
        )
        self.unreadable_answers = self._counter(
            "dovetail_unreadable_answers",
            "Answers that could not be read and name no object: lines of watches, listings, objects without a name.",
            ("resource",),
            tuple(Kind),
        )
        self.quarantined_objects = self._gauge(
            "dovetail_quarantined_objects",
            "Objects that cannot be read or used now. They are not used in decisions, but what they hold counts.",
            ("kind",),
            tuple(Kind),
        )
        self.events_dropped = self._counter(
            "dovetail_events_dropped", "Kubernetes events that were dropped because too many waited."
        )

    def _add_fleet(self) -> None:
        """Add the series about devices; a child of the worker counts them every `metrics.intervalSeconds`."""
        self.devices = self._gauge(
            "dovetail_devices",
            "Devices by state: free, shared (free in part), held, blocked (by devices that overlap), unusable. One of "
            "two classes counts in both, one of none with an empty class; the smallest of many node groups are other.",
            ("driver", "device_class", "node_group", "state"),
        )
        self.node_devices = self._gauge(
            "dovetail_node_devices",
            "Devices by node and state; only with metrics.perNode.",
            ("node", "device_class", "state"),
        )
        self.namespace_devices = self._gauge(
            "dovetail_namespace_devices",
            "Devices that claims of a namespace hold, whole or in shares; only with metrics.mostNamespaces, of those "
            "with most devices, the others are other.",
            ("namespace", "device_class"),
        )
        self.largest_free_block = self._gauge(
            "dovetail_largest_free_block",
            "The most free devices in one place that can be taken at once; scope: claim, node, root (PCIe root), "
            "domain (NVLink domain).",
            ("device_class", "scope"),
        )
        self.fragmentation = self._gauge(
            "dovetail_fragmentation_ratio",
            "Part of a class's free devices of no use to a typical claim (FGD, ATC '23): docs/devices.md.",
            ("device_class",),
        )
        self.fleet_fragmentation = self._gauge(
            "dovetail_fleet_fragmentation_ratio", "The mean of dovetail_fragmentation_ratio, weighted by requests."
        )
        self._add_repairs()
        self.quotas = QuotaSeries(self._gauge)
        text = "Seconds that the oldest pending pod has waited, by the first reason of its last attempt (empty: none)."
        self.oldest_waiting_pod = self._gauge("dovetail_oldest_waiting_pod_seconds", text, ("reason",))
        self.placement_seconds = self._histogram(
            "dovetail_placement_seconds",
            "Seconds from the time a pod could first be scheduled to its binding, by the device classes of its claims "
            "(empty: no claim); a pod with several classes counts in each.",
            _SLI_SECONDS,
            ("device_class",),
        )

    def _add_repairs(self) -> None:
        """Add the series about room that is held, and about moves that repair the fleet."""
        self.admission = AdmissionMetrics(self.registry)
        endings = "used", "released", "deadline", "owner", "lost", "deleted"
        self.held_places = self._gauge("dovetail_held_places", "Places of DeviceHolds that hold room for pods to come.")
        self.holds_ended = self._counter("dovetail_holds_ended", "DeviceHolds that are gone.", ("ending",), endings)
        self.repair_plans = self._gauge(
            "dovetail_repair_plans", "RepairPlans by goal and state; finished ones for a day.", ("goal", "state")
        )
        text = "Pods that a repair has evicted and that have no successor on a node yet."
        self.repair_moves_in_flight = self._gauge("dovetail_repair_moves_in_flight", text)
        self.repair_moves = self._counter(
            "dovetail_repair_moves_total",
            "Moves of repairs by goal and result: evicted, then moved (the successor is bound) or failed.",
            ("goal", "result"),
        )
        text = "Goals of repairs that no moves reach, as tried in the last minutes."
        self.repair_goals_unreachable = self._gauge("dovetail_repair_goals_unreachable", text)

    def _counter(self, name: str, text: str, labels: tuple[str, ...] = (), known: Iterable[str] = ()) -> Counter:
        """Make a counter (the library appends `_total` to its name); `known` are values of its only label."""
        counter = Counter(name, text, labels, registry=self.registry)
        for value in known:
            counter.labels(value)
        return counter

    def _gauge(self, name: str, text: str, labels: tuple[str, ...] = (), known: Iterable[str] = ()) -> Gauge:
        """Make a gauge; `known` are values of its only label."""
        gauge = Gauge(name, text, labels, registry=self.registry)
        for value in known:
            gauge.labels(value)
        return gauge

    def _histogram(self, name: str, text: str, buckets: tuple[float, ...], labels: tuple[str, ...] = ()) -> Histogram:
        """Make a histogram; `buckets` are upper bounds."""
        return Histogram(name, text, labels, registry=self.registry, buckets=buckets)

"""The dashboards as tables: which panels, and which queries of Prometheus."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

NAMESPACE: Final = 'namespace="$namespace"'
"""What every query selects by, written `@` below: series of the same names are exported by other schedulers too."""
CLASS: Final = 'device_class=~"$device_class"'
"""Written `%` below; on the dashboard of devices only."""
RATE: Final = "$__rate_interval"


class Look(StrEnum):
    """How a panel is drawn."""

    LINES = "lines"
    STACK = "stack"
    NUMBER = "number"
    HEATMAP = "heatmap"
    TABLE = "table"


@dataclass(frozen=True, slots=True)
class Query:
    """A query of PromQL; `legend` has label names in double braces."""

    expr: str
    legend: str = ""


@dataclass(frozen=True, slots=True)
class Panel:
    """`unit` is one of Grafana's unit ids, `about` is shown at the panel's title."""

    title: str
    queries: tuple[Query, ...]
    look: Look = Look.LINES
    unit: str = "short"
    about: str = ""

    @property
    def has_many_lines(self) -> bool:
        """Whether lines differ by query or label; a single one is what the title says."""
        return len(self.queries) > 1 or any("{{" in query.legend for query in self.queries)


@dataclass(frozen=True, slots=True)
class Board:
    """One dashboard; its file and its uid are `dovetail-NAME`."""

    name: str
    title: str
    panels: tuple[Panel, ...]

    @property
    def numbers(self) -> int:
        """How many panels have one number each."""
        return sum(panel.look is Look.NUMBER for panel in self.panels)

    @property
    def asks_for_a_class(self) -> bool:
        """Whether a query selects device classes."""
        return any(CLASS in query.expr for panel in self.panels for query in panel.queries)


def _panel(title: str, *rows: tuple[str, str], look: Look = Look.LINES, unit: str = "short", about: str = "") -> Panel:
    queries = tuple(Query(_named_classes(_written_out(expr), legend), legend) for expr, legend in rows)
    return Panel(title, queries, look, unit, about)


def _number(title: str, expr: str, unit: str = "short", about: str = "") -> Panel:
    return _panel(title, (expr, ""), look=Look.NUMBER, unit=unit, about=about)


def _quantiles(title: str, series: str, unit: str = "s", about: str = "") -> Panel:
    rows = ((quantile, f"sum by (le) (rate({series}_bucket{{@}}[{RATE}]))") for quantile in (0.5, 0.9, 0.99))
    queries = ((f"histogram_quantile({quantile}, {buckets})", f"p{quantile * 100:.0f}") for quantile, buckets in rows)
    return _panel(title, *queries, unit=unit, about=about)


def _rate(
    title: str, series: str, label: str = "", *, look: Look = Look.LINES, unit: str = "ops", about: str = ""
) -> Panel:
    by, legend = (f" by ({label}) ", _legend(label)) if label else ("", title)
    return _panel(title, (f"sum{by}(rate({series}{{@}}[{RATE}]))", legend), look=look, unit=unit, about=about)


def _increase(title: str, series: str, label: str = "", about: str = "") -> Panel:
    by, legend = (f" by ({label}) ", _legend(label)) if label else ("", title)
    return _panel(title, (f"sum{by}(increase({series}{{@}}[{RATE}]))", legend), about=about)


def _highest(title: str, series: str, label: str = "", unit: str = "short", about: str = "") -> Panel:
    by, legend = (f" by ({label}) ", _legend(label)) if label else ("", title)
    return _panel(title, (f"max{by}({series}{{@}})", legend), unit=unit, about=about)


def _devices(title: str, label: str, selector: str = "", about: str = "") -> Panel:
    # Of two replicas both may serve a count for a moment: one of them counts.
    counted = (
        f"max by (driver, device_class, node_group, state) (dovetail_devices{{@{',' * bool(selector)}{selector}}})"
    )
    return _panel(title, (f"sum by ({label}) ({counted})", _legend(label)), look=Look.STACK, about=about)


def _legend(labels: str) -> str:
    return " · ".join(f"{{{{{label}}}}}" for label in labels.split(", "))


def _named_classes(expr: str, legend: str) -> str:
    """Give the devices and pods without a class a name in the legend."""
    if "{{device_class}}" not in legend:
        return expr
    return f'label_replace({expr}, "device_class", "no class", "device_class", "")'


def _written_out(expr: str) -> str:
    return expr.replace("@", NAMESPACE).replace("%", CLASS)


_PENDING: Final = _panel(
    "Pending pods by queue",
    ("sum by (queue) (scheduler_pending_pods{@})", "{{queue}}"),
    look=Look.STACK,
    about="active: ready to be tried. unschedulable: waits for an event. gated: has scheduling gates.",
)
_ATTEMPTS: Final = _rate("Attempts by result", "scheduler_schedule_attempts_total", "result", look=Look.STACK)
_STATES: Final = _devices("Devices by state", "state", about="A device that two classes match counts in both.")
_REASONS: Final = _rate(
    "Pods not placed, by reason",
    "dovetail_unplaced_pods_total",
    "reason",
    about="docs/explain.md says what each means.",
)
_OLDEST: Final = _highest("Oldest pending pod by reason", "dovetail_oldest_waiting_pod_seconds", "reason", "s")
_SLI: Final = _quantiles("Seconds until bound", "scheduler_pod_scheduling_sli_duration_seconds")
_PROVEN: Final = (
    'sum(increase(dovetail_solver_seconds_count{@,status="Optimal"}[$__range]))'
    " / sum(increase(dovetail_solver_seconds_count{@}[$__range]))"
)
_CLASS_BUCKETS: Final = f"sum by (le, device_class) (rate(dovetail_placement_seconds_bucket{{@}}[{RATE}]))"

OVERVIEW: Final = Board(
    "overview",
    "Dovetail: overview",
    (
        _number("Replicas that lead", "sum(leader_election_master_status{@})", about="1, for moments 0."),
        _number("Replicas scraped", "count(dovetail_build_info{@})"),
        _number("Pending pods", "sum(scheduler_pending_pods{@})"),
        _number("Oldest pending pod", "max(dovetail_oldest_waiting_pod_seconds{@})", "s"),
        _number(
            "Devices in use", 'sum(dovetail_devices{@,state=~"held|shared"}) / sum(dovetail_devices{@})', "percentunit"
        ),
        _number("Fragmentation", "max(dovetail_fleet_fragmentation_ratio{@})", "percentunit", "docs/devices.md"),
        _number("Defects", "sum(increase(dovetail_defects_total{@}[$__range]))"),
        _number("Objects not readable", "sum(dovetail_quarantined_objects{@})"),
        _ATTEMPTS,
        _PENDING,
        _SLI,
        _STATES,
        _REASONS,
        _panel("Versions", ("max by (pod, version) (dovetail_build_info{@})", ""), look=Look.TABLE),
    ),
)

QUEUE: Final = Board(
    "queue",
    "Dovetail: queue and latency",
    (
        _PENDING,
        _rate("Pods into queues", "scheduler_queue_incoming_pods_total", "queue, event"),
        _ATTEMPTS,
        _REASONS,
        _OLDEST,
        _SLI,
        _panel(
            "Seconds until bound, how many pods",
            (f"sum by (le) (rate(scheduler_pod_scheduling_sli_duration_seconds_bucket{{@}}[{RATE}]))", "{{le}}"),
            look=Look.HEATMAP,
            unit="s",
        ),
        _panel(
            "Seconds until bound by device class (p90)",
            (f"histogram_quantile(0.9, {_CLASS_BUCKETS})", "{{device_class}}"),
            unit="s",
        ),
        _quantiles("Seconds of an attempt", "scheduler_scheduling_attempt_duration_seconds"),
        _quantiles("Seconds of writes of a pod or gang", "dovetail_commit_seconds"),
        _quantiles("Attempts until bound", "scheduler_pod_scheduling_attempts", "short"),
        _quantiles("Pods in a batch", "dovetail_batch_pods", "short"),
    ),
)

DECISIONS: Final = Board(
    "decisions",
    "Dovetail: decisions and proof",
    (
        _number("Decisions proven optimal", _PROVEN, "percentunit"),
        _number("Broken rules found by the check", "sum(increase(dovetail_plan_violations_total{@}[$__range]))"),
        _number("Without plans of the worker for", "max(dovetail_without_worker_seconds{@})", "s"),
        _number("Specs parked", "sum(dovetail_parked_specs{@})", about="docs/operating.md, costly pods"),
        _rate("Decisions by result", "dovetail_solver_seconds_count", "status", look=Look.STACK),
        _quantiles("Seconds of a decision", "dovetail_solver_seconds"),
        _highest(
            "Gap to the proven bound by level", "dovetail_solver_gap", "level", "percentunit", "0 is proven optimal."
        ),
        _increase("Decisions over budget", "dovetail_decisions_over_budget_total"),
        _panel(
            "Pods placed and not placed",
            (f"sum(rate(dovetail_placed_pods_total{{@}}[{RATE}]))", "placed"),
            (f"sum(rate(dovetail_unplaced_pods_total{{@}}[{RATE}]))", "not placed"),
            unit="ops",
        ),
        _rate("Preemptions", "scheduler_preemption_attempts_total"),
        _quantiles("Victims of a preemption", "scheduler_preemption_victims", "short"),
        _increase("Evictions by result", "dovetail_evictions_total", "result"),
        _increase("Broken rules by rule", "dovetail_plan_violations_total", "rule", "Each is a defect."),
        _increase("Isolated decisions by outcome", "dovetail_isolated_decisions_total", "outcome"),
        _rate("Time in isolated decisions", "dovetail_isolated_seconds_total", unit="percentunit"),
        _highest("Pods that wait for an isolated decision", "dovetail_isolated_pods"),
        _increase("Restarts of the worker", "dovetail_worker_restarts_total"),
    ),
)

_QUOTA: Final = "quota, device_class, counts"
_QUOTA_LEGEND: Final = "{{quota}} · {{device_class}} · {{counts}}"

DEVICES: Final = Board(
    "devices",
    "Dovetail: devices and fragmentation",
    (
        _devices("Devices by state", "state", "%", about="A device that two classes match counts in both."),
        _devices("Free devices by class", "device_class", '%,state="free"'),
        _devices("Free devices by group of nodes", "node_group", '%,state="free"'),
        _devices("Devices by driver", "driver", "%"),
        _panel(
            "Largest free block",
            ("max by (device_class, scope) (dovetail_largest_free_block{@,%})", "{{device_class}} · {{scope}}"),
            about="The most free devices in one place that can be taken at once.",
        ),
        _panel(
            "Fragmentation by class",
            ("max by (device_class) (dovetail_fragmentation_ratio{@,%})", "{{device_class}}"),
            unit="percentunit",
            about="Part of the free devices of no use to a typical claim: docs/devices.md.",
        ),
        _highest("Fragmentation of the fleet", "dovetail_fleet_fragmentation_ratio", unit="percentunit"),
        _panel(
            "Devices held by namespace",
            (
                "max by (device_class, exported_namespace) (dovetail_namespace_devices{@,%})",
                "{{exported_namespace}} · {{device_class}}",
            ),
            look=Look.STACK,
            about="Only with metrics.mostNamespaces.",
        ),
        _panel(
            "Free devices by node",
            ('max by (node, device_class) (dovetail_node_devices{@,%,state="free"})', "{{node}} · {{device_class}}"),
            about="Only with metrics.perNode.",
        ),
        _increase("Devices in two allocations", "dovetail_duplicate_devices_total", about="docs/runbook.md"),
        _highest("Places that are held for pods to come", "dovetail_held_places"),
        _increase("DeviceHolds that have ended", "dovetail_holds_ended_total", "ending", about="docs/holds.md"),
        _increase(
            "Answers to Workloads of Kueue", "dovetail_admission_check_answers_total", "result", about="docs/kueue.md"
        ),
        _quantiles("Seconds from quota to Ready", "dovetail_admission_check_seconds", about="docs/kueue.md"),
        _panel(
            "Repair plans by state",
            ("sum by (goal, state) (dovetail_repair_plans{@})", "{{goal}} · {{state}}"),
            about="docs/repair.md",
        ),
        _panel(
            "Repairs under way",
            ("max(dovetail_repair_moves_in_flight{@})", "pods on the way"),
            ("max(dovetail_repair_goals_unreachable{@})", "goals that no moves reach"),
        ),
        _increase("Moves of repairs", "dovetail_repair_moves_total", "result", about="docs/repair.md"),
        _panel(
            "Quotas: held",
            (
                f"max by ({_QUOTA}) (dovetail_quota_held{{@,%}})",
                _QUOTA_LEGEND,
            ),
            look=Look.STACK,
            about="docs/quotas.md",
        ),
        _panel(
            "Quotas: part of the guarantee that is held",
            (
                f"max by ({_QUOTA}) (dovetail_quota_held{{@,%}}) / max by ({_QUOTA}) (dovetail_quota_guarantee{{@,%}})",
                _QUOTA_LEGEND,
            ),
            unit="percentunit",
            about="Above 100 % is borrowed.",
        ),
        _panel(
            "Quotas: borrowed",
            (
                f"max by ({_QUOTA}) (dovetail_quota_lent{{@,%}})",
                _QUOTA_LEGEND,
            ),
        ),
        _panel(
            "Quotas: part of the limit that is held",
            (
                f"max by ({_QUOTA}) (dovetail_quota_held{{@,%}}) / max by ({_QUOTA}) (dovetail_quota_limit{{@,%}})",
                _QUOTA_LEGEND,
            ),
            unit="percentunit",
        ),
        _panel(
            "Quotas: pods that wait",
            (
                f"max by ({_QUOTA}) (dovetail_quota_waiting_pods{{@,%}})",
                _QUOTA_LEGEND,
            ),
        ),
        _panel(
            "Quotas: what contradicts",
            ("max by (quota, reason) (dovetail_quota_findings{@})", "{{quota}} · {{reason}}"),
            about="The conditions of the DeviceQuotas say what to write instead.",
        ),
        _OLDEST,
    ),
)

HEALTH: Final = Board(
    "health",
    "Dovetail: API traffic and health",
    (
        _panel("Leader", ("leader_election_master_status{@}", "{{pod}}"), about="1 for the replica that leads."),
        _panel("Seconds since start", ("time() - process_start_time_seconds{@}", "{{pod}}"), unit="s"),
        _highest("Longest stretch of the event loop", "dovetail_event_loop_longest_seconds", "module", "s"),
        _rate("Writes by purpose", "dovetail_writes_total", "purpose"),
        _highest("Limit of concurrent writes", "dovetail_write_concurrency"),
        _rate("Units given up, the cluster changed", "dovetail_commit_conflicts_total"),
        _highest("Conditions and events that wait", "dovetail_waiting_status_writes", "write"),
        _rate("Events dropped", "dovetail_events_dropped_total"),
        _highest("Seconds since a watch was heard", "dovetail_watch_age_seconds", "resource", "s"),
        _increase("Relists", "dovetail_watch_relists_total", "resource"),
        _increase("Answers not readable", "dovetail_unreadable_answers_total", "resource"),
        _highest("Objects not readable", "dovetail_quarantined_objects", "kind"),
        _increase("Gangs partly bound", "dovetail_gangs_partly_bound_total"),
        _increase("Defects by part", "dovetail_defects_total", "part"),
        _panel(
            "Memory",
            ("dovetail_memory_resident_bytes{@}", "scheduler and worker, {{pod}}"),
            ("dovetail_waiting_objects_bytes{@}", "waiting objects, {{pod}}"),
            unit="bytes",
        ),
        _highest("Objects left out for memory", "dovetail_shed_objects", "resource"),
        _panel("CPU of the scheduler's process", (f"rate(process_cpu_seconds_total{{@}}[{RATE}])", "{{pod}}")),
        _panel("File descriptors", ("process_open_fds{@}", "{{pod}}")),
        _rate("Garbage collections", "python_gc_collections_total", "generation"),
        _rate(
            "Requests to the scheduler's own API", "dovetail_api_requests_total", "path, code", about="docs/history.md"
        ),
    ),
)

BOARDS: Final = (OVERVIEW, QUEUE, DECISIONS, DEVICES, HEALTH)

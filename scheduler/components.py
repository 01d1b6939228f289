"""The parts that schedule, made from the settings and connected with each other.

The parts of a scheduler that its loops connect.
"""

import socket
import tempfile
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from scheduler.cluster import Cluster
from scheduler.commit.commit import Commit
from scheduler.commit.evictions import Evictions
from scheduler.commit.local_taints import Avoidance
from scheduler.commit.prebind import Waits
from scheduler.commit.stale_allocations import Repairs
from scheduler.costly_loop import Asides
from scheduler.kube.client import Client
from scheduler.kube.concurrency_limit import ConcurrencyLimit, Pace
from scheduler.kube.elector import LeaderElector
from scheduler.kube.writer import Gate, Writer
from scheduler.observe.health import Health
from scheduler.observe.metrics import Metrics
from scheduler.queue import Backoff, Completing, Musters, PassedOver, Pending
from scheduler.settings import Settings
from scheduler.status.attempt_metrics import AttemptMetrics
from scheduler.status.events import Narrator
from scheduler.status.pod_groups import GroupStatusQueue
from scheduler.status.reports import Allowance, Reports
from scheduler.status.unreadable_objects import Quarantine
from scheduler.worker import decision_limits
from scheduler.worker.decider import Decider
from scheduler.worker.supervisor import Worker
from scheduler.worker.telemetry import SolverTelemetry


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What is made once and lives as long as the scheduler leads."""

    cluster: Cluster
    pending: Pending
    passed_over: PassedOver
    completing: Completing
    worker: Worker
    decider: Decider
    commit: Commit
    waits: Waits
    repairs: Repairs
    groups: GroupStatusQueue
    evictions: Evictions
    asides: Asides
    reports: Reports
    quarantine: Quarantine
    tally: AttemptMetrics
    metrics: Metrics


def assemble(
    settings: Settings, client: Client, gate: Gate, elector: LeaderElector | None, *, metrics: Metrics, health: Health
) -> Parts:
    """Give the parts that schedule on a cluster by these settings; nothing runs yet, and nothing is known of it."""
    cluster = Cluster(time.monotonic)
    completing = Completing(cluster.claim)
    pending = _queue(settings, cluster, completing)
    pace = Pace(ConcurrencyLimit(most=settings.commit.max_concurrency))
    metrics.write_concurrency.set_function(lambda: pace.limit)
    writer = Writer(pace, gate, settings.commit.request_timeout_seconds)
    narrator = Narrator(socket.gethostname(), tells_inventory=settings.messages.inventory)
    reports = Reports(client, writer, metrics, narrator, Allowance(settings.commit.status_share))
    writer.connect(partial(_count_write, metrics, reports))
    waits = Waits(
        cluster,
        reports,
        Avoidance(settings.commit.avoid_failed_device_seconds, metrics),
        timeout_seconds=settings.commit.binding_timeout_seconds,
    )
    commit = Commit(client, cluster, writer, waits)
    batches, costly = decision_limits.of_batches(settings.solver), decision_limits.of_costly(settings.solver)
    folder = Path(settings.solver.snapshot_folder or tempfile.gettempdir())
    telemetry = SolverTelemetry(metrics, health.ready("solver"), folder)
    worker = Worker(batches, on_start=telemetry.started, on_failure=telemetry.not_started)
    decider = Decider(worker, cluster, (batches, costly), telemetry)
    asides = Asides(
        cluster, pending, decider, partial(reports.waits, node_count=0), metrics, share=settings.queue.costly_pod_share
    )
    return Parts(
        cluster=cluster,
        pending=pending,
        passed_over=PassedOver(settings.queue.starvation_seconds, completing),
        completing=completing,
        worker=worker,
        decider=decider,
        asides=asides,
        commit=commit,
        waits=waits,
        groups=GroupStatusQueue(client, writer, cluster, (reports, metrics)),
        repairs=Repairs(cluster, pending, commit.withdrawal, reports, metrics),
        evictions=Evictions(client, writer, cluster, reports, metrics, record=elector),
        reports=reports,
        quarantine=Quarantine(metrics, reports.unreadable),
        tally=AttemptMetrics(metrics),
        metrics=metrics,
    )


def _count_write(metrics: Metrics, reports: Reports, is_status: bool) -> None:  # noqa: FBT001 - a callback
    """Count a write that is sent; those that place pods earn what may be told."""
    metrics.writes.labels("telling" if is_status else "placing").inc()
    if not is_status:
        reports.earn()


def _queue(settings: Settings, cluster: Cluster, completing: Completing) -> Pending:
    """Make the queue of pods that wait."""
    return Pending(
        settings.scheduler_names,
        backoff=Backoff(
            initial_seconds=settings.queue.initial_backoff_seconds,
            ceiling_seconds=settings.queue.max_backoff_seconds,
        ),
        sweep_seconds=settings.queue.retry_after_seconds,
        musters=Musters(lambda gang: cluster.gang_progress(gang, settings.scheduler_names), completing),
        muster_seconds=settings.queue.report_missing_members_seconds,
    )

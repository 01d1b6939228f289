"""The components of a scheduler that stands by and leads, made from the settings and connected with each other."""

import socket
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from scheduler.cluster import Cluster
from scheduler.commit.commit import Commit
from scheduler.commit.evictions import Evictions
from scheduler.commit.local_taints import FailedDevices
from scheduler.commit.prebind import PreBind
from scheduler.commit.speculative_finalizers import SpeculativeFinalizers
from scheduler.commit.stale_allocations import StaleAllocations
from scheduler.features import MissingFeature
from scheduler.history.decision_history import DecisionHistory
from scheduler.isolated_lane import IsolatedLane
from scheduler.kube.client import Client
from scheduler.kube.concurrency_limit import ConcurrencyLimit, RequestSlots
from scheduler.kube.leader_election.elector import LeaderElector
from scheduler.kube.reflector import WatchAges
from scheduler.kube.writer import WriteFence, Writer
from scheduler.observe.health import Health
from scheduler.observe.metrics import Metrics
from scheduler.queue import Backoff, GangReplacements, QueuedGangs, SchedulingQueue, StarvationTracker
from scheduler.settings import Settings
from scheduler.status.attempt_metrics import AttemptMetrics
from scheduler.status.events import EventFactory
from scheduler.status.pod_groups import PodGroupStatusWriter
from scheduler.status.rate_limits import StatusTokenBucket
from scheduler.status.status_writer import StatusWriter
from scheduler.status.unreadable_objects import Quarantine
from scheduler.worker import decision_limits
from scheduler.worker.decider import Decider
from scheduler.worker.decision_recorder import DecisionRecorder
from scheduler.worker.fleet_counter import FleetCounter
from scheduler.worker.fork_server import ForkServers
from scheduler.worker.supervisor import WorkerSupervisor
from scheduler.worker.telemetry import SolverTelemetry


@dataclass(frozen=True, slots=True, kw_only=True)
class Components:
    """What is made once, and lives as long as the scheduler stands by and leads."""

    cluster: Cluster
    queue: SchedulingQueue
    starvation: StarvationTracker
    gang_replacements: GangReplacements
    worker: WorkerSupervisor
    decider: Decider
    history: DecisionHistory
    commit: Commit
    finalizers: SpeculativeFinalizers
    prebind: PreBind
    stale_allocations: StaleAllocations
    pod_groups: PodGroupStatusWriter
    evictions: Evictions
    isolated_lane: IsolatedLane
    status: StatusWriter
    quarantine: Quarantine
    attempt_metrics: AttemptMetrics
    fleet_counter: FleetCounter
    writer: Writer
    metrics: Metrics


def assemble(
    settings: Settings,
    client: Client,
    fence: WriteFence,
    elector: LeaderElector | None,
    *,
    ages: WatchAges,
    failed_devices: FailedDevices,
    history: DecisionHistory,
    metrics: Metrics,
    health: Health,
    missing: Sequence[MissingFeature] = (),
    servers: ForkServers,
) -> Components:
    """Make the components by these settings; nothing runs yet. Failed devices and the history are older."""
    cluster = Cluster(time.monotonic)
    replacements = GangReplacements(cluster.claim)
    queue = _queue(settings, cluster, replacements)
    writer = _writer(settings, fence, metrics)
    reports = _status_writer(settings, client, writer, metrics, missing=missing)
    writer.connect(partial(_count_write, metrics, reports), ages.until_fresh)
    waits = PreBind(cluster, reports, failed_devices, timeout_seconds=settings.commit.binding_timeout_seconds)
    commit = Commit(client, cluster, writer, waits)
    worker, decider = _solver(settings, cluster, metrics, health, servers)
    history.connect(cluster.claim)
    report = partial(reports.report_unschedulable, node_count=0)
    attempts = AttemptMetrics(metrics, claim=cluster.claim, is_leading=False)
    isolated_lane = IsolatedLane(cluster, queue, decider, report, metrics, share=settings.queue.costly_pod_share)
    return Components(
        cluster=cluster,
        queue=queue,
        starvation=StarvationTracker(settings.queue.starvation_seconds, replacements),
        gang_replacements=replacements,
        worker=worker,
        decider=decider,
        history=history,
        isolated_lane=isolated_lane,
        commit=commit,
        finalizers=SpeculativeFinalizers(commit.claims, cluster.claim, metrics, is_fresh=ages.is_fresh),
        prebind=waits,
        pod_groups=PodGroupStatusWriter(client, writer, cluster, (reports, metrics)),
        stale_allocations=StaleAllocations(cluster, queue, commit.rollback, reports, metrics),
        evictions=Evictions(client, writer, cluster, (reports, history), metrics, record=elector),
        status=reports,
        quarantine=Quarantine(metrics, reports.record_unreadable),
        attempt_metrics=attempts,
        fleet_counter=FleetCounter(worker, cluster, metrics, settings, also=attempts.report_oldest),
        writer=writer,
        metrics=metrics,
    )


def _status_writer(
    settings: Settings, client: Client, writer: Writer, metrics: Metrics, *, missing: Sequence[MissingFeature]
) -> StatusWriter:
    """Make what writes conditions and events."""
    events = EventFactory(socket.gethostname(), tells_inventory=settings.messages.inventory)
    bucket, renewal = StatusTokenBucket(settings.commit.status_share), settings.messages.event_renewal_seconds
    return StatusWriter(client, writer, metrics, events, bucket, renewal_seconds=renewal, missing=missing)


def _solver(
    settings: Settings, cluster: Cluster, metrics: Metrics, health: Health, servers: ForkServers
) -> tuple[WorkerSupervisor, Decider]:
    """Make the supervisor of the worker process, and what asks it."""
    batches, costly = decision_limits.of_batches(settings.solver), decision_limits.of_costly(settings.solver)
    folder = Path(settings.solver.snapshot_folder or tempfile.gettempdir())
    telemetry = SolverTelemetry(metrics, health.ready("solver"), folder)
    worker = WorkerSupervisor(batches, on_start=telemetry.started, on_failure=telemetry.not_started, servers=servers)
    recorder = DecisionRecorder(settings.history.files, metrics)
    return worker, Decider(worker, cluster, (batches, costly), telemetry, recorder=recorder)


def _count_write(metrics: Metrics, reports: StatusWriter, is_status: bool) -> None:  # noqa: FBT001 - a callback
    """Count a write that is sent. Writes that place pods earn the share of writes of status."""
    metrics.writes.labels("status" if is_status else "placing").inc()
    if not is_status:
        reports.earn()


def _writer(settings: Settings, fence: WriteFence, metrics: Metrics) -> Writer:
    slots = RequestSlots(ConcurrencyLimit(most=settings.commit.max_concurrency))
    metrics.write_concurrency.set_function(lambda: slots.limit)
    return Writer(slots, fence, settings.commit.request_timeout_seconds)


def _queue(settings: Settings, cluster: Cluster, replacements: GangReplacements) -> SchedulingQueue:
    """Make the scheduling queue."""
    return SchedulingQueue(
        settings.scheduler_names,
        backoff=Backoff(
            initial_seconds=settings.queue.initial_backoff_seconds,
            ceiling_seconds=settings.queue.max_backoff_seconds,
        ),
        flush_seconds=settings.queue.retry_after_seconds,
        gangs=QueuedGangs(lambda gang: cluster.gang_progress(gang, settings.scheduler_names), replacements),
        gang_report_seconds=settings.queue.report_missing_members_seconds,
    )

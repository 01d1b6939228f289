"""The components of a scheduler that stands by and leads, made from the settings: each after what it needs."""

import asyncio
import socket
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from scheduler.change import Kind
from scheduler.cluster import Cluster
from scheduler.commit.commit import Commit
from scheduler.commit.evictions import Evictions
from scheduler.commit.local_taints import FailedDevices, LocalTaints
from scheduler.commit.prebind import PreBind, PreemptionBackoff
from scheduler.commit.speculative_finalizers import SpeculativeFinalizers
from scheduler.commit.stale_allocations import StaleAllocations
from scheduler.features import Feature
from scheduler.history.decision_history import DecisionHistory
from scheduler.holds.hold_keeper import HoldKeeper
from scheduler.holds.kept_nodes import KeptNodes
from scheduler.isolated_lane import IsolatedLane
from scheduler.kube.client import Client
from scheduler.kube.concurrency_limit import ConcurrencyLimit, RequestSlots
from scheduler.kube.discovery import ApiChange, DiscoveredKinds
from scheduler.kube.leader_election.elector import LeaderElector
from scheduler.kube.watching.watch_ages import WatchAges
from scheduler.kube.writer import LeaseFence, NoFence, WriteFence, Writer
from scheduler.observe.health import Health
from scheduler.observe.metrics import Metrics
from scheduler.placement_check.placement_check import PlacementCheck
from scheduler.placement_check.podset_pods import is_expected
from scheduler.placement_check.workload_rooms import WorkloadRooms
from scheduler.queue import (
    Backoff,
    EquivalenceKeys,
    GangReplacements,
    PreemptionDelays,
    QueuedGangs,
    SchedulingQueue,
    StarvationTracker,
)
from scheduler.queue_waker import QueueWaker
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
from solver.domain import Pod, Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaContext:
    """What replicas of one process have in common, one after the other."""

    settings: Settings
    client: Client
    metrics: Metrics
    health: Health
    local_taints: LocalTaints
    failed_devices: FailedDevices
    history: DecisionHistory
    servers: ForkServers
    api_change: ApiChange
    namespace: str
    """Of the pod."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Components:
    """
    What is made once, and lives as long as the scheduler stands by and leads.

    `fewer_writing` is set whenever a unit ends, or begins to wait and writes nothing meanwhile.
    """

    cluster: Cluster
    queue: SchedulingQueue
    waker: QueueWaker
    fewer_writing: asyncio.Event
    starvation: StarvationTracker
    preemption_delays: PreemptionDelays
    gang_replacements: GangReplacements
    worker: WorkerSupervisor
    decider: Decider
    history: DecisionHistory
    commit: Commit
    finalizers: SpeculativeFinalizers
    prebind: PreBind
    preemption_backoff: PreemptionBackoff
    stale_allocations: StaleAllocations
    pod_groups: PodGroupStatusWriter
    evictions: Evictions
    isolated_lane: IsolatedLane
    placement_check: PlacementCheck | None
    status: StatusWriter
    quarantine: Quarantine
    attempt_metrics: AttemptMetrics
    fleet_counter: FleetCounter
    holds: HoldKeeper
    kept_nodes: KeptNodes | None
    telemetry: SolverTelemetry
    writer: Writer
    metrics: Metrics


def assemble(
    context: ReplicaContext, served: DiscoveredKinds, elector: LeaderElector | None, ages: WatchAges
) -> Components:
    """Make the components of a replica for the kinds that the server serves; nothing runs yet."""
    settings, client, metrics, history = context.settings, context.client, context.metrics, context.history
    cluster, group_path = Cluster(time.monotonic), served.path(Kind.POD_GROUPS)
    backoff = PreemptionBackoff(settings.commit.avoid_failed_device_seconds)
    replacements = GangReplacements(cluster.claim)
    starvation = StarvationTracker(settings.queue.starvation_seconds, replacements)
    queue = _queue(settings, cluster, replacements, equivalence_keys(cluster, starvation, backoff))
    waker, fewer_writing = QueueWaker(cluster, queue, time.monotonic), asyncio.Event()
    writer = _writer(settings, elector, ages, metrics)
    reports = _status_writer(settings, client, writer, metrics, served)
    seconds, begin = settings.commit.binding_timeout_seconds, fewer_writing.set
    waits = PreBind(cluster, reports, context.failed_devices, backoff, timeout_seconds=seconds, on_begin=begin)
    commit = Commit(client, cluster, writer, waits, waker.wake, pod_groups=group_path)
    worker, decider, telemetry = _solver(context, cluster)
    keeper, kept_nodes, check = _holds(context, served, (client, writer, cluster), waker)
    attempts = AttemptMetrics(metrics, queue.counts, claim=cluster.claim, is_leading=False)
    return Components(
        cluster=cluster,
        queue=queue,
        waker=waker,
        fewer_writing=fewer_writing,
        starvation=starvation,
        preemption_delays=PreemptionDelays(),
        gang_replacements=replacements,
        worker=worker,
        decider=decider,
        history=history,
        isolated_lane=_isolated_lane(context, cluster, queue, decider, reports),
        placement_check=check,
        commit=commit,
        finalizers=SpeculativeFinalizers(commit.claims, cluster.claim, metrics, is_fresh=ages.is_fresh),
        prebind=waits,
        preemption_backoff=backoff,
        pod_groups=PodGroupStatusWriter(client, writer, cluster, (reports, metrics), group_path),
        stale_allocations=StaleAllocations(cluster, queue, commit.rollback, reports, metrics),
        evictions=Evictions(
            client, writer, cluster, (reports, history), metrics, on_given_up=waker.preemption_given_up, record=elector
        ),
        status=reports,
        quarantine=Quarantine(metrics, reports.record_unreadable),
        attempt_metrics=attempts,
        fleet_counter=FleetCounter(worker, cluster, metrics, settings, also=attempts.report_oldest),
        holds=keeper,
        kept_nodes=kept_nodes,
        telemetry=telemetry,
        writer=writer,
        metrics=metrics,
    )


def _no_holds(served: DiscoveredKinds) -> str:
    """Say why no room can be held in this cluster; empty where it can."""
    if served.has(Kind.HOLDS):
        return ""
    missing = next((str(each) for each in served.missing if each.feature is Feature.HOLDS), "")
    return missing or "the kind DeviceHold is not installed: apply deploy/components/holds"


def equivalence_keys(
    cluster: Cluster,
    starvation: StarvationTracker,
    backoff: PreemptionBackoff,
    clock: Callable[[], float] = time.monotonic,
) -> EquivalenceKeys:
    """
    Make what gives pods their keys.

    One that may not evict for a while, has nodes reserved, or for which room is held, gets none.
    """

    def has_history(pod: Pod) -> bool:
        return pod.uid in backoff or starvation.has_nodes(pod.uid) or cluster.holds.has_seat_for(pod)

    return EquivalenceKeys(
        cluster.claim,
        has_history,
        lambda pod: starvation.is_overdue(pod, clock()),
        lambda namespace: cluster.quota_usage().quota_of(namespace),
    )


def _holds(
    context: ReplicaContext, served: DiscoveredKinds, access: tuple[Client, Writer, Cluster], waker: QueueWaker
) -> tuple[HoldKeeper, KeptNodes | None, PlacementCheck | None]:
    """Make what holds room and keeps its nodes, and the admission check, each where it is switched on and can work."""
    unheld, limits, settings = _no_holds(served), context.settings.device_holds, context.settings.admission_check
    keeper = HoldKeeper(access, limits, context.metrics, waker.wake, unheld)
    kept_nodes = None if served.lacks(Feature.HELD_NODES) else KeptNodes(access, context.metrics)
    if kept_nodes is not None:
        keeper.on_begin.append(kept_nodes.wake)
    if not settings.enabled:
        return keeper, kept_nodes, None
    check = context.health.ready("admission-check")
    if unheld:
        check.degrade(f"no Workload is let in: {unheld}")
        return keeper, kept_nodes, None
    check.succeed("standing by")
    placement_check = PlacementCheck(
        *access[:2],
        WorkloadRooms(keeper, hold_seconds=min(settings.hold_seconds, limits.max_seconds)),
        context.settings.scheduler_names,
        park_after_seconds=settings.park_after_seconds,
        told=(context.metrics, check),
    )
    waker.subscribers.append(placement_check.held_may_be_less)
    return keeper, kept_nodes, placement_check


def _isolated_lane(
    context: ReplicaContext, cluster: Cluster, queue: SchedulingQueue, decider: Decider, reports: StatusWriter
) -> IsolatedLane:
    """Make the lane of costly pods; those of Workloads do not exist and have no condition."""

    def report(pod: Pod, reasons: Sequence[Reason]) -> None:
        if not is_expected(pod.id):
            reports.report_unschedulable(pod, reasons, node_count=0)

    share = context.settings.queue.costly_pod_share
    return IsolatedLane(cluster, queue, decider, report, context.metrics, share=share)


def _status_writer(
    settings: Settings, client: Client, writer: Writer, metrics: Metrics, served: DiscoveredKinds
) -> StatusWriter:
    """Make what writes conditions and events. Writes that place pods earn it its share of all writes."""
    events = EventFactory(socket.gethostname(), tells_inventory=settings.messages.inventory)
    bucket, renewal = StatusTokenBucket(settings.commit.status_share), settings.messages.event_renewal_seconds
    reports = StatusWriter(client, writer, metrics, events, bucket, renewal_seconds=renewal, missing=served.missing)
    writer.subscribers.append(lambda is_status: None if is_status else reports.earn())
    return reports


def _solver(context: ReplicaContext, cluster: Cluster) -> tuple[WorkerSupervisor, Decider, SolverTelemetry]:
    """Make the supervisor of the worker process, what asks it, and what reports how it does."""
    settings, metrics, servers = context.settings, context.metrics, context.servers
    batches, costly = decision_limits.of_batches(settings.solver), decision_limits.of_costly(settings.solver)
    folder = Path(settings.solver.snapshot_folder or tempfile.gettempdir())
    telemetry = SolverTelemetry(metrics, context.health.ready("solver"), folder)
    worker = WorkerSupervisor(batches, on_start=telemetry.started, on_failure=telemetry.not_started, servers=servers)
    recorder = DecisionRecorder(settings.history.files, metrics)
    return worker, Decider(worker, cluster, (batches, costly), telemetry, recorder=recorder), telemetry


def _writer(settings: Settings, elector: LeaderElector | None, ages: WatchAges, metrics: Metrics) -> Writer:
    fence: WriteFence = NoFence() if elector is None else LeaseFence(elector)
    slots = RequestSlots(ConcurrencyLimit(most=settings.commit.max_concurrency))
    metrics.write_concurrency.set_function(lambda: slots.limit)
    writer = Writer(slots, fence, settings.commit.request_timeout_seconds, until_fresh=ages.until_fresh)
    writer.subscribers.append(lambda is_status: metrics.writes.labels("status" if is_status else "placing").inc())
    return writer


def _queue(
    settings: Settings, cluster: Cluster, replacements: GangReplacements, keys: EquivalenceKeys
) -> SchedulingQueue:
    """Make the scheduling queue."""
    return SchedulingQueue(
        settings.scheduler_names,
        key_of=keys.of,
        backoff=Backoff(
            initial_seconds=settings.queue.initial_backoff_seconds,
            ceiling_seconds=settings.queue.max_backoff_seconds,
        ),
        flush_seconds=settings.queue.retry_after_seconds,
        gangs=QueuedGangs(lambda gang: cluster.gang_progress(gang, settings.scheduler_names), replacements),
        gang_report_seconds=settings.queue.report_missing_members_seconds,
        sharing_quota=lambda namespace: cluster.quota_usage().sharing(namespace),
    )

"""
One replica of the scheduler: it stands by, leads, and ends in order.

    stand by   watches, mirror, queue and worker process follow the cluster; nothing is written, and nothing decided
               but about one pod to fill the worker's caches
    take over  take the lease; wait until each watch has shown what was stored by then; make late writes of the leader
               before fail (`commit.take_over`)
    lead       the loops that decide and write
    end        take no more batches, end the writes under way, give the lease up after the last of them
"""

import asyncio
import contextlib
import time
from collections.abc import Callable, Coroutine, Iterable, Sequence
from functools import partial
from typing import Any, Final, TypeVar

from scheduler import version
from scheduler.api.api_server import SchedulerApi
from scheduler.api.leadership import answer_callers
from scheduler.change import Change, Kind, without_ended
from scheduler.commit.extended_resource_claims import OrphanedClaims
from scheduler.commit.local_taints import SuspectDevices
from scheduler.commit.manually_bound import ManuallyBoundPods
from scheduler.commit.readmission import Readmission
from scheduler.commit.restore import restore_waiting_times
from scheduler.commit.take_over import fence_claims, was_led
from scheduler.commit.uncertain_allocations import UncertainAllocations
from scheduler.components import ReplicaContext, assemble
from scheduler.cycle import SchedulingCycle
from scheduler.history.device_usage import DeviceUsage
from scheduler.kube import pod_writes
from scheduler.kube.discovery import DiscoveredKinds
from scheduler.kube.leader_election.elector import LeaderElector
from scheduler.kube.watching.watch_ages import WatchAges
from scheduler.kube.writer import FencedError
from scheduler.observe import logs
from scheduler.observe.health import Check
from scheduler.observe.metrics import Subsystem
from scheduler.observe.unexpected_errors import kept_running
from scheduler.queue.memory_budget import MemoryBudget
from scheduler.repair.advisor import AdvisorParts
from scheduler.repair.repairer import Repairer
from scheduler.repair.upgrades import Rollouts
from scheduler.settings import digest
from scheduler.status.leader_report import LeaderReporter, ReportSources
from scheduler.status.missing_rights import possible
from scheduler.status.misspelled_schedulers import MisspelledSchedulers
from scheduler.status.quota_status import QuotaParts, QuotaStatusWriter
from scheduler.status.unreadable_objects import Quarantine
from scheduler.watches import Watches
from scheduler.worker.decision_recorder import DecisionRecorder

T = TypeVar("T")
Followers = tuple[ManuallyBoundPods, MisspelledSchedulers, SuspectDevices, Rollouts]

_FIRST_WORKER_SECONDS: Final = 30.0
"""How long to wait for the first start of the worker process: without it no pod with a claim is placed."""
_FINISH_SECONDS: Final = 12.0
"""How long writes under way may take after SIGTERM; with what the last of them may take less than 30 s."""
_DRAINED: Final = "paused by `dovetail pause`; `dovetail resume` ends it"

_log: Final = logs.logger()


class Replica:
    """
    A replica for the kinds that the server serves; without an elector it leads at once.

    While it leads, the `api` answers from what it knows (None where nothing is served), and `usage` counts for how
    long devices are in use.
    """

    def __init__(
        self,
        context: ReplicaContext,
        served: DiscoveredKinds,
        elector: LeaderElector | None,
        api: SchedulerApi | None,
        usage: DeviceUsage,
    ) -> None:
        self._context: Final = context
        self._api: Final = api
        self._usage: Final = usage
        self._elector: Final = elector
        settings = context.settings
        self._quota_path: Final = served.path(Kind.QUOTAS)
        self._leads: Final = context.metrics.master_status.labels(settings.leader_election.lease_name)
        self._leads.set(elector is None)
        ages = WatchAges(settings.commit.max_watch_age_seconds)
        self._parts: Final = assemble(context, served, elector, ages)
        self._reporter: Final = None if elector is None else self._make_reporter(elector, served, ages)
        policies = {name: possible(settings.policy(name), served) for name in settings.scheduler_names}
        self._cycle: Final = SchedulingCycle(self._parts, policies, settings.batch.max_pods)
        self._followers: Final = self._make_followers()
        budget_bytes = settings.queue.max_waiting_mib * 1024 * 1024
        self._budget: Final = MemoryBudget(settings.scheduler_names, budget_bytes, self._parts.cluster.interner)
        see = partial(_see, self._parts.quarantine, self._budget, self._cycle, self._followers)
        self._readmission: Final = self._make_readmission(self._budget, see)
        self._watches: Final = Watches(
            (context.client, served, see), ages, context.health, context.metrics, self._parts.quarantine
        )

    async def run(self, stop: Coroutine[Any, Any, object], api_change: Coroutine[Any, Any, str]) -> None:
        """
        Stand by and lead until one of both returns, the cluster is another one, or the Lease says that no replica may.

        Raises an exception group of LeadershipLost, after which nothing is written.
        """
        parts, elector, ending = self._parts, self._elector, asyncio.Event()
        with self._context.local_taints.followed_by(self._cycle.see):
            async with asyncio.TaskGroup() as group:
                following = (
                    *(each.run() for each in self._watches.reflectors),
                    self._kept(Subsystem.WATCHES, self._watches.report),
                    self._kept(Subsystem.DECISION, parts.worker.run),
                    self._kept(Subsystem.READMISSION, self._readmission.run),
                )
                keeping = [group.create_task(each) for each in following]
                changes = api_change, self._watches.until_another_cluster(parts.writer.close)
                ends = stop, *(_report_change(each) for each in changes)
                keeping += [group.create_task(_set_after(ending, each)) for each in ends]
                if elector is not None:
                    keeping.append(group.create_task(self._follow_drain(elector, ending)))
                if await unless_stopped(ending, self._take_over(group, keeping)):
                    working = [group.create_task(each) for each in self._loops()]
                    await ending.wait()
                    _log.info(logs.STOPPING)
                    await self._finish(working)
                await parts.writer.close()
                await cancel(keeping)
        if elector is not None:
            await elector.release()

    async def _take_over(self, group: asyncio.TaskGroup, keeping: list[asyncio.Task[None]]) -> None:
        """Return when this replica leads, and may decide and write."""
        parts, elector, settings = self._parts, self._elector, self._context.settings
        check = self._context.health.ready("leader") if elector is not None else None
        if check is not None:
            check.succeed("standing by")
        await self._watches.listed()
        _log.info(logs.SYNCED)
        with contextlib.suppress(TimeoutError):  # without it few pods are decided
            async with asyncio.timeout(_FIRST_WORKER_SECONDS):
                await parts.worker.wait_until_tried()
        keeping.append(group.create_task(self._cycle.warm_up()))
        if elector is not None and check is not None:
            _log.info(logs.STANDBY, lease=settings.leader_election.lease_name)
            is_work_there = partial(was_led, parts.cluster, settings.scheduler_names)
            await elector.acquire(was_led=is_work_there, on_wait=partial(_say_standing_by, check, elector))
            keeping.append(group.create_task(elector.hold(partial(check.succeed, "leading"))))
            check.succeed("leading")
            self._leads.set(1)
            _log.info(logs.LEADER, lease=settings.leader_election.lease_name)
            await self._watches.caught_up()
        parts.evictions.inherit(self._late_seconds)
        parts.commit.extended_claims.inherit(self._late_seconds)
        with contextlib.suppress(FencedError):  # the lease is lost already: `hold` says so
            names, seconds = settings.scheduler_names, self._late_seconds
            await fence_claims(parts.cluster, parts.commit.claims, names, seconds)
        remembering = parts.starvation, parts.status
        await restore_waiting_times(self._context.client, parts.cluster, remembering, settings.scheduler_names)
        parts.pod_groups.inherit(settings.scheduler_names)
        parts.attempt_metrics.is_leading = True

    @property
    def _late_seconds(self) -> float:
        """How long to wait for late writes of the leader before that nothing refuses: bindings and evictions."""
        is_clean = self._elector is None or self._elector.election.is_clean
        return 0.0 if is_clean else self._context.settings.leader_election.lease_duration_seconds

    async def _follow_drain(self, elector: LeaderElector, ending: asyncio.Event) -> None:
        """End leading when the Lease says that no replica may schedule."""
        while True:
            await elector.drained.wait()
            _log.warning(logs.PAUSED, lease=self._context.settings.leader_election.lease_name)
            if elector.election.is_leader:
                ending.set()
                return
            await elector.undrained.wait()

    async def _finish(self, working: Sequence[asyncio.Task[None]]) -> None:
        """End what is under way: units that have begun to write are finished, the others stay as they are."""
        deciding, others = working[:2], working[2:]
        await cancel(deciding)
        self._parts.commit.close()
        if not await self._cycle.finish(_FINISH_SECONDS):
            _log.warning(logs.STOPPING, unfinished=True)
        await self._parts.writer.close()  # the other loops write nothing from now on
        await cancel(others)

    def _loops(self) -> tuple[Coroutine[Any, Any, None], ...]:
        """Return what runs from the first decision until the scheduler stops; the first two decide."""
        parts, (manually_bound, misspelled, *_) = self._parts, self._followers
        orphaned = OrphanedClaims(
            parts.cluster,
            parts.queue,
            parts.commit.extended_claims,
            self._context.metrics,
            scheduler_names=self._context.settings.scheduler_names,
        )
        uncertain = UncertainAllocations(parts.cluster, parts.commit.claims, self._context.metrics)
        late, api = self._late_seconds, (self._api, parts, self._usage, self._context.settings)
        return (
            self._kept(Subsystem.DECISION, self._cycle.decide),
            self._kept(Subsystem.DECISION, partial(parts.isolated_lane.run, self._cycle)),
            self._kept(Subsystem.STALE_ALLOCATIONS, partial(parts.stale_allocations.run, late)),
            self._kept(Subsystem.ORPHANED_CLAIMS, partial(orphaned.run, late)),
            self._kept(Subsystem.STALE_ALLOCATIONS, uncertain.run),
            self._kept(Subsystem.MANUALLY_BOUND, manually_bound.run),
            self._kept(Subsystem.MISSPELLED_SCHEDULERS, misspelled.run),
            self._kept(Subsystem.POD_GROUPS, parts.pod_groups.run),
            self._kept(Subsystem.FLEET, parts.fleet_counter.run),
            self._kept(Subsystem.HOLDS, parts.holds.run),
            self._kept(Subsystem.REPAIR, self._make_repairer().run),
            self._kept(Subsystem.QUOTAS, self._make_quota_statuses().run),
            self._kept(Subsystem.API, partial(answer_callers, *api)),
            self._kept(Subsystem.STATUS, parts.status.run),
            *([] if self._reporter is None else [self._kept(Subsystem.STATUS, self._reporter.run)]),
            *self._admission_check(),
            *([] if parts.kept_nodes is None else [self._kept(Subsystem.HOLDS, parts.kept_nodes.run)]),
        )

    def _admission_check(self) -> tuple[Coroutine[Any, Any, None], ...]:
        check = self._parts.placement_check
        return (
            ()
            if check is None
            else (self._kept(Subsystem.ADMISSION_CHECK, partial(check.run, self._cycle, self._budget)),)
        )

    def _kept(self, part: Subsystem, loop: Callable[[], Coroutine[Any, Any, None]]) -> Coroutine[Any, Any, None]:
        """Return a loop that no unexpected exception ends; the reflectors see to that themselves."""
        return kept_running(loop, self._context.metrics, part)

    def _make_followers(self) -> Followers:
        """Make what follows the changes of the watches beside the scheduling cycle."""
        parts, names, metrics = self._parts, self._context.settings.scheduler_names, self._context.metrics
        is_picked_up = partial(pod_writes.is_picked_up, self._context.client)
        record = parts.status.record_unknown_scheduler
        return (
            ManuallyBoundPods(parts.cluster, parts.status, names, metrics),
            MisspelledSchedulers(parts.cluster, is_picked_up, record, names, metrics),
            SuspectDevices(
                self._context.local_taints, parts.cluster, self._context.settings.commit.suspect_device_seconds
            ),
            Rollouts(self._context.namespace),
        )

    def _make_repairer(self) -> Repairer:
        """Make what repairs the fleet, where the settings say so."""
        parts = self._parts
        recorder = DecisionRecorder(self._context.settings.history.files, self._context.metrics)
        access = AdvisorParts(self._context.client, parts.writer, parts.cluster, parts.queue, parts.worker, recorder)
        reports = parts.status, self._context.metrics
        return Repairer(access, parts.holds, reports, self._context.settings, upgrade=self._upgrade)

    def _upgrade(self) -> str:
        """Say whether an upgrade runs, of Dovetail or of the API servers; empty where none does."""
        if self._context.api_change.is_under_way(time.monotonic()):
            return "an upgrade runs: API servers of two versions answer"
        *_, rollouts = self._followers
        return "" if self._elector is None else rollouts.message

    def _make_quota_statuses(self) -> QuotaStatusWriter:
        """Make what says of DeviceQuotas what is held, lent and waiting."""
        parts, settings = self._parts, self._context.settings
        rules = [settings.policy(name).preemption for name in settings.scheduler_names]
        return QuotaStatusWriter(
            self._context.client,
            parts.writer,
            QuotaParts(parts.cluster, parts.queue, lambda: parts.fleet_counter.quotas),
            self._context.metrics,
            collection=self._quota_path,
            may_reclaim=any(each.is_enabled and each.reclaims for each in rules),
        )

    def _make_reporter(self, elector: LeaderElector, served: DiscoveredKinds, ages: WatchAges) -> LeaderReporter:
        """Make what says in the Lease how this replica does while it leads."""
        parts, context = self._parts, self._context
        sources = ReportSources(
            context.health,
            context.metrics,
            ages,
            tuple(kind for kind, _ in served.paths),
            context.history.recent,
            parts.queue.counts,
            lambda: parts.telemetry.saved,
            lambda: parts.starvation.reservations,
            context.settings.solver.budget_seconds,
            digest(context.settings),
        )
        return LeaderReporter(elector.election.identity, version(), sources, elector.say)

    def _make_readmission(self, budget: MemoryBudget, see: Callable[[Sequence[Change]], None]) -> Readmission:
        worker = self._parts.worker
        return Readmission(
            self._context.client,
            budget,
            see,
            metrics=self._context.metrics,
            check=self._context.health.ready("memory"),
            worker_pid=lambda: worker.pid,
        )


def _say_standing_by(check: Check, elector: LeaderElector) -> None:
    check.succeed("standing by" + f", {_DRAINED}" * elector.election.is_drained)


def _see(
    quarantine: Quarantine,
    memory_budget: MemoryBudget,
    cycle: SchedulingCycle,
    followers: Followers,
    changes: Sequence[Change],
) -> None:
    """Hand on changes of the watches; the scheduling cycle does not see pods and claims without a memory budget."""
    manually_bound, misspelled, suspects, rollouts = followers
    for change in changes:
        quarantine.isolate(change, suspects.before)
    admitted: list[Change] = []
    for change in without_ended(changes):
        quarantine.isolate(change, lambda each: admitted.extend(memory_budget.admit(each)))
    cycle.see(admitted)
    for change in admitted:
        quarantine.isolate(change, manually_bound.see)
        quarantine.isolate(change, misspelled.see)
    for change in changes:  # devices of pods that have ended are suspects, too
        quarantine.isolate(change, suspects.see)
        quarantine.isolate(change, rollouts.see)


async def unless_stopped(stop: asyncio.Event, wanted: Coroutine[Any, Any, T]) -> tuple[T] | None:
    """Return what a coroutine gives, in a tuple; None where `stop` is set first, and it is cancelled."""
    task, stopped = asyncio.create_task(wanted), asyncio.create_task(stop.wait())
    try:
        await asyncio.wait((task, stopped), return_when=asyncio.FIRST_COMPLETED)
        return (task.result(),) if task.done() else None
    finally:
        await cancel((task, stopped))


async def _report_change(change: Coroutine[Any, Any, str]) -> None:
    """Log a change after which the scheduler starts again in its process."""
    _log.warning(logs.SERVER_CHANGED, change=await change)


async def _set_after(event: asyncio.Event, wanted: Coroutine[Any, Any, object]) -> None:
    await wanted
    event.set()


async def cancel(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel tasks and wait for their end."""
    tasks = tuple(tasks)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)

"""
The composition root: makes the components, runs them in one group of tasks, and ends them in order.

    start      health server, discovery, leader election
    lead       reflectors until synced, then the worker process, the cycles, writes of status
    SIGTERM    take no more batches, end the writes under way, release the lease, exit 0
    lease lost exit 1, without another write
"""

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from scheduler import version
from scheduler.api import api_server
from scheduler.api.api_server import SchedulerApi
from scheduler.api.leadership import answer_callers
from scheduler.change import Change, Kind, without_ended
from scheduler.cluster import Cluster
from scheduler.commit.extended_resource_claims import OrphanedClaims
from scheduler.commit.local_taints import FailedDevices, SuspectDevices
from scheduler.commit.manually_bound import ManuallyBoundPods
from scheduler.commit.readmission import Readmission
from scheduler.commit.restore import restore_waiting_times
from scheduler.components import Components, assemble
from scheduler.cycle import SchedulingCycle
from scheduler.kube import discovery, pod_writes
from scheduler.kube.client import Client
from scheduler.kube.discovery import ApiChange
from scheduler.kube.elector import LeaderElector, LeadershipLost, new_identity
from scheduler.kube.errors import ConfigurationError, KubeError
from scheduler.kube.lease import Timing
from scheduler.kube.writer import LeaseFence, NoFence, WriteFence
from scheduler.observe import logs
from scheduler.observe.health import Health, serving
from scheduler.observe.metrics import Metrics
from scheduler.queue.memory_budget import MemoryBudget
from scheduler.settings import Address, Settings, parse_address
from scheduler.status.misspelled_schedulers import MisspelledSchedulers
from scheduler.status.unreadable_objects import Quarantine
from scheduler.watches import Watches

T = TypeVar("T")
Followers = tuple[ManuallyBoundPods, MisspelledSchedulers, SuspectDevices]

_RETRY_SECONDS: Final = 5.0
_FIRST_WORKER_SECONDS: Final = 30.0
"""How long to wait for the first start of the worker process: without it no pod with a claim is placed."""
_FINISH_SECONDS: Final = 15.0
"""How long writes under way may take after SIGTERM; less than the default grace period of a pod, 30 s."""
_STOPPED, _LOST, _MISCONFIGURED, _SERVER_CHANGED = 0, 1, 2, 3
_DISCOVERY_SECONDS: Final = 10.0
"""How often the server is asked whether it was upgraded or rolled back."""
_NAMESPACE_FILE: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
_DEFAULT_NAMESPACE: Final = "dovetail-system"

_log: Final = logs.logger()


def run(settings: Settings, kubeconfig: Path | None = None) -> int:
    """
    Schedule until SIGTERM or SIGINT; return the exit status.

    0 after a clean stop, 1 when the lease was lost, 2 when the way into the cluster is configured wrongly. Without a
    kubeconfig it is the pod's own service account, or outside a cluster the file that $KUBECONFIG names.
    """
    if kubeconfig is None and "KUBERNETES_SERVICE_HOST" not in os.environ and os.environ.get("KUBECONFIG"):
        kubeconfig = Path(os.environ["KUBECONFIG"])
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        return runner.run(_run(settings, kubeconfig))


async def _run(settings: Settings, kubeconfig: Path | None) -> int:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    try:
        async with Process.started(settings, kubeconfig) as process:
            return await process.run(stop)
    except ConfigurationError as error:
        _log.error(logs.STOPPED, error=str(error))
        return _MISCONFIGURED


class Process:
    """One run of the scheduler: what exists whether it leads or not."""

    def __init__(self, settings: Settings, client: Client, lease_client: Client, health: Health) -> None:
        self._settings: Final = settings
        self._client: Final = client
        self._lease_client: Final = lease_client
        self._health: Final = health
        self.metrics: Final = Metrics(version())
        self._failed_devices: Final = FailedDevices(settings.commit.avoid_failed_device_seconds, self.metrics)
        self._suspects: Final = SuspectDevices(settings.commit.suspect_device_seconds, self.metrics)
        self._api_change: Final = ApiChange()
        self._api: SchedulerApi | None = None

    @classmethod
    @contextlib.asynccontextmanager
    async def started(cls, settings: Settings, kubeconfig: Path | None) -> AsyncIterator["Process"]:
        """Open the connections and the health server; the lease has its own connection."""
        connections = settings.commit.max_concurrency
        async with (
            Client.connect(kubeconfig, max_connections=connections) as client,
            Client.connect(kubeconfig, max_connections=2) as lease_client,
        ):
            process = cls(settings, client, lease_client, Health())
            async with contextlib.AsyncExitStack() as ends:
                address = await process._listen(ends)
                listening = api_server.listening(settings.api, kubeconfig, process.metrics)
                process._api, api_address = await ends.enter_async_context(listening)
                _log.info(
                    logs.STARTED, server=client.server, address=str(address), api_address=api_address, version=version()
                )
                yield process

    async def _listen(self, ends: contextlib.AsyncExitStack) -> Address:
        """Serve health and metrics; raises ConfigurationError where the address cannot be listened on."""
        wanted = self._settings.bind_address
        try:
            return await ends.enter_async_context(serving(parse_address(wanted), self._health, self.metrics))
        except OSError as error:
            reason = os.strerror(error.errno).lower() if error.errno else str(error)
            raise ConfigurationError(
                f"bindAddress: {wanted} cannot be listened on: {reason}; write another one with --bind-address"
            ) from error

    async def run(self, stop: asyncio.Event) -> int:
        """Schedule until `stop` is set; start again where the API server serves other kinds or versions than before."""
        status = _SERVER_CHANGED
        while status == _SERVER_CHANGED:
            self._health.drop_ready()
            status = await self._run(stop)
        return status

    async def _run(self, stop: asyncio.Event) -> int:
        """Wait until the server serves what is needed and the lease is held, then schedule."""
        found = await _unless_stopped(stop, self._discover())
        if found is None:
            return _STOPPED
        election = self._settings.leader_election
        if not election.enabled:
            return await self._lead(stop, found[0], None)
        elector = self._elector()
        check = self._health.ready("leader")
        check.succeed("standing by")
        _log.info(logs.STANDBY, lease=election.lease_name)
        if await _unless_stopped(stop, elector.acquire()) is None:
            return _STOPPED
        check.succeed("leading")
        _log.info(logs.LEADER, lease=election.lease_name)
        status = _LOST
        try:
            status = await self._lead(stop, await self._discover_again(found[0]), elector)
        except* LeadershipLost as lost:
            _log.error(logs.LEADER_LOST, error=str(lost.exceptions[0]))
        return status

    async def _discover(self) -> discovery.DiscoveredKinds:
        """Ask until the server answers and serves what is needed; report what is missing, each time it changes."""
        check, reported = self._health.ready("server"), ""
        while True:
            try:
                served = await discovery.discover(self._client)
                if not served.problem:
                    await self._read_one_of_each(served)
                    check.succeed()
                    return served
                problem = served.problem
            except KubeError as error:
                problem = str(error)
            check.fail(problem)
            if problem != reported:
                _log.warning(logs.STANDBY, waiting_for="server", problem=problem)
                reported = problem
            await asyncio.sleep(_RETRY_SECONDS)

    async def _discover_again(self, served: discovery.DiscoveredKinds) -> discovery.DiscoveredKinds:
        """Return what the server serves now: a standby may have waited for months."""
        with contextlib.suppress(KubeError):
            found = await discovery.discover(self._client)
            return served if found.problem else found
        return served

    async def _wait_until_changed(self, served: discovery.DiscoveredKinds) -> None:
        """Return when the server serves other kinds or versions, and does not only seem to: see `ApiChange`."""
        self._api_change.begin(served)
        while True:
            await asyncio.sleep(_DISCOVERY_SECONDS)
            with contextlib.suppress(KubeError):
                found = await discovery.discover(self._client)
                if self._api_change.saw(found, time.monotonic()):
                    break
        _log.warning(logs.SERVER_CHANGED, before=served.git_version, now=found.git_version)

    async def _read_one_of_each(self, served: discovery.DiscoveredKinds) -> None:
        """Read one object of every kind, so that a missing right shows before the lease is taken."""
        for _, path in served.paths:
            await self._client.request("GET", path, query={"limit": "1"})

    def _elector(self) -> LeaderElector:
        election = self._settings.leader_election
        return LeaderElector(
            self._lease_client,
            namespace=election.lease_namespace or _namespace(),
            name=election.lease_name,
            identity=new_identity(),
            timing=self._timing(),
            on_error=self._lease_failed,
        )

    def _lease_failed(self, error: Exception) -> None:
        """Report what keeps the lease from being taken or renewed; it is tried again."""
        check = self._health.ready("leader")
        if str(error) != check.message:
            _log.warning(logs.STANDBY, waiting_for="lease", error=str(error))
        check.degrade(str(error))

    def _timing(self) -> Timing:
        election = self._settings.leader_election
        return Timing(
            lease_duration=election.lease_duration_seconds,
            renew_deadline=election.renew_deadline_seconds,
            retry_period=election.retry_period_seconds,
        )

    async def _lead(self, stop: asyncio.Event, served: discovery.DiscoveredKinds, elector: LeaderElector | None) -> int:
        """Schedule as the leader until `stop` is set or the server has another API. Everything is listed anew."""
        _log.info(logs.SERVER, version=served.git_version, kinds=served.optional)
        ending = asyncio.Event()
        fence: WriteFence = NoFence() if elector is None else LeaseFence(elector, self._timing())
        parts = assemble(
            self._settings,
            self._client,
            fence,
            elector,
            failed_devices=self._failed_devices,
            metrics=self.metrics,
            health=self._health,
        )
        parts.pod_groups.connect(served.path(Kind.POD_GROUPS))
        policies = {name: self._settings.policy(name) for name in self._settings.scheduler_names}
        cycle = SchedulingCycle(parts, policies, self._settings.batch.max_pods)
        memory_budget = self._memory_budget(parts.cluster)
        self._suspects.connect(parts.cluster, cycle.see)
        followers = self._followers(parts)
        see = partial(_see, parts.quarantine, memory_budget, cycle, followers)
        watches = Watches((self._client, served, see), self._health, self.metrics, parts.quarantine)
        async with asyncio.TaskGroup() as group:
            keeping = [] if elector is None else [group.create_task(elector.hold())]
            keeping += [group.create_task(each.run()) for each in watches.reflectors]
            keeping.append(group.create_task(parts.worker.run()))
            ends = (stop.wait(), self._wait_until_changed(served))
            keeping += [group.create_task(_set_after(ending, each)) for each in ends]
            if await _unless_stopped(ending, self._wait_until_ready(watches, elector, parts)):
                loops = self._loops(parts, cycle, followers, (memory_budget, see))
                working = [group.create_task(each) for each in loops]
                keeping.append(group.create_task(parts.status.run()))
                await ending.wait()
                _log.info(logs.STOPPING)
                await _cancel(working)
                parts.commit.close()
                if not await cycle.finish(_FINISH_SECONDS):
                    _log.warning(logs.STOPPING, unfinished=True)
            await _cancel(keeping)
            self._suspects.disconnect()
        if elector is not None:
            await elector.release()
        _log.info(logs.STOPPED)
        return _STOPPED if stop.is_set() else _SERVER_CHANGED

    def _followers(self, parts: Components) -> Followers:
        """Make what follows the changes of the watches beside the scheduling cycle."""
        names = self._settings.scheduler_names
        is_picked_up, record = partial(pod_writes.is_picked_up, self._client), parts.status.record_unknown_scheduler
        return (
            ManuallyBoundPods(parts.cluster, parts.status, names, self.metrics),
            MisspelledSchedulers(parts.cluster, is_picked_up, record, names, self.metrics),
            self._suspects,
        )

    def _loops(
        self,
        parts: Components,
        cycle: SchedulingCycle,
        followers: Followers,
        readmitting: tuple[MemoryBudget, Callable[[Sequence[Change]], None]],
    ) -> tuple[Coroutine[Any, Any, None], ...]:
        """Return what runs from the first decision until the scheduler stops."""
        manually_bound, misspelled, _ = followers
        orphaned = OrphanedClaims(parts.cluster, parts.queue, parts.commit.extended_claims, self.metrics)
        readmission = Readmission(
            self._client,
            *readmitting,
            metrics=self.metrics,
            check=self._health.ready("memory"),
            worker_pid=lambda: parts.worker.pid,
        )
        return (
            cycle.decide(),
            parts.costly_loop.run(cycle),
            parts.stale_allocations.run(),
            orphaned.run(),
            manually_bound.run(),
            misspelled.run(),
            parts.pod_groups.run(),
            parts.fleet_counter.run(),
            readmission.run(),
            answer_callers(self._api, parts, self._settings.history),
        )

    def _memory_budget(self, cluster: Cluster) -> MemoryBudget:
        budget_bytes = self._settings.queue.max_waiting_mib * 1024 * 1024
        return MemoryBudget(self._settings.scheduler_names, budget_bytes, cluster.interner)

    async def _wait_until_ready(self, watches: Watches, elector: LeaderElector | None, parts: Components) -> None:
        """Wait until all kinds are listed, the solver runs, and no leader before this one can still write."""
        await watches.listed()
        _log.info(logs.SYNCED)
        with contextlib.suppress(TimeoutError):  # without it few pods are decided
            async with asyncio.timeout(_FIRST_WORKER_SECONDS):
                await parts.worker.wait_until_tried()
        if elector is not None:
            await elector.settled()
        remembering = parts.starvation, parts.status
        await restore_waiting_times(self._client, parts.cluster, remembering, self._settings.scheduler_names)


def _see(
    quarantine: Quarantine,
    memory_budget: MemoryBudget,
    cycle: SchedulingCycle,
    followers: Followers,
    changes: Sequence[Change],
) -> None:
    """Hand on changes of the watches; the scheduling cycle does not see pods and claims without a memory budget."""
    manually_bound, misspelled, suspects = followers
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


async def _unless_stopped(stop: asyncio.Event, wanted: Coroutine[Any, Any, T]) -> tuple[T] | None:
    """Return what a coroutine gives, in a tuple; None where `stop` is set first, and it is cancelled."""
    task, stopped = asyncio.create_task(wanted), asyncio.create_task(stop.wait())
    try:
        await asyncio.wait((task, stopped), return_when=asyncio.FIRST_COMPLETED)
        return (task.result(),) if task.done() else None
    finally:
        await _cancel((task, stopped))


async def _set_after(event: asyncio.Event, wanted: Coroutine[Any, Any, object]) -> None:
    await wanted
    event.set()


async def _cancel(tasks: Iterable[asyncio.Task[Any]]) -> None:
    tasks = tuple(tasks)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _namespace() -> str:
    try:
        return _NAMESPACE_FILE.read_text(encoding="utf-8").strip() or _DEFAULT_NAMESPACE
    except OSError:
        return _DEFAULT_NAMESPACE


def _loop_factory() -> Any:
    """Uvloop where it is installed: it halves what a request costs us."""
    try:
        import uvloop  # noqa: PLC0415 - an extra that may not be there
    except ImportError:
        return None
    return uvloop.new_event_loop

"""
The composition root: one process, with the connections and servers that it has whether it leads or not.

    start      health and metrics, discovery, then a `replica`, which stands by and leads
    SIGTERM    the replica ends its writes and releases the lease; exit 0
    lease lost exit 1, without another write
"""

import asyncio
import contextlib
import gc
import os
import signal
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any, Final

from scheduler import NAMESPACE, version
from scheduler.api import api_server
from scheduler.api.api_server import SchedulerApi
from scheduler.api.monitoring_server import monitoring
from scheduler.commit.local_taints import FailedDevices, LocalTaints
from scheduler.components import ReplicaContext
from scheduler.history.decision_history import DecisionHistory
from scheduler.history.device_usage import DeviceUsage
from scheduler.kube import discovery
from scheduler.kube.client import Client
from scheduler.kube.decode import legible_json
from scheduler.kube.errors import ConfigurationError, KubeError
from scheduler.kube.leader_election.elector import LeaderElector, LeadershipLost, new_identity
from scheduler.kube.leader_election.lease import Timing
from scheduler.kube.leader_election.lease_thread import LeaseThread
from scheduler.observe import logs
from scheduler.observe.health import Health
from scheduler.observe.loop_watch import LoopWatch
from scheduler.observe.metrics import Metrics
from scheduler.observe.tracebacks import LongText
from scheduler.replica import Replica, unless_stopped
from scheduler.settings import Settings
from scheduler.status.missing_rights import FeatureReport
from scheduler.worker.fork_server import ForkServers

_RETRY_SECONDS: Final = 5.0
_NEW_OBJECTS: Final = 5_000
"""The garbage collector looks for cycles after so many. After Python's 700 it costs a tenth of the time of a write."""
_STOPPED, _LOST, _MISCONFIGURED, _AGAIN = 0, 1, 2, 3
_NAMESPACE_FILE: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")

_log: Final = logs.logger()


def run(settings: Settings, kubeconfig: Path | None, servers: ForkServers) -> int:
    """
    Schedule until SIGTERM or SIGINT; return the exit status. `servers` launches the worker's fork server.

    0 after a clean stop, 1 when the lease was lost, 2 when the way into the cluster is configured wrongly. Without a
    kubeconfig it is the pod's own service account, or outside a cluster the file that $KUBECONFIG names.
    """
    if kubeconfig is None and "KUBERNETES_SERVICE_HOST" not in os.environ and os.environ.get("KUBECONFIG"):
        kubeconfig = Path(os.environ["KUBECONFIG"])
    gc.set_threshold(_NEW_OBJECTS)
    legible_json.numpy()  # not while the event loop runs: an import takes longer than an object may
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        return runner.run(_run(settings, kubeconfig, servers))


async def _run(settings: Settings, kubeconfig: Path | None, servers: ForkServers) -> int:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    try:
        async with Process.started(settings, kubeconfig, servers) as process:
            return await process.run(stop)
    except ConfigurationError as error:
        _log.error(logs.STOPPED, error=LongText(error))  # of the operator
        return _MISCONFIGURED


class Process:
    """One run of the scheduler: what exists whether it leads or not. Without `api` it serves none."""

    def __init__(
        self,
        settings: Settings,
        connections: tuple[Client, LeaseThread],
        watched: tuple[Health, Metrics],
        servers: ForkServers,
        api: SchedulerApi | None,
    ) -> None:
        self._settings: Final = settings
        self._client, self._lease_thread = connections
        self._health, metrics = watched
        taints = LocalTaints(metrics)
        self._context: Final = ReplicaContext(
            settings=settings,
            client=self._client,
            metrics=metrics,
            health=self._health,
            local_taints=taints,
            failed_devices=FailedDevices(taints, settings.commit.avoid_failed_device_seconds),
            history=DecisionHistory(settings.history, is_kept=bool(settings.api.bind_address)),
            servers=servers,
            api_change=discovery.ApiChange(),
            namespace=_namespace(),
        )
        self._usage: Final = DeviceUsage(settings.history.usage_hours)
        self._api: Final = api
        self._features: Final = FeatureReport(self._health)

    @classmethod
    @contextlib.asynccontextmanager
    async def started(
        cls, settings: Settings, kubeconfig: Path | None, servers: ForkServers
    ) -> AsyncIterator["Process"]:
        """Open the connections, health and metrics; the lease has connections and a thread of its own."""
        connections, health, metrics = settings.commit.max_concurrency, Health(), Metrics(version())
        async with (
            Client.connect(kubeconfig, max_connections=connections) as client,
            LeaseThread.started(partial(Client.connect, kubeconfig, max_connections=2)) as lease_thread,
            contextlib.AsyncExitStack() as ends,
        ):
            ends.enter_context(LoopWatch(metrics).watching())
            ports = settings.health, settings.metrics
            addresses = await ends.enter_async_context(monitoring(ports, kubeconfig, health, metrics))
            listening = api_server.listening(settings.api, kubeconfig, metrics)
            api, api_address = await ends.enter_async_context(listening)
            _log.info(
                logs.STARTED,
                server=client.server,
                health_address=str(addresses.health),
                metrics_address=str(addresses.metrics),
                api_address=api_address,
                version=version(),
            )
            yield cls(settings, (client, lease_thread), (health, metrics), servers, api)

    async def run(self, stop: asyncio.Event) -> int:
        """Schedule until `stop` is set; start again where API or cluster changed, or after `dovetail resume`."""
        status = _AGAIN
        while status == _AGAIN:
            self._health.drop_ready()
            status = await self._run(stop)
        return status

    async def _run(self, stop: asyncio.Event) -> int:
        """Wait until the server serves what is needed, then be a replica, whose checks say whether it is ready."""
        replica_check = self._health.ready("replica")
        found = await unless_stopped(stop, self._discover())
        if found is None:
            return _STOPPED
        _log.info(logs.SERVER, version=found[0].git_version, kinds=found[0].optional)
        elector = self._elector() if self._settings.leader_election.enabled else None
        replica = Replica(self._context, found[0], elector, self._api, self._usage)
        replica_check.succeed()
        status = _LOST
        try:
            api_change = discovery.until_changed(self._client, found[0], self._context.api_change)
            await replica.run(stop.wait(), api_change)
            status = _STOPPED if stop.is_set() else _AGAIN
        except* LeadershipLost as lost:
            _log.error(logs.LEADER_LOST, error=str(lost.exceptions[0]))
        _log.info(logs.STOPPED)
        return status

    async def _discover(self) -> discovery.DiscoveredKinds:
        """Ask until the server answers and serves what is needed; report what is missing, each time it changes."""
        check, reported = self._health.ready("server"), ""
        while True:
            try:
                served = await discovery.discover_permitted(self._client, self._settings.features)
                if not served.problem:
                    await self._read_one_of_each(served)
                    check.succeed()
                    self._features.report(served)
                    return served
                problem = served.problem
            except KubeError as error:
                problem = str(error)
            check.fail(problem)
            if problem != reported:
                _log.warning(logs.STANDBY, waiting_for="server", problem=problem)
                reported = problem
            await asyncio.sleep(_RETRY_SECONDS)

    async def _read_one_of_each(self, served: discovery.DiscoveredKinds) -> None:
        """Read one object of every kind, so that a missing right shows before the lease is taken."""
        await asyncio.gather(*(self._client.request("GET", path, query={"limit": "1"}) for _, path in served.paths))

    def _elector(self) -> LeaderElector:
        election = self._settings.leader_election
        return LeaderElector(
            self._lease_thread.client,
            namespace=election.lease_namespace or self._context.namespace,
            name=election.lease_name,
            identity=new_identity(),
            timing=self._timing(),
            on_error=self._lease_failed,
            loop=self._lease_thread,
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


def _namespace() -> str:
    try:
        return _NAMESPACE_FILE.read_text(encoding="utf-8").strip() or NAMESPACE
    except OSError:
        return NAMESPACE


def _loop_factory() -> Any:
    """Uvloop where it is installed: it halves what a request costs."""
    try:
        import uvloop  # noqa: PLC0415 - some platforms have none
    except ImportError:
        return None
    return uvloop.new_event_loop

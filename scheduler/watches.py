"""The watches of all kinds, with their log lines, series and readiness checks."""

import asyncio
import contextlib
import gc
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final

from scheduler.change import Change, Kind
from scheduler.kube import discovery
from scheduler.kube.client import Client
from scheduler.kube.errors import DecodeError, Gone, KubeError, ServerError, Unreachable, VersionWentBack, WatchSilent
from scheduler.kube.watching.catch_up import catch_up
from scheduler.kube.watching.reflector import Reflector
from scheduler.kube.watching.watch_ages import WatchAges
from scheduler.observe import logs
from scheduler.observe.health import Check, CheckState, Health
from scheduler.observe.metrics import Metrics, Subsystem
from scheduler.observe.unexpected_errors import Confined
from scheduler.status.unreadable_objects import Quarantine
from scheduler.unreadable import cut

_UNCOLLECTED_SECONDS: Final = 60.0
"""How long the first lists may take without the cyclic garbage collector."""
_REPORT_SECONDS: Final = 1.0
"""How often the ages of watches are looked at; writes look at them themselves."""

_NOT_LISTED: Final = "not listed yet"
_RETRY_SECONDS: Final = 1.0
_IDENTIFY_SECONDS: Final = 10.0
"""How often the cluster is asked whether it is the same, while no connection is lost."""

See = Callable[[Sequence[Change]], None]

_log: Final = logs.logger()


class Watches:
    """
    A reflector for each kind that the server serves, with log lines, series and a readiness check.

    `source` is the client, the kinds that are served, and what takes their changes.
    """

    def __init__(
        self,
        source: tuple[Client, discovery.DiscoveredKinds, See],
        ages: WatchAges,
        health: Health,
        metrics: Metrics,
        quarantine: Quarantine,
    ) -> None:
        client, served, see = source
        self._client: Final = client
        self._ages: Final = ages
        self._health: Final = health
        self._metrics: Final = metrics
        self._stale: Final[set[Kind]] = set()
        self.reflectors: Final = tuple(
            Reflector(
                client,
                kind,
                lambda changes: see(served.as_meant(changes)),
                self._failed,
                ages=ages,
                path=path,
                on_unreadable=quarantine.unreadable,
                on_readable=quarantine.readable,
            )
            for kind, path in served.paths
        )
        metrics.watch_age.clear()  # of kinds that the server had before
        for kind, _ in served.paths:
            metrics.watch_age.labels(kind).set_function(partial(ages.age, kind))
            health.ready(kind).fail(_NOT_LISTED)

    async def listed(self) -> None:
        """
        Wait until every kind was listed once, at first without the cyclic garbage collector.

        What is listed is large and stays. The collector would traverse all of it each time that it grows by a quarter,
        and again whenever enough pods have come and gone. So it is frozen: reference counting alone frees it. What an
        earlier replica of this process has left may be in cycles, and is collected first.
        """
        if gc.get_freeze_count():
            gc.unfreeze()
            gc.collect()
        gc.disable()
        try:
            with contextlib.suppress(TimeoutError):  # failed requests leave cycles, and may go on for hours
                async with asyncio.timeout(_UNCOLLECTED_SECONDS):
                    await self._all_listed()
        finally:
            gc.enable()
        await self._all_listed()
        gc.freeze()

    async def _all_listed(self) -> None:
        await asyncio.gather(*(self._listed(each) for each in self.reflectors))

    async def caught_up(self) -> None:
        """Wait until every watch has shown what was stored when this was called."""
        await asyncio.gather(*(self._caught_up(each) for each in self.reflectors))

    async def _caught_up(self, reflector: Reflector) -> None:
        while True:
            try:
                return await catch_up(self._client, reflector)
            except KubeError as error:
                self._failed(reflector.kind, error)
            await asyncio.sleep(_RETRY_SECONDS)

    async def until_another_cluster(self, stop_writing: Callable[[], Awaitable[None]]) -> str:
        """
        Return what says that what was listed is void, when that shows: another cluster, or etcd from a backup.

        A watch that goes on from a later revision than etcd's would leave changes out. A server whose etcd is restored
        ends its connections; after a lost connection nothing is written until the cluster is known to be the same.
        `stop_writing` makes sure that nothing is written to another one.

        What the watches have shown is in etcd's history: a list that is asked for later has a higher revision. A kind
        that is ahead although no connection was lost is in an etcd of its own (`--etcd-servers-overrides`), and its
        versions say nothing.
        """
        check, known = self._health.ready("cluster"), None
        elsewhere: set[Kind] = set()
        check.succeed()
        while True:
            interruptions, was_interrupted = self._ages.interruptions, self._ages.is_interrupted
            newest = self._ages.newest()
            try:
                identity = await discovery.identify(self._client)
            except KubeError as error:
                if self._ages.is_interrupted:
                    _say_unknown(check, error)
                await asyncio.sleep(_RETRY_SECONDS)
                continue
            if not was_interrupted and interruptions == self._ages.interruptions:
                elsewhere |= identity.kinds_ahead(newest)
            here = {kind: version for kind, version in newest.items() if kind not in elsewhere}
            if known is not None and (problem := identity.contradiction(known.advanced(here))):
                await stop_writing()
                self._ages.confirmed(self._ages.interruptions)  # the writes that wait end
                return problem
            known = identity
            check.succeed()
            self._ages.confirmed(interruptions)
            await self._ages.until_interrupted(_IDENTIFY_SECONDS)

    async def report(self) -> None:
        """Report which kinds are stale, and which are not any more, until cancelled."""
        while True:
            await asyncio.sleep(_REPORT_SECONDS)
            with Confined(self._metrics, Subsystem.WATCHES):
                self.report_stale()

    def report_stale(self) -> None:
        """Set the readiness checks of stale kinds, and log each kind once when it gets stale and when it is fresh."""
        stale = self._ages.stale()
        for kind, seconds in stale.items():
            self._health.ready(kind).fail(
                self._with_error(kind, f"stale: nothing heard for {seconds:.0f} s, and nothing is written meanwhile")
            )
            if kind not in self._stale:
                _log.warning(logs.WATCH_STALE, kind=kind, seconds=round(seconds), error=self._ages.error(kind))
        for kind in self._stale - stale.keys():
            self._health.ready(kind).succeed()
            _log.info(logs.WATCH_FRESH, kind=kind)
        self._stale.clear()
        self._stale.update(stale)

    async def _listed(self, reflector: Reflector) -> None:
        await reflector.synced.wait()
        self._health.ready(reflector.kind).succeed()

    def _failed(self, kind: Kind, error: Exception) -> None:
        why = cut(str(error) if isinstance(error, KubeError) else repr(error))
        self._ages.failed(kind, why)
        # A watch that is silent within the limit says nothing of the cluster. Where many kinds are quiet, one after the
        # other would hold up the writes, and with a slow server no answer would ever be newer than the last of them.
        is_quiet = isinstance(error, WatchSilent) and kind not in self._ages.stale()
        if isinstance(error, Unreachable | ServerError | VersionWentBack) and not is_quiet:
            self._ages.interrupted()
        if isinstance(error, Gone | VersionWentBack | WatchSilent):
            self._metrics.watch_relists.labels(kind).inc()
            _log.info(logs.RELISTED, kind=kind, error=why)
            return
        if isinstance(error, DecodeError):
            self._metrics.unreadable_answers.labels(kind).inc()
        event = logs.OBJECT_UNREADABLE if isinstance(error, DecodeError) else logs.WATCH_FAILED
        _log.warning(event, kind=kind, error=why)
        if not any(each.synced.is_set() for each in self.reflectors if each.kind is kind):
            self._health.ready(kind).fail(self._with_error(kind, _NOT_LISTED))

    def _with_error(self, kind: Kind, message: str) -> str:
        error = self._ages.error(kind)
        return f"{message}: {error}" if error else message


def _say_unknown(check: Check, error: KubeError) -> None:
    """Fail the check where it is not known for long whether the cluster is the same."""
    is_long = check.state is CheckState.FAILED or (
        check.state is CheckState.DEGRADED and check.seconds > _IDENTIFY_SECONDS
    )
    say = check.fail if is_long else check.degrade
    say(f"nothing is written until the cluster is known to be the same: {error}")

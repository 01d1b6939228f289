"""The watches of all kinds, with their log lines, series and readiness checks."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from scheduler.change import Change, Kind
from scheduler.kube import discovery
from scheduler.kube.client import Client
from scheduler.kube.errors import DecodeError, Gone, KubeError
from scheduler.kube.reflector import Reflector
from scheduler.observe import logs
from scheduler.observe.health import CheckState, Health
from scheduler.observe.metrics import Metrics
from scheduler.status.unreadable_objects import Quarantine
from scheduler.unreadable import cut

_NOT_LISTED: Final = "not listed yet"

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
        health: Health,
        metrics: Metrics,
        quarantine: Quarantine,
    ) -> None:
        client, served, see = source
        self._health: Final = health
        self._metrics: Final = metrics
        self.reflectors: Final = tuple(
            Reflector(
                client,
                kind,
                lambda changes: see(served.as_meant(changes)),
                self._failed,
                path=path,
                on_unreadable=quarantine.unreadable,
                on_readable=quarantine.readable,
            )
            for kind, path in served.paths
        )

    async def listed(self) -> None:
        """Wait until every kind was listed once."""
        await asyncio.gather(*(self._listed(each) for each in self.reflectors))

    async def _listed(self, reflector: Reflector) -> None:
        check = self._health.ready(reflector.kind)
        check.fail(_NOT_LISTED)
        await reflector.synced.wait()
        check.succeed()

    def _failed(self, kind: Kind, error: Exception) -> None:
        if isinstance(error, Gone):
            self._metrics.watch_relists.labels(kind).inc()
            _log.info(logs.RELISTED, kind=kind, error=str(error))
            return
        event = logs.OBJECT_UNREADABLE if isinstance(error, DecodeError) else logs.WATCH_FAILED
        _log.warning(event, kind=kind, error=cut(str(error) if isinstance(error, KubeError) else repr(error)))
        check = self._health.ready(kind)
        if check.state is CheckState.FAILED:
            check.fail(f"{_NOT_LISTED}: {error}")

"""The watches of all kinds, and what is seen of them from outside: log lines, series, a readiness check for each."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from scheduler.change import Change, Kind
from scheduler.closed import cut
from scheduler.commit.telling.quarantine import Quarantine
from scheduler.kube import discovery
from scheduler.kube.client import Client
from scheduler.kube.errors import DecodeError, Gone, KubeError
from scheduler.kube.reflector import Reflector
from scheduler.observe import logs
from scheduler.observe.health import Health, State
from scheduler.observe.metrics import Metrics

_NOT_LISTED: Final = "not listed yet"

_log: Final = logs.logger()


class Watches:
    """Makes a reflector for each kind that is served, and tells what goes wrong with it."""

    def __init__(self, client: Client, health: Health, metrics: Metrics, quarantine: Quarantine) -> None:
        self._client: Final = client
        self._health: Final = health
        self._metrics: Final = metrics
        self._quarantine: Final = quarantine
        self._reflectors: Final[list[Reflector]] = []

    def reflectors(self, served: discovery.Served, see: Callable[[Sequence[Change]], None]) -> Sequence[Reflector]:
        """Give the reflectors, to be run; `see` gets what they are told."""
        self._reflectors.extend(
            Reflector(
                self._client,
                kind,
                see,
                self._failed,
                path=path,
                on_unreadable=self._quarantine.unreadable,
                on_readable=self._quarantine.readable,
            )
            for kind, path in served.paths
        )
        return tuple(self._reflectors)

    async def listed(self) -> None:
        """Wait until every kind was listed once."""
        await asyncio.gather(*(self._listed(each) for each in self._reflectors))

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
        if check.state is State.FAILED:
            check.fail(f"{_NOT_LISTED}: {error}")

"""Health and metrics: two ports or one, from a thread of their own, with and without a certificate."""

import asyncio
import contextlib
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import aiohttp
import pytest

from scheduler.api import http_server, monitoring_server
from scheduler.api.http_server import Certificate
from scheduler.api.monitoring_server import MonitoringAddresses, MonitoringEndpoints, monitoring
from scheduler.kube.client import Client
from scheduler.kube.errors import ConfigurationError
from scheduler.observe.health import Health
from scheduler.observe.metrics import Metrics
from scheduler.settings import Address, HealthSettings, MetricsSettings
from tests.scheduler.api.test_api_server import Reviewing
from tests.support.shell_clock import VirtualClock

ANY = "127.0.0.1:0"
NOWHERE = Path("kubeconfig")


class Served(SimpleNamespace):
    health: Health
    metrics: Metrics
    addresses: MonitoringAddresses


@asynccontextmanager
async def served(
    clock: Callable[[], float] = time.monotonic, /, *, health_at: str = ANY, metrics_at: str = "[::1]:0"
) -> AsyncIterator[Served]:
    health, metrics = Health(clock), Metrics()
    sections = HealthSettings(bind_address=health_at), MetricsSettings(bind_address=metrics_at)
    async with asyncio.timeout(30), monitoring(sections, NOWHERE, health, metrics) as addresses:
        yield Served(health=health, metrics=metrics, addresses=addresses)


async def _get(address: object, path: str, **options: Any) -> tuple[int, str]:
    async with aiohttp.ClientSession() as session, session.get(f"http://{address}/{path}", **options) as response:
        return response.status, await response.text()


async def test_readiness_is_served_and_follows_its_checks() -> None:
    async with served(VirtualClock()) as at:
        check = at.health.ready("pods")
        assert (await _get(at.addresses.health, "readyz"))[0] == 503
        check.succeed()
        assert await _get(at.addresses.health, "readyz") == (200, "ok\n")
        assert await _get(at.addresses.health, "readyz?verbose") == (200, "[+]pods ok for 0 s\nreadyz check passed\n")


@pytest.mark.parametrize("path", ["livez", "healthz"])
async def test_life_does_not_depend_on_readiness(path: str) -> None:
    async with served() as at:
        at.health.ready("pods").fail("listing")
        assert await _get(at.addresses.health, path) == (200, "ok\n")


async def test_the_series_have_a_port_of_their_own() -> None:
    async with served() as at:
        at.metrics.placed_pods.inc(3)
        status, text = await _get(at.addresses.metrics, "metrics")
        assert (status, (await _get(at.addresses.health, "metrics"))[0]) == (200, 404)
        assert (await _get(at.addresses.metrics, "livez"))[0] == 404
        assert "dovetail_placed_pods_total 3.0" in text


async def test_one_address_serves_all_paths() -> None:
    async with served(metrics_at=ANY) as at:
        assert at.addresses.health == at.addresses.metrics
        for path in ("livez", "metrics"):
            assert (await _get(at.addresses.health, path))[0] == 200


@pytest.mark.parametrize("section", ["health", "metrics"])
async def test_an_address_in_use_names_its_setting(section: str) -> None:
    async with served() as at:
        address = str(getattr(at.addresses, section))
        with pytest.raises(
            ConfigurationError, match=rf"{section}\.bindAddress: .* cannot be listened on: address already in use"
        ):
            async with served(**{f"{section}_at": address}):
                pass


async def test_nothing_runs_any_more_at_the_end() -> None:
    async with served():
        assert "monitoring" in {each.name for each in threading.enumerate()}
    assert "monitoring" not in {each.name for each in threading.enumerate()}


async def test_a_busy_event_loop_does_not_keep_probes_from_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop that renews the Lease stands still here, and the probe that is answered meanwhile says so."""
    monkeypatch.setattr(monitoring_server, "_LONGEST_PAUSE_SECONDS", 0.0)
    async with served() as at:
        answers: list[tuple[int, str]] = []
        asking = threading.Thread(
            target=lambda: answers.append(asyncio.run(_get(at.addresses.health, "livez?verbose")))
        )
        asking.start()
        asking.join()  # this loop does nothing else until then
        ((status, text),) = answers
        assert status == 503
        assert "[-]event-loop failed for" in text


async def test_readers_that_never_read_hold_up_no_other_client(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(monitoring_server, "_SCRAPES_AT_ONCE", 2)
    large = b"#" * 30_000_000
    async with served() as at, contextlib.AsyncExitStack() as ends:
        monkeypatch.setattr(at.metrics, "exposition", lambda _: (large, "text/plain"))
        host, port = at.addresses.metrics
        readers = []
        for _ in range(2):
            reader, writer = await asyncio.open_connection(host, port)
            ends.callback(writer.close)
            writer.write(b"GET /metrics HTTP/1.1\r\nHost: scheduler\r\nConnection: close\r\n\r\n")
            await reader.readuntil(b"\r\n\r\n")
            readers.append(reader)
        assert (await _get(at.addresses.metrics, "metrics"))[0] == 429
        assert (await _get(at.addresses.health, "livez"))[0] == 200
        for reader in readers:  # whole, or cut off because it was too late
            with contextlib.suppress(ConnectionError):
                while await reader.read(65_536):
                    pass
        assert (await _get(at.addresses.metrics, "metrics"))[0] == 200


# Authentication


class Endpoint:
    """The metrics endpoint with a server that knows some tokens."""

    def __init__(self) -> None:
        self.reviewing = Reviewing()
        self.endpoints = MonitoringEndpoints(Health(), Metrics())
        self.endpoints.authenticate(cast("Client", self.reviewing))

    async def get(self, token: str) -> tuple[int, str]:
        async with http_server.serving(self.endpoints.of_metrics, Address("127.0.0.1", 0), Certificate()) as address:
            headers = {"Authorization": f"Bearer {token}"} if token else {}
            return await _get(address, "metrics", headers=headers)


@pytest.mark.parametrize(
    ("token", "status", "words"),
    [
        pytest.param("", 401, "send a bearer token", id="no token"),
        pytest.param("token-unknown", 401, "the token is not accepted", id="an unknown token"),
        pytest.param("token-team", 403, "user 'team' cannot get path '/metrics'", id="no right"),
        pytest.param("token-ops", 200, "dovetail_build_info", id="a right"),
    ],
)
async def test_the_api_server_says_which_user_may_scrape(token: str, status: int, words: str) -> None:
    found = await Endpoint().get(token)
    assert found[0] == status
    assert words in found[1]


async def test_where_the_api_server_does_not_answer_no_client_scrapes() -> None:
    at = Endpoint()
    at.reviewing.is_down = True
    assert (await at.get("token-ops"))[0] == 503

from collections.abc import AsyncIterator

import aiohttp
import pytest
import pytest_asyncio

from scheduler.observe.health import Check, CheckState, Health, report, serving
from scheduler.observe.metrics import Metrics
from scheduler.settings import Address


class Clock:
    """Time that moves when it is told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def check(clock: Clock) -> Check:
    return Health(clock).ready("solver")


def test_a_check_of_readiness_fails_until_it_is_told_otherwise(check: Check) -> None:
    assert check.state is CheckState.FAILED


def test_a_check_of_life_passes_until_it_is_told_otherwise() -> None:
    assert Health().live("loop").state is CheckState.OK


def test_a_check_says_since_when_it_stands_so(check: Check, clock: Clock) -> None:
    check.degrade("only the fall-back decides")
    clock.now += 12
    assert check.line() == "[~]solver degraded for 12 s: only the fall-back decides"


def test_a_new_message_does_not_start_the_time_again(check: Check, clock: Clock) -> None:
    check.degrade("one restart")
    clock.now += 12
    check.degrade("two restarts")
    assert check.seconds == 12


def test_a_new_state_starts_the_time_again(check: Check, clock: Clock) -> None:
    clock.now += 12
    check.succeed()
    assert check.line() == "[+]solver ok for 0 s"


def test_the_same_name_is_the_same_check() -> None:
    health = Health()
    assert health.ready("a") is health.ready("a")
    assert health.live("a") is not health.ready("a")


def test_one_failed_check_fails_the_whole_and_lists_all() -> None:
    health = Health()
    health.ready("pods").succeed()
    health.ready("nodes").fail("listing")
    status, text = report("readyz", health.ready_checks, verbose=False)
    assert status == 503
    assert text == "[+]pods ok for 0 s\n[-]nodes failed for 0 s: listing\nreadyz check failed\n"


def test_a_degraded_check_fails_nothing() -> None:
    health = Health()
    health.ready("solver").degrade("only the fall-back decides")
    assert report("readyz", health.ready_checks, verbose=False) == (200, "ok\n")


@pytest_asyncio.fixture
async def served() -> AsyncIterator[tuple[Health, Metrics, str]]:
    health, metrics = Health(), Metrics()
    async with serving(Address("127.0.0.1", 0), health, metrics) as address:
        yield health, metrics, f"http://{address}"


async def _get(url: str) -> tuple[int, str]:
    async with aiohttp.ClientSession() as session, session.get(url) as response:
        return response.status, await response.text()


async def test_readiness_is_served_and_follows_its_checks(served: tuple[Health, Metrics, str]) -> None:
    health, _, url = served
    check = health.ready("pods")
    assert (await _get(f"{url}/readyz"))[0] == 503
    check.succeed()
    assert await _get(f"{url}/readyz") == (200, "ok\n")
    assert await _get(f"{url}/readyz?verbose") == (200, "[+]pods ok for 0 s\nreadyz check passed\n")


@pytest.mark.parametrize("path", ["livez", "healthz"])
async def test_life_does_not_depend_on_readiness(served: tuple[Health, Metrics, str], path: str) -> None:
    health, _, url = served
    health.ready("pods").fail("listing")
    assert await _get(f"{url}/{path}") == (200, "ok\n")


async def test_the_series_are_served(served: tuple[Health, Metrics, str]) -> None:
    _, metrics, url = served
    metrics.placed_pods.inc(3)
    status, text = await _get(f"{url}/metrics")
    assert status == 200
    assert "dovetail_placed_pods_total 3.0" in text


async def test_an_address_in_use_is_an_error(served: tuple[Health, Metrics, str]) -> None:
    port = int(served[2].rsplit(":", 1)[1])
    with pytest.raises(OSError, match="address already in use"):
        async with serving(Address("127.0.0.1", port), Health(), Metrics()):
            pass

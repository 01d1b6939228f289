"""What is said of watches that are stale, and of what cannot be read."""

import asyncio
import gc
import weakref
from collections.abc import AsyncIterator, Coroutine, Iterator, Mapping
from typing import Any, cast

import pytest

from scheduler import watches
from scheduler.change import Kind
from scheduler.kube import discovery
from scheduler.kube.client import Client
from scheduler.kube.discovery import ClusterIdentity, DiscoveredKinds
from scheduler.kube.errors import (
    DecodeError,
    Forbidden,
    KubeError,
    ServerError,
    TooManyRequests,
    Unreachable,
    VersionWentBack,
    WatchSilent,
)
from scheduler.kube.watching.watch_ages import WatchAges
from scheduler.observe.health import CheckState, Health
from scheduler.observe.metrics import Metrics
from scheduler.status.unreadable_objects import Quarantine
from scheduler.watches import Watches
from tests.support.idle_loop import until_idle
from tests.support.shell_clock import VirtualClock

SERVED = DiscoveredKinds(paths=((Kind.PODS, "/api/v1/pods"), (Kind.NODES, "/api/v1/nodes")))


class Stage:
    """Watches that nothing drives but the test."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.ages = WatchAges(180.0, self.clock)
        self.health = Health(self.clock)
        self.metrics = Metrics()
        quarantine = Quarantine(self.metrics, lambda _, __: None, self.clock)
        source = (cast("Client", None), SERVED, lambda _: None)
        self.watches = Watches(source, self.ages, self.health, self.metrics, quarantine)

    def states(self) -> dict[str, CheckState]:
        return {check.name: check.state for check in self.health.ready_checks}

    def sample(self, name: str, labels: Mapping[str, str]) -> float | None:
        return self.metrics.registry.get_sample_value(name, dict(labels))


@pytest.fixture
def stage() -> Stage:
    made = Stage()
    for reflector in made.watches.reflectors:
        made.ages.heard(reflector.kind)
        reflector.synced.set()
        made.health.ready(reflector.kind).succeed()
    return made


def test_a_kind_is_not_ready_before_it_was_listed() -> None:
    """Readiness is asked from another thread: there is no moment between the start and the first listing."""
    assert Stage().states() == {"pods": CheckState.FAILED, "nodes": CheckState.FAILED}


@pytest.fixture
def _thawed() -> Iterator[None]:
    """Let the collector see again what a test has frozen."""
    gc.unfreeze()
    yield
    gc.enable()
    gc.unfreeze()


@pytest.mark.usefixtures("_thawed")
async def test_the_garbage_collector_does_not_traverse_what_is_listed() -> None:
    stage = Stage()
    listed = asyncio.create_task(stage.watches.listed())
    await asyncio.sleep(0)
    assert not gc.isenabled()
    for reflector in stage.watches.reflectors:
        reflector.synced.set()
    await listed
    assert gc.isenabled()
    assert gc.get_freeze_count() > 0


@pytest.mark.usefixtures("_thawed")
async def test_the_garbage_collector_does_not_pause_as_long_as_lists_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watches, "_UNCOLLECTED_SECONDS", 0.0)
    listed = asyncio.create_task(Stage().watches.listed())
    await asyncio.sleep(0)
    assert not gc.isenabled()
    async with asyncio.timeout(60.0):
        while not gc.isenabled():  # noqa: ASYNC110 - the collector has no event
            await asyncio.sleep(0)
    assert not listed.done()
    listed.cancel()


@pytest.mark.usefixtures("_thawed")
async def test_what_an_earlier_replica_has_left_is_collected(stage: Stage) -> None:
    class Left:
        """In a cycle with itself."""

        def __init__(self) -> None:
            self.own = self

    left = weakref.ref(Left())
    gc.freeze()
    await stage.watches.listed()
    assert left() is None


def test_readiness_names_the_kind_that_is_stale_with_its_age_and_the_last_error(stage: Stage) -> None:
    stage.clock.advance(100.0)
    stage.ages.heard(Kind.NODES)
    stage.watches._failed(Kind.PODS, Unreachable("GET /api/v1/pods: timed out"))  # noqa: SLF001 - reflectors call it
    stage.clock.advance(81.0)
    stage.watches.report_stale()

    assert stage.states() == {"pods": CheckState.FAILED, "nodes": CheckState.OK}
    assert stage.health.ready("pods").message == (
        "stale: nothing heard for 181 s, and nothing is written meanwhile: GET /api/v1/pods: timed out"
    )
    stage.ages.heard(Kind.PODS)
    stage.watches.report_stale()
    assert stage.states() == {"pods": CheckState.OK, "nodes": CheckState.OK}


def test_an_error_of_a_watch_that_is_not_stale_yet_leaves_the_scheduler_ready(stage: Stage) -> None:
    stage.watches._failed(Kind.PODS, Unreachable("timed out"))  # noqa: SLF001 - reflectors call it
    stage.watches.report_stale()

    assert stage.states() == {"pods": CheckState.OK, "nodes": CheckState.OK}


def test_each_kind_that_is_served_has_its_age_as_a_series(stage: Stage) -> None:
    stage.clock.advance(30.0)
    stage.ages.heard(Kind.NODES)

    assert stage.sample("dovetail_watch_age_seconds", {"resource": "pods"}) == 30.0
    assert stage.sample("dovetail_watch_age_seconds", {"resource": "nodes"}) == 0.0
    assert stage.sample("dovetail_watch_age_seconds", {"resource": "podgroups"}) is None


def test_what_cannot_be_read_and_names_no_object_is_counted(stage: Stage) -> None:
    stage.watches._failed(Kind.PODS, DecodeError("pods", "watch", "(event)", "no JSON"))  # noqa: SLF001 - as above
    stage.watches._failed(Kind.PODS, Unreachable("timed out"))  # noqa: SLF001 - as above

    assert stage.sample("dovetail_unreadable_answers_total", {"resource": "pods"}) == 1.0


def test_a_kind_that_went_back_counts_as_listed_again(stage: Stage) -> None:
    stage.watches._failed(Kind.PODS, VersionWentBack("pods went back"))  # noqa: SLF001 - reflectors call it

    assert stage.sample("dovetail_watch_relists_total", {"resource": "pods"}) == 1.0


class Identities:
    """Answers with the identity of the cluster, one answer after the other, as often as a test lets it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.answers: asyncio.Queue[str | KubeError] = asyncio.Queue()
        monkeypatch.setattr(discovery, "identify", self._identify)

    async def _identify(self, _: object) -> ClusterIdentity:
        answer = await self.answers.get()
        if isinstance(answer, KubeError):
            raise answer
        return ClusterIdentity(uid="u", revision=answer)


async def stop_writing() -> None:
    """Nothing writes in these tests."""


@pytest.fixture
def identities(monkeypatch: pytest.MonkeyPatch) -> Identities:
    monkeypatch.setattr(watches, "_RETRY_SECONDS", 0.0)
    made = Identities(monkeypatch)
    made.answers.put_nowait("100")
    return made


@pytest.fixture
async def looking(stage: Stage, identities: Identities) -> AsyncIterator[asyncio.Task[str]]:
    """The task that looks whether the cluster is another one; it has looked once."""
    assert identities.answers.qsize() == 1
    task = asyncio.create_task(stage.watches.until_another_cluster(stop_writing))
    await until_idle()
    yield task
    task.cancel()


@pytest.mark.parametrize(
    "error",
    [Unreachable("reset"), ServerError(503), VersionWentBack("pods went back")],
    ids=["reset", "unavailable", "went back"],
)
async def test_after_a_lost_connection_nothing_is_written_until_the_cluster_is_known_to_be_the_same(
    stage: Stage, identities: Identities, looking: asyncio.Task[str], error: KubeError
) -> None:
    for answer in ("101", "101"):
        stage.watches._failed(Kind.PODS, error)  # noqa: SLF001 - reflectors call it
        assert not await is_done_soon(stage.ages.until_fresh())
        identities.answers.put_nowait(answer)
        await asyncio.wait_for(stage.ages.until_fresh(), 60)
    stage.watches._failed(Kind.PODS, error)  # noqa: SLF001 - reflectors call it
    identities.answers.put_nowait("90")
    assert await asyncio.wait_for(looking, 60) == "etcd was restored: its revision went back from 101 to 90"


async def test_a_restore_to_what_was_a_moment_ago_shows_by_what_the_watches_have_shown(
    stage: Stage, identities: Identities, looking: asyncio.Task[str]
) -> None:
    """The cluster was asked for its revision up to ten seconds before."""
    stage.ages.heard(Kind.NODES, "140")
    stage.ages.heard(Kind.PODS, "150")
    stage.ages.heard(Kind.PODS, "149")  # listed anew: what was shown before stays known
    stage.watches._failed(Kind.PODS, Unreachable("reset"))  # noqa: SLF001 - reflectors call it
    identities.answers.put_nowait("149")
    assert await asyncio.wait_for(looking, 60) == "etcd was restored: its revision went back from 150 to 149"


async def test_a_kind_in_an_etcd_of_its_own_says_nothing_about_a_restore(
    stage: Stage, identities: Identities, looking: asyncio.Task[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watches, "_IDENTIFY_SECONDS", 0.0)
    stage.ages.heard(Kind.NODES, "110")
    stage.ages.heard(Kind.PODS, "5000")
    stage.watches._failed(Kind.PODS, Unreachable("reset"))  # noqa: SLF001 - reflectors call it
    stage.ages.confirmed(stage.ages.interruptions)
    identities.answers.put_nowait("120")
    await until_idle()
    stage.ages.heard(Kind.PODS, "5001")
    stage.watches._failed(Kind.PODS, Unreachable("reset"))  # noqa: SLF001 - reflectors call it
    identities.answers.put_nowait("121")
    identities.answers.put_nowait("121")
    await asyncio.wait_for(stage.ages.until_fresh(), 60)
    assert not looking.done()
    stage.ages.heard(Kind.NODES, "130")
    stage.watches._failed(Kind.PODS, Unreachable("reset"))  # noqa: SLF001 - reflectors call it
    identities.answers.put_nowait("129")
    identities.answers.put_nowait("129")
    assert await asyncio.wait_for(looking, 60) == "etcd was restored: its revision went back from 130 to 129"


@pytest.mark.parametrize(
    "error",
    [Unreachable("refused"), ServerError(503), TooManyRequests(429), Forbidden(403), DecodeError("a", "b", "c", "d")],
    ids=lambda error: type(error).__name__,
)
async def test_an_error_says_nothing_about_the_cluster(
    stage: Stage, identities: Identities, looking: asyncio.Task[str], error: KubeError
) -> None:
    """Servers that start answer with all of them."""
    stage.watches._failed(Kind.PODS, Unreachable("reset"))  # noqa: SLF001 - reflectors call it
    identities.answers.put_nowait(error)
    assert not await is_done_soon(stage.ages.until_fresh())
    assert stage.states()["cluster"] is CheckState.DEGRADED
    stage.clock.advance(11.0)
    identities.answers.put_nowait(error)
    assert not await is_done_soon(stage.ages.until_fresh())
    assert stage.states()["cluster"] is CheckState.FAILED
    identities.answers.put_nowait("102")
    await asyncio.wait_for(stage.ages.until_fresh(), 60)
    assert stage.states()["cluster"] is CheckState.OK
    assert not looking.done()


async def test_quiet_watches_hold_up_no_write_until_their_kind_is_stale(stage: Stage) -> None:
    for kind in (Kind.PODS, Kind.NODES):
        stage.clock.advance(90.0)
        stage.watches._failed(kind, WatchSilent("nothing came for 90 s"))  # noqa: SLF001 - reflectors call it
        stage.ages.heard(kind)
        assert await is_done_soon(stage.ages.until_fresh())
    stage.clock.advance(181.0)
    stage.watches._failed(Kind.PODS, WatchSilent("nothing came for 90 s"))  # noqa: SLF001 - reflectors call it
    for kind in (Kind.PODS, Kind.NODES):
        stage.ages.heard(kind)
    assert not await is_done_soon(stage.ages.until_fresh())
    stage.ages.confirmed(stage.ages.interruptions)
    assert await is_done_soon(stage.ages.until_fresh())


async def test_nothing_is_written_to_another_cluster(stage: Stage, identities: Identities) -> None:
    """Writes that wait for the answer end after writing has stopped."""
    order: list[str] = []

    async def stop() -> None:
        assert not await is_done_soon(stage.ages.until_fresh())
        order.append("stopped")

    async def write() -> None:
        await stage.ages.until_fresh()
        order.append("waits no more")

    looking = asyncio.create_task(stage.watches.until_another_cluster(stop))
    await until_idle()
    stage.watches._failed(Kind.PODS, Unreachable("reset"))  # noqa: SLF001 - reflectors call it
    writing = asyncio.create_task(write())
    identities.answers.put_nowait("90")
    await asyncio.wait_for(asyncio.gather(looking, writing), 60)
    assert order == ["stopped", "waits no more"]


async def is_done_soon(wanted: Coroutine[Any, Any, None]) -> bool:
    task = asyncio.create_task(wanted)
    await until_idle()
    return task.done() or not task.cancel()

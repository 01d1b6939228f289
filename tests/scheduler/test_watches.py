"""What is said of watches that are stale, and of what cannot be read."""

import asyncio
from collections.abc import Coroutine, Mapping
from typing import Any, cast

import pytest

from scheduler.change import Kind
from scheduler.kube import discovery
from scheduler.kube.client import Client
from scheduler.kube.discovery import ClusterIdentity, DiscoveredKinds
from scheduler.kube.errors import ApiError, DecodeError, Forbidden, Unreachable, VersionWentBack
from scheduler.kube.reflector import WatchAges
from scheduler.observe.health import CheckState, Health
from scheduler.observe.metrics import Metrics
from scheduler.status.unreadable_objects import Quarantine
from scheduler.watches import Watches
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
    """Answers who the cluster is, one answer after the other, as often as a test lets it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.answers: asyncio.Queue[str | ApiError] = asyncio.Queue()
        monkeypatch.setattr(discovery, "identify", self._identify)

    async def _identify(self, _: object) -> ClusterIdentity:
        answer = await self.answers.get()
        if isinstance(answer, ApiError):
            raise answer
        return ClusterIdentity(uid="u", revision=answer)


async def test_after_a_lost_connection_nothing_is_written_until_the_cluster_is_known_to_be_the_same(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    identities = Identities(monkeypatch)
    identities.answers.put_nowait("100")
    looking = asyncio.create_task(stage.watches.until_another_cluster())
    await asyncio.sleep(0.01)
    for answer in ("101", Forbidden(403)):
        stage.watches._failed(Kind.PODS, Unreachable("reset"))  # noqa: SLF001 - reflectors call it
        writing = asyncio.create_task(stage.ages.until_fresh())
        await asyncio.sleep(0.01)
        assert not writing.done()
        identities.answers.put_nowait(answer)
        await asyncio.wait_for(writing, 5)
    stage.watches._failed(Kind.PODS, Unreachable("reset"))  # noqa: SLF001 - reflectors call it
    identities.answers.put_nowait("90")
    assert await asyncio.wait_for(looking, 5) == "etcd was restored: its revision went back from 101 to 90"
    assert not await is_done_soon(stage.ages.until_fresh())


async def is_done_soon(wanted: Coroutine[Any, Any, None]) -> bool:
    task = asyncio.create_task(wanted)
    await asyncio.sleep(0.01)
    return task.done() or not task.cancel()

"""What is written, dropped and suppressed; the API writer waits until a test lets it go."""

import asyncio
import datetime as dt
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import cast

import msgspec
import pytest

from scheduler.kube import writes
from scheduler.kube.client import Client
from scheduler.kube.encode import EventRecord
from scheduler.kube.errors import ServerError
from scheduler.kube.writer import ApiCall, Writer
from scheduler.observe.metrics import Metrics
from scheduler.status.events import EventFactory
from scheduler.status.rate_limits import StatusTokenBucket
from scheduler.status.status_writer import StatusWriter
from solver.domain import Pod, Reason, ReasonCode
from tests.support.builders import pod
from tests.support.idle_loop import until_idle
from tests.support.shell_clock import Ahead

FULL = Reason(code=ReasonCode.NODE_RESOURCES, message="Insufficient cpu", node_count=3)
MISSING = Reason(code=ReasonCode.CLAIM_MISSING, message="claim default/c does not exist yet")
P = pod("p")


class Slow:
    """In place of the API writer: every write waits until a test opens it."""

    def __init__(self) -> None:
        self.is_open = asyncio.Event()

    async def write(self, request: ApiCall[int], *, is_status: bool = False) -> int:
        assert is_status, "a status write must not use a slot of a placing write"
        await self.is_open.wait()
        return await request(timeout_seconds=5.0)


class Scene:
    """A status writer over a slow API writer, and what was sent."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.slots = Slow()
        self.metrics = Metrics()
        self.conditions: list[tuple[str, str]] = []
        self.nominations: list[str | None] = []
        self.since: list[dt.datetime] = []
        self.events: list[str] = []
        self.is_failing, self.broken, self.size = False, "", 4096
        self.is_taken = asyncio.Event()
        self.writer = StatusWriter(
            cast("Client", None),
            cast("Writer", self.slots),
            self.metrics,
            EventFactory("host"),
            StatusTokenBucket(0.5),
            clock=lambda: 0.0,
        )
        monkeypatch.setattr(writes, "write_pod_condition", self._take_condition)
        monkeypatch.setattr(writes, "write_event", self._take_event)

    async def _take_condition(
        self,
        _: Client,
        on: Pod,
        *,
        reason: str,
        message: str,
        nominated_node_name: str | None,
        since: dt.datetime,
        timeout_seconds: float,
    ) -> int:
        assert timeout_seconds == 5.0
        self.since.append(since)
        self.is_taken.set()
        await asyncio.sleep(0)
        if self.is_failing:
            raise ServerError(500)
        if on.id.name == self.broken:
            raise RuntimeError("a defect")
        self.conditions.append((on.id.name, f"{reason}: {message}"))
        self.nominations.append(nominated_node_name)
        return self.size

    async def _take_event(self, _: Client, event: EventRecord, *, timeout_seconds: float) -> None:
        assert timeout_seconds == 5.0
        self.events.append(event.reason)

    async def let_go(self) -> None:
        self.slots.is_open.set()
        await until_idle()


@asynccontextmanager
async def scene(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Scene]:
    made = Scene(monkeypatch)
    task = asyncio.create_task(made.writer.run())
    try:
        await until_idle()
        yield made
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_report_that_cannot_be_composed_ends_no_task_and_delays_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    honest = EventFactory.failed

    def failing(self: EventFactory, on: Pod, *rest: object) -> EventRecord:
        if on.id.name.startswith("bad"):
            raise RuntimeError("a defect")
        return honest(self, on, *rest)  # type: ignore[arg-type]  # what the writer gives

    monkeypatch.setattr(EventFactory, "failed", failing)
    monkeypatch.setattr("scheduler.status.status_writer._LEAST_SECONDS", 0.0)
    async with scene(monkeypatch) as at:
        for name in ("bad-1", "bad-2", "bad-3", "bad-4", "bad-5", "good"):
            at.writer.report_unschedulable(pod(name), (FULL,), 3)
        await at.let_go()

    assert [name for name, _ in at.conditions] == ["good"]
    assert at.metrics.registry.get_sample_value("dovetail_defects_total", {"part": "status"}) == 5


async def test_a_late_report_that_fails_is_not_tried_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scheduler.status.status_writer.CLAIM_GRACE_SECONDS", 0.0)
    async with scene(monkeypatch) as at:
        monkeypatch.setattr("scheduler.status.status_writer.with_missing_rights", _fail)
        at.writer.report_unschedulable(P, (MISSING,), 3)
        await asyncio.sleep(0.01)
        await until_idle()
        monkeypatch.undo()
        assert at.metrics.registry.get_sample_value("dovetail_defects_total", {"part": "status"}) == 1


def _fail(*_: object) -> None:
    raise RuntimeError("a defect")


async def test_a_waiting_pod_gets_a_condition_and_an_event(monkeypatch: pytest.MonkeyPatch) -> None:
    async with scene(monkeypatch) as at:
        at.writer.report_unschedulable(P, (FULL,), 3)
        await at.let_go()

    assert at.conditions == [("p", "Unschedulable: 0/3 nodes are available: 3 Insufficient cpu.")]
    assert at.events == ["FailedScheduling"]


async def test_an_equal_condition_is_not_written_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    async with scene(monkeypatch) as at:
        for _ in range(3):
            at.writer.report_unschedulable(P, (FULL,), 3)
            await at.let_go()

    assert len(at.conditions) == 1


async def test_a_condition_that_could_not_be_written_is_written_the_next_time(monkeypatch: pytest.MonkeyPatch) -> None:
    async with scene(monkeypatch) as at:
        at.is_failing = True
        at.writer.report_unschedulable(P, (FULL,), 3)
        await at.let_go()
        at.is_failing = False

        at.writer.report_unschedulable(P, (FULL,), 3)
        await at.let_go()

    assert len(at.conditions) == 1


async def test_a_pod_whose_commit_has_begun_gets_no_condition(monkeypatch: pytest.MonkeyPatch) -> None:
    async with scene(monkeypatch) as at:
        at.writer.report_unschedulable(P, (FULL,), 3)
        await until_idle()

        await at.writer.suppress((P.uid,))
        await at.let_go()

    assert at.conditions == []


async def test_a_commit_waits_for_a_condition_that_is_on_the_wire(monkeypatch: pytest.MonkeyPatch) -> None:
    async with scene(monkeypatch) as at:
        at.writer.report_unschedulable(P, (FULL,), 3)
        at.slots.is_open.set()
        await at.is_taken.wait()

        await at.writer.suppress((P.uid,))

        assert len(at.conditions) == 1


async def test_a_claim_that_is_missing_for_a_moment_is_not_worth_a_write(monkeypatch: pytest.MonkeyPatch) -> None:
    async with scene(monkeypatch) as at:
        at.writer.report_unschedulable(P, (MISSING,), 3)
        await at.let_go()
        at.writer.record_scheduled(P, "n1")
        at.writer.forget(P.uid)
        await until_idle()

    assert (at.conditions, at.events) == ([], ["Scheduled"])


async def test_a_claim_that_stays_missing_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Ahead()
    async with scene(monkeypatch) as at:
        at.writer.report_unschedulable(P, (MISSING,), 3)
        await clock.sleep(2.0)
        await at.let_go()

    assert "does not exist yet" in at.conditions[0][1]


async def test_of_too_many_events_the_oldest_are_dropped_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scheduler.status.status_queue._MOST_EVENTS", 10)
    async with scene(monkeypatch) as at:
        await until_idle()
        for _ in range(15):
            at.writer.record_scheduled(P, "n1")
        await at.let_go()

    assert len(at.events) == 10
    assert at.metrics.registry.get_sample_value("dovetail_events_dropped_total") == 5


async def test_a_pod_whose_devices_get_ready_shows_its_node_and_one_event(monkeypatch: pytest.MonkeyPatch) -> None:
    async with scene(monkeypatch) as at:
        at.writer.report_prebind(P, "n1", "waits for a and b", is_first=True)
        await at.let_go()
        at.writer.report_prebind(P, "n1", "waits for b", is_first=False)
        await at.let_go()

    pending = "BindingConditionsPending"
    assert at.conditions == [("p", f"{pending}: waits for a and b"), ("p", f"{pending}: waits for b")]
    assert at.nominations == ["n1", "n1"]
    assert at.events == [pending]


async def test_a_pod_whose_devices_did_not_get_ready_loses_its_node(monkeypatch: pytest.MonkeyPatch) -> None:
    async with scene(monkeypatch) as at:
        at.writer.report_prebind(P, "n1", "waits for a", is_first=True)
        await at.let_go()
        at.writer.report_unschedulable(P, (FULL,), 3)
        await at.let_go()

    assert at.nominations == ["n1", ""]


@pytest.mark.parametrize(
    "code", [ReasonCode.API_ERROR, ReasonCode.CONFLICT, ReasonCode.SOLVER_FAILED, ReasonCode.BUDGET]
)
async def test_a_pod_about_which_nothing_was_decided_keeps_its_node(
    monkeypatch: pytest.MonkeyPatch, code: ReasonCode
) -> None:
    preemptor = msgspec.structs.replace(P, nominated_node_name="n1")
    async with scene(monkeypatch) as at:
        at.writer.report_unschedulable(preemptor, (Reason(code=code, message="not now"),), 3)
        await at.let_go()
        at.writer.report_unschedulable(preemptor, (FULL,), 3)
        await at.let_go()

    assert at.nominations == [None, ""]


async def test_a_pod_that_has_no_node_keeps_the_field_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    async with scene(monkeypatch) as at:
        at.writer.report_unschedulable(P, (FULL,), 3)
        await at.let_go()

    assert at.nominations == [None]


async def test_what_a_pod_waits_for_is_written_again_only_where_it_could_not_be(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with scene(monkeypatch) as at:
        at.is_failing = True
        at.writer.report_prebind(P, "n1", "waits for a", is_first=True)
        await at.let_go()
        at.is_failing = False
        for _ in range(3):
            at.writer.report_prebind(P, "n1", "waits for a", is_first=False)
            await at.let_go()

    assert at.conditions == [("p", "BindingConditionsPending: waits for a")]


async def test_since_when_a_pod_waits_stays_when_the_reason_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    async with scene(monkeypatch) as at:
        at.writer.earn()
        at.writer.report_unschedulable(P, (FULL,), 3)
        await at.let_go()
        at.writer.report_unschedulable(P, (Reason(code=ReasonCode.NODE_AFFINITY, message="none"),), 3)
        for _ in range(9):
            at.writer.earn()
        await until_idle()

    assert len(at.since) == 2
    assert at.since[0] == at.since[1]


async def test_since_when_a_pod_waits_is_taken_over_from_the_scheduler_before(monkeypatch: pytest.MonkeyPatch) -> None:
    before = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    async with scene(monkeypatch) as at:
        at.writer.restore_since(P.uid, before)
        at.writer.report_unschedulable(P, (FULL,), 3)
        await at.let_go()
        at.writer.forget(P.uid)
        at.writer.report_unschedulable(P, (FULL,), 3)
        await until_idle()

    assert at.since[0] == before
    assert at.since[1] > before


async def test_an_exception_at_one_pod_keeps_no_other_from_being_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    async with scene(monkeypatch) as at:
        at.broken = "bad"
        at.writer.report_unschedulable(pod("bad"), (FULL,), 3)
        at.writer.report_unschedulable(P, (FULL,), 3)
        await at.let_go()

    assert [name for name, _ in at.conditions] == ["p"]
    assert at.metrics.registry.get_sample_value("dovetail_defects_total", {"part": "status"}) == 1


def test_conditions_and_events_that_wait_are_counted_by_class(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene(monkeypatch)
    scene.writer.report_unschedulable(P, (FULL,), 3)
    scene.writer.record_scheduled(pod("q"), "n1")
    (family,) = scene.metrics.waiting_status_writes.collect()
    waiting = {sample.labels["write"]: sample.value for sample in family.samples}
    assert waiting == {"first": 1, "changed": 0, "event": 1, "refresh": 0, "renewal": 0}

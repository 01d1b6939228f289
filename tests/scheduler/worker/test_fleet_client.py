"""Questions about the fleet: answered by a child of the worker, one at a time, without what may not be seen."""

import asyncio
from typing import Any, cast

import msgspec
import pytest

from scheduler.api import selector_parameter
from scheduler.cluster import Cluster
from scheduler.settings import default
from scheduler.visibility import HiddenCounts, VisibleNamespaces
from scheduler.worker.fleet_client import FleetClient
from scheduler.worker.fleet_documents import fleet_document
from scheduler.worker.fleet_questions import FleetDocument, FleetDocumentKind, FleetQuestion
from scheduler.worker.supervisor import WorkerAbsentError, WorkerSupervisor
from solver import fleet_of
from solver.domain import ClaimId, PodId
from solver.domain.fleet import FleetQuery, Grouping
from tests.support import builders as b
from tests.support.cluster_builders import seen
from tests.support.controlplane import stopped
from tests.support.idle_loop import until_idle
from tests.support.shell_clock import VirtualClock
from tests.support.shell_process import running

EVERYTHING = VisibleNamespaces(everything=True)
WORLD = b.snapshot(
    b.node("n1", labels={"pool": "a"}),
    b.node("n2"),
    b.gpu_slice("n1", count=2),
    b.gpu_slice("n2", count=2),
    b.gpu_class(),
    b.held("mine", b.result("gpu", "gpu-0", "n1"), namespace="team"),
    b.held("theirs", b.result("gpu", "gpu-1", "n1"), namespace="others"),
    b.held("far", b.result("gpu", "gpu-0", "n2"), namespace="others"),
)


def question(kind: FleetDocumentKind = FleetDocumentKind.DEVICES, **fields: Any) -> FleetQuestion:
    defaults: dict[str, Any] = {
        "query": FleetQuery(),
        "by": (Grouping.NAMESPACE,),
        "node_group_label": "",
        "claims": EVERYTHING,
        "limit": 100,
    }
    return FleetQuestion(api_version="v1", kind=kind, **{**defaults, **fields})


def answered(*, free: bool = False, **fields: Any) -> FleetDocument:
    kind = FleetDocumentKind.FREE if free else FleetDocumentKind.DEVICES
    labels = {node.name: dict(node.labels) for node in WORLD.nodes}
    return fleet_document(fleet_of(WORLD), labels, question(kind, **fields))


def names(document: FleetDocument) -> list[str]:
    return [f"{each.id.pool}/{each.id.device}" for each in document.items]


def holders(document: FleetDocument) -> list[str]:
    return [str(holder.claim) for each in document.items for holder in each.holders]


async def test_the_worker_answers_with_what_the_shell_knows() -> None:
    async with running() as shell:
        asking = FleetClient(shell.worker, shell.cluster, default())
        shell.see(seen(b.held("job", b.result("gpu", "gpu-0", "n1"), namespace="red")))
        raw, age = await asking.ask(question(query=FleetQuery(namespace="red")))

    document = msgspec.json.decode(raw, type=FleetDocument)
    assert (names(document), holders(document), age) == (["n1/gpu-0"], ["red/job"], 0.0)


async def test_a_question_that_is_given_up_during_a_decision_does_not_end_the_worker() -> None:
    """The worker reads nothing while it decides: what is sent before the question waits for it."""
    async with running() as shell:
        asking, pid = FleetClient(shell.worker, shell.cluster, default()), shell.worker.pid
        assert pid is not None
        with stopped(pid):  # it decides as long as this takes
            decision = asyncio.create_task(shell.decide(("slow",)))
            await asyncio.sleep(0.3)
            shell.see(seen(b.node("a", labels={"large": "x" * 4_000_000})))
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.1):
                    await asking.ask(question())
        await decision

        assert shell.worker.pid == pid
        assert "a" in {node.name for node in shell.cluster.snapshot().nodes}
        await shell.decide(("p",))


async def test_without_a_worker_there_is_no_answer() -> None:
    asking = FleetClient(cast("WorkerSupervisor", _Absent()), Cluster(), default())

    with pytest.raises(WorkerAbsentError):
        await asking.ask(question())


class _Absent:
    async def ask_child(self, *_: object) -> None:
        raise WorkerAbsentError("the worker process is starting")


async def test_questions_come_one_by_one_with_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, pauses, under_way, most = VirtualClock(), list[float](), 0, 0

    class Slow:
        async def ask_child(self, *_: object) -> Any:
            nonlocal under_way, most
            under_way += 1
            most = max(most, under_way)
            await real_sleep(0)
            clock.advance(0.25)
            under_way -= 1
            return msgspec.defstruct("Answer", [("document", msgspec.Raw)])(msgspec.Raw(b"{}"))

    real_sleep = asyncio.sleep

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        clock.advance(seconds)

    monkeypatch.setattr("scheduler.worker.fleet_client.asyncio.sleep", sleep)
    asking = FleetClient(cast("WorkerSupervisor", Slow()), Cluster(), default(), clock)
    await asyncio.gather(*(asking.ask(question(limit=limit)) for limit in range(1, 4)))

    assert most == 1
    assert pauses == [0.0, 0.75, 0.75]


class _InDecision:
    """Answers the first question, and the others once the decision ends."""

    def __init__(self) -> None:
        self.count, self.ends = 0, asyncio.Event()

    async def ask_child(self, *_: object) -> Any:
        self.count += 1
        if self.count > 1:
            await self.ends.wait()
        document = msgspec.Raw(b'{"number":%d}' % self.count)
        return msgspec.defstruct("Answer", [("document", msgspec.Raw)])(document)


async def test_during_a_decision_the_last_answer_to_the_same_question_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scheduler.worker.fleet_client._PATIENCE_SECONDS", 0.01)
    monkeypatch.setattr("scheduler.worker.fleet_client._LEAST_SECONDS", 0.0)
    clock, worker = VirtualClock(), _InDecision()
    asking = FleetClient(cast("WorkerSupervisor", worker), Cluster(), default(), clock)
    fresh = await asking.ask(question())
    clock.advance(7.0)

    stale = [await asking.ask(question()) for _ in range(2)]
    of_others = asyncio.create_task(asking.ask(question(claims=VisibleNamespaces(frozenset({"team"})))))
    await until_idle()

    assert (bytes(fresh.document), fresh.age_seconds) == (b'{"number":1}', 0.0)
    assert [(bytes(each.document), each.age_seconds) for each in stale] == [(b'{"number":1}', 7.0)] * 2
    assert not of_others.done(), "an answer is given to callers with the same rights only"
    assert worker.count == 2, "the worker is asked once, and answers when it can"
    worker.ends.set()
    await of_others
    assert bytes((await asking.ask(question())).document) != b'{"number":1}'


async def test_an_old_answer_is_not_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scheduler.worker.fleet_client._PATIENCE_SECONDS", 0.01)
    clock, worker = VirtualClock(), _InDecision()
    asking = FleetClient(cast("WorkerSupervisor", worker), Cluster(), default(), clock)
    await asking.ask(question())
    clock.advance(301.0)

    waiting = asyncio.create_task(asking.ask(question()))
    await until_idle()
    assert not waiting.done()
    worker.ends.set()
    assert (await waiting).age_seconds == 0.0


def test_holders_that_may_not_be_seen_are_removed_and_counted() -> None:
    document = answered(claims=VisibleNamespaces(frozenset({"team"})))

    assert [each.state.value for each in document.items] == ["held", "held", "held", "free"]
    assert holders(document) == ["team/mine"]
    assert document.hidden == HiddenCounts(devices=2, namespaces=1)


@pytest.mark.parametrize(
    "query",
    [FleetQuery(namespace="others"), FleetQuery(claim=ClaimId("others", "far")), FleetQuery(pod=PodId("others", "p"))],
)
def test_no_device_is_found_by_a_holder_that_may_not_be_seen(query: FleetQuery) -> None:
    assert answered(query=query, claims=VisibleNamespaces(frozenset({"team"}))).items == ()


def test_groups_and_causes_name_no_holder_that_may_not_be_seen() -> None:
    mine = answered(free=True, claims=VisibleNamespaces(frozenset({"team"}))).supply
    everything = answered(free=True).supply

    assert mine is not None
    assert everything is not None
    assert [row.values for row in mine.rows] == [("team",)]
    assert [row.values for row in everything.rows] == [("others",), ("team",)]
    assert mine.fragmentation == everything.fragmentation


@pytest.mark.parametrize(
    ("query", "found"),
    [
        (FleetQuery(node="n2"), ["n2/gpu-0", "n2/gpu-1"]),
        (FleetQuery(nodes=selector_parameter.parse("pool=a")), ["n1/gpu-0", "n1/gpu-1"]),
        (FleetQuery(namespace="others", node="n1"), ["n1/gpu-1"]),
        (FleetQuery(claim=ClaimId("others", "far")), ["n2/gpu-0"]),
    ],
)
def test_a_query_chooses_devices(query: FleetQuery, found: list[str]) -> None:
    assert names(answered(query=query)) == found


def test_more_devices_than_are_wanted_are_cut() -> None:
    document = answered(limit=3)

    assert (len(document.items), document.truncated) == (3, True)
    assert not answered(limit=4).truncated


@pytest.mark.parametrize("free", [False, True])
def test_a_document_says_where_the_node_that_was_asked_for_does_not_exist(*, free: bool) -> None:
    assert [answered(free=free, query=FleetQuery(node=each)).has_node for each in ("n1", "n9", "")] == [
        True,
        False,
        True,
    ]

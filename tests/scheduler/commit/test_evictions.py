"""How preemptions are carried out: in which order, how many, and what becomes of what is refused."""

import asyncio
import json
from collections.abc import Callable
from typing import Any, cast

import pytest
import structlog
from msgspec.structs import replace

from scheduler.change import Object
from scheduler.cluster import Cluster
from scheduler.commit.evictions import Evictions
from scheduler.history.decision_history import DecisionHistory
from scheduler.history.records import PodRecord, PodResult
from scheduler.kube.client import Client
from scheduler.kube.errors import ServerError, TooManyRequests
from scheduler.kube.leader_election.lease import FORMAT
from scheduler.kube.writer import ApiCall, Writer
from scheduler.observe.metrics import Metrics
from scheduler.settings import HistorySettings
from scheduler.status.status_writer import StatusWriter
from solver.domain import (
    Placement,
    Pod,
    Policy,
    Preemption,
    PreemptionRules,
    Victim,
)
from tests.support.builders import node, pod
from tests.support.cluster_builders import gone, seen
from tests.support.idle_loop import until_idle

HIGH = pod("high", cpu=2, priority=10)
GENERATION = 4
LOWS = tuple(replace(pod(f"low-{n}", cpu=1, node_name="n1"), generation=GENERATION) for n in range(2))
PREEMPTION = Preemption(
    placements=(Placement(pod=HIGH.id, pod_uid=HIGH.uid, node="n1"),),
    victims=tuple(Victim(pod=low.id, pod_uid=low.uid, node="n1", message="makes room") for low in LOWS),
)
RULES = Policy(preemption=PreemptionRules(is_enabled=True, ceiling=3, most_victims=3))
REFUSED = "Cannot evict pod as it would violate the pod's disruption budget."


class Server:
    """Writes down what is asked, and refuses what it is told to: (path ends with, is a trial) → error."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.patched: dict[str, Any] = {}
        self.errors: dict[tuple[str, bool], Exception] = {}

    async def request(self, method: str, path: str, body: bytes = b"", **_: Any) -> bytes:
        is_trial = b"dryRun" in body
        self.asked.append(f"{method} {path.rpartition('pods/')[2]}{' (trial)' if is_trial else ''}")
        if method == "PATCH":
            self.patched[path.rpartition("pods/")[2]] = json.loads(body)
        error = next((each for (end, trial), each in self.errors.items() if end in path and trial == is_trial), None)
        if error is not None:
            raise error
        return b"{}"


class Direct:
    """A writer that writes at once."""

    async def write(self, request: ApiCall[Any], *, is_status: bool = False) -> Any:
        del is_status
        return await request(timeout_seconds=1.0)


class Lease:
    """Where evictions are noted; says how many had been asked for by then."""

    object_name, earlier_record = "leases ns/dovetail", ("", FORMAT)

    def __init__(self, server: Server) -> None:
        self.server = server
        self.asked_before: list[int] = []
        self.error: Exception | None = None

    async def write_record(self, record: str) -> None:
        del record
        if self.error is not None:
            raise self.error
        self.asked_before.append(sum("eviction" in each and "trial" not in each for each in self.server.asked))


class Ears:
    def __init__(self) -> None:
        self.told: list[str] = []

    def record_preemption(self, victim: Pod, preemptor: Pod, eviction: Victim) -> None:
        self.told.append(f"{victim.id.name} for {preemptor.id.name} on {eviction.node}")


class Stage:
    def __init__(self) -> None:
        self.server, self.ears, self.cluster, self.now = Server(), Ears(), Cluster(), 1000.0
        objects: tuple[Object, ...] = (node("n1"), HIGH, *LOWS)
        for each in objects:
            self.cluster.apply(seen(each))
        self.lease, self.metrics = Lease(self.server), Metrics()
        self.history = DecisionHistory(HistorySettings())
        self.given_up: list[list[str]] = []
        self.evictions = Evictions(
            cast("Client", self.server),
            cast("Writer", Direct()),
            self.cluster,
            (cast("StatusWriter", self.ears), self.history),
            self.metrics,
            on_given_up=lambda transitions: self.given_up.append([each.key for each in transitions]),
            record=self.lease,
            clock=lambda: self.now,
            wall=lambda: 5000.5,
        )

    async def run(self, preemption: Preemption = PREEMPTION) -> None:
        self.evictions.begin("dovetail", preemption, {HIGH.id: HIGH})
        await until_idle()


@pytest.fixture
def stage() -> Stage:
    return Stage()


async def test_the_nomination_comes_first_and_then_all_are_tried_before_any_goes(stage: Stage) -> None:
    await stage.run()

    assert stage.server.asked[:3] == [
        "PATCH high/status",
        "POST low-0/eviction (trial)",
        "POST low-1/eviction (trial)",
    ]
    assert stage.given_up == []
    assert sorted(stage.server.asked[3:]) == [
        "PATCH low-0/status",
        "PATCH low-1/status",
        "POST low-0/eviction",
        "POST low-1/eviction",
    ]
    assert sorted(stage.ears.told) == ["low-0 for high on n1", "low-1 for high on n1"]
    conditions = [stage.server.patched[f"low-{number}/status"]["status"]["conditions"] for number in (0, 1)]
    assert [each["observedGeneration"] for (each,) in conditions] == [GENERATION, GENERATION]
    assert stage.cluster.snapshot().leaving == tuple(low.id for low in LOWS)
    found = [each for each in stage.history.newest(0) if isinstance(each, PodRecord)]
    assert sorted((each.name, each.result, each.node) for each in found) == [
        ("low-0", PodResult.EVICTED, "n1"),
        ("low-1", PodResult.EVICTED, "n1"),
    ]


@pytest.mark.parametrize(
    "error",
    [TooManyRequests(429, "TooManyRequests", REFUSED), ServerError(500, "", "has more than one PodDisruptionBudget")],
)
async def test_no_victim_is_evicted_where_one_is_blocked(stage: Stage, error: Exception) -> None:
    stage.server.errors["low-1/eviction", True] = error
    await stage.run()

    assert all("(trial)" in each for each in stage.server.asked if "eviction" in each)
    assert stage.ears.told == []
    assert stage.cluster.snapshot().leaving == ()
    assert [each.id for each in stage.cluster.nominated()] == [HIGH.id]
    assert stage.given_up == [[]]


async def test_a_victim_that_is_blocked_after_the_dry_run_stays(stage: Stage) -> None:
    stage.server.errors["low-1/eviction", False] = TooManyRequests(429, "TooManyRequests", REFUSED)
    await stage.run()

    assert stage.ears.told == ["low-0 for high on n1"]
    assert stage.cluster.snapshot().leaving == (LOWS[0].id,)
    assert stage.given_up == [[]]


async def test_no_victim_is_evicted_when_the_nomination_cannot_be_written(stage: Stage) -> None:
    stage.server.errors["high/status", False] = ServerError(500, "", "etcd")
    await stage.run()

    assert stage.server.asked == ["PATCH high/status"]
    assert stage.cluster.snapshot().leaving == ()
    assert stage.cluster.nominated() == ()
    assert stage.given_up == [["default/high"]]


async def test_no_victim_is_evicted_for_a_deleted_pod(stage: Stage) -> None:
    stage.evictions.begin("dovetail", PREEMPTION, {HIGH.id: HIGH})
    stage.cluster.apply(seen(replace(HIGH, is_deleting=True)))
    await until_idle()

    assert stage.server.asked == ["PATCH high/status"]


async def test_no_victim_is_evicted_for_a_pod_that_is_deleted_while_writes_wait(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A write waits while a watch is stale, for minutes if need be."""
    write = Direct.write

    async def late(writer: Direct, request: ApiCall[Any], *, is_status: bool = False) -> Any:
        if stage.server.asked:  # the nomination is written
            stage.cluster.apply(gone(HIGH))
        return await write(writer, request, is_status=is_status)

    monkeypatch.setattr(Direct, "write", late)
    await stage.run()

    assert "trial" in stage.server.asked[-1]
    assert stage.cluster.snapshot().leaving == ()


NOMINATED = replace(HIGH, nominated_node_name="n1")
ELSEWHERE = Preemption(placements=(Placement(pod=HIGH.id, pod_uid=HIGH.uid, node="n2"),), victims=())


def decide_again(cluster: Cluster) -> None:
    """A later decision finds room for the pod on another node."""
    cluster.preempt(ELSEWHERE)


def take_the_nomination_back(cluster: Cluster) -> None:
    """A later decision finds no room for the pod at all."""
    cluster.apply(seen(NOMINATED))
    cluster.apply(seen(HIGH))


@pytest.mark.parametrize("change", [decide_again, take_the_nomination_back])
@pytest.mark.parametrize("moment", ["(trial)", "record"])
async def test_no_victim_is_evicted_for_a_pod_that_is_nominated_elsewhere_meanwhile(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, moment: str, change: Callable[[Cluster], None]
) -> None:
    """A decision may come while evictions are tried, or while their number is written into the Lease."""
    request, write_record = stage.server.request, stage.lease.write_record

    async def tried(method: str, path: str, body: bytes = b"", **more: Any) -> bytes:
        answer = await request(method, path, body, **more)
        if stage.server.asked[-1].endswith(moment):
            change(stage.cluster)
        return answer

    async def recorded(record: str) -> None:
        await write_record(record)
        if moment == "record":
            change(stage.cluster)

    monkeypatch.setattr(stage.server, "request", tried)
    monkeypatch.setattr(stage.lease, "write_record", recorded)
    await stage.run()

    assert "trial" in stage.server.asked[-1]
    assert stage.cluster.snapshot().leaving == ()
    assert stage.given_up == [[]]


@pytest.mark.parametrize("change", [decide_again, take_the_nomination_back, lambda cluster: cluster.apply(gone(HIGH))])
async def test_no_victim_is_evicted_for_a_pod_that_does_not_wait_any_more_when_the_write_has_its_turn(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, change: Callable[[Cluster], object]
) -> None:
    """All checks are made, and the eviction is on its way to the API server."""
    write = Direct.write

    async def late(writer: Direct, request: ApiCall[Any], *, is_status: bool = False) -> Any:
        if sum("trial" in each for each in stage.server.asked) == len(LOWS):
            change(stage.cluster)
        return await write(writer, request, is_status=is_status)

    monkeypatch.setattr(Direct, "write", late)
    await stage.run()

    assert stage.lease.asked_before == [0]
    assert "trial" in stage.server.asked[-1]
    assert stage.cluster.snapshot().leaving == ()
    assert stage.given_up == [[]]


async def test_a_preemptor_has_one_preemption_at_a_time(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a later decision finds for it while its victims are evicted is left; another pod's is not."""
    request, later = stage.server.request, pod("later", cpu=1, priority=10)
    elsewhere = tuple(
        Preemption(placements=(Placement(pod=each.id, pod_uid=each.uid, node="n2"),), victims=())
        for each in (HIGH, later)
    )
    stage.cluster.apply(seen(later))

    async def slow(method: str, path: str, body: bytes = b"", **more: Any) -> bytes:
        if "low-0/eviction" in path and b"dryRun" not in body:
            for each in elsewhere:
                stage.evictions.begin("dovetail", each, {HIGH.id: HIGH, later.id: later})
        return await request(method, path, body, **more)

    monkeypatch.setattr(stage.server, "request", slow)
    await stage.run()

    assert stage.cluster.snapshot().leaving == tuple(low.id for low in LOWS)
    assert [(each.id.name, each.nominated_node_name) for each in stage.cluster.nominated()] == [
        ("high", "n1"),
        ("later", "n2"),
    ]

    await stage.run(elsewhere[0])  # its evictions have ended

    assert stage.cluster.nominated()[0].nominated_node_name == "n2"


@pytest.mark.parametrize(
    "found",
    [replace(LOWS[1], uid="a-namesake"), replace(LOWS[1], node_name="n2")],
    ids=["a namesake", "on another node"],
)
async def test_no_victim_is_evicted_when_one_has_another_uid(stage: Stage, found: Pod) -> None:
    stage.evictions.begin("dovetail", PREEMPTION, {HIGH.id: HIGH})
    stage.cluster.apply(seen(found))
    await until_idle()

    assert stage.server.asked == ["PATCH high/status"]


async def test_no_victim_is_evicted_for_two_pods_of_which_one_is_deleted(stage: Stage) -> None:
    other = pod("other", cpu=1, priority=10)
    stage.cluster.apply(seen(other))
    both = (*PREEMPTION.placements, Placement(pod=other.id, pod_uid=other.uid, node="n1"))
    stage.evictions.begin("dovetail", replace(PREEMPTION, placements=both), {HIGH.id: HIGH, other.id: other})
    stage.cluster.apply(seen(replace(other, is_deleting=True)))
    await until_idle()

    assert not any("eviction" in each for each in stage.server.asked)


async def test_the_bound_counts_the_last_minute(stage: Stage) -> None:
    assert stage.evictions.allowed("dovetail", RULES).preemption.most_victims == 3
    await stage.run()
    rules = stage.evictions.allowed("dovetail", RULES).preemption
    assert (rules.most_victims, rules.now) == (1, 5000)
    assert stage.evictions.allowed("other", RULES).preemption.most_victims == 3
    stage.now += 60.0
    assert stage.evictions.allowed("dovetail", RULES).preemption.most_victims == 3


async def test_what_is_under_way_is_not_begun_again(stage: Stage) -> None:
    waiting = replace(HIGH, nominated_node_name="n1")
    stage.evictions.begin("dovetail", replace(PREEMPTION, victims=()), {HIGH.id: waiting})
    await asyncio.sleep(0)

    assert stage.server.asked == []


async def test_evictions_are_noted_for_the_next_leader_before_the_first_one_is_made(stage: Stage) -> None:
    await stage.run()
    assert stage.lease.asked_before == [0]
    assert stage.cluster.snapshot().leaving == tuple(low.id for low in LOWS)


async def test_no_victim_is_evicted_where_the_record_could_not_be_written(stage: Stage) -> None:
    stage.lease.error = ServerError(500, "", "it could not be written")
    await stage.run()
    assert all("(trial)" in each for each in stage.server.asked if "eviction" in each)
    assert stage.cluster.snapshot().leaving == ()


async def test_a_defect_before_the_evictions_ends_the_belief_in_a_preemption(stage: Stage) -> None:
    stage.server.errors["high/status", False] = RuntimeError("a defect")
    await stage.run()

    assert stage.cluster.nominated() == ()
    assert stage.cluster.snapshot().leaving == ()
    assert stage.given_up == [["default/high"]]
    assert stage.metrics.registry.get_sample_value("dovetail_defects_total", {"part": "eviction"}) == 1


async def test_a_defect_at_one_victim_leaves_the_eviction_of_the_other_as_it_is(stage: Stage) -> None:
    stage.server.errors["low-0/eviction", False] = RuntimeError("a defect")
    await stage.run()

    assert stage.ears.told == ["low-1 for high on n1"]
    assert LOWS[0].id not in stage.cluster.snapshot().leaving
    assert stage.metrics.registry.get_sample_value("dovetail_defects_total", {"part": "eviction"}) == 1


async def test_a_victim_whose_budgets_do_not_bind_is_deleted_where_its_eviction_is_refused(stage: Stage) -> None:
    first = replace(PREEMPTION.victims[0], breaks_budgets=True)
    for is_trial in (True, False):
        stage.server.errors["low-0/eviction", is_trial] = TooManyRequests(429, "TooManyRequests", REFUSED)

    await stage.run(replace(PREEMPTION, victims=(first, replace(PREEMPTION.victims[1], breaks_budgets=True))))

    assert stage.server.asked[1:4] == [
        "POST low-0/eviction (trial)",
        "DELETE low-0 (trial)",
        "POST low-1/eviction (trial)",
    ]
    assert sorted(each for each in stage.server.asked[4:] if "PATCH" not in each) == [
        "DELETE low-0",
        "POST low-0/eviction",
        "POST low-1/eviction",
    ]
    assert sorted(stage.ears.told) == ["low-0 for high on n1", "low-1 for high on n1"]


async def test_no_log_line_about_a_pod_names_those_of_another_namespace() -> None:
    stage = Stage()
    victim = pod("secret", cpu=1, namespace="other", node_name="n1")
    stage.cluster.apply(seen(victim))
    preemption = replace(
        PREEMPTION, victims=(Victim(pod=victim.id, pod_uid=victim.uid, node="n1", message="makes room"),)
    )
    for error in (None, TooManyRequests(429, "TooManyRequests", REFUSED), ServerError(500, "", "secret is broken")):
        stage.server.errors = {} if error is None else {("secret/eviction", True): error}
        with structlog.testing.capture_logs() as lines:
            await stage.run(preemption)
        assert lines
        for line in lines:
            assert not ("high" in str(line) and "secret" in str(line)), line

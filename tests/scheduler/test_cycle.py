"""The two loops: which pods are decided when, what is put back, what is taken along of a unit without a commit."""

import asyncio
import math
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Any, cast

import msgspec
import pytest
import structlog

from scheduler import batch_formation
from scheduler.change import Change, Kind
from scheduler.cluster import Cluster, Unit
from scheduler.cluster.unit import Aborted, Bound, LostRace, Outcome, PartlyBound, Refused, Undone
from scheduler.commit.claims import ClaimWriter
from scheduler.commit.commit import Commit
from scheduler.commit.evictions import Evictions
from scheduler.commit.local_taints import FailedDevices, LocalTaints
from scheduler.commit.prebind import PreBind, PreemptionBackoff
from scheduler.commit.speculative_finalizers import SpeculativeFinalizers
from scheduler.commit.stale_allocations import StaleAllocations
from scheduler.components import Components, equivalence_keys
from scheduler.cycle import SchedulingCycle
from scheduler.history.decision_history import DecisionHistory
from scheduler.history.records import DecisionRecord, PodRecord, PodResult
from scheduler.holds.hold_keeper import HoldKeeper
from scheduler.isolated_lane import IsolatedLane
from scheduler.kube.client import Client
from scheduler.kube.writer import Writer
from scheduler.observe.metrics import Metrics
from scheduler.queue import Backoff, GangReplacements, PodState, PreemptionDelays, SchedulingQueue, StarvationTracker
from scheduler.queue_waker import QueueWaker
from scheduler.settings import HistorySettings, HoldLimits
from scheduler.status.attempt_metrics import AttemptMetrics
from scheduler.status.pod_groups import PodGroupStatusWriter
from scheduler.status.status_writer import StatusWriter
from scheduler.status.unreadable_objects import Quarantine
from scheduler.worker.decider import Decider, Decision
from scheduler.worker.fleet_counter import FleetCounter
from scheduler.worker.supervisor import WorkerSupervisor
from scheduler.worker.telemetry import SolverTelemetry
from solver import solve, solve_greedily
from solver.domain import (
    Batch,
    Claim,
    ClaimId,
    DeviceId,
    Placement,
    Plan,
    Pod,
    PodId,
    Policy,
    Preemption,
    Reason,
    ReasonCode,
    SearchReport,
    SearchStatus,
    UndecidedCause,
    Unplaced,
    Victim,
)
from tests.support.builders import (
    allocation,
    claim,
    consumer,
    device,
    gpu_class,
    gpu_slice,
    node,
    pod,
    request,
    resource_slice,
    result,
)
from tests.support.cluster_builders import gone, seen
from tests.support.extended_builders import RESOURCE, container
from tests.support.extended_builders import pod as extended_pod
from tests.support.idle_loop import until_idle
from tests.support.shell_clock import Ahead, VirtualClock
from tests.support.solver_problems import PATIENT

CONFLICT = Reason(code=ReasonCode.CONFLICT, message="another client was faster")
HELD = claim("old", allocation=allocation(result("gpu", "gpu-0", "n1")), reserved_for=[consumer("old")])
GONE = Reason(code=ReasonCode.CONFLICT, message="deleted meanwhile")


class Deciding:
    """Stands where the worker process is asked: it solves greedily, when it is let; hard pods it leaves for later."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.batches: list[Batch] = []
        self.may_solve = asyncio.Event()
        self.may_solve.set()
        self.hard_at_once = 0
        """How many hard pods one decision can decide about; 0 for all."""
        self.warmed_up: list[tuple[Batch, Policy]] = []

    async def warm_up(self, batch: Batch, policy: Policy) -> None:
        self.warmed_up.append((batch, policy))
        await self.may_solve.wait()

    async def wait_until_ready(self) -> None:
        pass

    async def decide(self, batch: Batch, policy: Policy) -> Decision:
        self.batches.append(batch)
        snapshot = self.cluster.snapshot()
        await self.may_solve.wait()
        hard = {each.id for each in batch.pods if each.id.name.startswith("hard")}
        later = batch.without({each.id for each in batch.pods} - hard)
        if len(later.pods) == len(batch.pods):
            at_once = self.hard_at_once or len(batch.pods)
            later = batch.without({each.id for each in batch.pods[:at_once]})
        now = batch.without({each.id for each in later.pods})
        plan = solve_greedily(snapshot, now, policy, PATIENT)
        undecided = {pod.id: UndecidedCause.LATER for pod in later.pods}
        return Decision(asked=batch, plan=plan, seconds=0.0, undecided=undecided)

    @property
    def names(self) -> list[list[str]]:
        return [[each.id.name for each in batch.pods] for batch in self.batches]


class Committing:
    """Stands where units are written: it answers with what a test wants, when it is let."""

    def __init__(self) -> None:
        self.units: list[Unit] = []
        self.may_write = asyncio.Event()
        self.may_write.set()
        self.answer: Callable[[Unit], Outcome] = lambda unit: Bound(unit=unit, seconds=0.0)
        self.recovered: list[Unit] = []
        self.live: Callable[[Unit], Outcome] = lambda unit: Undone(unit=unit, reasons=(CONFLICT,))
        """What live reads of the unit's pods say after a defect."""
        self.is_shown = asyncio.Event()
        """Whether the watch has shown the claims for extended resources of bound pods."""
        self.is_shown.set()

    async def begin(self, units: Sequence[Unit]) -> None:
        pass

    def end(self, unit: Unit) -> None:
        pass

    async def commit(self, unit: Unit) -> Outcome:
        self.units.append(unit)
        await self.may_write.wait()
        return self.answer(unit)

    async def recover(self, unit: Unit) -> Outcome:
        self.recovered.append(unit)
        return self.live(unit)

    async def until_shown(self, *_: object) -> None:
        await self.is_shown.wait()


class Finalizing:
    """Stands where finalizers are written."""

    def __init__(self) -> None:
        self.claims: list[str] = []

    async def add_finalizer(self, claim: Claim) -> None:
        self.claims.append(claim.id.name)


class Telling:
    """Stands where users are told things."""

    tells_inventory = True

    def __init__(self) -> None:
        self.told: list[tuple[str, str]] = []

    def shown(self, reasons: Sequence[Reason]) -> Sequence[Reason]:
        return reasons

    def report_unschedulable(self, pod: Pod, reasons: Sequence[Reason], node_count: int) -> None:
        self.told.append((pod.id.name, f"waits on {node_count}: {reasons[0].message}"))

    def record_scheduled(self, pod: Pod, node: str) -> None:
        self.told.append((pod.id.name, f"bound to {node}"))

    def record_lost_race(self, pod: Pod, devices: Sequence[DeviceId]) -> None:
        self.told.append((pod.id.name, f"yielded {len(devices)}"))

    def forget(self, pod_uid: str) -> None:
        pass

    async def suppress(self, pod_uids: Sequence[str]) -> None:
        pass


class Repairing:
    """Stands where allocations are repaired."""

    def __init__(self) -> None:
        self.loosened: list[str] = []
        self.refused: list[str] = []
        self.lost: list[DeviceId] = []

    @asynccontextmanager
    async def excluding(self, _: Sequence[ClaimId]) -> AsyncIterator[None]:
        yield

    def note_unplaced(self, pod: Pod, _: Sequence[Reason]) -> None:
        self.loosened.append(pod.id.name)

    def note_refused(self, unit: Unit) -> None:
        self.refused += [each.name for each in unit.claims]

    def note_lost_race(self, devices: Sequence[DeviceId]) -> None:
        self.lost += devices


class Hall:
    """A cycle with the real mirror and queue, and doors that do as a test wants."""

    def __init__(
        self,
        max_pods: int = 100,
        clock: Callable[[], float] | None = None,
        *,
        starvation_seconds: float = 300.0,
        backoff: Backoff | None = None,
    ) -> None:
        """`clock` is that of the loop where none is given, which stands still until a test moves it by `ahead`."""
        if clock is None:
            self.ahead = Ahead()
            clock = asyncio.get_running_loop().time
        self.clock = VirtualClock(0.0)
        self.cluster = Cluster()
        self.replacements = GangReplacements(self.cluster.claim)
        self.starvation = StarvationTracker(starvation_seconds, self.replacements)
        self.preemption_backoff = PreemptionBackoff(300.0)
        keys = equivalence_keys(self.cluster, self.starvation, self.preemption_backoff, clock)
        self.pending = SchedulingQueue({"dovetail", "other"}, key_of=keys.of, backoff=backoff)
        waker, fewer_writing = QueueWaker(self.cluster, self.pending, clock), asyncio.Event()
        self.deciding = Deciding(self.cluster)
        self.committing = Committing()
        self.finalizing = Finalizing()
        self.telling = Telling()
        self.repairing = Repairing()
        self.metrics = Metrics()
        self.waits = PreBind(
            self.cluster,
            cast("StatusWriter", self.telling),
            FailedDevices(LocalTaints(self.metrics), 300.0),
            self.preemption_backoff,
            timeout_seconds=600.0,
            on_begin=fewer_writing.set,
        )
        self.history = DecisionHistory(HistorySettings())
        self.parts = Components(
            cluster=self.cluster,
            queue=self.pending,
            waker=waker,
            fewer_writing=fewer_writing,
            starvation=self.starvation,
            preemption_delays=PreemptionDelays(),
            gang_replacements=self.replacements,
            placement_check=None,
            kept_nodes=None,
            holds=HoldKeeper(
                (cast("Client", None), cast("Writer", None), self.cluster), HoldLimits(), self.metrics, waker.wake
            ),
            worker=cast("WorkerSupervisor", Noting()),
            decider=cast("Decider", self.deciding),
            commit=cast("Commit", self.committing),
            finalizers=SpeculativeFinalizers(
                cast("ClaimWriter", self.finalizing), self.cluster.observed_claim, self.metrics
            ),
            isolated_lane=IsolatedLane(
                self.cluster,
                self.pending,
                cast("Decider", self.deciding),
                partial(cast("StatusWriter", self.telling).report_unschedulable, node_count=0),
                self.metrics,
                share=0.1,
                clock=clock,
            ),
            prebind=self.waits,
            preemption_backoff=self.preemption_backoff,
            stale_allocations=cast("StaleAllocations", self.repairing),
            pod_groups=PodGroupStatusWriter(
                cast("Client", None),
                cast("Writer", None),
                self.cluster,
                (cast("StatusWriter", self.telling), self.metrics),
                "",
            ),
            evictions=Evictions(
                cast("Client", None),
                cast("Writer", None),
                self.cluster,
                (cast("StatusWriter", self.telling), self.history),
                self.metrics,
                on_given_up=waker.preemption_given_up,
            ),
            history=self.history,
            status=cast("StatusWriter", self.telling),
            quarantine=Quarantine(self.metrics, lambda _, message: self.telling.told.append(("event", message))),
            attempt_metrics=AttemptMetrics(self.metrics, self.pending.counts),
            fleet_counter=cast("FleetCounter", None),
            telemetry=cast("SolverTelemetry", None),
            writer=cast("Writer", None),
            metrics=self.metrics,
        )
        self.cycle = SchedulingCycle(self.parts, self.policies, max_pods, clock, sleep=self.pause)
        self.cycle.see([seen(node("n1", cpu=8)), seen(gpu_slice("n1", count=4)), seen(gpu_class())])

    @property
    def policies(self) -> dict[str, Policy]:
        return {"dovetail": Policy(), "other": Policy(name="other")}

    async def pause(self, seconds: float) -> None:
        """Let the time between two live reads pass at once, and let others have their turn."""
        await self.clock.sleep(seconds)
        await asyncio.sleep(0)

    def arrive(self, *pods: Pod) -> None:
        for each in pods:
            self.cycle.see([seen(claim(key.name)) for key in each.claim_ids])
            self.cycle.see([seen(each)])

    def series(self, name: str, **labels: str) -> float:
        return self.metrics.registry.get_sample_value(name, labels) or 0.0


class Noting:
    """Stands where the replica is told."""

    def note(self, _: object) -> None:
        pass


@asynccontextmanager
async def running(hall: Hall) -> AsyncIterator[None]:
    tasks = (asyncio.create_task(hall.cycle.decide()), asyncio.create_task(hall.parts.isolated_lane.run(hall.cycle)))
    try:
        await until_idle()
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        hall.committing.may_write.set()
        await hall.cycle.finish(1.0)


def state(hall: Hall, name: str) -> PodState | None:
    return hall.pending.state(PodId("default", name))


async def test_a_pod_is_decided_at_once_when_nothing_runs() -> None:
    hall = Hall()
    async with running(hall):
        hall.arrive(pod("p", "c"))
        await until_idle()

    assert [each.placements[0].pod.name for each in hall.committing.units] == ["p"]


async def test_before_it_leads_the_worker_decides_about_one_pod_that_stays_where_it_is() -> None:
    hall = Hall()
    hall.cycle.see([seen(pod("early", "missing"))])
    hall.arrive(pod("without-claims"), pod("p", "c"), pod("q", "d"))
    before = {each.pod.id.name: each.state for each in hall.pending.pods()}

    await hall.cycle.warm_up()

    ((batch, policy),) = hall.deciding.warmed_up
    assert [each.id.name for each in batch.pods] == ["p"]
    assert not policy.preemption.is_enabled
    assert {each.pod.id.name: each.state for each in hall.pending.pods()} == before
    assert not hall.committing.units
    assert not list(hall.history.newest(0))


async def test_where_no_pod_waits_before_it_leads_the_worker_decides_about_none() -> None:
    hall = Hall()

    await hall.cycle.warm_up()

    assert [batch.pods for batch, _ in hall.deciding.warmed_up] == [()]


async def test_the_first_batch_waits_for_the_decision_before_it_leads() -> None:
    hall = Hall()
    hall.deciding.may_solve.clear()
    warming = asyncio.create_task(hall.cycle.warm_up())
    await until_idle()
    async with running(hall):
        hall.arrive(pod("p", "c"))
        await until_idle()
        assert not hall.deciding.batches
        hall.deciding.may_solve.set()
        await until_idle()
    await warming

    assert hall.deciding.names == [["p"]]


async def test_a_pod_that_is_placed_has_a_log_line_and_a_record_with_its_devices() -> None:
    hall = Hall()
    with structlog.testing.capture_logs() as lines:
        async with running(hall):
            hall.arrive(pod("p", "c"))
            await until_idle()

    (line,) = [each for each in lines if each["event"] == "pod_placed"]
    cycle = next(each for each in lines if each["event"] == "cycle")
    assert (line["pod"], line["node"], line["devices"]) == ("default/p", "n1", ("gpu.example.com/n1/gpu-0",))
    assert line["decision"] == cycle["decision"] == 1
    bound, decision = hall.history.newest(0)
    assert isinstance(bound, PodRecord)
    assert (bound.result, bound.decision, bound.devices) == (PodResult.BOUND, 1, line["devices"])
    assert isinstance(decision, DecisionRecord)
    assert decision.placed[0].devices == line["devices"]


async def test_a_pod_that_could_not_be_bound_is_in_the_history_with_the_reason() -> None:
    hall = Hall()
    hall.committing.answer = lambda unit: Refused(unit=unit, reasons=(CONFLICT,))
    async with running(hall):
        hall.arrive(pod("p"))
        await until_idle()

    found = [each for each in hall.history.newest(0) if isinstance(each, PodRecord)]
    assert {(each.name, each.result, each.message) for each in found} == {("p", PodResult.NOT_BOUND, CONFLICT.message)}


async def test_pods_that_arrive_while_a_batch_is_solved_are_collected() -> None:
    hall = Hall()
    hall.deciding.may_solve.clear()
    async with running(hall):
        hall.arrive(pod("p"))
        await until_idle()
        hall.arrive(pod("q"), pod("r"))
        await until_idle()
        hall.deciding.may_solve.set()
        await until_idle()

    assert hall.deciding.names == [["p"], ["q", "r"]]


async def test_the_next_batch_is_solved_while_the_last_plan_is_written() -> None:
    hall = Hall(clock=lambda: 0.0)
    hall.committing.may_write.clear()
    async with running(hall):
        hall.arrive(pod("p"))
        await until_idle()
        hall.arrive(pod("q"))
        await until_idle()

        assert hall.deciding.names == [["p"], ["q"]]


@asynccontextmanager
async def writing_after_a_decision(
    monkeypatch: pytest.MonkeyPatch, window_seconds: float, later: float = 0.0
) -> AsyncIterator[Hall]:
    """Pod p is written, after a decision that took ten seconds and ended `later` seconds ago."""
    monkeypatch.setattr("scheduler.cycle._LONGEST_WINDOW_SECONDS", window_seconds)
    now = [0.0]
    hall = Hall(clock=lambda: now[0])
    hall.committing.may_write.clear()
    hall.deciding.may_solve.clear()
    async with running(hall):
        hall.arrive(pod("p"))
        await until_idle()
        now[0] = 10.0
        hall.deciding.may_solve.set()
        await until_idle()
        now[0] += later
        yield hall


async def test_pods_collect_for_a_window_while_a_plan_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """A decision for each pod that comes would take CPU time from the API server, for which all of them wait."""
    async with writing_after_a_decision(monkeypatch, window_seconds=3600.0) as hall:
        for name in ("q", "r"):
            hall.arrive(pod(name))
            await until_idle()
        assert hall.deciding.names == [["p"]]

        hall.committing.may_write.set()
        await until_idle()
        assert hall.deciding.names == [["p"], ["q", "r"]]
        hall.arrive(pod("s"))  # nothing is written: no window delays it
        await until_idle()
        assert hall.deciding.names == [["p"], ["q", "r"], ["s"]]


@pytest.mark.parametrize(("later", "decided"), [(35.0, [["p"]]), (41.0, [["p"], ["q"]])])
async def test_the_window_of_a_decision_is_four_times_as_long(
    monkeypatch: pytest.MonkeyPatch, later: float, decided: list[list[str]]
) -> None:
    async with writing_after_a_decision(monkeypatch, window_seconds=3600.0, later=later) as hall:
        hall.arrive(pod("q"))
        await until_idle()
        assert hall.deciding.names == decided


async def test_a_plan_that_is_written_for_long_delays_no_pod_beyond_the_window(monkeypatch: pytest.MonkeyPatch) -> None:
    async with writing_after_a_decision(monkeypatch, window_seconds=0.05) as hall:
        hall.arrive(pod("q"))
        async with asyncio.timeout(20.0):
            while len(hall.deciding.names) < 2:
                await until_idle()
        assert hall.deciding.names == [["p"], ["q"]]


async def test_finalizers_are_written_during_a_decision_once_one_has_placed_all_its_pods() -> None:
    hall = Hall()
    async with running(hall):
        hall.arrive(pod("p", "c1"))
        await until_idle()
        assert hall.finalizing.claims == []

        hall.deciding.may_solve.clear()
        hall.arrive(pod("q", "c2"))
        await until_idle()
        assert hall.finalizing.claims == ["c2"]
        assert len(hall.committing.units) == 1


async def test_batches_collect_while_the_plan_before_the_last_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scheduler.cycle._UNITS_BEHIND", 0)
    hall = Hall(clock=lambda: 0.0)
    hall.committing.may_write.clear()
    async with running(hall):
        for name in ("p", "q", "r", "s"):
            hall.arrive(pod(name))
            await until_idle()
        assert hall.deciding.names == [["p"], ["q"]]

        hall.committing.may_write.set()
        await until_idle()

    assert hall.deciding.names == [["p"], ["q"], ["r", "s"]]


async def test_pods_that_come_while_hard_ones_are_decided_wait_for_three_decisions_at_most() -> None:
    """Each decision about hard pods decides one of them: a namespace with many had the scheduler for itself."""
    hall = Hall()
    hall.deciding.hard_at_once = 1
    hall.arrive(*(pod(f"hard-{index}", namespace="tenant") for index in range(20)))
    hall.deciding.may_solve.clear()
    async with running(hall):
        hall.arrive(pod("plain"))
        hall.deciding.may_solve.set()
        for _ in range(20):
            await until_idle()

    assert [position for position, names in enumerate(hall.deciding.names) if "plain" in names] == [3]
    assert hall.pending.counts()[PodState.ACTIVE] == 0


async def test_what_is_easy_is_written_while_what_is_hard_is_decided() -> None:
    hall = Hall()
    hall.arrive(pod("hard", "h"), pod("p", "c"))
    async with running(hall):
        hall.deciding.may_solve.clear()
        hall.arrive(pod("hard-too", "i"), pod("q", "d"))
        await until_idle()
        hall.deciding.may_solve.set()
        await until_idle()

    assert hall.deciding.names == [["hard", "p"], ["hard"], ["hard-too", "q"], ["hard-too"]]
    assert [each.placements[0].pod.name for each in hall.committing.units] == ["p", "hard", "q", "hard-too"]


async def test_a_pod_that_is_gone_before_its_own_decision_is_not_put_back() -> None:
    hall = Hall()
    hall.arrive(pod("hard", "h", node_selector={"zone": "nowhere"}), pod("p", "c"))
    hall.deciding.may_solve.clear()
    async with running(hall):
        hall.cycle.see([gone(pod("hard", "h", node_selector={"zone": "nowhere"}))])
        hall.deciding.may_solve.set()
        await until_idle()

    assert state(hall, "hard") is None


async def test_a_batch_is_no_larger_than_configured() -> None:
    hall = Hall(max_pods=2)
    hall.arrive(*(pod(f"p{number}") for number in range(5)))
    async with running(hall):
        pass

    assert [len(names) for names in hall.deciding.names] == [2, 2, 1]


async def test_a_batch_holds_pods_of_one_profile() -> None:
    hall = Hall()
    hall.arrive(pod("p"), msgspec.structs.replace(pod("q"), scheduler_name="other"), pod("r"))
    async with running(hall):
        pass

    assert sorted(hall.deciding.names) == [["p", "r"], ["q"]]


async def test_what_is_being_written_counts_for_the_next_batch() -> None:
    hall = Hall(clock=lambda: 0.0)
    hall.committing.may_write.clear()
    async with running(hall):
        for number in range(4):
            hall.arrive(pod(f"p{number}", f"c{number}"))
            await until_idle()
        devices = {
            result.device.device
            for unit in hall.committing.units
            for each in unit.allocations
            for result in each.allocation.results
        }

        assert len(devices) == 4


async def test_a_pod_is_decided_when_its_claim_is_there_and_not_before() -> None:
    hall = Hall()
    async with running(hall):
        hall.cycle.see([seen(pod("p", "c")), seen(pod("q"))])
        await until_idle()
        assert hall.deciding.names == [["q"]]
        assert hall.telling.told[0] == (
            "p",
            "waits on 1: claim c does not exist yet; the pod waits for it (spec.resourceClaims[0].resourceClaimName)",
        )
        assert hall.series("dovetail_unplaced_pods_total", reason="ClaimMissing") == 0

        hall.cycle.see([seen(claim("c"))])
        await until_idle()

    assert hall.deciding.names == [["q"], ["p"]]
    assert [each.placements[0].pod.name for each in hall.committing.units] == ["q", "p"]


async def test_a_pod_without_a_place_waits_with_its_reasons() -> None:
    hall = Hall()
    async with running(hall):
        hall.arrive(pod("p", cpu=100))
        await until_idle()

    assert state(hall, "p") is PodState.UNSCHEDULABLE
    assert hall.telling.told[0][1].startswith("waits on 1: ")
    assert hall.repairing.loosened == ["p"]


async def test_a_unit_that_no_longer_fits_is_forgotten_and_its_pods_are_tried_again() -> None:
    hall = Hall()
    hall.committing.answer = lambda unit: Refused(unit=unit, reasons=(CONFLICT,))
    async with running(hall):
        hall.arrive(pod("p", "c"))
        await until_idle()

    assert hall.cluster.assumptions().pods == ()
    assert state(hall, "p") is PodState.BACKING_OFF
    assert hall.series("dovetail_commit_conflicts_total") == 1
    assert hall.repairing.refused == ["c"]


async def test_a_unit_that_was_taken_back_gives_its_devices_free() -> None:
    hall = Hall()
    hall.committing.answer = lambda unit: Undone(unit=unit, reasons=(CONFLICT,))
    async with running(hall):
        hall.arrive(pod("p", "c"))
        await until_idle()

    assert hall.cluster.assumptions().claims == ()
    assert hall.telling.told == [("p", "waits on 1: another client was faster")]


@pytest.mark.parametrize("outcome", [Undone, partial(LostRace, devices=())], ids=["undone", "lost race"])
async def test_an_allocation_that_may_be_stored_stays_assumed(outcome: Callable[..., Outcome]) -> None:
    hall = Hall()
    hall.committing.answer = lambda unit: outcome(unit=unit, reasons=(CONFLICT,), unreleased=unit.claims)
    async with running(hall):
        hall.arrive(pod("p", "c"))
        await until_idle()

    assert [each.id.name for each in hall.cluster.uncertain_claims()] == ["c"]
    assert hall.cluster.assumptions().pods == ()


async def test_of_a_unit_that_is_partly_bound_the_allocations_of_the_rest_are_not_certain() -> None:
    """A defect may have ended its writes, so that the answers to them are not known."""
    hall = Hall()
    hall.committing.answer = lambda unit: PartlyBound(unit=unit, bound=(), unbound=((unit.placements[0], GONE),))
    async with running(hall):
        hall.arrive(pod("p", "c"))
        await until_idle()

    assert [each.id.name for each in hall.cluster.uncertain_claims()] == ["c"]


@pytest.mark.parametrize("is_bound", [False, True])
async def test_devices_of_a_claim_for_extended_resources_stay_held_until_it_is_known(is_bound: bool) -> None:  # noqa: FBT001
    """Its pod is deleted at once, before or after the answer to the binding, and the watch of claims is behind."""
    hall = Hall()
    wanted = extended_pod("p", container(cpu=1, gpu=1))
    hall.committing.is_shown.clear()

    def bound(unit: Unit) -> Bound:
        if not is_bound:
            hall.cycle.see([gone(wanted)])
        return Bound(unit=unit, seconds=0.0)

    hall.committing.answer = bound
    async with running(hall):
        hall.cycle.see([seen(msgspec.structs.replace(gpu_class(), extended_resource_name=RESOURCE))])
        hall.arrive(wanted)
        await until_idle()
        assert ("p", "bound to n1") in hall.telling.told
        if is_bound:
            hall.cycle.see([gone(wanted)])
        await until_idle()
        assert hall.cluster.assumptions().specials
        assert hall.waits.count == 0
        hall.committing.is_shown.set()
        await until_idle()

    assert hall.cluster.assumptions().specials == ()


async def test_a_unit_that_yielded_is_told_and_counted() -> None:
    hall = Hall()
    device = DeviceId("gpu.example.com", "n1", "gpu-0")
    hall.committing.answer = lambda unit: LostRace(unit=unit, devices=(device,), reasons=(CONFLICT,))
    async with running(hall):
        hall.arrive(pod("p", "c"))
        await until_idle()

    assert ("p", "yielded 1") in hall.telling.told
    assert hall.repairing.lost == [device]
    assert hall.repairing.refused == ["c"]
    assert state(hall, "p") is PodState.BACKING_OFF


async def test_of_a_unit_that_is_partly_bound_only_the_rest_is_put_back() -> None:
    hall = Hall()
    hall.committing.answer = lambda unit: PartlyBound(
        unit=unit, bound=unit.placements[:1], unbound=((unit.placements[1], GONE),)
    )
    async with running(hall):
        hall.cycle.see([seen(claim("shared"))])
        hall.cycle.see([seen(pod("p", "shared")), seen(pod("q", "shared"))])
        await until_idle()

    assert [each.pod.name for each in hall.cluster.assumptions().pods] == ["p"]
    assert (state(hall, "p"), state(hall, "q")) == (PodState.IN_FLIGHT, PodState.BACKING_OFF)


async def test_a_unit_whose_writes_had_to_stop_stays_assumed() -> None:
    hall = Hall()
    hall.committing.answer = lambda unit: Aborted(unit=unit)
    async with running(hall):
        hall.arrive(pod("p"))
        await until_idle()

    assert [each.pod.name for each in hall.cluster.assumptions().pods] == ["p"]


async def test_a_defect_that_meets_one_unit_ends_nothing_else() -> None:
    def answer(unit: Unit) -> Outcome:
        if unit.placements[0].pod.name == "bad":
            raise RuntimeError("a defect")
        return Bound(unit=unit, seconds=0.0)

    hall = Hall()
    hall.committing.answer = answer
    async with running(hall):
        hall.arrive(pod("bad"), pod("good"))
        await until_idle()

    assert ("good", "bound to n1") in hall.telling.told
    assert state(hall, "bad") is PodState.BACKING_OFF


async def test_a_pod_that_is_gone_is_not_decided_about() -> None:
    hall = Hall()
    hall.arrive(pod("p"))
    hall.cycle.see([gone(pod("p"))])
    async with running(hall):
        pass

    assert hall.deciding.names == []


async def test_a_pod_that_lost_to_one_that_is_gone_is_decided_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "solve_greedily", solve)
    hall = Hall()
    hall.deciding.may_solve.clear()
    winner, loser = pod("winner", priority=1, cpu=6), pod("loser", cpu=6)
    hall.arrive(winner, loser)
    async with running(hall):
        hall.cycle.see([gone(winner)])
        hall.deciding.may_solve.set()
        await until_idle()

    assert ("loser", "bound to n1") in hall.telling.told


async def test_a_pod_that_lost_to_one_whose_claim_is_gone_is_decided_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "solve_greedily", solve)
    hall = Hall()
    hall.deciding.may_solve.clear()
    wide = request(count=4)
    hall.cycle.see([seen(claim(name, wide)) for name in ("c", "d")])
    hall.cycle.see([seen(pod("winner", "c", priority=1)), seen(pod("loser", "d"))])
    async with running(hall):
        hall.cycle.see([gone(claim("c", wide)), gone(pod("winner"))])
        hall.deciding.may_solve.set()
        await until_idle()

    assert ("loser", "bound to n1") in hall.telling.told


async def test_a_preemptor_is_due_when_another_pod_may_be_evicted(monkeypatch: pytest.MonkeyPatch) -> None:
    none = Reason(code=ReasonCode.NO_VICTIMS, message="all of them run too short")

    def without_victims(_: object, batch: Batch, *__: object) -> Plan:
        unplaced = tuple(Unplaced(pod=each.id, pod_uid=each.uid, reasons=(none,)) for each in batch.pods)
        report = SearchReport(status=SearchStatus.FALLBACK)
        return Plan(unplaced=unplaced, next_victim_seconds=30, report=report)

    monkeypatch.setitem(globals(), "solve_greedily", without_victims)
    hall = Hall(clock=lambda: 100.0)
    hall.arrive(pod("p"))
    async with running(hall):
        assert state(hall, "p") is PodState.UNSCHEDULABLE
        assert hall.pending.next_due(100.0) == 130.0


async def test_preemptors_are_tried_when_the_preemption_of_another_pod_is_given_up() -> None:
    hall = Hall(clock=lambda: 100.0)
    waiting = pod("waiting", priority=5)
    hall.arrive(waiting)
    hall.pending.take_batch(0.0, 1)
    none = Reason(code=ReasonCode.NO_VICTIMS, message="another pod has them evicted")
    hall.pending.put_back(waiting.id, waiting.uid, [none], 0.0)
    preemption = Preemption(
        placements=(Placement(pod=PodId("default", "gone"), pod_uid="gone", node="n1"),),
        victims=(Victim(pod=PodId("default", "low"), pod_uid="low", node="n1", message="makes room"),),
    )
    hall.parts.evictions.begin("dovetail", preemption, {})
    assert state(hall, "waiting") is PodState.UNSCHEDULABLE
    async with running(hall):
        assert ("waiting", "bound to n1") in hall.telling.told


async def test_pods_of_others_are_none_of_our_business() -> None:
    hall = Hall()
    hall.arrive(msgspec.structs.replace(pod("p"), scheduler_name="default-scheduler"))
    async with running(hall):
        pass

    assert hall.deciding.names == []


async def test_a_bound_pod_counts_as_a_successful_attempt() -> None:
    hall = Hall()
    async with running(hall):
        hall.arrive(pod("p"))
        await until_idle()

    assert hall.series("scheduler_schedule_attempts_total", result="scheduled", profile="dovetail") == 1
    assert hall.series("scheduler_pod_scheduling_sli_duration_seconds_count", attempts="1") == 1


async def test_finishing_waits_for_what_is_being_written() -> None:
    hall = Hall()
    hall.committing.may_write.clear()
    async with running(hall):
        hall.arrive(pod("p"))
        await until_idle()
        finishing = asyncio.create_task(hall.cycle.finish(30.0))
        await until_idle()
        assert not finishing.done()

        hall.committing.may_write.set()

        assert await finishing


async def test_finishing_gives_up_what_takes_too_long() -> None:
    hall = Hall()
    hall.committing.may_write.clear()
    async with running(hall):
        hall.arrive(pod("p"))
        await until_idle()
        finishing = asyncio.create_task(hall.cycle.finish(30.0))
        await until_idle()
        await hall.ahead.sleep(30.0)

        assert not await finishing


async def test_a_pod_that_was_passed_over_goes_first_and_holds_a_node_until_it_is_placed() -> None:
    hall = Hall(starvation_seconds=0.0)
    big = msgspec.structs.replace(pod("big", "four"), labels=())
    async with running(hall):
        hall.arrive(pod("first", "one"))
        await until_idle()
        hall.cycle.see([seen(claim("four", request(count=4)))])
        hall.cycle.see([seen(big)])
        await until_idle()
        hall.arrive(pod("second", "two"))
        await until_idle()
        hall.cycle.see([seen(msgspec.structs.replace(big, labels=(("again", "1"),)))])
        await hall.ahead.sleep(1.2)
        await until_idle()
        assert [hold.pod.name for hold in hall.starvation.reservations] == ["big"]
        hall.arrive(pod("third", "three"))
        await until_idle()
        assert state(hall, "third") is PodState.UNSCHEDULABLE

        hall.cycle.see([gone(big)])
        await hall.ahead.sleep(1.2)
        await until_idle()

    assert hall.starvation.reservations == ()
    assert "third" in [each.placements[0].pod.name for each in hall.committing.units]


async def test_the_log_says_when_a_node_is_reserved_and_when_the_reservation_ends() -> None:
    hall = Hall(starvation_seconds=0.0)
    big = msgspec.structs.replace(pod("big", "four"), labels=())
    with structlog.testing.capture_logs() as lines:
        async with running(hall):
            hall.arrive(pod("first", "one"))
            await until_idle()
            hall.cycle.see([seen(claim("four", request(count=4))), seen(big)])
            await until_idle()
            hall.arrive(pod("second", "two"))
            await until_idle()
            for word in ("1", "2"):  # decided twice: said once
                hall.cycle.see([seen(msgspec.structs.replace(big, labels=(("again", word),)))])
                await hall.ahead.sleep(2.2)
                await until_idle()
            hall.cycle.see([gone(big)])
            await until_idle()

    told = [each for each in lines if each["event"] in {"node_reserved", "reservation_ended"}]
    assert [(each["event"], each["pod"], each["nodes"]) for each in told] == [
        ("node_reserved", "default/big", ["n1"]),
        ("reservation_ended", "default/big", ["n1"]),
    ]


async def test_no_node_is_held_for_a_pod_whose_claim_is_gone() -> None:
    hall = Hall(starvation_seconds=0.0)
    async with running(hall):
        hall.arrive(pod("first", "one"))
        await until_idle()
        hall.cycle.see([seen(claim("four", request(count=4)))])
        hall.cycle.see([seen(pod("big", "four"))])
        await until_idle()
        hall.arrive(pod("second", "two"))
        await until_idle()
        hall.cycle.see([seen(msgspec.structs.replace(pod("big", "four"), labels=(("again", "1"),)))])
        await hall.ahead.sleep(1.2)
        await until_idle()
        assert [hold.pod.name for hold in hall.starvation.reservations] == ["big"]

        hall.cycle.see([gone(claim("four"))])
        hall.cycle.see([seen(msgspec.structs.replace(pod("big", "four"), labels=(("again", "2"),)))])
        await hall.ahead.sleep(2.2)
        await until_idle()

    assert state(hall, "big") is PodState.UNSCHEDULABLE
    assert hall.starvation.reservations == ()


async def test_a_crowd_whose_claims_are_late_lets_others_have_their_turn() -> None:
    hall = Hall(max_pods=10)
    async with running(hall):
        hall.cycle.see([seen(pod(f"p{number}", f"c{number}")) for number in range(100)])
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert hall.pending.counts()[PodState.UNSCHEDULABLE] < 100
        async with asyncio.timeout(60):
            while hall.pending.counts()[PodState.UNSCHEDULABLE] < 100:  # noqa: ASYNC110 - each turn lets the cycle go on
                await asyncio.sleep(0)


async def test_nothing_is_remembered_of_a_pod_that_is_gone_before_its_decision() -> None:
    hall = Hall(starvation_seconds=0.0)
    hall.arrive(pod("p", cpu=100))
    hall.deciding.may_solve.clear()
    async with running(hall):
        hall.cycle.see([gone(pod("p", cpu=100))])
        hall.deciding.may_solve.set()
        await until_idle()

        hall.arrive(pod("q"))
        await until_idle()

    assert [name for name, _ in hall.telling.told] == ["q"]
    assert hall.starvation.marked(Batch(pods=(pod("p", cpu=100),)), math.inf).overdue == ()


def crowd(count: int) -> Hall:
    """Let equal pods wait for the one device of a node that is in use; they need not rest."""
    hall = Hall(1000, lambda: 100.0, backoff=Backoff(initial_seconds=0.0, ceiling_seconds=0.0))
    hall.cycle.see([seen(gpu_slice("n1", count=1)), seen(HELD), seen(pod("old", "old", node_name="n1"))])
    for number in range(count):
        name = f"p-{number:04}"
        hall.cycle.see([seen(claim(name, owner_pod_uid=f"uid-default-{name}")), seen(pod(name, name))])
    return hall


async def test_of_equal_pods_the_first_is_decided_about_when_a_device_is_freed() -> None:
    hall = crowd(200)
    async with running(hall):
        assert hall.pending.counts()[PodState.UNSCHEDULABLE] == 200
        before = len(hall.deciding.batches)
        hall.cycle.see([gone(pod("old", "old", node_name="n1")), gone(HELD)])
        await until_idle()

    assert hall.deciding.names[before:] == [["p-0000"]]
    assert ("p-0000", "bound to n1") in hall.telling.told


async def test_a_pod_that_may_not_evict_for_a_while_is_decided_beside_its_equals() -> None:
    hall = crowd(200)
    hall.preemption_backoff.start(["uid-default-p-0150"])
    async with running(hall):
        before = len(hall.deciding.batches)
        hall.cycle.see([gone(pod("old", "old", node_name="n1")), gone(HELD)])
        await until_idle()

    assert hall.deciding.names[before] == ["p-0000", "p-0150"]


async def test_of_how_many_nodes_a_reason_counts_some_is_what_the_decision_saw(monkeypatch: pytest.MonkeyPatch) -> None:
    hall = Hall()
    decided = hall.deciding.decide

    async def decide(batch: Batch, policy: Policy) -> Decision:
        decision = await decided(batch, policy)
        hall.cycle.see([seen(node("n2", cpu=8))])
        return decision

    monkeypatch.setattr(hall.deciding, "decide", decide)
    async with running(hall):
        hall.arrive(pod("p", cpu=100))
        await until_idle()

    assert hall.telling.told[0] == ("p", "waits on 1: Insufficient cpu")


DEFECTS = [
    (Cluster, "apply", lambda change: change.key),
    (SchedulingQueue, "offer", lambda pod, *_: pod.id),
    (SchedulingQueue, "wake", lambda transition, *_: transition.key),
    (PreBind, "see", lambda change: change.key),
]


@pytest.mark.parametrize(
    ("place", "name", "about"), DEFECTS, ids=[f"{each.__name__}.{name}" for each, name, _ in DEFECTS]
)
async def test_whatever_one_object_raises_on_its_way_the_others_are_decided(
    monkeypatch: pytest.MonkeyPatch, place: type, name: str, about: Callable[..., object]
) -> None:
    honest = getattr(place, name)

    def method(own: object, *arguments: object) -> object:
        is_meant = str(about(*arguments)) == "default/hostile"
        changed = arguments[0]
        value = getattr(changed, "value", getattr(changed, "after", changed))
        if is_meant and value is not None and not getattr(value, "invalid", ""):
            raise ZeroDivisionError("a defect")
        return honest(own, *arguments)

    monkeypatch.setattr(Backoff, "end", lambda _, now, __: now)
    hall = Hall()
    hostile, good = pod("hostile"), pod("good")
    async with running(hall):
        with monkeypatch.context() as defect:
            defect.setattr(place, name, method)
            hall.cycle.see([seen(hostile), seen(good)])
            await until_idle()
        assert "good" in {each.placements[0].pod.name for each in hall.committing.units}
        assert "hostile" not in {each.placements[0].pod.name for each in hall.committing.units}
        assert hall.series("dovetail_quarantined_objects", kind="pods") == 1
        hall.cycle.see([seen(msgspec.structs.replace(hostile, labels=(("repaired", "yes"),)))])
        await until_idle()
    assert {each.placements[0].pod.name for each in hall.committing.units} == {"good", "hostile"}
    assert hall.series("dovetail_quarantined_objects", kind="pods") == 0


async def test_a_pod_that_cannot_be_told_from_others_is_like_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    def node_terms(_: Pod) -> object:
        raise ZeroDivisionError

    monkeypatch.setattr("scheduler.queue.equivalence.node_terms", node_terms)
    hall = Hall()
    async with running(hall):
        hall.arrive(pod("p", node_selector={"zone": "nowhere"}), pod("q"))
        await until_idle()
    assert [each.placements[0].pod.name for each in hall.committing.units] == ["q"]


def fail(*_: object, **__: object) -> None:
    raise RuntimeError("a defect")


@pytest.mark.parametrize("outcome", [Undone, Refused])
async def test_a_pod_goes_back_although_telling_of_it_fails(
    outcome: type[Undone | Refused], monkeypatch: pytest.MonkeyPatch
) -> None:
    hall = Hall()
    monkeypatch.setattr(hall.telling, "report_unschedulable", fail)
    monkeypatch.setattr(hall.parts.pod_groups, "settled", fail)
    hall.committing.answer = lambda unit: outcome(unit=unit, reasons=(CONFLICT,))
    async with running(hall):
        hall.arrive(pod("p", "c"))
        await until_idle()

        assert state(hall, "p") is PodState.BACKING_OFF

    assert (hall.cluster.assumptions().pods, hall.cluster.assumptions().claims) == ((), ())
    assert hall.committing.recovered == []
    assert hall.series("dovetail_defects_total", part="settlement") >= 2


async def test_of_a_unit_every_pod_is_told_of_though_one_cannot_be(monkeypatch: pytest.MonkeyPatch) -> None:
    hall = Hall()
    told = hall.telling.record_scheduled

    def record_scheduled(pod: Pod, node: str) -> None:
        if pod.id.name == "p":
            fail()
        told(pod, node)

    monkeypatch.setattr(hall.telling, "record_scheduled", record_scheduled)
    async with running(hall):
        hall.cycle.see([seen(claim("shared"))])
        hall.cycle.see([seen(pod("p", "shared")), seen(pod("q", "shared"))])
        await until_idle()

    assert hall.telling.told == [("q", "bound to n1")]
    assert hall.series("dovetail_defects_total", part="settlement") == 1


async def test_what_is_left_unsettled_by_a_defect_is_settled_by_a_live_read(monkeypatch: pytest.MonkeyPatch) -> None:
    hall = Hall()
    forget, failures = hall.cluster.forget, [1]

    def failing(unit: Unit, uncertain: Sequence[ClaimId]) -> object:
        if failures:
            failures.pop()
            fail()
        return forget(unit, uncertain)

    monkeypatch.setattr(hall.cluster, "forget", failing)
    hall.committing.answer = lambda unit: Undone(unit=unit, reasons=(CONFLICT,))
    async with running(hall):
        hall.arrive(pod("p", "c"))
        await until_idle()

        assert state(hall, "p") is PodState.BACKING_OFF

    assert len(hall.committing.recovered) == 1
    assert (hall.cluster.assumptions().pods, hall.cluster.assumptions().claims) == ((), ())
    assert hall.series("dovetail_defects_total", part="settlement") == 1


async def test_a_pod_that_a_live_read_shows_bound_is_not_put_back_after_a_defect() -> None:
    hall = Hall()
    hall.committing.answer = fail  # type: ignore[assignment]  # it answers nothing
    hall.committing.live = lambda unit: Bound(unit=unit, seconds=0.0)
    async with running(hall):
        hall.arrive(pod("p"))
        await until_idle()

    assert [each.pod.name for each in hall.cluster.assumptions().pods] == ["p"]
    assert (state(hall, "p"), hall.telling.told) == (PodState.IN_FLIGHT, [("p", "bound to n1")])
    assert hall.series("dovetail_defects_total", part="commit") == 1


async def test_a_unit_stays_assumed_until_a_live_read_decides() -> None:
    hall = Hall()
    hall.committing.answer = fail  # type: ignore[assignment]  # it answers nothing
    states: list[tuple[PodState | None, int]] = []

    def live(unit: Unit) -> Outcome:
        states.append((state(hall, "p"), len(hall.cluster.assumptions().pods)))
        if len(states) < 5:
            fail()
        return Undone(unit=unit, reasons=(CONFLICT,))

    hall.committing.live = live
    async with running(hall):
        hall.arrive(pod("p"))
        for _ in range(5):
            await until_idle()

        assert states == [(PodState.IN_FLIGHT, 1)] * 5
        assert state(hall, "p") is PodState.BACKING_OFF

    first, *_, last = hall.clock.slept
    assert (len(hall.clock.slept), last > 2 * first) == (4, True)


async def test_of_a_unit_only_those_pods_are_read_that_a_defect_left_unsettled(monkeypatch: pytest.MonkeyPatch) -> None:
    hall = Hall()
    put_back, failures = hall.pending.put_back, [PodId("default", "q")]

    def failing(pod: PodId, *rest: Any) -> bool:
        if pod in failures:
            failures.remove(pod)
            fail()
        return put_back(pod, *rest)

    monkeypatch.setattr(hall.pending, "put_back", failing)
    hall.committing.answer = lambda unit: Undone(unit=unit, reasons=(CONFLICT,))
    async with running(hall):
        hall.cycle.see([seen(claim("shared"))])
        hall.cycle.see([seen(pod("p", "shared")), seen(pod("q", "shared"))])
        await until_idle()

        assert {state(hall, "p"), state(hall, "q")} == {PodState.BACKING_OFF}

    assert [[each.pod.name for each in unit.placements] for unit in hall.committing.recovered] == [["q"]]


async def test_a_defect_in_a_decision_puts_its_pods_back_and_the_next_ones_are_decided() -> None:
    hall = Hall()
    decide = hall.deciding.decide

    async def failing(batch: Batch, policy: Policy) -> Decision:
        if batch.pods[0].id.name == "bad":
            raise RuntimeError("a defect")
        return await decide(batch, policy)

    hall.deciding.decide = failing  # type: ignore[method-assign]  # it stands for a defect there
    async with running(hall):
        hall.arrive(pod("bad"))
        await until_idle()
        hall.arrive(pod("good"))
        await until_idle()

        assert state(hall, "bad") is PodState.BACKING_OFF

    assert ("good", "bound to n1") in hall.telling.told
    assert hall.series("dovetail_defects_total", part="decision") == 1


@pytest.mark.parametrize("step", ["missing_claims", "split_by_held_room"])
async def test_a_pod_at_which_a_step_of_the_batch_fails_goes_back_alone(
    step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    hall = Hall()
    honest = getattr(batch_formation, step)

    def failing(first: Pod | Batch, *rest: object) -> object:
        if any(each.id.name == "bad" for each in (first.pods if isinstance(first, Batch) else (first,))):
            raise RuntimeError("a defect")
        return honest(first, *rest)

    monkeypatch.setattr(batch_formation, step, failing)
    async with running(hall):
        hall.cycle.see([seen(pod(name)) for name in ("a", "bad", "b", "c")])
        await until_idle()

        assert state(hall, "bad") is PodState.BACKING_OFF

    bound = sorted(name for name, what in hall.telling.told if what == "bound to n1")
    assert bound == ["a", "b", "c"]
    assert hall.series("dovetail_defects_total", part="decision") >= 1


@pytest.mark.parametrize("part", ["pod_groups", "stale_allocations", "evictions"])
async def test_a_defect_after_a_decision_ends_neither_its_writes_nor_the_loop(
    part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    hall = Hall()
    name = {"pod_groups": "decided", "stale_allocations": "note_unplaced", "evictions": "begin"}[part]
    monkeypatch.setattr(getattr(hall.parts, part), name, fail)
    if part == "evictions":
        decide = hall.deciding.decide

        async def preempting(batch: Batch, policy: Policy) -> Decision:
            decision = await decide(batch, policy)
            preemption = Preemption(placements=(), victims=())
            plan = msgspec.structs.replace(decision.plan, preemptions=(preemption,))
            return replace(decision, plan=plan)

        hall.deciding.decide = preempting  # type: ignore[method-assign]  # what it plans is what a defect meets
    async with running(hall):
        hall.arrive(pod("big", cpu=100), pod("p"))
        await until_idle()
        hall.arrive(pod("q"))
        await until_idle()

        assert state(hall, "big") is PodState.UNSCHEDULABLE

    assert hall.telling.told.count(("p", "bound to n1")) == hall.telling.told.count(("q", "bound to n1")) == 1
    assert hall.series("dovetail_defects_total", part="decision") >= 1


async def test_a_unit_that_cannot_be_assumed_goes_back_and_the_others_are_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hall = Hall()
    assume = hall.cluster.assume

    def failing(unit: Unit) -> object:
        if unit.placements[0].pod.name == "bad":
            fail()
        return assume(unit)

    monkeypatch.setattr(hall.cluster, "assume", failing)
    async with running(hall):
        hall.arrive(pod("bad"), pod("good"))
        await until_idle()

        assert state(hall, "bad") is PodState.BACKING_OFF

    assert ("good", "bound to n1") in hall.telling.told


async def test_units_that_cannot_begin_are_recovered(monkeypatch: pytest.MonkeyPatch) -> None:
    hall = Hall()
    monkeypatch.setattr(hall.committing, "begin", fail)
    monkeypatch.setattr(hall.committing, "commit", fail)
    async with running(hall):
        hall.arrive(pod("p"))
        await until_idle()

        assert state(hall, "p") is PodState.BACKING_OFF

    assert [[each.pod.name for each in unit.placements] for unit in hall.committing.recovered] == [["p"]]


async def test_pods_with_a_node_nominated_are_decided_alone_and_delay_no_other_pod() -> None:
    """Any client that may write statuses of pods can nominate nodes for hundreds: each is a decision of its own."""
    clock = VirtualClock(0.0)
    hall = Hall(clock=clock)
    honest = hall.deciding.decide

    async def decide(batch: Batch, policy: Policy) -> Decision:
        clock.advance(1.0)
        return await honest(batch, policy)

    hall.deciding.decide = decide  # type: ignore[method-assign]
    names = [f"nominated-{number}" for number in range(6)]
    nominated = (msgspec.structs.replace(pod(name, cpu=100), nominated_node_name="n1") for name in names)
    hall.arrive(*nominated, pod("usual"))
    async with running(hall):
        await until_idle()

    assert hall.deciding.names[0] == ["usual"]
    assert sorted(hall.deciding.names[1:]) == [[name] for name in names]


async def test_a_pod_that_left_and_came_back_during_a_decision_aside_is_decided_once() -> None:
    """An edit that makes it too large for the memory does that: nothing of the first decision is written."""
    hall = Hall()
    hall.arrive(pod("p", cpu=1))
    (first,) = hall.pending.take_batch(0.0, 10).pods

    async def ask(batch: Batch, policy: Policy) -> Decision:
        hall.cycle.see([Change(kind=Kind.PODS, key="default/p", value=None)])
        hall.cycle.see([seen(first)])
        assert hall.pending.take_batch(0.0, 10).pods == (first,)
        return await hall.deciding.decide(batch, policy)

    async def is_still_valid(*_: object) -> bool:
        return True

    hall.deciding.is_still_valid = is_still_valid  # type: ignore[attr-defined]
    await hall.cycle.decide_with(Batch(pods=(first,)), ask)
    await until_idle()

    assert hall.committing.units == []
    assert state(hall, "p") is PodState.IN_FLIGHT


async def test_a_slice_of_a_pool_that_is_not_complete_wakes_no_pod() -> None:
    """The devices of a new node come slice by slice, and cannot be used before all of them are there."""
    hall = Hall()
    parts = [
        resource_slice(
            "n2", *(device(f"gpu-{3 * part + number}") for number in range(3)), name=f"n2-{part}", slice_count=2
        )
        for part in range(2)
    ]
    hall.cycle.see([seen(claim("c", request(count=6))), seen(pod("p", "c"))])
    async with running(hall):
        hall.cycle.see([seen(node("n2", cpu=8))])
        await hall.ahead.sleep(60.0)
        await until_idle()
        before = len(hall.deciding.batches)

        hall.cycle.see([seen(parts[0])])
        await hall.ahead.sleep(60.0)
        await until_idle()
        assert len(hall.deciding.batches) == before

        hall.cycle.see([seen(parts[1])])
        await hall.ahead.sleep(60.0)
        await until_idle()

    assert ("p", "bound to n2") in hall.telling.told


async def test_a_decision_knows_how_long_evictions_for_its_pods_have_been_held_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """From the first decision that holds them back, whatever else the pod waited for before."""
    later = Reason(code=ReasonCode.PREEMPTION_DELAYED, message="a node may come")
    waits = list[dict[str, int]]()

    def delayed(_: object, batch: Batch, *__: object) -> Plan:
        waits.append(dict(batch.preemption_waits))
        unplaced = tuple(Unplaced(pod=each.id, pod_uid=each.uid, reasons=(later,)) for each in batch.pods)
        return Plan(unplaced=unplaced, next_victim_seconds=30, report=SearchReport(status=SearchStatus.FALLBACK))

    monkeypatch.setitem(globals(), "solve_greedily", delayed)
    hall = Hall()
    waiting = pod("p")
    hall.arrive(waiting)
    async with running(hall):
        assert waits == [{}]
        await hall.ahead.sleep(31.0)
        await until_idle()
        assert waits == [{}, {waiting.uid: 31}]
        hall.cycle.see([gone(waiting), seen(msgspec.structs.replace(waiting, uid="another"))])
        await until_idle()

    assert waits[-1] == {}, "another pod of its name waits anew"
    assert not hall.parts.preemption_delays.marked(
        Batch(pods=(waiting,)), asyncio.get_running_loop().time()
    ).preemption_waits

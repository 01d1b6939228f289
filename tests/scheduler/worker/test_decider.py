"""A checked plan for every batch, whatever happens to the worker process."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from scheduler.cluster import Cluster
from scheduler.observe.health import Health
from scheduler.observe.metrics import Metrics
from scheduler.settings import DecisionFiles
from scheduler.simulation import simulator
from scheduler.worker import recording
from scheduler.worker.decider import Decider, Decision
from scheduler.worker.decision_limits import Limits
from scheduler.worker.decision_recorder import DecisionRecorder
from scheduler.worker.supervisor import ChildEndedError, WorkerSupervisor
from scheduler.worker.telemetry import SolverTelemetry
from solver.domain import Batch, Pod, Policy, ReasonCode, UndecidedCause
from tests.support.builders import allocation, batch, claim, gpu_class, gpu_slice, node, pod, request, result, snapshot
from tests.support.cluster_builders import seen
from tests.support.controlplane import wait_until
from tests.support.shell_clock import VirtualClock
from tests.support.shell_process import SharedForkServers

LIMITS = Limits(seconds=20.0, deterministic_seconds=1.0, workers=1, memory_limit_mib=512)
WORLD = (node("n1", cpu=8), gpu_slice("n1", count=2), gpu_class(), claim("c"))
FITS = pod("p", "c")
NO_FILES = DecisionFiles()


class Desk:
    """A decider over a real process with the misbehaving solver."""

    def __init__(self, folder: Path, files: DecisionFiles = NO_FILES) -> None:
        self.metrics = Metrics()
        self.health = Health()
        self.clock = VirtualClock()
        self.check = self.health.ready("solver")
        telemetry = SolverTelemetry(self.metrics, self.check, folder, self.clock)
        self.worker = WorkerSupervisor(LIMITS, on_start=telemetry.started, servers=SharedForkServers(LIMITS))
        self.cluster = Cluster()
        for each in WORLD:
            self.cluster.apply(seen(each))
            self.worker.note(seen(each))
        self.decider = Decider(
            self.worker, self.cluster, (LIMITS, LIMITS), telemetry, recorder=DecisionRecorder(files, self.metrics)
        )

    async def decide(self, *pods: Pod) -> Decision:
        return await self.decider.decide(batch(*pods), Policy())

    async def decide_isolated(self, pods: tuple[Pod, ...], *, is_costly: bool = True) -> Decision:
        return await self.decider.decide_isolated(batch(*pods), Policy(), is_costly=is_costly)

    def series(self, name: str) -> float:
        value = self.metrics.registry.get_sample_value(name)
        assert value is not None
        return value


@asynccontextmanager
async def desk(
    folder: Path | None = None, *, is_running: bool = True, files: DecisionFiles = NO_FILES
) -> AsyncIterator[Desk]:
    with TemporaryDirectory() as unwanted:
        async with _desk(Desk(folder or Path(unwanted), files), is_running=is_running) as made:
            yield made


@asynccontextmanager
async def _desk(made: Desk, *, is_running: bool) -> AsyncIterator[Desk]:
    task = asyncio.create_task(made.worker.run() if is_running else asyncio.sleep(3600.0))
    try:
        async with asyncio.timeout(180):
            if is_running:
                await made.worker.wait_until_ready()
            yield made
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def names(pods: Batch) -> list[str]:
    return [each.id.name for each in pods.pods]


def left(decision: Decision, cause: UndecidedCause) -> list[str]:
    return names(decision.undecided_for(cause))


def saved(folder: Path) -> list[Path]:
    return list(folder.iterdir())


async def test_the_process_decides_while_it_is_there() -> None:
    async with desk() as at:
        decision = await at.decide(FITS)

    assert [each.node for each in decision.plan.placements] == ["n1"]
    assert at.series("dovetail_without_worker_seconds") == 0


async def test_warming_up_fills_the_process_and_harms_nothing_where_it_ends_or_is_not_there() -> None:
    async with desk() as at:
        cold = at.worker.end_seconds(LIMITS)
        await at.decider.warm_up(batch(FITS), Policy())
        assert at.worker.end_seconds(LIMITS) < cold
        await at.decider.warm_up(batch(pod("exit")), Policy())
        await at.worker.wait_until_ready()
        decision = await at.decide(FITS)

    assert [each.node for each in decision.plan.placements] == ["n1"]
    async with desk(is_running=False) as at:
        await at.decider.warm_up(batch(FITS), Policy())


async def test_while_there_is_no_process_all_pods_wait_for_it() -> None:
    async with desk(is_running=False) as at:
        decision = await at.decide(FITS, pod("plain"))

    assert left(decision, UndecidedCause.NO_WORKER) == ["p", "plain"]
    assert (decision.batch.pods, decision.plan.placements) == ((), ())


async def test_how_long_the_process_has_not_decided_is_shown() -> None:
    async with desk(is_running=False) as at:
        await at.decide(FITS)
        at.clock.advance(7.0)

        assert at.series("dovetail_without_worker_seconds") == 7.0
        assert "no pod is scheduled until there is a worker process" in at.check.message


async def test_the_process_is_well_again_when_the_next_one_is_fed() -> None:
    async with desk() as at:
        await at.decide(pod("exit"))
        at.clock.advance(7.0)
        assert at.series("dovetail_without_worker_seconds") == 7.0

        await at.worker.wait_until_ready()

        assert at.series("dovetail_without_worker_seconds") == 0
        assert at.check.message == ""


async def test_pods_with_which_the_process_ended_are_suspects() -> None:
    async with desk() as at:
        decision = await at.decide(pod("exit"), FITS)

    assert left(decision, UndecidedCause.SUSPECT) == ["exit", "p"]
    assert names(decision.batch) == []


async def test_pods_on_which_the_solver_raised_are_suspects() -> None:
    async with desk() as at:
        decision = await at.decide(pod("raise"), FITS)

    assert left(decision, UndecidedCause.SUSPECT) == ["raise", "p"]


async def test_a_pod_that_had_to_be_left_out_of_a_plan_is_a_suspect() -> None:
    async with desk() as at:
        decision = await at.decide(pod("fail"), FITS)

    assert left(decision, UndecidedCause.SUSPECT) == ["fail"]
    assert [each.pod.name for each in decision.plan.placements] == ["p"]
    assert decision.plan.unplaced == ()


async def test_a_pod_that_fails_alone_has_an_answer_and_is_no_suspect_any_more() -> None:
    async with desk() as at:
        decision = await at.decide_isolated((pod("fail"),))

    assert left(decision, UndecidedCause.SUSPECT) == []
    assert [each.reasons[0].code for each in decision.plan.unplaced] == [ReasonCode.SOLVER_FAILED]


async def test_pods_that_are_too_costly_for_a_batch_are_told_from_those_that_come_later() -> None:
    async with desk() as at:
        decision = await at.decide(pod("costly"), pod("later"), FITS)

    assert (left(decision, UndecidedCause.TOO_COSTLY), left(decision, UndecidedCause.LATER), names(decision.batch)) == (
        ["costly"],
        ["later"],
        ["p"],
    )


async def test_a_costly_decision_leaves_nothing_over() -> None:
    async with desk() as at:
        decision = await at.decide_isolated((pod("costly"),))

    assert [each.reasons[0].code for each in decision.plan.unplaced] == [ReasonCode.TOO_COSTLY]


async def test_suspects_that_are_costly_come_back_as_such() -> None:
    async with desk() as at:
        decision = await at.decide_isolated((pod("costly"), FITS), is_costly=False)

    assert (left(decision, UndecidedCause.TOO_COSTLY), names(decision.batch)) == (["costly"], ["p"])


async def test_the_input_of_a_pod_that_ends_a_decision_alone_is_saved(tmp_path: Path) -> None:
    guilty = pod("exit", cpu=100)
    async with desk(tmp_path) as at:
        for _ in range(2):
            with pytest.raises(ChildEndedError):
                await at.decide_isolated((guilty,))

    (path,) = saved(tmp_path)
    assert recording.read(path).batch == batch(guilty)
    assert "default/exit" in recording.read(path).cause


async def test_a_plan_that_broke_a_rule_is_counted_and_its_input_saved(tmp_path: Path) -> None:
    async with desk(tmp_path) as at:
        decision = await at.decide(pod("lie", "c"))

    assert [each.node for each in decision.plan.placements] == ["n1"]
    (counted,) = at.metrics.plan_violations.collect()
    assert [sample.value for sample in counted.samples if sample.value] != []
    assert len(saved(tmp_path)) == 1


@pytest.mark.parametrize(("seconds", "count"), [(3600.0, 1), (0.0, 2)])
async def test_cases_are_saved_one_by_one_however_many_pods_break_decisions(
    seconds: float, count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scheduler.worker.decider._SAVE_SECONDS", seconds)
    async with desk(tmp_path) as at:
        await at.decide(pod("lie", "c"))
        await at.decide(pod("lie", "c"), pod("another"))

    assert len(saved(tmp_path)) == count


async def test_a_search_that_contradicted_itself_is_counted_and_its_input_saved(tmp_path: Path) -> None:
    async with desk(tmp_path) as at:
        decision = await at.decide(pod("contradict", "c"))

    assert [each.node for each in decision.plan.placements] == ["n1"]
    assert at.metrics.registry.get_sample_value("dovetail_defects_total", {"part": "search"}) == 1
    assert len(saved(tmp_path)) == 1


async def test_a_plan_that_was_made_aside_holds_while_nothing_that_it_takes_is_taken() -> None:
    async with desk() as at:
        at.cluster.apply(seen(FITS))
        decision = await at.decide_isolated((FITS,))
        assert await at.decider.is_still_valid(decision, Policy())
        device = decision.plan.allocations[0].allocation.results[0].device
        other = claim("d", allocation=allocation(result("gpu", device.device, "n1")))

        at.cluster.apply(seen(other))

        assert not await at.decider.is_still_valid(decision, Policy())


async def test_a_decision_is_saved_where_that_is_configured(tmp_path: Path) -> None:
    async with desk(files=DecisionFiles(folder=str(tmp_path / "files"))) as at:
        decision = await at.decide(FITS)
        path = Path(decision.file)
        await asyncio.to_thread(wait_until, path.exists)  # it is written in the background

    record = recording.read(path)
    assert [each.id for each in record.batch.pods] == [FITS.id]
    assert [each.name for each in record.snapshot.nodes] == ["n1"]


async def test_a_decision_that_was_saved_leaves_out_the_same_pods_when_it_is_repeated(tmp_path: Path) -> None:
    long = claim("long", request(selectors=(f'"{"a" * 10_000}" != "b"',)))
    async with desk(files=DecisionFiles(folder=str(tmp_path / "files"))) as at:
        at.cluster.apply(seen(long))
        at.worker.note(seen(long))
        decision = await at.decide_isolated((pod("long", "long"),))
        path = Path(decision.file)
        await asyncio.to_thread(wait_until, path.exists)

    record = recording.read(path)
    assert [[each.pod.name for each in left] for left in record.left_out] == [["long"]]
    again = simulator.answer(record).plan
    assert [each.reasons[0].code for each in again.unplaced] == [ReasonCode.TOO_COSTLY]
    assert (again.placements, again.unplaced) == (decision.plan.placements, decision.plan.unplaced)


async def test_no_decision_is_saved_by_default() -> None:
    async with desk() as at:
        assert (await at.decide(FITS)).file == ""


async def test_one_decision_is_saved_at_a_time(tmp_path: Path) -> None:
    recorder = DecisionRecorder(DecisionFiles(folder=str(tmp_path)), Metrics())
    before = recorder.begin(lambda: snapshot(node("n1")))
    assert before is not None
    record = recording.Record(
        cause="test", snapshot=before, batch=batch(FITS), policy=Policy(), seconds=1.0, deterministic_seconds=1.0
    )

    first, second = recorder.save(record), recorder.save(record)

    assert first.startswith(str(tmp_path))
    assert (second, recorder.begin(lambda: before)) == ("", None)

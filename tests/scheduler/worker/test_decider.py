"""A checked plan for every batch, whatever happens to the solver's process."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from scheduler.cluster import Cluster
from scheduler.observe.health import Health
from scheduler.observe.metrics import Metrics
from scheduler.worker import record
from scheduler.worker.decider import Decider, Decision
from scheduler.worker.process import Limits, Worker
from scheduler.worker.sight import Sight
from solver.domain import Pod, Policy, ReasonCode, SearchStatus, Unplaced
from tests.support.builders import batch, claim, gpu_class, gpu_slice, node, pod
from tests.support.cluster_builders import seen
from tests.support.shell_clock import VirtualClock
from tests.support.shell_worker import COMMAND

LIMITS = Limits(seconds=1.0, deterministic_seconds=1.0, workers=1, memory_limit_mib=512)
WORLD = (node("n1", cpu=8), gpu_slice("n1", count=2), gpu_class(), claim("c"))
FITS = pod("p", "c")


class Desk:
    """A decider over a real process with the misbehaving solver."""

    def __init__(self, folder: Path) -> None:
        self.metrics = Metrics()
        self.health = Health()
        self.clock = VirtualClock()
        self.check = self.health.ready("solver")
        sight = Sight(self.metrics, self.check, folder, self.clock)
        self.worker = Worker(LIMITS, COMMAND, on_start=sight.started)
        self.cluster = Cluster()
        for each in WORLD:
            self.cluster.apply(seen(each))
            self.worker.note(seen(each))
        self.decider = Decider(self.worker, self.cluster, LIMITS, sight)

    async def decide(self, *pods: Pod) -> Decision:
        return await self.decider.decide(batch(*pods), Policy())

    async def decide_alone(self, guilty: Pod) -> Unplaced:
        """Decide about a pod that has no place, on a process that is ready."""
        await self.worker.wait_until_ready()
        return (await self.decide(guilty)).plan.unplaced[0]

    def series(self, name: str) -> float:
        value = self.metrics.registry.get_sample_value(name)
        assert value is not None
        return value


@asynccontextmanager
async def desk(folder: Path | None = None, *, is_running: bool = True) -> AsyncIterator[Desk]:
    with TemporaryDirectory() as unwanted:
        async with _desk(folder or Path(unwanted), is_running=is_running) as made:
            yield made


@asynccontextmanager
async def _desk(folder: Path, *, is_running: bool) -> AsyncIterator[Desk]:
    made = Desk(folder)
    task = asyncio.create_task(made.worker.run() if is_running else asyncio.sleep(60))
    try:
        async with asyncio.timeout(60):
            if is_running:
                await made.worker.wait_until_ready()
            yield made
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def codes(unplaced: Unplaced) -> set[ReasonCode]:
    return {reason.code for reason in unplaced.reasons}


def saved(folder: Path) -> list[Path]:
    return list(folder.iterdir())


async def test_the_process_decides_while_it_is_there() -> None:
    async with desk() as at:
        decision = await at.decide(FITS)

    assert [each.node for each in decision.plan.placements] == ["n1"]
    assert at.series("dovetail_fallback_seconds") == 0


async def test_the_greedy_plan_covers_while_the_process_starts() -> None:
    async with desk(is_running=False) as at:
        decision = await at.decide(FITS)

    assert [each.node for each in decision.plan.placements] == ["n1"]
    assert decision.plan.report.status is SearchStatus.FALLBACK


async def test_how_long_only_the_fall_back_decides_is_shown() -> None:
    async with desk(is_running=False) as at:
        await at.decide(FITS)
        at.clock.advance(7.0)

        assert at.series("dovetail_fallback_seconds") == 7.0
        assert "only the greedy fall-back decides" in at.check.message


async def test_the_fall_back_ends_with_the_next_plan_of_the_process() -> None:
    async with desk() as at:
        await at.decide(pod("exit"))
        await at.worker.wait_until_ready()
        await at.decide(FITS)

        assert at.series("dovetail_fallback_seconds") == 0
        assert at.check.message == ""


async def test_a_pod_that_kills_the_process_has_its_batch_decided_all_the_same() -> None:
    async with desk() as at:
        decision = await at.decide(pod("exit"), FITS)

    assert {each.pod.name for each in decision.plan.placements} == {"exit", "p"}


async def test_a_pod_without_a_place_hears_that_the_solver_failed_so_that_it_is_tried_again() -> None:
    async with desk() as at:
        unplaced = await at.decide_alone(pod("exit", cpu=100))

    assert ReasonCode.SOLVER_FAILED in codes(unplaced)
    assert ReasonCode.NODE_RESOURCES in codes(unplaced)


async def test_batches_are_divided_after_the_process_ended_twice() -> None:
    pods = (pod("exit", cpu=100), pod("other", cpu=100))
    async with desk() as at:
        for _ in range(2):
            await at.worker.wait_until_ready()
            await at.decide(*pods)

        assert at.decider.divide(batch(*pods)) == (batch(pods[0]), batch(pods[1]))


async def test_the_input_of_the_guilty_pod_is_saved(tmp_path: Path) -> None:
    guilty = pod("exit", cpu=100)
    async with desk(tmp_path) as at:
        for _ in range(2):
            await at.decide_alone(guilty)

    (path,) = saved(tmp_path)
    assert record.read(path).batch == batch(guilty)
    assert "default/exit" in record.read(path).cause


async def test_the_process_is_not_asked_about_a_guilty_pod_again() -> None:
    guilty = pod("exit", cpu=100)
    async with desk() as at:
        for _ in range(2):
            await at.decide_alone(guilty)
        await at.worker.wait_until_ready()
        pid = at.worker.pid

        unplaced = await at.decide_alone(guilty)

        assert at.worker.pid == pid
        assert ReasonCode.SOLVER_FAILED in codes(unplaced)


async def test_a_guilty_pod_is_asked_about_again_once_it_has_changed() -> None:
    guilty = pod("exit", cpu=100)
    async with desk() as at:
        for _ in range(2):
            await at.decide_alone(guilty)

        at.decider.forget(guilty.uid)
        await at.worker.wait_until_ready()
        await at.decide(guilty)

        assert not at.worker.is_ready


async def test_a_plan_that_broke_a_rule_is_counted_and_its_input_saved(tmp_path: Path) -> None:
    async with desk(tmp_path) as at:
        decision = await at.decide(pod("lie", "c"))

    assert [each.node for each in decision.plan.placements] == ["n1"]
    (counted,) = at.metrics.plan_violations.collect()
    assert [sample.value for sample in counted.samples if sample.value] != []
    assert len(saved(tmp_path)) == 1


async def test_a_search_that_contradicted_itself_is_counted_and_its_input_saved(tmp_path: Path) -> None:
    async with desk(tmp_path) as at:
        decision = await at.decide(pod("contradict", "c"))

    assert [each.node for each in decision.plan.placements] == ["n1"]
    assert at.metrics.registry.get_sample_value("dovetail_defects_total", {"part": "search"}) == 1
    assert len(saved(tmp_path)) == 1

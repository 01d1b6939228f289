"""Decisions of a child of the worker process: its limits, its end, and what goes on meanwhile."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from scheduler.worker.decision_limits import Limits
from scheduler.worker.fork_server import COMMAND
from scheduler.worker.frames import Cause, Decided
from scheduler.worker.supervisor import ChildEndedError, DecisionRequest, SolveFailedError, WorkerLostError
from solver.domain import Policy, UndecidedCause
from tests.support.builders import batch, pod
from tests.support.shell_process import LIMITS, Shell, running

SHORT = replace(LIMITS, seconds=0.05)


async def ask(shell: Shell, name: str, *, limits: Limits = LIMITS, is_greedy: bool = False) -> Decided:
    question = DecisionRequest(
        batch=batch(pod(name, "c")),
        assumptions=shell.cluster.assumptions(),
        policy=Policy(),
        limits=limits,
        is_greedy=is_greedy,
    )
    return await shell.worker.decide_isolated(question)


def children_of(pid: int | None) -> list[int]:
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


async def forked(shell: Shell) -> int:
    """Wait until the worker has a child, and give its process id."""
    while not (found := children_of(shell.worker.pid)):  # noqa: ASYNC110 - another process forks
        await asyncio.sleep(0.01)
    return found[0]


def is_there(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def threads_of(pid: int | None) -> int:
    return len(list(Path(f"/proc/{pid}/task").iterdir()))


async def ended(pid: int) -> None:
    async with asyncio.timeout(60):
        while is_there(pid):  # noqa: ASYNC110 - another process ends
            await asyncio.sleep(0.01)


async def test_a_child_decides_on_what_its_parent_was_told() -> None:
    async with running() as shell:
        answer = await ask(shell, "p")

    assert answer.plan is not None
    assert [each.node for each in answer.plan.placements] == ["n1"]


async def test_batches_go_on_while_a_child_decides() -> None:
    async with running() as shell:
        task = asyncio.create_task(ask(shell, "hang"))
        await forked(shell)

        plan = await shell.decide(("p", "c"))

        assert plan.placements
        assert not task.done()
        task.cancel()


async def test_a_child_is_ended_when_its_time_is_up_and_its_parent_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scheduler.worker.supervisor._OVERRUN_SECONDS", 0.1)
    async with running() as shell:
        pid = shell.worker.pid
        with pytest.raises(ChildEndedError) as caught:
            await ask(shell, "hang", limits=SHORT)

        assert caught.value.cause is Cause.TIME
        assert shell.worker.pid == pid
        assert children_of(pid) == []  # not even a zombie


async def test_a_child_that_needs_too_much_memory_is_ended_alone() -> None:
    async with running() as shell:
        with pytest.raises(ChildEndedError) as caught:
            await ask(shell, "eat")

        assert caught.value.cause is Cause.MEMORY
        assert (await shell.decide(("p", "c"))).placements


async def test_what_a_child_of_a_new_worker_leaves_in_cycles_is_collected() -> None:
    """Before its first batch a worker has the garbage collector disabled."""
    async with running() as shell:
        assert (await ask(shell, "cycles")).plan is not None


async def test_a_child_that_crashes_is_told_and_its_parent_goes_on() -> None:
    async with running() as shell:
        with pytest.raises(ChildEndedError) as caught:
            await ask(shell, "exit")

        assert caught.value.cause is Cause.CRASH
        assert (await shell.decide(("p", "c"))).placements


async def test_where_the_search_raises_the_child_gives_the_greedy_plan() -> None:
    async with running() as shell:
        answer = await ask(shell, "raise")

    assert answer.plan is not None
    assert answer.plan.placements


async def test_a_greedy_plan_can_be_asked_for_where_the_search_crashes() -> None:
    async with running() as shell:
        answer = await ask(shell, "exit", is_greedy=True)

    assert answer.plan is not None
    assert answer.plan.placements


async def test_a_child_ends_with_its_parent() -> None:
    async with running() as shell:
        task = asyncio.create_task(ask(shell, "hang"))
        child = await forked(shell)

        with pytest.raises(WorkerLostError):
            await shell.decide(("exit",))

        with pytest.raises(WorkerLostError):
            await task
        await ended(child)


async def test_a_child_ends_with_the_shell() -> None:
    async with running() as shell:
        task = asyncio.create_task(ask(shell, "hang"))
        child = await forked(shell)
    await asyncio.gather(task, return_exceptions=True)

    await ended(child)


async def test_a_new_order_ends_a_child_of_which_no_answer_is_wanted() -> None:
    async with running() as shell:
        task = asyncio.create_task(ask(shell, "hang"))
        child = await forked(shell)
        task.cancel()

        answer = await ask(shell, "p")

        assert answer.plan is not None
        await ended(child)


async def test_the_parent_knows_what_a_child_has_learned() -> None:
    hasty = replace(LIMITS, cost_units=1)
    async with running(hasty, COMMAND) as shell:
        before = await shell.decide(("p", "c"))
        await ask(shell, "p")

        after = await shell.decide(("q", "d"))

    assert [each.name for each in before.undecided_pods(UndecidedCause.TOO_COSTLY)] == ["p"]
    assert [each.node for each in after.placements] == ["n1"]


async def test_the_process_has_one_thread_when_it_forks() -> None:
    async with running() as shell:
        await shell.decide(("p", "c"))

        assert threads_of(shell.worker.pid) == 1


async def test_a_process_that_spins_is_ended_soon_after_its_budget() -> None:
    async with running(SHORT) as shell:
        with pytest.raises(WorkerLostError, match=r"no plan within 1\.\d s"):
            await shell.decide(("spin",))


async def test_the_solver_that_raises_in_a_batch_does_not_end_the_child_aside() -> None:
    async with running() as shell:
        task = asyncio.create_task(ask(shell, "hang"))
        await forked(shell)

        with pytest.raises(SolveFailedError):
            await shell.decide(("raise",))

        assert not task.done()
        task.cancel()

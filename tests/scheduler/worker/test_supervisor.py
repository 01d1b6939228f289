"""The worker process, really started: fed, asked, killed, and started again."""

import asyncio
import contextlib
import os
import signal
from pathlib import Path
from typing import Any

import msgspec
import pytest

from scheduler.change import Change
from scheduler.worker import frames
from scheduler.worker.decision_limits import Limits
from scheduler.worker.fork_server import COMMAND
from scheduler.worker.supervisor import SolveFailedError, WorkerAbsentError, WorkerLostError, WorkerSupervisor
from solver.domain import Policy
from tests.support import shell_garbler, shell_listener
from tests.support.builders import batch, claim, claim_allocation, gpu_slice, node, placement, pod, result, toleration
from tests.support.cluster_builders import gone, seen, unit
from tests.support.shell_process import LIMITS, WORLD, Shell, running

HASTY = Limits(seconds=0.01, deterministic_seconds=1.0, workers=1, memory_limit_mib=512)
POD = pod("p", "c")


def is_alive(pid: int) -> bool:
    """Whether it is there. The kernel tells of the end of one a moment before it removes it, and calls it dead: X."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "X"
    except (FileNotFoundError, ProcessLookupError):
        return False


async def restarted(shell: Shell) -> None:
    await shell.worker.wait_until_ready()


async def test_the_process_solves_on_what_it_was_told() -> None:
    async with running(command=COMMAND) as shell:
        plan = await shell.decide(("p", "c"))

    assert [each.node for each in plan.placements] == ["n1"]
    assert [each.claim.name for each in plan.allocations] == ["c"]


async def test_changes_reach_the_replica_before_the_next_batch() -> None:
    async with running() as shell:
        shell.see(gone(WORLD[1]))

        plan = await shell.decide(("p", "c"))

    assert len(plan.unplaced) == 1


async def test_changes_do_not_pile_up_while_no_batch_is_asked_for(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    async with running(command=shell_listener.command(notes)) as shell:
        for name in ("a", "b", "c"):
            shell.see(seen(node(name)))
        while "c open" not in notes.read_text():  # noqa: ASYNC110 - another process writes the file
            await asyncio.sleep(0.01)

    assert notes.read_text().split("\n")[-4:-1] == ["a open", "b open", "c open"]


async def test_changes_go_on_between_batches_after_a_sender_that_took_long(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("scheduler.worker.supervisor._STALL_SECONDS", 0.05)
    notes = tmp_path / "notes"
    async with running(command=shell_listener.command(notes)) as shell:
        async with shell.worker._sending:  # noqa: SLF001 - as a batch with many changes has it
            shell.see(seen(node("a")))
            await asyncio.sleep(1.0)
        shell.see(seen(node("b")))
        async with asyncio.timeout(60):
            while "b open" not in notes.read_text():  # noqa: ASYNC110 - another process writes the file
                await asyncio.sleep(0.01)


async def test_sending_between_batches_ends_when_it_is_cancelled_as_a_change_has_been_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sent = asyncio.Event()

    async def send(*_: object) -> None:
        sent.set()

    monkeypatch.setattr(WorkerSupervisor, "_send_changes", send)
    monkeypatch.setattr("scheduler.worker.supervisor._UNSENT_SECONDS", 0.01)
    supervisor: Any = WorkerSupervisor(HASTY)
    supervisor._is_unsent.set()  # noqa: SLF001 - changes wait to be sent
    sending = asyncio.create_task(supervisor._send_between_batches(None))  # noqa: SLF001 - what `run` starts
    await sent.wait()
    sending.cancel()

    async with asyncio.timeout(60):
        await asyncio.gather(sending, return_exceptions=True)
    assert sending.cancelled()


async def test_what_is_told_between_batches_never_comes_after_what_is_newer(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("scheduler.worker.supervisor._UNSENT_SECONDS", 0.0)
    monkeypatch.setattr("scheduler.worker.supervisor._CHUNK", 1)
    notes, large = tmp_path / "notes", {"large": "x" * 1_000_000}
    async with running(command=shell_listener.command(notes)) as shell:
        for each in (node("a", labels=large), node("b", labels=large), node("c")):
            shell.see(seen(each))
        await asyncio.sleep(0.01)  # the first of them fills the pipe
        shell.see(seen(msgspec.structs.replace(node("c"), is_unschedulable=True)))
        with pytest.raises(SolveFailedError, match="nothing is solved here"):
            await shell.decide(("p", "c"))

    assert notes.read_text().split("\n")[-2] == "c cordoned"


async def test_nothing_is_told_during_a_batch_that_begins_as_another_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """The worker reads nothing then, and a send that waits too long ends it."""
    told, real = list[type](), frames.encode

    def changes_come(frame: frames.Order | frames.Answer) -> bytes:
        told.append(type(frame))
        if isinstance(frame, frames.Decide):
            shell.see(seen(node(f"new-{len(told)}")))
        return real(frame)

    monkeypatch.setattr("scheduler.worker.supervisor._UNSENT_SECONDS", 0.0)
    async with running() as shell:
        monkeypatch.setattr("scheduler.worker.frames.encode", changes_come)
        for _ in range(2):
            await shell.decide(("slow",))

        assert told == [frames.Decide, frames.Apply, frames.Decide]


async def test_pods_that_the_replica_has_come_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Equal pods of many tolerations are one copy in memory, and were as many in an order."""
    sizes, real = list[int](), frames.encode

    def measured(frame: frames.Order | frames.Answer) -> bytes:
        encoded = real(frame)
        if isinstance(frame, frames.Decide):
            sizes.append(len(encoded))
        return encoded

    monkeypatch.setattr("scheduler.worker.frames.encode", measured)
    large = [pod(f"p{i}", tolerations=[toleration(f"key-{k}") for k in range(2000)]) for i in range(3)]
    unseen = pod("unseen", "c")
    async with running(command=COMMAND) as shell:
        for each in large:
            shell.see(seen(each))
        answer = await shell.worker.decide(batch(*large, unseen), shell.cluster.assumptions(), Policy())

    assert answer.plan is not None
    assert {each.pod.name for each in answer.plan.placements} == {"p0", "p1", "p2", "unseen"}
    assert max(sizes) < 10_000


async def test_assumptions_of_the_shell_count_in_the_replica() -> None:
    parts = (claim_allocation(claim("c"), result("gpu", "gpu-0", "n1")), placement(POD, "n1"))
    async with running() as shell:
        shell.see(seen(POD))
        shell.cluster.assume(unit(*parts))

        plan = await shell.decide(("q", "d"))

    assert [each.device.device for each in plan.allocations[0].allocation.results] == ["gpu-1"]


async def test_a_process_that_ends_while_it_solves_is_lost() -> None:
    async with running() as shell:
        with pytest.raises(WorkerLostError):
            await shell.decide(("exit",))


async def test_no_process_solves_until_a_new_one_is_fed() -> None:
    async with running() as shell:
        with pytest.raises(WorkerLostError):
            await shell.decide(("exit",))

        with pytest.raises(WorkerAbsentError):
            await shell.decide(("p", "c"))


async def test_a_new_process_knows_everything_that_the_mirror_holds() -> None:
    async with running() as shell:
        shell.see(seen(node("n2", cpu=8)))
        shell.see(seen(gpu_slice("n2", count=1)))
        shell.see(gone(WORLD[0]))
        with pytest.raises(WorkerLostError):
            await shell.decide(("exit",))
        await restarted(shell)

        plan = await shell.decide(("p", "c"))

    assert [each.node for each in plan.placements] == ["n2"]


async def test_a_solve_that_takes_too_long_ends_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scheduler.worker.supervisor._OVERRUN_SECONDS", 0.3)
    async with running(HASTY) as shell:
        pid = shell.worker.pid
        assert pid is not None

        with pytest.raises(WorkerLostError, match="no plan within"):
            await shell.decide(("hang",))

        await restarted(shell)
        assert not is_alive(pid)


async def test_a_solver_that_raises_is_reported_with_its_trace_and_goes_on() -> None:
    async with running() as shell:
        with pytest.raises(SolveFailedError, match="the solver has a defect"):
            await shell.decide(("raise",))

        assert (await shell.decide(("p", "c"))).placements


async def test_the_first_decision_freezes_replica_and_caches() -> None:
    async with running() as shell:
        with pytest.raises(SolveFailedError, match="garbage collector"):
            await shell.decide(("frozen",))

        await shell.decide(("frozen",))


async def test_a_batch_that_needs_more_memory_than_allowed_ends_the_process_and_nothing_else() -> None:
    async with running() as shell:
        with pytest.raises(WorkerLostError):
            await shell.decide(("eat",))

        await restarted(shell)
        assert (await shell.decide(("p", "c"))).placements


async def test_a_plan_that_breaks_a_rule_is_replaced_by_the_greedy_one() -> None:
    async with running() as shell:
        answer = await shell.worker.decide(batch(pod("lie", "c")), shell.cluster.assumptions(), Policy())

    assert answer.violations
    assert answer.plan is not None
    assert [each.node for each in answer.plan.placements] == ["n1"]


async def test_a_process_that_is_killed_between_batches_is_started_again() -> None:
    async with running() as shell:
        pid = shell.worker.pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        while shell.worker.pid == pid:  # noqa: ASYNC110 - the worker offers no event for it
            await asyncio.sleep(0.01)
        await restarted(shell)

        assert (await shell.decide(("p", "c"))).placements


async def test_the_process_ends_with_its_keeper() -> None:
    async with running() as shell:
        pid = shell.worker.pid
        assert pid is not None

    assert not is_alive(pid)


async def test_changes_that_could_not_be_told_are_told_to_a_new_process(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    notes, failures, encode = tmp_path / "notes", [MemoryError()], frames.encode_change

    def failing(change: Change) -> msgspec.Raw:
        if change.key == "b" and failures:
            raise failures.pop()
        return encode(change)

    async with running(command=shell_listener.command(notes)) as shell:
        monkeypatch.setattr(frames, "encode_change", failing)
        for name in ("a", "b"):
            shell.see(seen(node(name)))
        async with asyncio.timeout(60):
            while "b open" not in notes.read_text():  # noqa: ASYNC110 - another process writes the file
                await asyncio.sleep(0.01)

    assert not failures


async def test_no_process_is_left_whenever_its_keeper_is_cancelled(tmp_path: Path) -> None:
    sleeper = tmp_path / "sleeper"
    sleeper.write_text("#!/bin/sh\nexec sleep 600\n")
    sleeper.chmod(0o700)
    before = children()
    for steps in range(16):
        task = asyncio.create_task(WorkerSupervisor(LIMITS, (str(sleeper),)).run())
        for _ in range(steps):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

        assert children() <= before


def children() -> set[str]:
    """Give the ids of the processes that this one has started and that are still there."""
    found = set[str]()
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(FileNotFoundError):  # a thread that has ended has no children any more
            found.update((task / "children").read_text().split())
    return found


async def test_a_command_that_cannot_be_started_is_reported_and_tried_again() -> None:
    failures: list[Exception] = []
    worker = WorkerSupervisor(LIMITS, ("/nonexistent/command",), on_failure=failures.append)
    task = asyncio.create_task(worker.run())
    async with asyncio.timeout(60):
        while len(failures) < 2:  # noqa: ASYNC110 - a list is no event
            await asyncio.sleep(0.01)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

    assert not worker.is_ready


@pytest.mark.parametrize("command", [("/bin/false",), ("/nowhere/at-all",)], ids=["ends at once", "is not there"])
async def test_a_task_that_waits_for_the_first_start_hears_of_its_failure(command: tuple[str, ...]) -> None:
    failures: list[Exception] = []
    worker = WorkerSupervisor(LIMITS, command, on_failure=failures.append)
    task = asyncio.create_task(worker.run())
    async with asyncio.timeout(60):
        await worker.wait_until_tried()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

    assert failures
    assert not worker.is_ready


@pytest.mark.parametrize("kind", ["garbage", "endless", "twice"])
async def test_a_process_that_answers_nonsense_is_ended(kind: str) -> None:
    async with running(command=shell_garbler.command(kind)) as shell:
        pid = shell.worker.pid
        assert pid is not None

        with pytest.raises(WorkerLostError):
            await shell.decide(("p", "c"))

        await restarted(shell)
        assert not is_alive(pid)


async def test_a_process_that_reads_nothing_is_ended_although_nothing_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scheduler.worker.supervisor._STALL_SECONDS", 0.2)
    async with running(command=shell_garbler.command("deaf")) as shell:
        pid = shell.worker.pid
        assert pid is not None
        shell.see(seen(node("a", labels={"large": "x" * 4_000_000})))
        async with asyncio.timeout(60):
            while is_alive(pid):  # noqa: ASYNC110 - another process ends
                await asyncio.sleep(0.01)


async def test_a_question_to_a_process_that_reads_nothing_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scheduler.worker.supervisor._UNSENT_SECONDS", 3600.0)
    monkeypatch.setattr(WorkerSupervisor, "end_seconds", lambda *_: 0.1)
    async with running(command=shell_garbler.command("deaf")) as shell:
        shell.see(seen(node("a", labels={"large": "x" * 4_000_000})))
        async with asyncio.timeout(60):
            with pytest.raises(WorkerLostError):
                await shell.worker.ask_child(lambda *_: frames.Apply(()), frames.FleetCounted)


async def test_a_process_that_reads_nothing_while_it_decides_is_not_stuck(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scheduler.worker.supervisor._STALL_SECONDS", 0.2)
    async with running() as shell:
        pid = shell.worker.pid
        decision = asyncio.create_task(shell.decide(("slow",)))
        await asyncio.sleep(0.1)
        shell.see(seen(node("a", labels={"large": "x" * 4_000_000})))
        await decision

        assert shell.worker.pid == pid


async def test_what_grows_with_the_cluster_is_allowed_for_and_most_in_the_first_decision() -> None:
    async with running() as shell:
        first = shell.worker.end_seconds(LIMITS)
        await shell.decide(("p", "c"))
        small = shell.worker.end_seconds(LIMITS)
        for number in range(995):
            shell.worker.note(seen(node(f"m{number}")))

        assert first == pytest.approx(LIMITS.seconds + 1.0 + 5 * 0.002)
        assert small == pytest.approx(LIMITS.seconds + 1.0 + 5 * 0.00004)
        assert shell.worker.end_seconds(LIMITS) == pytest.approx(LIMITS.seconds + 1.0 + 1000 * 0.00004)

"""
The keeper of the solver's process, in the shell: starts it, feeds it, asks it, ends it when it takes too long.

Orders are answered by id: a batch, decided by one task at a time, and beside it one decision of a child (`child`).
"""

import asyncio
import contextlib
import itertools
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, assert_never

import msgspec

from scheduler.backoff import doubled, jittered
from scheduler.change import Change, Kind
from scheduler.cluster import Assumptions
from scheduler.worker import frames
from scheduler.worker.decision_limits import Limits
from scheduler.worker.frames import Feed
from scheduler.worker.solver_process import Life, Starter, fork_server
from solver.domain import Batch, Policy

COMMAND: Final = (sys.executable, "-m", "scheduler.worker")

_CHUNK: Final = 500
"""Changes encoded at one go; the loop gets its turn in between."""
_CHUNK_BYTES: Final = 4 * 1024 * 1024
"""Bytes of changes after which a frame ends: both processes keep it whole."""
_MOST_UNTOLD: Final = 500
"""Changes that wait for the next batch at most: a pod that comes after hours does not wait until they are told."""
_START_SECONDS: Final = 60.0
_STALL_SECONDS: Final = 30.0
"""A process that reads nothing for so long between two batches is stuck."""
_RESTART_SECONDS: Final = 0.2
_LONGEST_RESTART_SECONDS: Final = 30.0
_OVERRUN_SECONDS: Final = 1.0
"""
A solve is given these CPU seconds more than its budget, for what no budget covers: reading the order, the snapshot, the
check of the plan, writing it down. The stages of the solver look at the budget, so one that takes longer is stuck.
"""
_OVERRUN_SECONDS_PER_OBJECT: Final = 40e-6
"""And so many more for each object of the cluster: all of that grows with it, and takes about half of this for each."""
_COLD_SECONDS_PER_OBJECT: Final = 2e-3
"""And so many more in the first decision of a process: it looks at every object for the first time, about 1 ms each."""
_LEAST_WAIT_SECONDS: Final = 0.05
"""CPU time is looked at no more often than this."""
_STARVED_FACTOR: Final = 3.0
"""Wall seconds for each of these CPU seconds, where other processes have the cores."""


class WorkerError(Exception):
    """The solver's process gave no plan."""


class WorkerAbsentError(WorkerError):
    """There is no process now: it starts, or starts again."""


class WorkerLostError(WorkerError):
    """The process ended, or was ended, while it solved."""


class SolveFailedError(WorkerError):
    """The solver raised; the process goes on."""


class AsideEndedError(WorkerError):
    """The child that decided aside was ended by a limit of its own, or crashed; the process goes on."""

    def __init__(self, cause: frames.Cause) -> None:
        super().__init__(f"the decision aside was ended: {cause}")
        self.cause: Final = cause


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """
    A batch to decide about aside, with what the replica does not know, and the rules and limits for it.

    With `may_leave` pods may be left for later or as too costly; `is_greedy` asks for the greedy plan alone.
    """

    batch: Batch
    assumptions: Assumptions
    policy: Policy
    limits: Limits
    may_leave: bool = False
    is_greedy: bool = False


class Worker:
    """
    The process and its feed.

    `run` keeps a process alive until it is cancelled. `decide` is called by one task at a time, `decide_aside` by
    another. Changes that are noted meanwhile reach the replica before the next batch, or earlier where many wait; a new
    process is fed with everything first.
    """

    def __init__(
        self,
        limits: Limits,
        command: Sequence[str] = COMMAND,
        on_start: Callable[[int], None] | None = None,
        on_failure: Callable[[Exception], None] | None = None,
    ) -> None:
        """`on_start` gets the process id when a process takes batches, `on_failure` why one could not be started."""
        self._limits: Final = limits
        self._command: Final = tuple(command)
        self._on_start: Final = on_start or _ignore
        self._on_failure: Final = on_failure or _ignore
        self._feed: Final = Feed()
        self._has_many: Final = asyncio.Event()
        self._telling: Final = asyncio.Lock()
        self._life: Life | None = None
        self._orders: Final = itertools.count()
        self._ready: Final = asyncio.Event()
        self._tried: Final = asyncio.Event()
        self._deaths_in_a_row = 0

    @property
    def is_ready(self) -> bool:
        """Whether a batch given now would be solved."""
        return self._ready.is_set()

    @property
    def object_count(self) -> int:
        """The number of objects that the process is fed with."""
        return self._feed.count

    @property
    def pid(self) -> int | None:
        """The process id, while there is one."""
        return self._life.pid if self._life is not None else None

    async def wait_until_ready(self) -> None:
        """Wait until a process is fed and takes batches."""
        await self._ready.wait()

    async def wait_until_tried(self) -> None:
        """Wait until a process has taken batches once, or the first one could not be started."""
        await self._tried.wait()

    def note(self, change: Change) -> None:
        """Take a change that the mirror took."""
        self._feed.note(change)
        if len(self._feed) >= _MOST_UNTOLD:
            self._has_many.set()

    async def run(self) -> None:
        """Keep a process alive; start another when it ends, after a pause that doubles while none lives long."""
        while True:
            try:
                await self._breed()
            except OSError as error:  # no memory, process or file is left: others may end and give some back
                self._on_failure(error)
                self._tried.set()
            await self._pause()

    async def decide(self, batch: Batch, assumptions: Assumptions, policy: Policy) -> frames.Decided:
        """
        Solve a batch on the replica, brought up to date first.

        Raise `WorkerAbsentError`, `WorkerLostError` (ended or too slow: it is ended then) or `SolveFailedError`.
        """
        question = Question(batch=batch, assumptions=assumptions, policy=policy, limits=self._limits)
        answer = await self._ask(question, None, self.end_seconds(self._limits))
        self._deaths_in_a_row = 0
        return answer

    async def decide_aside(self, question: Question) -> frames.Decided:
        """
        Solve a batch in a child of the process, which goes on with others meanwhile.

        Raise `AsideEndedError` where the child broke a limit or crashed, and what `decide` raises.
        """
        end_seconds = self.end_seconds(question.limits)
        aside = frames.Aside(
            end_seconds=end_seconds * _STARVED_FACTOR,
            cpu_seconds=end_seconds,
            memory_limit_mib=question.limits.memory_limit_mib,
            may_leave=question.may_leave,
            is_greedy=question.is_greedy,
        )
        patience = aside.end_seconds + self.end_seconds(self._limits) * _STARVED_FACTOR
        return await self._ask(question, aside, patience)

    def end_seconds(self, limits: Limits) -> float:
        """Give the CPU seconds of one thread after which a solve is stuck, for the cluster as large as it is."""
        is_warm = self._life is not None and self._life.has_answered
        per_object = _OVERRUN_SECONDS_PER_OBJECT if is_warm else _COLD_SECONDS_PER_OBJECT
        return limits.seconds + _OVERRUN_SECONDS + per_object * self._feed.count

    async def _ask(self, question: Question, aside: frames.Aside | None, end_seconds: float) -> frames.Decided:
        life = self._life
        if life is None or not self.is_ready:
            raise WorkerAbsentError("the solver's process is starting")
        number = next(self._orders)
        future = life.expect(number)
        try:
            async with asyncio.timeout(end_seconds * _STARVED_FACTOR):
                await self._tell(life)
                life.writer.write(frames.encode(self._order(number, question, aside)))
                answer = await self._answered(life, future, end_seconds)
        except TimeoutError as error:
            self._give_up(life)
            raise WorkerLostError(f"no plan within {end_seconds:.1f} s; the process was ended") from error
        except (asyncio.IncompleteReadError, OSError) as error:
            self._give_up(life)
            raise WorkerLostError(f"the process ended while it solved: {error}") from error
        finally:
            future.cancel()
        match answer:
            case frames.Decided():
                return answer
            case frames.SolveFailed(message=message):
                raise SolveFailedError(message)
            case frames.Ended(cause=cause):
                raise AsideEndedError(cause)
            case frames.WorkerReady():
                raise WorkerLostError("the process started over by itself")
            case _:
                assert_never(answer)

    def _order(self, number: int, question: Question, aside: frames.Aside | None) -> frames.Decide:
        """Write an order for a replica that was just told of everything: it has most pods of the batch."""
        limits, pods = question.limits, question.batch.pods
        known = frozenset(pod.id for pod in pods if self._feed.has_told(Kind.PODS, str(pod.id), pod))
        return frames.Decide(
            id=number,
            batch=frames.lean(question.batch, known),
            known=known,
            assumptions=question.assumptions,
            policy=question.policy,
            seconds=limits.seconds,
            deterministic_seconds=limits.deterministic_seconds,
            cost_units=limits.cost_units,
            seed=limits.seed,
            workers=limits.workers,
            aside=aside,
        )

    async def _answered(self, life: Life, future: asyncio.Future[frames.Answer], end_seconds: float) -> frames.Answer:
        """
        Wait for an answer while the process has not used so many CPU seconds; raise `TimeoutError` when it has.

        Its CPU time counts and not the clock on the wall: on a loaded machine it may need the threefold of that.
        """
        started, most = life.cpu_seconds(), end_seconds * self._limits.workers
        while not future.done():
            left = most - (life.cpu_seconds() - started)
            if left <= 0:
                raise TimeoutError
            await asyncio.wait((future,), timeout=max(left / self._limits.workers, _LEAST_WAIT_SECONDS))
        return future.result()

    def _give_up(self, life: Life) -> None:
        if life is self._life:
            self._ready.clear()
        life.end()

    async def _breed(self) -> None:
        """Start the process that workers are forked from, and one worker after the other until one does not come up."""
        async with fork_server(self._command, self._limits.memory_limit_mib) as starter:
            while starter.is_running and await self._live(starter):
                await self._pause()

    async def _live(self, starter: Starter) -> bool:
        """Have one worker started and kept fed until it ends; give whether it came up."""
        async with starter.started() as life:
            return await self._keep(life)

    async def _keep(self, life: Life) -> bool:
        self._life = life
        try:
            is_up = await self._bring_up(life)
            await self._keep_fed(life)
        finally:
            self._ready.clear()
            self._life = None
            self._feed.lose()
        return is_up

    async def _bring_up(self, life: Life) -> bool:
        """Feed the process with everything; when that fails, end it."""
        try:
            async with asyncio.timeout(_START_SECONDS):
                self._feed.start_over()
                await self._tell(life)
        except (TimeoutError, OSError) as error:
            life.end()
            self._on_failure(error)
            return False
        else:
            self._ready.set()
            self._on_start(life.pid)
            return True
        finally:
            self._tried.set()

    async def _pause(self) -> None:
        """Start again at once after the first end, and later and later while none lives long."""
        self._deaths_in_a_row += 1
        if self._deaths_in_a_row > 1:
            await asyncio.sleep(jittered(doubled(_RESTART_SECONDS, _LONGEST_RESTART_SECONDS, self._deaths_in_a_row)))

    async def _keep_fed(self, life: Life) -> None:
        """Tell changes between the batches too, whenever many wait, until the process ends."""
        feeding = asyncio.create_task(self._feed_between(life))
        try:
            await life.wait()
        finally:
            feeding.cancel()
            await asyncio.gather(feeding, return_exceptions=True)

    async def _feed_between(self, life: Life) -> None:
        with contextlib.suppress(OSError):  # the process has ended, or was ended because it reads nothing
            while True:
                await self._has_many.wait()
                async with asyncio.timeout(_STALL_SECONDS):
                    await self._tell(life)

    async def _tell(self, life: Life) -> None:
        """Send every change that this process has not seen; one caller at a time, or an old state would come last."""
        async with self._telling:
            self._has_many.clear()
            try:
                while changes := self._feed.take():
                    await self._send(life, changes)
            except BaseException:
                self._give_up(life)  # it lacks what was taken: only a new process is told that again
                raise

    async def _send(self, life: Life, changes: Sequence[Change]) -> None:
        chunk, size = list[msgspec.Raw](), 0
        for number, change in enumerate(changes, start=1):
            raw = frames.encode_change(change)
            chunk.append(raw)
            size += len(bytes(raw))
            if len(chunk) == _CHUNK or size >= _CHUNK_BYTES or number == len(changes):
                life.writer.write(frames.encode(frames.Apply(tuple(chunk))))
                chunk, size = [], 0
                await life.writer.drain()
                await asyncio.sleep(0)  # the loop renews the Lease too


def _ignore(_: object) -> None:
    """Nobody wants to know."""

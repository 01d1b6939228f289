"""The keeper of the solver's process, in the shell: starts it, feeds it, ends it when it takes too long."""

import asyncio
import contextlib
import os
import signal
import socket
import sys
from asyncio.subprocess import DEVNULL, Process
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Final

from scheduler.backoff import doubled, jittered
from scheduler.change import Change
from scheduler.cluster import Assumptions
from scheduler.worker import frames
from scheduler.worker.feed import Feed
from solver.domain import Batch, Policy

COMMAND: Final = (sys.executable, "-m", "scheduler.worker")

_CHUNK: Final = 500
"""Changes encoded at one go; the loop gets its turn in between."""
_MOST_UNTOLD: Final = 500
"""Changes that wait for the next batch at most: a pod that comes after hours does not wait until they are told."""
_START_SECONDS: Final = 60.0
_RESTART_SECONDS: Final = 0.2
_LONGEST_RESTART_SECONDS: Final = 30.0
_OVERRUN_FACTOR: Final = 3.0
_OVERRUN_SECONDS: Final = 5.0
"""A solve is given its budget times the factor, and these seconds more, before its process is ended."""
_ENVIRONMENT: Final = {"MALLOC_ARENA_MAX": "2"}  # arenas of 64 MiB per thread would eat the memory limit


class WorkerError(Exception):
    """The solver's process gave no plan."""


class WorkerAbsentError(WorkerError):
    """There is no process now: it starts, or starts again."""


class WorkerLostError(WorkerError):
    """The process ended, or was ended, while it solved."""


class SolveFailedError(WorkerError):
    """The solver raised; the process goes on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a solve may use: seconds of wall time, of the solver's own measure, threads, and MiB of address space."""

    seconds: float
    deterministic_seconds: float
    workers: int
    memory_limit_mib: int
    seed: int = 0

    @property
    def watchdog_seconds(self) -> float:
        """Seconds after which a solve is ended from outside."""
        return self.seconds * _OVERRUN_FACTOR + _OVERRUN_SECONDS


class _Life:
    """One process from start to end."""

    def __init__(self, process: Process, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.process: Final = process
        self.reader: Final = reader
        self.writer: Final = writer

    def end(self) -> None:
        """End the process now; it holds nothing that could be lost."""
        if self.process.returncode is None:
            # Not Process.kill: it would wait for the process itself, and steal its status from asyncio's watcher.
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.process.pid, signal.SIGKILL)


class Worker:
    """
    The process and its feed.

    `run` keeps a process alive until it is cancelled. `decide` is called by one task at a time. Changes that are
    noted meanwhile reach the replica before the next batch, or earlier where many wait; a new process is fed with
    everything first.
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
        self._life: _Life | None = None
        self._ready: Final = asyncio.Event()
        self._tried: Final = asyncio.Event()
        self._deaths_in_a_row = 0

    @property
    def is_ready(self) -> bool:
        """Whether a batch given now would be solved."""
        return self._ready.is_set()

    @property
    def pid(self) -> int | None:
        """The process id, while there is one."""
        return self._life.process.pid if self._life is not None else None

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
                async with self._living() as life:
                    await self._bring_up(life)
                    await self._keep_fed(life)
            except OSError as error:  # no memory, process or file is left: others may end and give some back
                self._on_failure(error)
                self._tried.set()
            self._deaths_in_a_row += 1
            await asyncio.sleep(jittered(doubled(_RESTART_SECONDS, _LONGEST_RESTART_SECONDS, self._deaths_in_a_row)))

    async def decide(self, batch: Batch, assumptions: Assumptions, policy: Policy) -> frames.Decided:
        """
        Solve a batch on the replica, brought up to date first.

        Raise `WorkerAbsentError`, `WorkerLostError` (ended or too slow: it is ended then) or `SolveFailedError`.
        """
        life = self._life
        if life is None or not self.is_ready:
            raise WorkerAbsentError("the solver's process is starting")
        order = frames.Decide(
            batch=batch,
            assumptions=assumptions,
            policy=policy,
            seconds=self._limits.seconds,
            deterministic_seconds=self._limits.deterministic_seconds,
            seed=self._limits.seed,
            workers=self._limits.workers,
        )
        try:
            async with asyncio.timeout(self._limits.watchdog_seconds):
                await self._tell(life)
                life.writer.write(frames.encode(order))
                answer = await frames.read_answer(life.reader)
        except TimeoutError as error:
            self._give_up(life)
            raise WorkerLostError(
                f"no plan within {self._limits.watchdog_seconds:.1f} s; the process was ended"
            ) from error
        except (asyncio.IncompleteReadError, OSError) as error:
            self._give_up(life)
            raise WorkerLostError("the process ended while it solved") from error
        except asyncio.CancelledError:
            self._give_up(life)  # its answer would be taken for the next batch's
            raise
        self._deaths_in_a_row = 0
        match answer:
            case frames.Decided():
                return answer
            case frames.Failed(message=message):
                raise SolveFailedError(message)
            case frames.Ready():
                raise WorkerLostError("the process started over by itself")

    def _give_up(self, life: _Life) -> None:
        self._ready.clear()
        life.end()

    @contextlib.asynccontextmanager
    async def _living(self) -> AsyncIterator[_Life]:
        """Start a process for the block, which it does not outlive."""
        ours, theirs = socket.socketpair()
        with ours, theirs:
            ours.setblocking(False)  # noqa: FBT003 - the library's own signature
            reader, writer = await asyncio.open_connection(sock=ours)
            with contextlib.closing(writer):
                process = await asyncio.create_subprocess_exec(
                    *self._command,
                    str(theirs.fileno()),
                    str(self._limits.memory_limit_mib),
                    pass_fds=(theirs.fileno(),),
                    stdin=DEVNULL,
                    env=os.environ | _ENVIRONMENT,
                )
                theirs.close()  # or the end of the process would not close the connection
                self._life = life = _Life(process, reader, writer)
                try:  # with no wait since the process is there: a cancellation would leave it to itself
                    yield life
                finally:
                    self._ready.clear()
                    self._life = None
                    self._feed.lose()
                    life.end()
                    writer.close()
                    await process.wait()

    async def _bring_up(self, life: _Life) -> None:
        """Wait for the process and feed it with everything; when it fails to start, end it."""
        try:
            async with asyncio.timeout(_START_SECONDS):
                await frames.read_answer(life.reader)
                self._feed.start_over()
                await self._tell(life)
        except (TimeoutError, asyncio.IncompleteReadError, OSError) as error:
            life.end()
            self._on_failure(error)
        else:
            self._ready.set()
            self._on_start(life.process.pid)
        self._tried.set()

    async def _keep_fed(self, life: _Life) -> None:
        """Tell changes between the batches too, whenever many wait, until the process ends."""
        feeding = asyncio.create_task(self._feed_between(life))
        try:
            await life.process.wait()
        finally:
            feeding.cancel()
            await asyncio.gather(feeding, return_exceptions=True)

    async def _feed_between(self, life: _Life) -> None:
        with contextlib.suppress(OSError):  # the process has ended, and whoever waits for it knows
            while True:
                await self._has_many.wait()
                await self._tell(life)

    async def _tell(self, life: _Life) -> None:
        """Send every change that this process has not seen; one caller at a time, or an old state would come last."""
        async with self._telling:
            self._has_many.clear()
            try:
                while changes := self._feed.take():
                    await self._send(life, changes)
            except BaseException:
                self._give_up(life)  # it lacks what was taken: only a new process is told that again
                raise

    async def _send(self, life: _Life, changes: Sequence[Change]) -> None:
        for start in range(0, len(changes), _CHUNK):
            chunk = tuple(frames.encode_change(change) for change in changes[start : start + _CHUNK])
            life.writer.write(frames.encode(frames.Apply(chunk)))
            await life.writer.drain()


def _ignore(_: object) -> None:
    """Nobody wants to know."""

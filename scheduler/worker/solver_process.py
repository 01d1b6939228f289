"""One solver's process as the shell sees it: its connection, its answers by id, its CPU time, its end.

How the shell starts solver's processes: the process that they are forked from, and one of them after the other.
"""

import asyncio
import contextlib
import os
import signal
import socket
from asyncio.subprocess import DEVNULL, Process
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Final

from scheduler.worker import frames

_TICKS_PER_SECOND: Final = os.sysconf("SC_CLK_TCK")
_AFTER_NAME: Final = b") "
"""What follows the process's name in /proc/PID/stat, which may hold anything else."""
_USER_TICKS, _SYSTEM_TICKS = 11, 12
"""Fields utime and stime of /proc/PID/stat, counted from the one behind the name."""


class Life:
    """One process from its first word to its end; until `wait` returns no other process can have its id."""

    def __init__(self, pid: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Raise `ProcessLookupError` where it has ended already."""
        self.pid: Final = pid
        self.writer: Final = writer
        self._reader: Final = reader
        self._handle: Final = os.pidfd_open(pid)
        self._has_ended: Final = asyncio.Event()
        self._waiting: Final[dict[int, asyncio.Future[frames.Answer]]] = {}
        self._is_silent = False
        self.has_answered = False
        """Whether it has decided about a batch: it has looked at the whole cluster."""

    @classmethod
    @contextlib.asynccontextmanager
    async def begun(cls, pid: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> AsyncIterator["Life"]:
        """Hear its answers during the block, which it does not outlive."""
        life = cls(pid, reader, writer)
        loop = asyncio.get_running_loop()
        loop.add_reader(life._handle, life._note_end)
        hearing = asyncio.create_task(life._hear())
        try:
            yield life
        finally:
            life.end()
            hearing.cancel()
            await asyncio.gather(hearing, return_exceptions=True)
            life._fall_silent(ConnectionResetError("the process was ended"))
            await life.wait()
            loop.remove_reader(life._handle)
            os.close(life._handle)

    def expect(self, order: int) -> asyncio.Future[frames.Answer]:
        """
        Give what the answer to an order will be.

        The future raises `OSError` or `asyncio.IncompleteReadError` when the process ends before, or sends nonsense.
        """
        future = asyncio.get_running_loop().create_future()
        if self._is_silent:
            future.set_exception(ConnectionResetError("the process has ended"))
        else:
            self._waiting[order] = future
            future.add_done_callback(lambda _: self._waiting.pop(order, None))
        return future

    async def wait(self) -> None:
        """Wait until the process has ended."""
        await self._has_ended.wait()

    def end(self) -> None:
        """End the process now; it holds nothing that could be lost."""
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._handle, signal.SIGKILL)

    def cpu_seconds(self) -> float:
        """Give the CPU seconds that it has used, all threads together; 0 where it has ended."""
        try:
            fields = Path(f"/proc/{self.pid}/stat").read_bytes().rpartition(_AFTER_NAME)[2].split()
        except OSError:
            return 0.0
        return (int(fields[_USER_TICKS]) + int(fields[_SYSTEM_TICKS])) / _TICKS_PER_SECOND

    def _note_end(self) -> None:
        asyncio.get_running_loop().remove_reader(self._handle)  # it would be ready for ever
        self._has_ended.set()

    async def _hear(self) -> None:
        """Hand answers to who waits for them, until the process is gone; what comes too late is dropped."""
        try:
            while True:
                answer = await frames.read_answer(self._reader)
                if isinstance(answer, frames.WorkerReady):
                    raise frames.GarbledError("the process says for a second time that it has started")
                self.has_answered |= isinstance(answer, frames.Decided)
                future = self._waiting.get(answer.id)
                if future is not None and not future.done():
                    future.set_result(answer)
        except (OSError, asyncio.IncompleteReadError) as error:
            self.end()
            self._fall_silent(error)

    def _fall_silent(self, error: Exception) -> None:
        """Let everything that waits for an answer know that none comes."""
        self._is_silent = True
        for future in tuple(self._waiting.values()):
            if not future.done():
                future.set_exception(error)


_START_SECONDS: Final = 60.0
_ENVIRONMENT: Final = {
    "MALLOC_ARENA_MAX": "2",  # arenas of 64 MiB per thread would eat the memory limit
    "OPENBLAS_NUM_THREADS": "1",  # a fork takes none of its threads along
}


class Starter:
    """A running fork server (`fork_server`), as long as it runs."""

    def __init__(self, process: Process, control: socket.socket) -> None:
        self._process: Final = process
        self._control: Final = control

    @property
    def is_running(self) -> bool:
        """Whether it can fork another process."""
        return self._process.returncode is None

    @contextlib.asynccontextmanager
    async def started(self) -> AsyncIterator[Life]:
        """Have a process forked for the block, which it does not outlive; raise `OSError` where none starts."""
        ours, theirs = socket.socketpair()
        with ours:
            with theirs:
                socket.send_fds(self._control, [b"+"], [theirs.fileno()])
            ours.setblocking(False)  # noqa: FBT003 - the library's own signature
            reader, writer = await asyncio.open_connection(sock=ours)
            with contextlib.closing(writer):
                async with Life.begun(await _first_word(reader), reader, writer) as life:
                    yield life


@contextlib.asynccontextmanager
async def fork_server(command: Sequence[str], memory_limit_mib: int) -> AsyncIterator[Starter]:
    """Start a fork server for the block, which it does not outlive; raise `OSError` where it cannot be started."""
    ours, theirs = socket.socketpair()
    with ours:
        process = await _executed(command, theirs, memory_limit_mib)
        try:  # with no wait since the process is there: a cancellation would leave it to itself
            yield Starter(process, ours)
        finally:
            await _end(process)


async def _executed(command: Sequence[str], control: socket.socket, memory_limit_mib: int) -> Process:
    """Start the command with its end of the control socket, which is closed here: else its end would not be seen."""
    with control:
        return await asyncio.create_subprocess_exec(
            *command,
            str(control.fileno()),
            str(memory_limit_mib),
            pass_fds=(control.fileno(),),
            stdin=DEVNULL,
            env=os.environ | _ENVIRONMENT,
        )


async def _end(process: Process) -> None:
    if process.returncode is None:
        # Not Process.kill: it would wait for the process itself, and steal its status from asyncio's watcher.
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGKILL)
    await process.wait()


async def _first_word(reader: asyncio.StreamReader) -> int:
    """Wait until a process says that it has started, and give its id; raise `OSError` where it does not."""
    try:
        async with asyncio.timeout(_START_SECONDS):
            answer = await frames.read_answer(reader)
    except (TimeoutError, asyncio.IncompleteReadError) as error:
        raise OSError(f"the solver's process did not start: {error!r}") from error
    if not isinstance(answer, frames.WorkerReady):
        raise frames.GarbledError("the process answers before it says that it has started")
    return answer.pid

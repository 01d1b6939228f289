"""
The fork server and one worker, as the shell sees them.

`start_fork_server` runs the fork server for a block; `ForkServer.start_worker` has a worker forked, again for a block.
`SolverProcess` is that worker: its connection, its answers by order id, its CPU time and its end.
"""

import asyncio
import contextlib
import itertools
import os
import signal
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

from scheduler.worker import frames
from scheduler.worker.fork_server import ForkServers, LaunchedServer

_TICKS_PER_SECOND: Final = os.sysconf("SC_CLK_TCK")
_AFTER_NAME: Final = b") "
"""Ends the process's name in /proc/PID/stat; the name itself may contain any characters."""
_USER_TICKS, _SYSTEM_TICKS = 11, 12
"""Positions of utime and stime in /proc/PID/stat, counted from the field after the name."""


class SolverProcess:
    """One worker from its first frame to its end. Its process id is not reused before `wait` returns."""

    def __init__(self, pid: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Raise `ProcessLookupError` if the process has ended already."""
        self.pid: Final = pid
        self.writer: Final = writer
        self._reader: Final = reader
        self._handle: Final = os.pidfd_open(pid)
        self._has_ended: Final = asyncio.Event()
        self._orders: Final = itertools.count()
        self._pending: Final[dict[int, asyncio.Future[frames.Answer]]] = {}
        self._is_closed = False
        self.has_answered = False
        """Whether it has decided a batch, so that its cache is filled."""

    @classmethod
    @contextlib.asynccontextmanager
    async def connected(
        cls, pid: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> AsyncIterator["SolverProcess"]:
        """Read its answers during the block; the process is killed at the end of the block."""
        process = cls(pid, reader, writer)
        loop = asyncio.get_running_loop()
        loop.add_reader(process._handle, process._note_end)
        reading = asyncio.create_task(process._read_answers())
        try:
            yield process
        finally:
            process.kill()
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
            process._fail_pending(ConnectionResetError("the process was ended"))
            await process.wait()
            loop.remove_reader(process._handle)
            os.close(process._handle)

    def expect(self) -> tuple[int, asyncio.Future[frames.Answer]]:
        """
        Return the id of a new order, and a future for its answer.

        It raises `OSError` or `asyncio.IncompleteReadError` if the process ends first or sends a malformed frame.
        """
        order, future = next(self._orders), asyncio.get_running_loop().create_future()
        if self._is_closed:
            future.set_exception(ConnectionResetError("the process has ended"))
        else:
            self._pending[order] = future
            future.add_done_callback(lambda _: self._pending.pop(order, None))
        return order, future

    async def wait(self) -> None:
        """Wait until the process has ended."""
        await self._has_ended.wait()

    def kill(self) -> None:
        """Kill the process now; it holds no state that could be lost. Does nothing once it has ended."""
        if self._has_ended.is_set():
            return  # the handle may be closed, and its number another process's
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._handle, signal.SIGKILL)

    def cpu_seconds(self) -> float:
        """Return the CPU seconds that all its threads have used; 0 if it has ended."""
        try:
            fields = Path(f"/proc/{self.pid}/stat").read_bytes().rpartition(_AFTER_NAME)[2].split()
        except OSError:
            return 0.0
        return (int(fields[_USER_TICKS]) + int(fields[_SYSTEM_TICKS])) / _TICKS_PER_SECOND

    def _note_end(self) -> None:
        asyncio.get_running_loop().remove_reader(self._handle)  # it would stay readable for ever
        self._has_ended.set()

    async def _read_answers(self) -> None:
        """Resolve the futures of answered orders until the process ends; late answers are dropped."""
        try:
            while True:
                answer = await frames.read_answer(self._reader)
                if isinstance(answer, frames.WorkerReady):
                    raise frames.MalformedFrameError("the process reported its start twice")
                self.has_answered |= isinstance(answer, frames.Decided)
                future = self._pending.get(answer.id)
                if future is not None and not future.done():
                    future.set_result(answer)
        except (OSError, asyncio.IncompleteReadError) as error:
            self.kill()
            self._fail_pending(error)

    def _fail_pending(self, error: Exception) -> None:
        """Fail all futures: no further answer comes."""
        self._is_closed = True
        for future in tuple(self._pending.values()):
            if not future.done():
                future.set_exception(error)


_START_SECONDS: Final = 60.0


class ForkServer:
    """A running fork server."""

    def __init__(self, launched: LaunchedServer) -> None:
        self._launched: Final = launched

    @property
    def is_running(self) -> bool:
        """Whether it can fork another worker."""
        return self._launched.process.poll() is None

    @contextlib.asynccontextmanager
    async def start_worker(self) -> AsyncIterator[SolverProcess]:
        """Have a worker forked for the block; it is killed at the end. Raise `OSError` if it does not start."""
        ours, theirs = socket.socketpair()
        with ours:
            with theirs:
                socket.send_fds(self._launched.control, [b"+"], [theirs.fileno()])
            ours.setblocking(False)  # noqa: FBT003 - the library's own signature
            reader, writer = await asyncio.open_connection(sock=ours)
            with contextlib.closing(writer):
                async with SolverProcess.connected(await _ready_pid(reader), reader, writer) as process:
                    yield process


@contextlib.asynccontextmanager
async def start_fork_server(servers: ForkServers) -> AsyncIterator[ForkServer]:
    """Run a fork server for the block; it is killed at the end. Raise `OSError` if it cannot be started."""
    launched = servers.take()
    try:
        yield ForkServer(launched)
    finally:
        launched.kill()
        await asyncio.to_thread(launched.process.wait)


async def _ready_pid(reader: asyncio.StreamReader) -> int:
    """Wait until a worker reports its start and return its process id; raise `OSError` if it does not."""
    try:
        async with asyncio.timeout(_START_SECONDS):
            answer = await frames.read_answer(reader)
    except (TimeoutError, asyncio.IncompleteReadError) as error:
        raise OSError(f"the worker process did not start: {error!r}") from error
    if not isinstance(answer, frames.WorkerReady):
        raise frames.MalformedFrameError("the process answered before it reported its start")
    return answer.pid

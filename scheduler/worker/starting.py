"""How the shell starts solver's processes: the process that they are forked from, and one of them after the other."""

import asyncio
import contextlib
import os
import signal
import socket
from asyncio.subprocess import DEVNULL, Process
from collections.abc import AsyncIterator, Sequence
from typing import Final

from scheduler.worker import frames
from scheduler.worker.life import Life

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
    if not isinstance(answer, frames.Ready):
        raise frames.GarbledError("the process answers before it says that it has started")
    return answer.pid

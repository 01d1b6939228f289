"""What ends a worker process, and only this one."""

import asyncio
import os
import signal
import subprocess

from scheduler.worker.solver_process import SolverProcess


async def test_a_process_that_has_ended_is_not_killed_again() -> None:
    """Its handle is closed then, and may have the number of another process's."""
    started = await asyncio.create_subprocess_exec(
        "sleep", "100", stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    assert started.stdin is not None
    assert started.stdout is not None
    async with SolverProcess.connected(started.pid, started.stdout, started.stdin) as process:
        number = process._handle  # noqa: SLF001 - the number that another file gets
    assert await started.wait() == -signal.SIGKILL

    with subprocess.Popen(["sleep", "100"]) as other:  # noqa: ASYNC220 - it only has to be there
        handle = os.pidfd_open(other.pid)
        os.dup2(handle, number)
        process.kill()
        other.terminate()
        assert other.wait(60) == -signal.SIGTERM  # a signal that was sent before would have ended it
    for each in {handle, number}:
        os.close(each)

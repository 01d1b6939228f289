"""
Launches the fork server of the worker (`python -m scheduler.worker`).

This module imports almost nothing, so that the command `run` launches the first fork server before it imports the rest
of the scheduler: both load at the same time.
"""

import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from typing import Final, NamedTuple

COMMAND: Final = (sys.executable, "-P", "-m", "scheduler.worker")
"""`-P`: modules in the folder where the scheduler was started are not imported."""

ENVIRONMENT: Final = {
    "MALLOC_ARENA_MAX": "2",  # arenas of 64 MiB per thread would use up the memory limit
    "OPENBLAS_NUM_THREADS": "1",  # a fork does not copy threads
}


class LaunchedServer(NamedTuple):
    """A fork server and our end of its control socket; it ends when that is closed."""

    process: "subprocess.Popen[bytes]"
    control: socket.socket

    def kill(self) -> None:
        """End it now; `process.wait` has to follow."""
        self.control.close()
        self.process.kill()


class ForkServers:
    """Launches fork servers with one command and one memory limit; the first one may be launched ahead of its use."""

    def __init__(self, memory_limit_mib: int, command: Sequence[str] = COMMAND) -> None:
        self._memory_limit_mib: Final = memory_limit_mib
        self._command: Final = tuple(command)
        self._ahead: LaunchedServer | None = None

    def launch_ahead(self) -> None:
        """Launch one for the next `take`. If that fails, `take` tries again and raises."""
        with contextlib.suppress(OSError):
            self._ahead = self._launch()

    def take(self) -> LaunchedServer:
        """Return the one that was launched ahead, or launch one. Raises OSError."""
        ahead, self._ahead = self._ahead, None
        return ahead if ahead is not None else self._launch()

    def close(self) -> None:
        """End the one that was launched ahead and not taken."""
        if self._ahead is not None:
            self._ahead.kill()
            self._ahead.process.wait()
            self._ahead = None

    def _launch(self) -> LaunchedServer:
        """Start the command with its end of the control socket; close that end here, so that an exit is noticed."""
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                process = subprocess.Popen(  # noqa: S603 - our own command
                    [*self._command, str(theirs.fileno()), str(self._memory_limit_mib)],
                    pass_fds=(theirs.fileno(),),
                    stdin=subprocess.DEVNULL,
                    env=os.environ | ENVIRONMENT,
                )
            except BaseException:
                ours.close()
                raise
        return LaunchedServer(process, ours)

"""
`python -m tests.support.preloader FD` imports scheduler and solver, and forks a Dovetail for each request on socket FD.

Each runs `e2e.dovetail` from its first line, with the arguments, the environment and the files of its request. The
preloader has one thread, because a fork copies only the calling thread. The first fork server of a scheduler is forked
from it, too, instead of being started as a program; a later one is a program.
"""

import gc
import json
import os
import selectors
import signal
import socket
import sys
from collections.abc import Sequence
from typing import Final

import scheduler.cli.run
import scheduler.observe.logs
import scheduler.run
import scheduler.settings  # noqa: F401 - to have it, as the modules above
from e2e.dovetail import run as run_dovetail
from scheduler.worker import fork_server
from scheduler.worker.__main__ import run_fork_server
from solver import solve_warm_up_case
from tests.support.forked_dovetail import LONGEST

_FIRST_OF_OURS: Final = 3
"""The number of the first file that is neither input nor output."""


class _ForkedServer:
    """A fork server that was forked by this process."""

    def __init__(self, pid: int) -> None:
        self.pid: Final = pid
        self._status: int | None = None

    def poll(self) -> int | None:
        return self._ended(os.WNOHANG)

    def wait(self) -> int | None:
        return self._ended(0)

    def kill(self) -> None:
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)

    def _ended(self, options: int) -> int | None:
        if self._status is None:
            pid, status = os.waitpid(self.pid, options)
            self._status = os.waitstatus_to_exitcode(status) if pid else None
        return self._status


class _ForkServers(fork_server.ForkServers):
    """Forks the fork server that is launched ahead, when the scheduler has no event loop yet."""

    def launch_ahead(self) -> None:
        ours, theirs = socket.socketpair()
        if pid := os.fork():
            theirs.close()
            self._ahead = fork_server.LaunchedServer(_ForkedServer(pid), ours)  # type: ignore[arg-type] # the part used
            return
        try:
            os.environ.update(fork_server.ENVIRONMENT)
            run_fork_server(socket.socket(fileno=_keep_only(theirs.detach())), self._memory_limit_mib)
        finally:
            os._exit(0)


def _keep_only(descriptor: int) -> int:
    """Close all files but output and this one, as a new program has it; give its number."""
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(descriptor, _FIRST_OF_OURS, inheritable=False)
    os.closerange(_FIRST_OF_OURS + 1, os.sysconf("SC_OPEN_MAX"))
    return _FIRST_OF_OURS


def _serve(control: socket.socket) -> bool:
    """Fork a process for each request. Give True in such a process, False when the socket is closed."""
    running: dict[int, int] = {}
    with selectors.DefaultSelector() as selector:
        selector.register(control, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fileobj is not control:
                    selector.unregister(key.fileobj)
                    _report(key.fd, key.data, running)
                    continue
                message, descriptors, _, _ = socket.recv_fds(control, LONGEST, 3)
                if not message:
                    return False
                if not (pid := os.fork()):
                    selector.close()
                    control.detach()
                    _become(message, descriptors)
                    return True
                standard_input, output, status = descriptors
                os.close(standard_input)
                os.close(output)
                handle = os.pidfd_open(pid)
                running[handle] = status
                selector.register(handle, selectors.EVENT_READ, pid)
                control.send(str(pid).encode())


def _report(handle: int, pid: int, running: dict[int, int]) -> None:
    """Write the exit status of a process that has ended."""
    status = running.pop(handle)
    _, ended = os.waitpid(pid, 0)
    os.close(handle)
    os.write(status, str(os.waitstatus_to_exitcode(ended)).encode())
    os.close(status)


def _become(message: bytes, descriptors: Sequence[int]) -> None:
    """Take over the files, the environment and the arguments of a request."""
    arguments, environment = map(json.loads, message.decode().split("\n"))
    os.setpgid(0, 0)
    standard_input, output, _ = descriptors
    for source, target in ((standard_input, 0), (output, 1), (output, 2)):
        os.dup2(source, target)
    os.closerange(_FIRST_OF_OURS, os.sysconf("SC_OPEN_MAX"))
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = [sys.argv[0], *arguments]


if __name__ == "__main__":
    solve_warm_up_case()
    gc.collect()  # the next collection would write to, and so copy, every page that is shared
    if _serve(socket.socket(fileno=int(sys.argv[1]))):
        fork_server.ForkServers = _ForkServers  # type: ignore[misc] # `scheduler.cli.run` imports it when it runs
        sys.exit(run_dovetail())

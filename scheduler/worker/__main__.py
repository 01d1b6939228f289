"""`python -m scheduler.worker FD MEMORY_LIMIT_MIB`: what solver's processes are forked from; FD: a control socket.

The process that solver's processes are forked from: it has imported everything and solved a first case.

To start Python and import the solver takes seconds; a fork takes milliseconds and shares the memory. So a worker that
was lost has a successor at once, which only needs to be fed. It decides nothing itself and has one thread, so that a
fork is whole. It ends when the shell closes its end of the control socket, and its workers end with it.
"""

import os
import signal
import socket
import sys
from collections.abc import Callable
from functools import partial

from scheduler.worker.child import run_forked
from scheduler.worker.serve import serve
from solver import rehearse


def _breed(control: socket.socket, memory_limit_mib: int) -> None:
    """Fork a worker for every connection that comes over the control socket (SCM_RIGHTS), until it is closed."""
    # A terminal's Ctrl-C goes to the whole process group: it is the shell that decides when these processes end.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    rehearse()  # before the memory is limited, so that what everybody needs counts for nobody
    fork_on_demand(control, lambda connection: serve(connection, memory_limit_mib))


def fork_on_demand(control: socket.socket, serve_one: Callable[[socket.socket], None]) -> None:
    """Fork a process that serves each connection; the kernel buries those that have ended."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        message, descriptors, _, _ = socket.recv_fds(control, 1, 1)
        if not message:
            return
        for descriptor in descriptors:
            run_forked(partial(_serve, control, descriptor, serve_one))
            os.close(descriptor)


def _serve(control: socket.socket, descriptor: int, serve_one: Callable[[socket.socket], None]) -> None:
    control.close()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # it waits for its own children
    serve_one(socket.socket(fileno=descriptor))


if __name__ == "__main__":
    _breed(socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2]))

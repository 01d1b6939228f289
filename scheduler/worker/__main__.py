"""
The fork server: `python -m scheduler.worker FD MEMORY_LIMIT_MIB`, where FD is a control socket.

Starting Python and importing the solver takes seconds; a fork takes milliseconds and shares the memory. So a lost
worker is replaced at once, and only its replica has to be filled again. The fork server decides nothing itself. It has
one thread, because a fork copies only the calling thread. It ends when the shell closes its end of the control socket,
and its workers end with it.
"""

import gc
import os
import signal
import socket
import sys
from collections.abc import Callable
from functools import partial

from scheduler.worker.child import run_forked
from scheduler.worker.serve import serve
from solver import solve_warm_up_case


def run_fork_server(control: socket.socket, memory_limit_mib: int) -> None:
    """Fork a worker for every connection that comes over the control socket (SCM_RIGHTS), until it is closed."""
    # A terminal's Ctrl-C goes to the whole process group: it is the shell that decides when these processes end.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    solve_warm_up_case()  # before the memory is limited, so that shared pages do not count
    fork_on_demand(control, lambda connection: serve(connection, memory_limit_mib))


def fork_on_demand(control: socket.socket, serve_one: Callable[[socket.socket], None]) -> None:
    """Fork a process for each connection received; the kernel reaps those that have ended."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        message, descriptors, _, _ = socket.recv_fds(control, 1, 1)
        if not message:
            return
        for descriptor in descriptors:
            run_forked(partial(_serve, control, descriptor, serve_one))
            os.close(descriptor)


def _serve(control: socket.socket, descriptor: int, serve_one: Callable[[socket.socket], None]) -> None:
    """
    Serve a connection, up to the first decision without the cyclic garbage collector.

    Replica and caches are large and stay. While they are built, the collector would traverse all of them each time that
    they grow by a quarter. The first decision freezes them: reference counting alone frees them then.
    """
    gc.disable()
    control.close()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # it waits for its own children
    serve_one(socket.socket(fileno=descriptor))


if __name__ == "__main__":
    run_fork_server(socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2]))

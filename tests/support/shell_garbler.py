"""
Stands where the worker process is: it answers a batch with what is no answer, or reads nothing at all.

Run as `python shell_garbler.py KIND FD MEMORY_LIMIT_MIB`; `KIND` is `garbage`, `endless`, `twice` or `deaf`.
"""

import os
import socket
import sys
import time
from functools import partial
from pathlib import Path

from scheduler.worker import frames
from scheduler.worker.__main__ import fork_on_demand


def command(kind: str) -> tuple[str, ...]:
    """Give the command of a process that misbehaves so."""
    return (sys.executable, str(Path(__file__)), kind)


def answer(kind: str, connection: socket.socket) -> None:
    ready = frames.encode(frames.WorkerReady(pid=os.getpid(), address_space_bytes=0))
    connection.sendall(ready)
    if kind == "deaf":
        time.sleep(600)
    while (order := frames.receive_order(connection)) is not None:
        if isinstance(order, frames.Decide):
            words = {"garbage": frames.framed(b"garbage"), "endless": (2**60).to_bytes(8, "big"), "twice": ready}
            connection.sendall(words[kind])


if __name__ == "__main__":
    fork_on_demand(socket.socket(fileno=int(sys.argv[2])), partial(answer, sys.argv[1]))

"""
Stands where the worker process is: it listens slowly, solves nothing and writes down what it was told.

Run as `python shell_listener.py FILE FD MEMORY_LIMIT_MIB`: each line of the file is the name of a node that was told,
and whether it can be scheduled on.
"""

import os
import socket
import sys
import time
from functools import partial
from pathlib import Path

from scheduler.worker import frames
from scheduler.worker.__main__ import fork_on_demand
from solver.domain import Node


def command(notes: Path) -> tuple[str, ...]:
    """Give the command of a process that writes its notes to a file, which is empty until then."""
    notes.touch()
    return (sys.executable, str(Path(__file__)), str(notes))


def listen(notes: Path, connection: socket.socket) -> None:
    connection.sendall(frames.encode(frames.WorkerReady(pid=os.getpid(), address_space_bytes=0)))
    while (order := frames.receive_order(connection)) is not None:
        time.sleep(0.05)
        match order:
            case frames.Apply(changes=changes):
                told = [frames.decode_change(raw).value for raw in changes]
                with notes.open("a", encoding="utf-8") as file:
                    file.writelines(_line(each) for each in told if isinstance(each, Node))
            case frames.Decide(id=number):
                connection.sendall(frames.encode(frames.SolveFailed(id=number, message="nothing is solved here")))


def _line(node: Node) -> str:
    return f"{node.name} {'cordoned' if node.is_unschedulable else 'open'}\n"


if __name__ == "__main__":
    fork_on_demand(socket.socket(fileno=int(sys.argv[2])), partial(listen, Path(sys.argv[1])))

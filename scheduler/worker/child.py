"""
An isolated decision: a child of the worker that decides one batch while the worker goes on.

The child is forked, so it has the worker's replica and cache without a copy (pages are copied on write). The kernel
enforces its limits, whatever code runs in it: wall time (SIGALRM), CPU time (RLIMIT_CPU) and address space (RLIMIT_AS).
It has a lower CPU priority than the worker (nice), is the first process that the OOM killer takes, and ends with its
parent. There is one at a time, one that counts the fleet, and one that answers a question about it: shell and worker
already use one core each.
"""

import ctypes
import gc
import math
import os
import resource
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

from scheduler.observe import terminal
from scheduler.observe.tracebacks import traceback_text
from scheduler.worker import frames

_MIB: Final = 1024 * 1024
_NICENESS: Final = 10
NO_MEMORY: Final = 77
"""Exit status of a process that was refused memory."""
_PARENT_DEATH_SIGNAL: Final = 1
"""PR_SET_PDEATHSIG of prctl(2)."""
_LIBRARY: Final = ctypes.CDLL(None, use_errno=True)
_CHUNK: Final = 1024 * 1024


def limit_memory(memory_limit_mib: int) -> int:
    """Limit the address space to what is mapped now plus `memory_limit_mib`; return the limit in bytes."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    limit = pages * resource.getpagesize() + memory_limit_mib * _MIB
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    limit = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
    resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
    return limit


def end_with(parent: int) -> None:
    """Have the kernel end this process with its parent; end it now if the parent has ended already."""
    _LIBRARY.prctl(_PARENT_DEATH_SIGNAL, int(signal.SIGKILL), 0, 0, 0)
    if os.getppid() != parent:
        os._exit(0)


def run_forked(work: Callable[[], None]) -> int:
    """Fork a process that does some work and ends; return its process id, in the parent only."""
    parent = os.getpid()
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        end_with(parent)
        work()
        status = 0
    except MemoryError:
        status = NO_MEMORY
    except BaseException as error:  # noqa: BLE001 - whatever it is, this process must not return into its parent's code
        sys.stderr.write(terminal.escaped(traceback_text(error), keep="\n"))
    finally:
        os._exit(status)


Work = Callable[[], tuple[bytes, bytes]]
"""Gives the bodies of two frames: the answer, and new entries of the solver's cache."""


class Child:
    """One child, from fork to exit; its `fileno` becomes readable when `read` has something to take."""

    def __init__(
        self, number: int, limits: frames.IsolationLimits, work: Work, connection: socket.socket, *, threads: int = 1
    ) -> None:
        """
        Fork a child for an order that sends the result of `work`; it closes `connection`, which belongs to its parent.

        Raise `OSError` if no further process can be started.
        """
        reading, writing = os.pipe()

        def decide() -> None:
            connection.close()
            os.close(reading)
            restrict(limits, threads)
            for body in work():
                _send(writing, frames.framed(body))

        self.id: Final = number
        try:
            self._pid: Final = run_forked(decide)
        except BaseException:
            os.close(reading)
            raise
        finally:
            os.close(writing)
        os.set_blocking(reading, False)
        self._pipe: Final = reading
        self._received: Final = bytearray()
        self._is_too_large = False

    def fileno(self) -> int:
        """Return the file descriptor of the pipe."""
        return self._pipe

    def read(self) -> bool:
        """Take what the child has sent; return whether it has ended."""
        try:
            chunk = os.read(self._pipe, _CHUNK)
        except BlockingIOError:
            return False
        self._received.extend(chunk)
        if len(self._received) > frames.MOST_BYTES:
            self._is_too_large = True
            return True
        return not chunk

    def reap(self) -> tuple[memoryview, memoryview] | frames.ChildEnded:
        """Reap the child after `read` said that it has ended; return its two frames, or the cause of its end."""
        os.close(self._pipe)
        if self._is_too_large:
            os.kill(self._pid, signal.SIGKILL)  # its number is not reused before waitpid
        _, status = os.waitpid(self._pid, 0)
        if status or self._is_too_large:
            cause = frames.Cause.MEMORY if self._is_too_large else _cause(status)
            return frames.ChildEnded(id=self.id, cause=cause)
        try:
            answer, cache_entries = frames.split(self._received)
        except ValueError:
            return frames.ChildEnded(id=self.id, cause=frames.Cause.CRASH)
        return answer, cache_entries

    def kill(self) -> None:
        """End the child now and reap it; its answer is no longer wanted."""
        os.kill(self._pid, signal.SIGKILL)
        self.reap()


def restrict(limits: frames.IsolationLimits, threads: int) -> None:
    """
    Apply the limits. Freeze the garbage collector first: it would write to shared pages and so copy them.

    A worker that has not decided yet has it disabled; what the child itself leaves in cycles counts against its limit.
    """
    gc.freeze()
    gc.enable()
    os.nice(_NICENESS)
    Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, limits.end_seconds)
    cpu_seconds = math.ceil(limits.cpu_seconds) * threads
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds + 1))
    limit_memory(limits.memory_limit_mib)


def _send(pipe: int, frame: bytes) -> None:
    view = memoryview(frame)
    while view:
        view = view[os.write(pipe, view) :]


def _cause(status: int) -> frames.Cause:
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) in {signal.SIGALRM, signal.SIGXCPU}:
        return frames.Cause.TIME
    if os.WIFEXITED(status) and os.WEXITSTATUS(status) == NO_MEMORY:
        return frames.Cause.MEMORY
    return frames.Cause.CRASH

"""
A child of the solver's process that decides about one batch while its parent goes on.

It is forked, so that replica and memory are there as they are (copied where it writes), and it has limits of its own
that the kernel keeps, whatever runs in it: wall time (SIGALRM), CPU time (RLIMIT_CPU), address space (RLIMIT_AS). It
yields to its parent (nice), is the first to go where the container is out of memory, and ends with its parent. There is
one at a time: the scheduler asks for little more than two cores, of which shell and worker have one each.
"""

import ctypes
import gc
import math
import os
import resource
import signal
import socket
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Final

from scheduler.worker import frames

_MIB: Final = 1024 * 1024
_NICENESS: Final = 10
_NO_MEMORY: Final = 77
"""Exit status of a process that was refused memory."""
_PARENT_DEATH_SIGNAL: Final = 1
"""PR_SET_PDEATHSIG of prctl(2)."""
_LIBRARY: Final = ctypes.CDLL(None, use_errno=True)
_CHUNK: Final = 1024 * 1024


def limit_memory(memory_limit_mib: int) -> int:
    """Limit the address space to what is mapped now and so many MiB more; give the limit in bytes."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    limit = pages * resource.getpagesize() + memory_limit_mib * _MIB
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    limit = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
    resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
    return limit


def end_with(parent: int) -> None:
    """Have the kernel end this process with its parent; end it now where the parent is gone already."""
    _LIBRARY.prctl(_PARENT_DEATH_SIGNAL, int(signal.SIGKILL), 0, 0, 0)
    if os.getppid() != parent:
        os._exit(0)


def run_forked(work: Callable[[], None]) -> int:
    """Fork a process that does some work and ends; give its process id, in the parent alone."""
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
        status = _NO_MEMORY
    except BaseException:  # noqa: BLE001 - whatever it is, this process ends here and not in its parent's code
        traceback.print_exc(file=sys.stderr)
    finally:
        os._exit(status)


Work = Callable[[], tuple[bytes, bytes]]
"""Gives the bodies of two frames: an answer, and what was learned."""


class Child:
    """One child, from its start to its end; `fileno` is ready to be read while there is something to `read`."""

    def __init__(self, order: frames.Decide, work: Work, connection: socket.socket) -> None:
        """
        Fork it: it sends what `work` gives. `connection` is its parent's own.

        Raise `OSError` where there is no room for one more process, `ValueError` for an order of a batch.
        """
        reading, writing = os.pipe()
        limits = order.aside
        if limits is None:
            raise ValueError("an order for a child says what the child may use: set aside")

        def decide() -> None:
            connection.close()
            os.close(reading)
            _restrict(limits, order.workers)
            for body in work():
                _send(writing, frames.framed(body))

        self.id: Final = order.id
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
        """Give the descriptor of its pipe."""
        return self._pipe

    def read(self) -> bool:
        """Take what it has sent; give whether it has ended."""
        try:
            chunk = os.read(self._pipe, _CHUNK)
        except BlockingIOError:
            return False
        self._received.extend(chunk)
        if len(self._received) > frames.MOST_BYTES:
            self._is_too_large = True
            return True
        return not chunk

    def end(self) -> tuple[memoryview, memoryview] | frames.Ended:
        """Leave nothing of it behind, once `read` says that it has ended; give its two frames, or what ended it."""
        os.close(self._pipe)
        if self._is_too_large:
            os.kill(self._pid, signal.SIGKILL)  # it is ours until it is waited for, so no other has its number
        _, status = os.waitpid(self._pid, 0)
        if status or self._is_too_large:
            cause = frames.Cause.MEMORY if self._is_too_large else _cause(status)
            return frames.Ended(id=self.id, cause=cause)
        try:
            answer, learned = frames.split(self._received)
        except ValueError:
            return frames.Ended(id=self.id, cause=frames.Cause.CRASH)
        return answer, learned

    def kill(self) -> None:
        """End it now, because no answer is wanted any more."""
        os.kill(self._pid, signal.SIGKILL)
        self.end()


def _restrict(limits: frames.Aside, threads: int) -> None:
    """Take the limits on; what exists already is never looked at by the collector again, or its pages were copied."""
    gc.freeze()
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
    if os.WIFEXITED(status) and os.WEXITSTATUS(status) == _NO_MEMORY:
        return frames.Cause.MEMORY
    return frames.Cause.CRASH

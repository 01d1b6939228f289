"""Dovetail as tests start it: forked from a process that has imported it, for a quarter of the CPU time."""

import json
import os
import selectors
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Final, Self

from e2e.controlplane.plane import REPOSITORY
from e2e.dovetail import Dovetail
from scheduler.worker.fork_server import ENVIRONMENT

LONGEST: Final = 1024 * 1024
"""Bytes of a message."""


class ForkedProcess(subprocess.Popen[bytes]):
    """A process whose parent is the preloader, which writes its exit status to a pipe."""

    def __init__(self, pid: int, stdin: int, status: int) -> None:
        """Take the process id, the end of the pipe to its standard input, and that of the pipe with its status."""
        self._child_created = False  # nothing to wait for when this object goes
        self.args = ()
        self.pid = pid
        self.returncode = None
        self.stdin, self.stdout, self.stderr = os.fdopen(stdin, "wb", buffering=0), None, None
        self._status: Final[BinaryIO] = os.fdopen(status, "rb", buffering=0)

    def poll(self) -> int | None:
        return self._ended(0)

    def wait(self, timeout: float | None = None) -> int:
        status = self._ended(timeout)
        if status is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
        return status

    def _ended(self, timeout: float | None) -> int | None:
        if self.returncode is None:
            with selectors.DefaultSelector() as selector:
                selector.register(self._status, selectors.EVENT_READ)
                if not selector.select(timeout):
                    return None
            with self._status:
                self.returncode = int(self._status.read(LONGEST))
        return self.returncode


class Preloader:
    """The process that has imported everything, as tests see it; it ends with the block."""

    def __init__(self) -> None:
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.support.preloader", str(theirs.fileno())],
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                env=os.environ | ENVIRONMENT,
                cwd=REPOSITORY,
                process_group=0,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._control.close()
        self._process.wait()

    def fork(self, arguments: Sequence[str], environment: dict[str, str], output: int) -> ForkedProcess:
        """Run `e2e.dovetail` with these arguments; what it prints goes to the file descriptor `output`."""
        request = json.dumps([*arguments]), json.dumps(environment)
        read_input, write_input = os.pipe()
        read_status, write_status = os.pipe()
        socket.send_fds(self._control, ["\n".join(request).encode()], [read_input, output, write_status])
        os.close(read_input)
        os.close(write_status)
        return ForkedProcess(int(self._control.recv(LONGEST)), write_input, read_status)


class ForkedDovetail(Dovetail):
    """Dovetail forked from `preloader`, which a subclass has."""

    preloader: Preloader

    def _launch(
        self, command: Sequence[str | Path], output: BinaryIO, environment: dict[str, str], cwd: Path
    ) -> ForkedProcess:
        python, option, module, *arguments = map(str, command)
        assert [python, option, module] == [sys.executable, "-m", "e2e.dovetail"]
        assert cwd == REPOSITORY
        return self.preloader.fork(arguments, environment, output.fileno())

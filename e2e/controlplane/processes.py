"""Processes of the control plane: each has a log file, a tail for messages, and an end that nothing can prevent."""

import os
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

from e2e.controlplane.access import Access


class ComponentError(RuntimeError):
    """A component ended or did not become ready; the message holds the end of its log and names the file."""


class Stoppable:
    """What runs until `stop`, which the end of a `with` block calls; a second call does nothing."""

    def stop(self) -> None:
        """End it."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


class Component(Stoppable):
    """
    One running process. `stop` ends it at once and by its own pid: all state is thrown away, so grace is waste.

    Its standard input is a pipe that this process holds open and never writes to. The component reads it and ends when
    it is closed, which the kernel does for us however we die, also by SIGKILL.
    """

    def __init__(self, name: str, command: Sequence[str | Path], log: Path, *, cwd: Path) -> None:
        self.name = name
        self.log = log
        self.access: Access | None = None  # to its own /readyz and /metrics, where it serves them
        environment = {**os.environ, "DOVETAIL_END_WITH_STDIN": "1"}
        with log.open("ab") as output:
            self._process = self._launch(command, output, environment, cwd)

    def _launch(
        self, command: Sequence[str | Path], output: BinaryIO, environment: dict[str, str], cwd: Path
    ) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            env=environment,
            cwd=cwd,
            process_group=0,  # a Ctrl-C is for us: until we have cleaned up, the API server must answer
        )

    @property
    def pid(self) -> int:
        """The process id, for measurements of CPU time and memory."""
        return self._process.pid

    def is_running(self) -> bool:
        """Say whether the process has not ended yet."""
        return self._process.poll() is None

    def check(self) -> None:
        """Raise ComponentError when the process has ended by itself."""
        if not self.is_running():
            raise self.error(f"ended with status {self._process.returncode}")

    def wait_until(self, is_ready: Callable[[], bool], seconds: float, *, poll_seconds: float) -> None:
        """Poll until it is ready. Raises ComponentError when it ends first or takes too long."""
        end = time.monotonic() + seconds
        while not is_ready():
            self.check()
            if time.monotonic() > end:
                raise self.error(f"is not ready after {seconds:.0f} s")
            time.sleep(poll_seconds)

    def error(self, what: str) -> ComponentError:
        """Make the error that says what went wrong with this component and shows the end of its log."""
        return ComponentError(f"{self.name} {what}. The end of its log {self.log}:\n{self.tail()}")

    def tail(self, lines: int = 20) -> str:
        """Return the last lines of the log."""
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        return "\n".join(text.splitlines()[-lines:])

    def stop(self) -> None:
        """End the process and wait until it is gone; a second call does nothing."""
        self._process.kill()  # does nothing, by Popen's own check, once the process was reaped
        self._process.wait()
        if self._process.stdin:
            self._process.stdin.close()

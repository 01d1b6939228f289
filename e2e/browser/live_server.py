"""A running `dovetail page`, for the visits of a live page."""

import os
import signal
import subprocess
import sys
from types import TracebackType
from typing import Final, Self

from e2e.controlplane.plane import REPOSITORY, free_port


class LiveServer:
    """Serves the page at the same address each time it is started."""

    def __init__(self, *words: str, scheme: str = "http") -> None:
        """`words` are arguments of the command: what the page is about."""
        self.address: Final = f"{scheme}://127.0.0.1:{(port := free_port())}/"
        self._command: Final = [sys.executable, "-m", "scheduler", "page", *words, "--listen", f"127.0.0.1:{port}"]
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Start it, and wait until it serves."""
        environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
        process = subprocess.Popen(
            self._command, cwd=REPOSITORY, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self._process = process
        assert process.stdout is not None
        assert process.stdout.readline().startswith(self.address), "the page is not served"

    def stop(self) -> None:
        """Stop it as a supervisor does."""
        if self._process is not None:
            self.go_on()
            self._process.send_signal(signal.SIGTERM)
            assert self._process.wait(timeout=30) == 0
            self._process = None

    def pause(self) -> None:
        """Let it say nothing, with its connections open, as where the network is gone."""
        self._signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """End the pause."""
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

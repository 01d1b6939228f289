"""The processes of a node: the one that keeps its namespaces, and programs inside."""

import contextlib
import signal
import subprocess
from typing import Final

from e2e.controlplane.processes import Component

GRACE_SECONDS: Final = 10.0


class Holder(Component):
    """The process that keeps a node's namespaces; it removes the node's cgroup at SIGTERM."""

    def stop(self) -> None:
        """End every process of the node, and wait until nothing of them is left."""
        if self.is_running():
            self._process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(GRACE_SECONDS)
        super().stop()


class Inside(Component):
    """A program inside a node, through `node enter`, which hands signals on."""

    def tell(self, number: signal.Signals) -> None:
        """Send a signal: SIGHUP, SIGTERM to let it end in order, SIGUSR2 to stop it until SIGCONT."""
        self._process.send_signal(number)

    def end(self) -> None:
        """Let it end in order. Raises ComponentError when it does not."""
        self.tell(signal.SIGTERM)
        try:
            self._process.wait(GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            raise self.error(f"did not end within {GRACE_SECONDS:.0f} s of SIGTERM") from None
        finally:
            self.stop()

    def stop(self) -> None:
        """Kill the program and wait until it is gone; a second call does nothing."""
        if self.is_running():
            self._process.send_signal(signal.SIGUSR1)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(GRACE_SECONDS)
        super().stop()

"""Two replicas of Dovetail, each with a token of its own: the audit log tells them apart by it."""

import os
import signal
import time
from pathlib import Path
from typing import Final

from e2e.chaos.progress import report
from e2e.controlplane.access import RequestError
from e2e.controlplane.plane import ControlPlane
from e2e.dovetail import NAMESPACE, SERVICE_ACCOUNT, Dovetail

LEADS: Final = '"leader"'
EXPECTED_ENDS: Final = frozenset({-signal.SIGKILL, 1})
"""Killed by us, or ended because the Lease was lost."""
ENDS_OF_SIGTERM: Final = frozenset({0, -signal.SIGTERM})
"""The second where it had only begun to start."""
_TOKEN_SECONDS: Final = 0.5


class Replicas:
    """Keeps two running; `unexpected` holds the ends that the run did not bring about."""

    def __init__(self, plane: ControlPlane, configuration: Path, folder: Path) -> None:
        self._plane = plane
        self._configuration = configuration
        self._folder = folder
        self._started = 0
        self._terminated: set[int] = set()
        self.unexpected: list[str] = []
        self.live = [self._new(), self._new()]

    def mend(self) -> None:
        """Replace those that have ended."""
        for index, each in enumerate(self.live):
            if each.is_running():
                continue
            status = each._process.returncode  # noqa: SLF001 - read here alone
            if status not in EXPECTED_ENDS | (ENDS_OF_SIGTERM if each.pid in self._terminated else frozenset()):
                self.unexpected.append(f"{each.log} ended with {status}: {each.tail(3)}")
            self.live[index] = self._new()

    def terminate(self, target: Dovetail) -> None:
        """Send SIGTERM."""
        report(f"SIGTERM to {target.log.stem}")
        self._terminated.add(target.pid)
        os.kill(target.pid, signal.SIGTERM)

    def leader(self) -> Dovetail:
        """The one that leads, or the older one where none says so."""
        leading = [each for each in self.live if each.is_running() and LEADS in each.log.read_text(errors="replace")]
        return (leading or self.live)[0]

    def stop(self) -> None:
        """End both."""
        for each in self.live:
            each.stop()

    def _new(self) -> Dovetail:
        self._started += 1
        log = self._folder / f"dovetail-{self._started}.log"
        kubeconfig = self._kubeconfig(log.with_suffix(".kubeconfig"))
        return Dovetail(kubeconfig, log, f"--config={self._configuration}", "--leader-elect=true")

    def _kubeconfig(self, path: Path) -> Path:
        """Write a kubeconfig with a new token; the API server may have to be waited for."""
        while True:
            try:
                return self._plane.access_for_service_account(NAMESPACE, SERVICE_ACCOUNT).write_kubeconfig(path)
            except (OSError, RequestError) as error:
                report(f"no token yet: {error}")
                time.sleep(_TOKEN_SECONDS)

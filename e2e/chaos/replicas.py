"""Two replicas of Dovetail, and what is done to them and to the control plane: killed, stopped beyond the lease."""

import os
import random
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from e2e.chaos.telling import tell
from e2e.controlplane.plane import ControlPlane
from e2e.controlplane.processes import Component
from e2e.dovetail import Dovetail

LEADS: Final = '"leader"'
EXPECTED_ENDS: Final = frozenset({-signal.SIGKILL, 1})
"""Killed by us, or ended because the lease was lost."""
_LONGEST_STOP_SECONDS: Final = 9.0


class Replicas:
    """Keeps two running; `unexpected` holds the ends that nobody brought about."""

    def __init__(self, kubeconfig: Path, configuration: Path, folder: Path) -> None:
        self._kubeconfig = kubeconfig
        self._configuration = configuration
        self._folder = folder
        self._started = 0
        self.unexpected: list[str] = []
        self.live = [self._new(), self._new()]

    def mend(self) -> None:
        """Replace those that have ended."""
        for index, each in enumerate(self.live):
            if each.is_running():
                continue
            status = each._process.returncode  # noqa: SLF001 - nobody else wants to know it
            if status not in EXPECTED_ENDS:
                self.unexpected.append(f"{each.log} ended with {status}: {each.tail(3)}")
            self.live[index] = self._new()

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
        return Dovetail(self._kubeconfig, log, f"--config={self._configuration}", "--leader-elect=true")


class Killer:
    """Does one thing at a time to processes."""

    def __init__(self, plane: ControlPlane, replicas: Replicas, seed: int) -> None:
        self._plane = plane
        self._replicas = replicas
        self._random = random.Random(f"killer {seed}")  # noqa: S311 - no secret

    def strike(self) -> None:
        """Kill or stop something."""
        draw = self._random.random()
        with suppress(ProcessLookupError):
            if draw < 0.35:
                self._kill_shell()
            elif draw < 0.5:
                self._strike_worker()
            elif draw < 0.75:
                self._stop_for_a_while(self._replicas.leader())
            else:
                self._stop_for_a_while(self._random.choice(list(self._plane.components.values())))

    def pause(self) -> float:
        """Seconds until the next strike."""
        return self._random.uniform(8, 30)

    def _kill_shell(self) -> None:
        target = self._replicas.leader()
        tell(f"kill {target.log.stem}")
        os.kill(target.pid, signal.SIGKILL)

    def _strike_worker(self) -> None:
        number = self._random.choice((signal.SIGKILL, signal.SIGKILL, signal.SIGSTOP))
        target = self._replicas.leader()
        for pid in children(target.pid):
            tell(f"{number.name} to the worker of {target.log.stem}")
            os.kill(pid, number)

    def _stop_for_a_while(self, target: Component) -> None:
        seconds = self._random.uniform(0.5, _LONGEST_STOP_SECONDS)
        tell(f"stop {target.log.stem} for {seconds:.1f} s")
        os.kill(target.pid, signal.SIGSTOP)
        try:
            time.sleep(seconds)
        finally:
            os.kill(target.pid, signal.SIGCONT)


def children(pid: int) -> list[int]:
    """The processes that one has started."""
    command = ("ps", "-o", "pid=,comm=", "--ppid", str(pid))
    lines = subprocess.run(command, capture_output=True, text=True, check=False).stdout.splitlines()
    return [int(line.split()[0]) for line in lines if "python" in line]

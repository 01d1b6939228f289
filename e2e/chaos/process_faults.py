"""What happens to processes: SIGKILL, SIGTERM and SIGSTOP for the leader, its worker and the control plane."""

import os
import random
import signal
import subprocess
import time
from contextlib import suppress
from typing import Final

from e2e.chaos.progress import report
from e2e.chaos.replicas import Replicas
from e2e.controlplane.plane import ControlPlane
from e2e.controlplane.processes import Component

_LONGEST_STOP_SECONDS: Final = 9.0
"""Longer than the Lease, so that the other replica takes over."""


class ProcessFaults:
    """Does one thing at a time to processes."""

    def __init__(self, plane: ControlPlane, replicas: Replicas, seed: int) -> None:
        self._plane = plane
        self._replicas = replicas
        self._random = random.Random(f"process faults {seed}")  # noqa: S311 - no secret
        self._kinds = (
            (0.25, self._kill_leader),
            (0.40, self._terminate_leader),
            (0.52, self._harm_worker),
            (0.76, self._stop_leader),
            (1.01, self._stop_component),
        )

    def inject(self) -> None:
        """Kill, end or stop something."""
        draw = self._random.random()
        with suppress(ProcessLookupError):
            next(fault for limit, fault in self._kinds if draw < limit)()

    def pause(self) -> float:
        """Seconds until the next fault."""
        return self._random.uniform(8, 30)

    def _kill_leader(self) -> None:
        target = self._replicas.leader()
        report(f"SIGKILL to {target.log.stem}")
        os.kill(target.pid, signal.SIGKILL)

    def _terminate_leader(self) -> None:
        self._replicas.terminate(self._replicas.leader())

    def _harm_worker(self) -> None:
        number = self._random.choice((signal.SIGKILL, signal.SIGKILL, signal.SIGSTOP))
        target = self._replicas.leader()
        for pid in children(target.pid):
            report(f"{number.name} to the worker of {target.log.stem}")
            os.kill(pid, number)

    def _stop_leader(self) -> None:
        self._stop_for_a_while(self._replicas.leader())

    def _stop_component(self) -> None:
        self._stop_for_a_while(self._random.choice(list(self._plane.components.values())))

    def _stop_for_a_while(self, target: Component) -> None:
        seconds = self._random.uniform(0.5, _LONGEST_STOP_SECONDS)
        report(f"SIGSTOP to {target.log.stem} for {seconds:.1f} s")
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

"""Keeps Dovetail running as a Deployment does, and counts how often it or its worker process ended."""

import asyncio
import contextlib
import http.client
import json
import re
import time
from collections import Counter
from pathlib import Path
from typing import Final

import yaml

from e2e.controlplane.processes import ComponentError
from e2e.dovetail import Dovetail
from e2e.hostile.objects.kinds import SCHEDULER

_CONFIGURATION: Final = {
    "apiVersion": "config.dovetail.dev/v1alpha1",
    "kind": "DovetailConfiguration",
    "profiles": [
        {"schedulerName": SCHEDULER, "preemption": {"enabled": True, "devices": True, "minimumRunSeconds": 0}}
    ],
}
_LOOK_SECONDS: Final = 1.0
_MOST_PAUSE_SECONDS: Final = 8.0
"""A kubelet waits longer after each end of a container; ten seconds at first, which would hide more than it shows."""
_RESTARTS: Final = re.compile(r"^dovetail_worker_restarts_total (\S+)$", re.MULTILINE)
_PAGES_PER_MIB: Final = 256


class Keeper:
    """Dovetail, started again whenever it has ended."""

    def __init__(self, kubeconfig: Path, folder: Path) -> None:
        self._kubeconfig = kubeconfig
        self._folder = folder
        self._configuration = folder / "dovetail.yaml"
        self._configuration.write_text(yaml.safe_dump(_CONFIGURATION), encoding="utf-8")
        self.log = folder / "dovetail.log"
        self.restarts = 0
        self.solver_restarts = 0
        self.peak_mib = (0, 0)
        self._of_this_process = 0
        self._is_starting = False
        self._dovetail = self._new()

    async def run(self) -> None:
        """Look after it until cancelled."""
        ends = 0
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            if self._is_starting:
                continue
            if self._dovetail.is_running():
                await asyncio.to_thread(self._look)
                ends = 0 if await asyncio.to_thread(self.is_ready) else ends
                continue
            self.restarts += 1
            self._of_this_process = 0
            await asyncio.sleep(min(2**ends, _MOST_PAUSE_SECONDS))
            ends += 1
            self._dovetail = self._new()

    def wait_until_ready(self) -> None:
        """Wait for it. Raises ComponentError."""
        self._dovetail.wait_until_ready()

    def is_ready(self) -> bool:
        """Whether it runs and says that it is ready."""
        try:
            return self._dovetail.is_running() and self._dovetail.get("/readyz")[0] == http.client.OK
        except (OSError, http.client.HTTPException):
            return False

    async def start_over(self, kubeconfig: Path | None = None) -> float:
        """
        Start it anew although it runs, with another kubeconfig where one is given; this is no restart that counts.

        Return the seconds from its start until it is ready, or until it is waited for no longer.
        """
        self._kubeconfig = kubeconfig or self._kubeconfig
        self._is_starting = True
        try:
            await asyncio.to_thread(self._dovetail.stop)
            self._of_this_process = 0
            began = time.monotonic()
            self._dovetail = self._new()
            with contextlib.suppress(ComponentError):
                await asyncio.to_thread(self.wait_until_ready)
            return time.monotonic() - began
        finally:
            self._is_starting = False

    def metrics(self) -> str:
        """Read its series; empty where it does not answer."""
        try:
            return self._dovetail.get("/metrics")[1]
        except (OSError, http.client.HTTPException):
            return ""

    def start_of_case(self) -> int:
        """Forget the peaks; give where the log ends."""
        self.peak_mib = (0, 0)
        return self.log.stat().st_size if self.log.exists() else 0

    def events(self, since: int) -> tuple[tuple[str, int], ...]:
        """Count warnings and errors of the log from some byte on, by event."""
        with self.log.open("rb") as log:
            log.seek(since)
            return complaints(log.read().decode(errors="replace"))

    def stop(self) -> None:
        """End it."""
        self._dovetail.stop()

    def _new(self) -> Dovetail:
        flags = (f"--config={self._configuration}", "--leader-elect=false")
        return Dovetail(self._kubeconfig, self.log, *flags)

    def _look(self) -> None:
        found = _RESTARTS.search(self.metrics())
        now = int(float(found[1])) if found else self._of_this_process
        self.solver_restarts += max(0, now - self._of_this_process)
        self._of_this_process = now
        shell, workers = self._dovetail.pid, children(self._dovetail.pid)
        own, theirs = resident_mib(shell), max((resident_mib(each) for each in workers), default=0)
        self.peak_mib = (max(self.peak_mib[0], own), max(self.peak_mib[1], theirs))


def complaints(text: str) -> tuple[tuple[str, int], ...]:
    """Count the warnings and errors of a log by event; what is no line of JSON is an end of a process."""
    counts = Counter[str]()
    for line in text.splitlines():
        try:
            entry = json.loads(line)
        except ValueError:
            counts["traceback"] += line.startswith("Traceback")
            continue
        if isinstance(entry, dict) and entry.get("level") in {"warning", "error"}:
            counts[str(entry.get("event"))] += 1
    return tuple((event, count) for event, count in counts.most_common() if count)


def children(pid: int) -> list[int]:
    """Give the processes that a process has started, and those that they have."""
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            found += [int(each) for each in task.read_text().split()]
    return [each for child in found for each in (child, *children(child))]


def resident_mib(pid: int) -> int:
    """Give the resident memory of a process; 0 where it is gone."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) // _PAGES_PER_MIB
    except (OSError, IndexError):
        return 0

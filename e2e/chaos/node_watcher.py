"""Reads what happens on real nodes for their judge, again and again, and waits for nodes to come to rest."""

import contextlib
import http.client
import threading
import time
from typing import Final, Self

from e2e.audit.reading import Finding
from e2e.chaos.cluster import NAMESPACES, RESOURCE, Cluster
from e2e.chaos.node_judge import NodeJudge, still_prepared
from e2e.chaos.progress import report, report_findings
from e2e.chaos.real_nodes import RealNodes
from e2e.controlplane.access import RequestError
from e2e.nodes.invariants import disagreements

_PAUSE_SECONDS: Final = 2.0
_LONGEST_SETTLING_SECONDS: Final = 150.0
"""Further pods are bound while the last ones start."""
_LONGEST_GIVING_BACK_SECONDS: Final = 180.0
"""A kubelet looks once a minute for what pods have left that went while it was away."""


class NodeWatcher:
    """Feeds a judge until the block ends; with no real nodes it does nothing."""

    def __init__(self, cluster: Cluster, real: RealNodes) -> None:
        self.judge = NodeJudge()
        self._cluster = cluster
        self._real = real
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        """Begin."""
        if self._real.nodes:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End."""
        self._stop.set()
        if self._real.nodes:
            self._thread.join()

    def settle(self) -> None:
        """Wait until what was seen has come right or was found: pods start, containers and claims agree."""
        end = time.monotonic() + _LONGEST_SETTLING_SECONDS
        while self._thread.is_alive() and time.monotonic() < end and self.judge.is_undecided(time.monotonic()):
            time.sleep(_PAUSE_SECONDS)

    def given_back(self) -> list[Finding]:
        """Wait until drivers have been told to give back all that they have prepared; say what is left."""
        end = time.monotonic() + _LONGEST_GIVING_BACK_SECONDS
        while (left := self._left()) and time.monotonic() < end:
            time.sleep(_PAUSE_SECONDS)
        return left

    def findings(self) -> list[Finding]:
        """Say what was wrong, also with this, and how much there was to see."""
        found = [*self.judge.findings, *self._real.failures]
        if self._real.nodes:
            boots = [boot for node in self._real.nodes for driver in node.drivers for boot in node.boots(driver)]
            claims = {call.uid for boot in boots for call in boot if call.call == "prepare" and not call.error}
            calls = sum(map(len, boots))
            report(f"{', '.join(self._real.names)}: {calls} calls of drivers, {len(claims)} claims prepared")
            if not claims:
                found.append(Finding("idle", "real nodes", "no claim was prepared: this run has shown nothing of them"))
            if not self._thread.is_alive():
                found.append(Finding("ended", type(self).__name__, "it ended too early"))
        return found

    def _left(self) -> list[Finding]:
        drivers = ((node, driver) for node in self._real.nodes for driver in node.drivers)
        return [
            each for node, driver in drivers for each in still_prepared(f"{node.name}/{driver}", node.boots(driver))
        ]

    def _watch(self) -> None:
        while not self._stop.wait(_PAUSE_SECONDS):
            known = len(self.judge.findings)
            # What an API server that is stopped does not tell now, it does in a moment.
            with contextlib.suppress(RequestError, OSError, http.client.HTTPException):
                self._look()
            report_findings(self.judge.findings[known:])

    def _look(self) -> None:
        for node in self._real.nodes:
            for driver in node.drivers:
                self.judge.preparations(f"{node.name}/{driver}", node.boots(driver))
        plane, up = self._cluster.plane, self._real.up()
        self.judge.disagreements(disagreements(plane, self._real.nodes), time.monotonic())
        pods = plane.request("GET", "/api/v1/pods")["items"]
        ours = [each for each in pods if each["metadata"]["namespace"] in NAMESPACES]
        claims = plane.request("GET", f"{RESOURCE}/resourceclaims")["items"]
        self.judge.starts(ours, claims, up, time.monotonic())

"""The end of a run: the disturbances stop, the cluster comes to rest, and then every waiting pod gets a turn."""

import time
from typing import Final

from e2e import audit
from e2e.audit.reading import Finding, Json, Key, claims_of, key_of, results_of
from e2e.chaos.cluster import RESOURCE, SCHEDULER, Cluster
from e2e.chaos.judge import gang_of
from e2e.chaos.progress import report
from e2e.chaos.replicas import Replicas
from e2e.chaos.work import GROUPS

QUIET_SECONDS: Final = 15.0
_LONGEST_SECONDS: Final = 150.0
_TURN_SECONDS: Final = 75.0
"""Longer than a minute: evictions of the minute before may have to be waited for."""
_POLL_SECONDS: Final = 0.5


class Ending:
    """Looks at what a run has left."""

    def __init__(self, cluster: Cluster, replicas: Replicas) -> None:
        self._cluster = cluster
        self._replicas = replicas

    def rest(self) -> list[Finding]:
        """Wait until nothing moves, and audit all of it."""
        self._wait_until_quiet()
        found = audit.read(self._cluster.plane.request)
        return audit.audit(found) + audit.leftovers(found)

    def drain(self) -> list[Finding]:
        """Delete running pods again and again: no pod that could run may go on waiting then."""
        while waiting := self._waiting():
            report(f"{len(waiting)} wait")
            for each in self._cluster.pods():
                if each["spec"].get("nodeName"):
                    self._cluster.delete_pod(each, at_once=True)
            if not self._any_moves({each["metadata"]["uid"] for each in waiting}):
                return [Finding("stuck", str(key_of(each)), _why(each)) for each in waiting]
        return []

    def empty(self) -> list[Finding]:
        """Delete every pod: no device may be held then."""
        for each in self._cluster.pods():
            self._cluster.delete_pod(each, at_once=True)
        end = time.monotonic() + _TURN_SECONDS
        while held := [each for each in self._cluster.listed(f"{RESOURCE}/resourceclaims") if results_of(each)]:
            if time.monotonic() > end:
                return [Finding("left", str(key_of(each)), "it is allocated, and no pod runs") for each in held]
            time.sleep(_POLL_SECONDS)
        return []

    def _wait_until_quiet(self) -> None:
        state, since, end = "", time.monotonic(), time.monotonic() + _LONGEST_SECONDS
        while time.monotonic() < min(since + QUIET_SECONDS, end):
            self._replicas.mend()
            now = str(sorted((key_of(each), each["spec"].get("nodeName", "")) for each in self._cluster.pods()))
            state, since = now, since if now == state else time.monotonic()
            time.sleep(_POLL_SECONDS)

    def _waiting(self) -> list[Json]:
        """Pods of ours that wait although nothing that they need is missing."""
        pods, claims = self._cluster.pods(), self._cluster.listed(f"{RESOURCE}/resourceclaims")
        names = {str(key_of(each)) for each in claims}
        groups = {key_of(each) for each in self._cluster.listed(f"/apis/{GROUPS}/podgroups")}
        waiting = [
            each
            for each in pods
            if not each["spec"].get("nodeName")
            and each["spec"]["schedulerName"] == SCHEDULER
            and all(f"{each['metadata']['namespace']}/{name}" in names for name in claims_of(each))
        ]
        return [each for each in waiting if _is_whole(each, waiting, groups)]

    def _any_moves(self, uids: set[str]) -> bool:
        end = time.monotonic() + _TURN_SECONDS
        while time.monotonic() < end:
            self._replicas.mend()
            if not uids <= {each["metadata"]["uid"] for each in self._waiting()}:
                return True
            time.sleep(_POLL_SECONDS)
        return False


def _is_whole(pod: Json, waiting: list[Json], groups: set[Key]) -> bool:
    """Whether a pod's gang, if it has one, can be placed from its waiting members alone."""
    gang = gang_of(pod)
    if gang is None:
        return True
    if "schedulingGroup" in pod["spec"] and gang not in groups:
        return False
    annotations = pod["metadata"].get("annotations") or {}
    needed = max(int(value) for key, value in annotations.items() if key.endswith("minimum"))
    return sum(gang_of(each) == gang for each in waiting) >= needed


def _why(pod: Json) -> str:
    for each in pod["status"].get("conditions") or ():
        if each["type"] == "PodScheduled":
            return f"{each.get('reason')}: {each.get('message')}"
    return "it was told nothing"

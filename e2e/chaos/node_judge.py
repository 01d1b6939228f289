"""
What must hold on real nodes, judged from drivers' logs, containers, pods and claims: pure, as `judge` is.

By what kubelets and drivers did, not by what the API server has: no device is prepared for two claims at once, each
container has the devices of its claims, and a pod starts where nothing is in its way.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from e2e.audit.reading import Finding, Json, Key, claims_of, key_of, results_of
from e2e.nodes.invariants import prepared, prepared_twice
from e2e.nodes.records import Call

LASTING_SECONDS: Final = 30.0
"""How long containers, drivers and claims may disagree: longer than a kubelet or the API server is away."""
START_SECONDS: Final = 60.0
"""How long a pod may take to start; a kubelet tries again after seconds what failed."""


@dataclass(slots=True)
class NodeJudge:
    """Everything that was wrong on real nodes; `starting` has the pods that should start, and since when."""

    findings: list[Finding] = field(default_factory=list)
    starting: dict[str, float] = field(default_factory=dict)
    _problems: dict[str, float] = field(default_factory=dict)
    _told: set[Finding] = field(default_factory=set)

    def preparations(self, driver: str, boots: Iterable[Iterable[Call]]) -> None:
        """See all calls of a node's driver, by boot."""
        for calls in boots:
            for each in prepared_twice(calls):
                self._tell("prepared", driver, each)

    def disagreements(self, found: Iterable[str], seconds: float) -> None:
        """See what containers, drivers and claims do not agree about at a moment of a clock."""
        self._problems = {each: self._problems.get(each, seconds) for each in found}
        for each, since in self._problems.items():
            if seconds - since >= LASTING_SECONDS:
                self._tell("devices", "real nodes", each)

    def starts(self, pods: Iterable[Json], claims: Iterable[Json], up: Mapping[str, float], seconds: float) -> None:
        """See pods and claims, and since when the nodes are up whose kubelet and driver run."""
        known = {key_of(each): each for each in claims}
        due = {
            each["metadata"]["uid"]: each
            for each in pods
            if each["spec"].get("nodeName") in up and should_start(each, known)
        }
        self.starting = {
            uid: max(self.starting.get(uid, seconds), up[pod["spec"]["nodeName"]]) for uid, pod in due.items()
        }
        for uid, since in self.starting.items():
            if seconds - since >= START_SECONDS:
                node = due[uid]["spec"]["nodeName"]
                message = f"it has not started on {node} in {START_SECONDS:.0f} s, and kubelet and driver run there"
                self._tell("start", str(key_of(due[uid])), message)

    def is_undecided(self, seconds: float) -> bool:
        """Say whether something that was seen may still come right, or become a finding."""
        starting = any(seconds - since < START_SECONDS for since in self.starting.values())
        return starting or any(seconds - since < LASTING_SECONDS for since in self._problems.values())

    def _tell(self, rule: str, subject: str, message: str) -> None:
        finding = Finding(rule, subject, message)
        if finding not in self._told:
            self._told.add(finding)
            self.findings.append(finding)


def should_start(pod: Json, claims: Mapping[Key, Json]) -> bool:
    """Say whether a bound pod has all that a kubelet demands, and none of its containers has started."""
    statuses = (*pod["status"].get("initContainerStatuses", ()), *pod["status"].get("containerStatuses", ()))
    if "deletionTimestamp" in pod["metadata"] or pod["status"].get("phase") != "Pending":
        return False
    if any("waiting" not in each["state"] or each["restartCount"] for each in statuses):
        return False
    namespace = pod["metadata"]["namespace"]
    return all(_is_reserved(claims.get(Key(namespace, name), {}), pod) for name in claims_of(pod))


def _is_reserved(claim: Json, pod: Json) -> bool:
    group = (pod["spec"].get("schedulingGroup") or {}).get("podGroupName")
    return bool(results_of(claim)) and any(
        each["uid"] == pod["metadata"]["uid"] or (each["resource"] == "podgroups" and each["name"] == group)
        for each in claim["status"].get("reservedFor") or ()
    )


def still_prepared(driver: str, boots: Iterable[Iterable[Call]]) -> list[Finding]:
    """Say what a driver was not asked to give back, also after a boot: the kubelet remembers it."""
    calls = [each for boot in boots for each in boot]
    names = {each.uid: f"{each.namespace}/{each.name}" for each in calls}
    return [
        Finding("prepared", driver, f"claim {names[uid]} ({uid}) is still prepared, and no pod is there")
        for uid in prepared(calls)
    ]

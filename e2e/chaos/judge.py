"""
What must never happen, judged from a watch: pure, so that each rule is tested by breaking it.

A watch gives the changes of one kind of object in the order in which they happened, and says nothing of the order
between kinds. Rules therefore read one kind, or leave time for the other one to arrive.
"""

from collections import defaultdict, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from e2e.audit.inventory import Inventory
from e2e.audit.leftovers import GANG_LABEL, MINIMUM
from e2e.audit.reading import Finding, Json, Key, holds_node, key_of, results_of
from e2e.audit.selectors import labels_of
from e2e.audit.usage import usage_findings

EVICTED: Final = frozenset({"EvictionByEvictionAPI", "PreemptionByScheduler"})
BUDGET: Final = "budget"
"""The label that says which PodDisruptionBudget selects a pod."""
MOVABLE: Final = "ReplicaSet"
"""Pods of this kind of controller may be moved by repairs."""
NEEDED: Final = "chaos.dovetail.dev/minimum"
"""The annotation that says on pods of a PodGroup how many of them have to run."""
WINDOW_SECONDS: Final = 59.0
"""A minute, less what is lost of times in whole seconds."""
NOMINATION_SECONDS: Final = 10.0
"""How long before an eviction a nomination for its room may have been withdrawn again."""
ENDED: Final = frozenset({"Succeeded", "Failed"})


@dataclass(frozen=True, slots=True)
class Rules:
    """What holds in this run: `least` pods of a budget stay, by its name; nodes of the peer begin with a prefix."""

    scheduler: str
    most_evictions: int
    partial_seconds: float
    least: Mapping[str, int]
    peer: str
    peer_prefix: str
    sharing: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """By namespace those that share a DeviceQuota with it: pods of these may be evicted for a pod on any node."""


@dataclass(slots=True)
class Eviction:
    """A pod that was evicted, and the pods that this may have helped (uids of pods that waited for its node)."""

    pod: Key
    uid: str
    node: str
    seconds: float
    helps: frozenset[str]


@dataclass(slots=True)
class _Gang:
    """When a gang began to be partial, and whether it lost a member after the first one was bound."""

    partial_since: float | None = None
    has_lost: bool = False
    is_told: bool = False


@dataclass(slots=True)
class Judge:
    """Everything that was seen, and what was wrong with it."""

    rules: Rules
    inventory: Inventory
    findings: list[Finding] = field(default_factory=list)
    pods: dict[str, Json] = field(default_factory=dict)
    claims: dict[str, Json] = field(default_factory=dict)
    evictions: list[Eviction] = field(default_factory=list)
    bindings: int = 0
    allocations: int = 0
    moved: set[str] = field(default_factory=set)
    """The uids of pods that repairs have evicted, as RepairPlans say."""
    settled: set[str] = field(default_factory=set)
    """Of these, the ones whose successors have come to the room that was held for them."""
    carried_out: set[str] = field(default_factory=set)
    """The names of RepairPlans whose moves are all made and whose goals are reached."""
    _evicted: set[str] = field(default_factory=set)
    _helped: set[str] = field(default_factory=set)
    _recent: deque[float] = field(default_factory=deque)
    _nominations: dict[str, tuple[str, float]] = field(default_factory=dict)
    _homes: defaultdict[Key, set[str]] = field(default_factory=lambda: defaultdict(set))
    _gangs: defaultdict[Key, _Gang] = field(default_factory=lambda: defaultdict(_Gang))

    def claim(self, claim: Json, *, is_gone: bool = False) -> None:
        """See a claim change: what devices have is given once, and by their own scheduler."""
        uid = claim["metadata"]["uid"]
        before = self.claims.pop(uid, None)
        if is_gone:
            return
        self.claims[uid] = claim
        if results_of(claim) == results_of(before or {}):
            return
        self.allocations += bool(results_of(claim))
        self.findings += usage_findings(list(self.claims.values()), self.inventory)

    def pod(self, pod: Json, seconds: float, *, is_gone: bool = False) -> None:
        """See a pod change, at a moment of a clock."""
        uid = pod["metadata"]["uid"]
        before = self.pods.pop(uid, None)
        if not is_gone:
            self.pods[uid] = pod
        if holds_node(pod) and not (before and holds_node(before)):
            self._bound(pod)
        if node := pod["status"].get("nominatedNodeName"):
            self._nominations[uid] = (node, seconds)
        if is_gone or "deletionTimestamp" in pod["metadata"] or pod["status"].get("phase") in ENDED:
            self._helped.add(uid)  # it needs no help any more
        if uid not in self._evicted and _evicted_at(pod) and pod["spec"].get("schedulerName") == self.rules.scheduler:
            self._evicted.add(uid)
            self._evict(pod, seconds)
        self._note_loss(pod, before, is_gone=is_gone)

    def plan(self, plan: Json) -> None:
        """See a RepairPlan change."""
        status = plan.get("status", {})
        moves = status.get("moves", ())
        self.moved |= {each["uid"] for each in moves}
        self.settled |= {each["uid"] for each in moves if each["state"] == "Moved"}
        if moves and status["state"] == "Done":
            self.carried_out.add(plan["metadata"]["name"])

    def tick(self, seconds: float) -> None:
        """See time pass: a gang is not in two parts for long, unless it lost members."""
        running: defaultdict[Key, int] = defaultdict(int)
        waiting: defaultdict[Key, int] = defaultdict(int)
        minima: defaultdict[Key, int] = defaultdict(int)
        for pod in self.pods.values():
            gang = gang_of(pod)
            if gang is None or "deletionTimestamp" in pod["metadata"] or pod["status"].get("phase") in ENDED:
                continue
            (running if holds_node(pod) else waiting)[gang] += 1
            minima[gang] = max(minima[gang], _minimum(pod))
        for gang, minimum in minima.items():
            is_partial = 0 < running[gang] < minimum <= running[gang] + waiting[gang]
            self._see_gang(gang, seconds, f"{running[gang]} of {minimum} run", is_partial=is_partial)

    def finish(self) -> list[Finding]:
        """Say what else is wrong once everything is at rest: evictions that have helped no pod."""
        return [
            Finding("in vain", str(each.pod), f"it was evicted from {each.node}, and no pod was bound for it")
            for each in self.evictions
            if not each.helps & self._helped and each.uid not in self.moved
        ]

    def _bound(self, pod: Json) -> None:
        self.bindings += 1
        self._homes[gang_of(pod) or key_of(pod)].add(pod["spec"]["nodeName"])
        self._helped.add(pod["metadata"]["uid"])
        is_peers = pod["spec"]["nodeName"].startswith(self.rules.peer_prefix)
        if is_peers != (pod["spec"].get("schedulerName") == self.rules.peer):
            self.findings.append(Finding("foreign", str(key_of(pod)), f"it is on {pod['spec']['nodeName']}"))

    def _evict(self, pod: Json, seconds: float) -> None:
        node, name = pod["spec"].get("nodeName", ""), str(key_of(pod))
        helps, uid = frozenset(self._waiting_for(pod, seconds)), pod["metadata"]["uid"]
        self.evictions.append(Eviction(key_of(pod), uid, node, seconds, helps))
        if any(each["kind"] == MOVABLE for each in pod["metadata"].get("ownerReferences", ())):
            self._see_budget(pod)  # whether a repair has moved it is known later
            return
        if not helps:
            self.findings.append(Finding("in vain", name, f"it was evicted, and no pod of more priority wants {node}"))
        self._recent.append(_evicted_at(pod))
        while self._recent[0] <= self._recent[-1] - WINDOW_SECONDS:
            self._recent.popleft()
        if len(self._recent) > self.rules.most_evictions:
            self.findings.append(Finding("rate", name, f"it is eviction {len(self._recent)} of one minute"))
        self._see_budget(pod)

    def _see_budget(self, pod: Json) -> None:
        """Count what is left of the budget of a pod that was evicted."""
        budget = labels_of(pod).get(BUDGET, "")
        if budget:
            namespace = pod["metadata"]["namespace"]
            others = [each for each in self.pods.values() if each["metadata"]["namespace"] == namespace]
            left = sum(_is_healthy(each) and labels_of(each).get(BUDGET) == budget for each in others)
            if left < self.rules.least[budget]:
                self.findings.append(Finding("budget", str(key_of(pod)), f"{left} pods are left of budget {budget}"))

    def _waiting_for(self, victim: Json, seconds: float) -> Iterator[str]:
        """
        Pods of more priority for which the victim's node is nominated, or was until a moment ago.

        Where both share a DeviceQuota, the victim may be on any node: what it gives back counts for the limit.
        A gang goes whole: its members are evicted from all of their nodes for a pod that wants one of them.
        """
        homes = self._homes[gang_of(victim) or key_of(victim)]
        sharing = self.rules.sharing.get(key_of(victim).namespace, frozenset())
        for uid, (node, when) in self._nominations.items():
            pod = self.pods.get(uid)
            is_more = pod is None or pod["spec"].get("priority", 0) > victim["spec"].get("priority", 0)
            is_now = pod is not None and pod["status"].get("nominatedNodeName") == node
            is_near = node in homes or (pod is not None and key_of(pod).namespace in sharing)
            if is_near and is_more and (is_now or when > seconds - NOMINATION_SECONDS):
                yield uid

    def _note_loss(self, pod: Json, before: Json | None, *, is_gone: bool) -> None:
        gang = gang_of(pod)
        was_bound = before is not None and holds_node(before)
        ends = is_gone or "deletionTimestamp" in pod["metadata"] or pod["status"].get("phase") in ENDED
        if gang is not None and ends and (was_bound or pod["spec"].get("nodeName")):
            self._gangs[gang].has_lost = True
        if gang is not None and ends and self._gangs[gang].partial_since is not None:
            self._gangs[gang].has_lost = True

    def _see_gang(self, gang: Key, seconds: float, state: str, *, is_partial: bool) -> None:
        known = self._gangs[gang]
        if not is_partial:
            known.partial_since = None
            return
        known.partial_since = seconds if known.partial_since is None else known.partial_since
        is_long = seconds - known.partial_since > self.rules.partial_seconds
        if is_long and not known.has_lost and not known.is_told:
            known.is_told = True
            self.findings.append(Finding("part", str(gang), f"{state}, and it lost no pod"))


def gang_of(pod: Json) -> Key | None:
    """The gang of a pod, by PodGroup or label."""
    named = (pod["spec"].get("schedulingGroup") or {}).get("podGroupName") or labels_of(pod).get(GANG_LABEL)
    return Key(pod["metadata"]["namespace"], named) if named else None


def _minimum(pod: Json) -> int:
    annotations = pod["metadata"].get("annotations") or {}
    return int(annotations.get(MINIMUM) or annotations.get(NEEDED) or 0)


def _evicted_at(pod: Json) -> float:
    """When the server evicted a pod, in seconds since the epoch; 0 where it did not."""
    for each in pod["status"].get("conditions") or ():
        if each["type"] == "DisruptionTarget" and each["status"] == "True" and each.get("reason") in EVICTED:
            return datetime.fromisoformat(each["lastTransitionTime"]).timestamp()
    return 0.0


def _is_healthy(pod: Json) -> bool:
    is_ready = any(
        each["type"] == "Ready" and each["status"] == "True" for each in pod["status"].get("conditions") or ()
    )
    return is_ready and holds_node(pod) and "deletionTimestamp" not in pod["metadata"] and not _evicted_at(pod)

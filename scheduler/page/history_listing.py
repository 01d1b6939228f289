"""What a running scheduler decided, and what happened to pods, as `dovetail history` and the page list it."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Final, NamedTuple

from scheduler.history.records import DecisionRecord, HistoryRecord, PodRecord
from scheduler.simulation.printing import pool_name, runs
from solver.domain import LevelReport, PoolId

_PLACED: Final = "Placed"
LEVEL_WORDS: Final = {
    "quota-shares": "devices that quotas hold beyond their shares",
    "node-prices": "price of nodes to add",
    "added-nodes": "nodes to add",
    "gang-topology": "domains used by gangs",
    "alternatives": "later alternatives of firstAvailable",
    "preferences": "preferences not met",
    "suspects": "devices used that failed lately",
    "remote-devices": "devices used that are not the node's own, or not attached yet",
    "expected-room": "room lost for expected pods",
    "opened-groups": "whole groups of nodes that lose a device",
    "opened-nodes": "nodes used that had no device in use",
    "opened-devices": "unused shareable devices used",
    "spoiled-partitions": "value of partitions that cannot be cut any more",
    "broken-groups": "whole groups of devices that lose a device",
    "crowded-nodes": "devices from nodes with few of them free",
    "device-value": "value of the devices used",
    "domain-allocation": "free share of the domains used by gangs",
    "scores": "node scores missed",
}
"""
Levels of the objective by their name in JSON, as docs/policies.md explains them.

Of all of them less is better, so their values in JSON are negative.
"""
_PLACED_WORDS: Final = {
    "placed": "{} placed",
    "placed-devices": "devices of {} placed",
    "larger-pods": "squares of the devices of {} placed",
}
"""Levels of placed pods, of which more is better; a profile that counts devices has all three."""
_WHICH_PODS: Final = {"overdue": "overdue ", "guaranteed": "guaranteed "}


def pod_events(records: Sequence[HistoryRecord]) -> "list[PodEvent]":
    """
    List what happened to pods, of records in the order of time; once where decisions in a row say the same of a pod.

    Such an event has the time of the last of these decisions, and stands there.
    """
    settled = {(each.decision, each.namespace, each.name) for each in records if isinstance(each, PodRecord)}
    events: list[PodEvent] = []
    last: dict[tuple[str, str], int] = {}
    for record in records:
        found = [_pod_event(record)] if isinstance(record, PodRecord) else _decision_events(record)
        for event in found:
            if event.what == _PLACED and event.settled_key in settled:
                continue  # the row that it was bound says more
            at = last.get(event.pod, -1)
            if at >= 0 and events[at].says_the_same(event):
                events[at] = event._replace(times=events[at].times + 1)
            else:
                last[event.pod] = len(events)
                events.append(event)
    return sorted(events, key=lambda event: event.time)


class PodEvent(NamedTuple):
    """
    Something that happened to a pod `times` times, without another event in between.

    `waited` are the seconds from the time when it could first be scheduled until it was bound.
    """

    time: datetime
    decision: int
    pod: tuple[str, str]
    what: str
    node: str = ""
    devices: tuple[str, ...] = ()
    why: str = ""
    times: int = 1
    waited: float = 0.0

    @property
    def settled_key(self) -> tuple[int, str, str]:
        """The decision and the pod."""
        return self.decision, *self.pod

    def says_the_same(self, other: "PodEvent") -> bool:
        """Whether another event differs in time alone."""
        return self._replace(time=other.time, decision=other.decision, times=1) == other

    @property
    def full_why(self) -> str:
        """Why, and of how many decisions."""
        return self.why if self.times == 1 else f"{self.why} (the last of {self.times} decisions)"

    @property
    def short_devices(self) -> str:
        """The devices as `explain` writes them: gpu-0 … gpu-7 (gpu.nvidia.com)."""
        return _shortened(self.devices, self.node)


def _shortened(devices: tuple[str, ...], node: str) -> str:
    pools: dict[str, list[str]] = {}
    for each in devices:
        pool, _, device = each.rpartition("/")
        driver, _, name = pool.partition("/")
        pools.setdefault(pool_name(PoolId(driver, name), node), []).append(device)
    return "; ".join(f"{', '.join(runs(names))} ({pool})" for pool, names in pools.items())


def _pod_event(record: PodRecord) -> PodEvent:
    why = record.message
    if record.preemptor not in why:
        why += f" (pod {record.preemptor})"
    pod = record.namespace, record.name
    event = PodEvent(record.time, record.decision, pod, record.result.value, record.node, record.devices, why)
    return event._replace(waited=record.seconds)


def _decision_events(record: DecisionRecord) -> Iterator[PodEvent]:
    event = PodEvent(record.time, record.decision, ("", ""), "")
    for placed in record.placed:
        pod = placed.namespace, placed.name
        yield event._replace(pod=pod, what=_PLACED, node=placed.node, devices=placed.devices)
    for waiting in record.waiting:
        why = waiting.message or waiting.reason
        yield event._replace(pod=(waiting.namespace, waiting.name), what="Waits", why=why)
    for nominated in record.nominated:
        pod = nominated.namespace, nominated.name
        victims = nominated.victims
        why = f"{victims} pod{'s are' if victims > 1 else ' is'} evicted for it" if victims else "pods leave for it"
        yield event._replace(pod=pod, what="Nominated", node=nominated.node, why=why)


def level_in_words(level: LevelReport) -> str:
    """Write a level: `pods of priority 0 placed: 12 (best)`, or with its bound `…: 12 (at best 14)`."""
    proof = "best" if level.proven else f"at best {abs(level.bound)}"
    return f"{_words(level.name)}: {abs(level.value)} ({proof})"


def _words(name: str) -> str:
    kind, _, rest = name.partition(":")
    if kind not in _PLACED_WORDS:
        return LEVEL_WORDS.get(name, name)
    priority, _, which = rest.partition(":")
    pods = f"{_WHICH_PODS.get(which, '')}pods of priority {priority}"
    return _PLACED_WORDS[kind].format(pods)

"""
The counts of one demand over some nodes, kept from one decision to the next and changed by what changed.

A pod that fits nowhere is explained in every decision that it is part of. Counting all devices of a large cluster for
it costs more than the decision; a claim that came or went concerns a few devices, and a pod that came or went one node.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from solver.arrays import Mask
from solver.domain import CounterId, Taint
from solver.fleet.availability import Obstacle
from solver.problem.devices.inventory import DeviceRecord, Inventory
from solver.problem.devices.ledger import DeviceLedger
from solver.problem.requests.demand import Answers, Verdict


class DemandView(Protocol):
    """What a problem says of one demand and a device."""

    def obstacle(self, index: int, /) -> Obstacle | None:
        """Say why a device that answers YES has no room for one more allocation; None if it has."""
        ...

    def taints(self, record: DeviceRecord, /) -> Iterable[Taint]:
        """Return the first taint that the demand does not tolerate."""
        ...


def is_countable(inventory: Inventory, answers: Answers) -> bool:
    """Whether each device that answers belongs to one node and answers there whatever other nodes are looked at."""
    if answers.unfit or answers.spared or inventory.undeclared:
        return False
    return not any(index in answers.verdicts for index in inventory.wide)


@dataclass(slots=True, eq=False)
class KeptCounts:
    """
    Counts of the devices that answer a demand on some nodes: `matching` and `free` by node.

    `hurdles` has the able devices without room. Invariant: after `follow` all equals what is counted from nothing for
    the same devices, ledger and nodes, apart from counts of zero; a property checks it.
    """

    answers: Answers
    records: Mapping[int, DeviceRecord]
    verdicts: Counter[Verdict] = field(default_factory=Counter)
    taints: Counter[Taint] = field(default_factory=Counter)
    matching: Counter[int] = field(default_factory=Counter)
    obstacles: Counter[Obstacle] = field(default_factory=Counter)
    free: Counter[int] = field(default_factory=Counter)
    hurdles: dict[int, Obstacle] = field(default_factory=dict)
    _able: dict[CounterId, set[int]] = field(default_factory=lambda: defaultdict(set))
    """The able devices that draw on a counter."""
    _ledger: DeviceLedger = field(default_factory=DeviceLedger)
    _nodes: Mask | None = None

    def follow(self, view: DemandView, inventory: Inventory, ledger: DeviceLedger, nodes: Mask) -> None:
        """Make these the counts for a ledger and some nodes; the inventory is that of the answers."""
        verdicts, records = self.answers.verdicts, self.records
        before = np.zeros_like(nodes) if self._nodes is None else self._nodes
        if np.count_nonzero(before & ~nodes) > np.count_nonzero(nodes):
            before = np.zeros_like(nodes)
            self._forget()
        touched = ledger.since(self._ledger)
        for index in touched.records.union(*(self._able.get(each, ()) for each in touched.counters)):
            if verdicts.get(index) is Verdict.YES and before[records[index].home]:
                self._give_up(records[index])
                self._take(view, records[index])
        self._ledger = ledger
        for node in np.flatnonzero(nodes != before).tolist():
            there = [records[index] for index in inventory.by_home[node] if index in verdicts]
            self._count(view, there, 1 if nodes[node] else -1)
        self._nodes = nodes.copy()

    def _forget(self) -> None:
        """Count from nothing: where most nodes are not looked at any more, that is less work."""
        counts: tuple[dict[Any, Any], ...] = (
            self.verdicts, self.taints, self.matching, self.obstacles, self.free, self.hurdles, self._able,
        )  # fmt: skip
        for each in counts:
            each.clear()

    def replace(self, view: DemandView, inventory: Inventory, answers: Answers) -> None:
        """Go over to the answers of another inventory of the same nodes; records that both have answer alike."""
        was, now = self.records, inventory.records
        for index, record in was.items():
            if now.get(index) is not record and self._is_counted(record):
                self._count(view, [record], -1)
        self.answers, self.records = answers, now
        for index, record in now.items():
            if was.get(index) is not record and self._is_counted(record):
                self._count(view, [record], 1)

    def _is_counted(self, record: DeviceRecord) -> bool:
        return self._nodes is not None and record.index in self.answers.verdicts and bool(self._nodes[record.home])

    def _count(self, view: DemandView, there: list[DeviceRecord], sign: int) -> None:
        """Count devices of a node that was added, or of one that was taken away."""
        if not there:
            return
        verdicts, able = self.answers.verdicts, list[DeviceRecord]()
        self.matching[there[0].home] += sign * len(there)
        for record in there:
            verdict = verdicts[record.index]
            if verdict is Verdict.YES:
                able.append(record)
                continue
            self.verdicts[verdict] += sign
            for taint in view.taints(record) if verdict is Verdict.TAINTED else ():
                self.taints[taint] += sign
        self.verdicts[Verdict.YES] += sign * len(able)
        for record in able:
            if sign > 0:
                self._take(view, record)
            else:
                self._give_up(record)

    def _take(self, view: DemandView, record: DeviceRecord) -> None:
        for counter, _ in record.counters:
            self._able[counter].add(record.index)
        obstacle = view.obstacle(record.index)
        if obstacle is None:
            self.free[record.home] += 1
        else:
            self.hurdles[record.index] = obstacle
            self.obstacles[obstacle] += 1

    def _give_up(self, record: DeviceRecord) -> None:
        for counter, _ in record.counters:
            self._able[counter].discard(record.index)
        obstacle = self.hurdles.pop(record.index, None)
        if obstacle is None:
            self.free[record.home] -= 1
        else:
            self.obstacles[obstacle] -= 1

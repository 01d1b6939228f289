"""
How many devices match a request on some nodes, and how many of them are free, in use or excluded.

Conditions, events and `dovetail explain` count here; what is free follows from `availability`, as for the fleet.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np

from solver.arrays import Mask
from solver.domain import Taint
from solver.feasibility import capacity
from solver.fleet.availability import Availability, Obstacle
from solver.fleet.kept_counts import KeptCounts, is_countable
from solver.problem.devices.inventory import DeviceRecord
from solver.problem.problem import Problem
from solver.problem.requests.component import Ask
from solver.problem.requests.demand import Verdict
from solver.rules.taints.values import first_untolerated_taint

_KEPT_BYTES: Final = 100
"""Estimated bytes of `KeptCounts` for each device that answers."""


class ShortCapacity(NamedTuple):
    """What an allocation consumes of a capacity, and the most that one device has left; nano-units, written `like`."""

    asked: int
    left: int
    like: str


class DeviceSupply(NamedTuple):
    """
    Counts of devices for a demand on some nodes; `most` and `largest` are the most free and matching of one node.

    `taints` counts the tainted devices by the first taint that the demand does not tolerate. `short` has the capacities
    of which shared devices have too little left, by name.
    """

    verdicts: Counter[Verdict]
    obstacles: Counter[Obstacle]
    free: int
    most: int
    largest: int
    taints: Counter[Taint]
    short: dict[str, ShortCapacity]


@dataclass(slots=True, eq=False)
class DeviceSupplies:
    """Counts devices of one problem; results are cached."""

    problem: Problem
    known: dict[tuple[int, bytes], DeviceSupply] = field(default_factory=dict)
    availability: Availability = field(init=False)

    def __post_init__(self) -> None:
        """Take what is in use from the problem."""
        self.availability = Availability(self.problem.inventory, self.problem.available.ledger)

    def of(self, ask: Ask, roomy: Mask) -> DeviceSupply:
        """Count the devices that some nodes can use for a request."""
        key = (ask.demand, roomy.tobytes())
        if key not in self.known:
            kept = self._kept(ask.demand)
            self.known[key] = (
                self._count(ask, set(np.flatnonzero(roomy).tolist()))
                if kept is None
                else self._changed(kept, ask.demand, roomy)
            )
        return self.known[key]

    def together(self, asks: Iterable[Ask]) -> int | None:
        """Return the most devices of one node that are free for any of some requests; None if some are shareable."""
        found: set[int] = set()
        for demand in {ask.demand for ask in asks}:
            verdicts = self.problem.requests.answers[demand].verdicts
            found |= {i for i, verdict in verdicts.items() if verdict is Verdict.YES and not self.obstacle(i, demand)}
        records = [self.problem.inventory.records[index] for index in found]
        if any(record.device.allow_multiple_allocations for record in records):
            return None
        homes = Counter(record.home for record in records)
        wide = homes.pop(-1, 0)
        return max(homes.values(), default=0) + wide

    def free_on(self, ask: Ask, node: int) -> list[int]:
        """Return the records that a request can get on a node."""
        answers, inventory = self.problem.requests.answers[ask.demand], self.problem.inventory
        there = (index for index in (*inventory.by_home[node], *inventory.wide) if index in answers.verdicts)
        able = (index for index in there if answers.at(inventory.records[index], node) is Verdict.YES)
        return [index for index in able if not self.obstacle(index, ask.demand)]

    def _kept(self, demand: int) -> KeptCounts | None:
        """Return the counts of a demand in an earlier problem, or empty ones; None where they cannot be kept."""
        answers, inventory = self.problem.requests.answers[demand], self.problem.inventory
        found: KeptCounts | None = inventory.counted.get(self.problem.requests.demands[demand])
        if found is not None and found.answers is answers:
            return found
        if not is_countable(inventory, answers):
            return None
        if found is not None:
            found.replace(_DemandView(self, demand), inventory, answers)
            return found
        made = KeptCounts(answers, inventory.records)
        inventory.counted.put(self.problem.requests.demands[demand], made, _KEPT_BYTES * len(answers.verdicts))
        return made

    def _changed(self, kept: KeptCounts, demand: int, roomy: Mask) -> DeviceSupply:
        """Count devices over nodes, of which each belongs to one, from what changed since the last count."""
        view = _DemandView(self, demand)
        kept.follow(view, self.problem.inventory, self.problem.available.ledger, roomy)
        short: dict[str, ShortCapacity] = {}
        if kept.obstacles[Obstacle.CAPACITY]:
            lacking = (index for index, obstacle in kept.hurdles.items() if obstacle is Obstacle.CAPACITY)
            self._note_all_short(lacking, demand, short)
        return DeviceSupply(
            verdicts=+kept.verdicts,
            obstacles=+kept.obstacles,
            free=kept.free.total(),
            most=max(kept.free.values(), default=0),
            largest=max(kept.matching.values(), default=0),
            taints=+kept.taints,
            short=short,
        )

    def _count(self, ask: Ask, wanted: set[int]) -> DeviceSupply:
        """Count devices over nodes; a device that several nodes can use counts once."""
        problem, answers = self.problem, self.problem.requests.answers[ask.demand]
        inventory = problem.inventory
        verdicts: Counter[Verdict] = Counter()
        obstacles: Counter[Obstacle] = Counter()
        free: Counter[int] = Counter()
        matching: Counter[int] = Counter()
        taints: Counter[Taint] = Counter()
        short: dict[str, ShortCapacity] = {}
        lacking: list[int] = []
        is_same = bool(wanted) and not (answers.unfit or answers.spared or inventory.undeclared)
        for index, answer in answers.verdicts.items():
            record = inventory.records[index]
            if record.home not in wanted if record.home >= 0 else not _reaches(record, wanted):
                continue
            verdict = answer if is_same else self._there(ask, index, answer, wanted)
            verdicts[verdict] += 1
            matching[record.home] += 1
            if verdict is Verdict.TAINTED:
                taints.update(self.untolerated(record, ask.demand))
            if verdict is not Verdict.YES:
                continue
            obstacle = self.obstacle(index, ask.demand)
            if obstacle:
                obstacles[obstacle] += 1
            else:
                free[record.home] += 1
            if obstacle is Obstacle.CAPACITY:
                lacking.append(index)
        self._note_all_short(lacking, ask.demand, short)
        wide = free.pop(-1, 0)
        most, largest = max(free.values(), default=0) + wide, max(matching.values(), default=0)
        largest += matching.get(-1, 0) if len(matching) > 1 else 0
        return DeviceSupply(verdicts, obstacles, free.total() + wide, most, largest, taints, short)

    def untolerated(self, record: DeviceRecord, demand: int) -> Iterable[Taint]:
        """Return the first taint that a demand does not tolerate."""
        taint = first_untolerated_taint(record.taints, self.problem.requests.demands[demand].tolerations)
        return () if taint is None else (Taint(key=taint.key, value=taint.value, effect=taint.effect),)

    def _note_all_short(self, lacking: Iterable[int], demand: int, short: dict[str, ShortCapacity]) -> None:
        """Note what devices with too little capacity lack; amounts are written as that of the first one."""
        for index in sorted(lacking):
            self._note_short(self.problem.inventory.records[index], demand, short)

    def _note_short(self, record: DeviceRecord, demand: int, short: dict[str, ShortCapacity]) -> None:
        """Note the capacities of which a shared device has too little left."""
        requested = dict(self.problem.requests.demands[demand].capacity)
        capacities = self.problem.available.ledger.capacities_left(record)
        published = dict(record.device.capacities)
        for name, amount in capacity.consumption(record.id.driver, record.device, requested) or ():
            left = max(0, capacities[name])
            if left < amount:
                known = short.get(name, ShortCapacity(amount, left, published[name].value.text))
                short[name] = ShortCapacity(max(known.asked, amount), max(known.left, left), known.like)

    def _there(self, ask: Ask, index: int, verdict: Verdict, wanted: set[int]) -> Verdict:
        """Return the verdict on a device for some nodes, which may be too small for it or not declare a feature."""
        answers = self.problem.requests.answers[ask.demand]
        unfit = answers.unfit.get(index, frozenset())
        is_had = not wanted <= answers.lost(index) if ask.needed else wanted.isdisjoint(unfit)
        if is_had:
            return verdict
        undeclared = self.problem.inventory.undeclared.get(index, frozenset())
        if wanted <= undeclared or (not ask.needed and wanted.isdisjoint(unfit - undeclared)):
            return Verdict.UNDECLARED
        return Verdict.TOO_LARGE if not ask.needed or wanted <= unfit else Verdict.SPARED

    def obstacle(self, index: int, demand: int) -> Obstacle | None:
        """Say why a device that answers YES has no room for one more allocation; None if it has."""
        if self.problem.requests.demands[demand].is_admin:
            return None
        consumption = self.problem.requests.answers[demand].consumption.get(index, ())
        return self.availability.obstacle(index, consumption)


@dataclass(frozen=True, slots=True)
class _DemandView:
    """One demand of a problem, for `KeptCounts`."""

    supplies: DeviceSupplies
    demand: int

    def obstacle(self, index: int) -> Obstacle | None:
        return self.supplies.obstacle(index, self.demand)

    def taints(self, record: DeviceRecord) -> Iterable[Taint]:
        return self.supplies.untolerated(record, self.demand)


def _reaches(record: DeviceRecord, nodes: set[int]) -> bool:
    """Whether one of some nodes can use a device; a device for all nodes can always be used."""
    return record.nodes is None or not record.nodes.isdisjoint(nodes)

"""Devices for a request on some nodes: how many match, what is in the way of each, how many are free together."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np

from solver.problem.devices.inventory import Mask
from solver.problem.devices.layout import GLOBAL
from solver.problem.problem import Problem
from solver.problem.requests.component import Ask
from solver.problem.requests.demand import Verdict

USED: Final = "in use"
CAPACITY: Final = "with too little capacity left"
COUNTERS: Final = "whose shared counters are used up"


class Asked(NamedTuple):
    """One alternative of a request, with its name (empty for `exactly`) and its class."""

    name: str
    ask: Ask
    device_class: str


class Supply(NamedTuple):
    """Devices for a demand on some nodes: by verdict, by what is in the way, free, most free and matching on one."""

    verdicts: Counter[Verdict]
    obstacles: Counter[str]
    free: int
    most: int
    largest: int


@dataclass(slots=True, eq=False)
class Supplies:
    """Counts devices of one problem; what was counted is kept."""

    problem: Problem
    known: dict[tuple[int, bytes], Supply] = field(default_factory=dict)

    def of(self, ask: Ask, roomy: Mask) -> Supply:
        """Count the devices that some nodes can use for a request."""
        key = (ask.demand, roomy.tobytes())
        if key not in self.known:
            self.known[key] = self._count(ask, set(np.flatnonzero(roomy).tolist()))
        return self.known[key]

    def together(self, asks: Iterable[Ask]) -> int | None:
        """Give the most devices of one node that are free for any of some requests; None where some are shareable."""
        found: set[int] = set()
        for demand in {ask.demand for ask in asks}:
            verdicts = self.problem.answers[demand].verdicts
            found |= {i for i, verdict in verdicts.items() if verdict is Verdict.YES and not self.obstacle(i, demand)}
        records = [self.problem.inventory.records[index] for index in found]
        if any(record.device.allow_multiple_allocations for record in records):
            return None
        homes = Counter(record.home for record in records)
        wide = homes.pop(-1, 0)
        return max(homes.values(), default=0) + wide

    def _count(self, ask: Ask, wanted: set[int]) -> Supply:
        """Count devices over nodes; those that several nodes can use count once."""
        problem, answers = self.problem, self.problem.answers[ask.demand]
        inventory = problem.inventory
        verdicts: Counter[Verdict] = Counter()
        obstacles: Counter[str] = Counter()
        free: Counter[int] = Counter()
        matching: Counter[int] = Counter()
        for index, answer in answers.verdicts.items():
            record = inventory.records[index]
            if record.home >= 0 and record.home not in wanted:
                continue
            verdict = self._there(ask, index, answer, wanted)
            verdicts[verdict] += 1
            matching[record.home] += 1
            if verdict is not Verdict.YES:
                continue
            obstacle = self.obstacle(index, ask.demand)
            if obstacle:
                obstacles[obstacle] += 1
            else:
                free[record.home] += 1
        wide = free.pop(-1, 0)
        most, largest = max(free.values(), default=0) + wide, max(matching.values(), default=0)
        largest += matching.get(-1, 0) if len(matching) > 1 else 0
        return Supply(verdicts, obstacles, free.total() + wide, most, largest)

    def _there(self, ask: Ask, index: int, verdict: Verdict, wanted: set[int]) -> Verdict:
        """Give the answer of a device on some nodes, which may be too small for what it takes of them."""
        answers = self.problem.answers[ask.demand]
        small = answers.too_small.get(index, frozenset())
        is_had = not wanted <= answers.lost(index) if ask.needed else wanted.isdisjoint(small)
        if is_had:
            return verdict
        return Verdict.TOO_LARGE if not ask.needed or wanted <= small else Verdict.SPARED

    def obstacle(self, index: int, demand: int) -> str:
        """Say why one more allocation does not fit a device as it is used today; empty where it does."""
        problem, layout = self.problem, self.problem.layout
        node, position = layout.place_of[index]
        device = layout.wide_types[position] if node < 0 else problem.group(node).types[position]
        if not device.takes[demand]:
            return ""
        if not device.is_shareable and problem.usage.is_held(index):
            return USED
        short = [budget for budget, amount in device.takes[demand] if self._left(node, budget) < amount]
        if not short:
            return ""
        if device.gate in short:
            return USED if device.is_shareable or len(short) == 1 else COUNTERS
        return CAPACITY if device.is_shareable else COUNTERS

    def _left(self, node: int, budget: int) -> int:
        return self.problem.wide_left(budget) if budget >= GLOBAL else self.problem.states[node][budget]

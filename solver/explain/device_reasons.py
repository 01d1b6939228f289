"""The words in which reasons about devices are given, and which code stands for which obstacle.

Devices that take more of a node than it has (KEP-5517): nobody gets them there, nor all devices of the node.

Devices for a request on some nodes: how many match, what is in the way of each, how many are free together.

Who got the room that a pod would have fitted in: pods of its own namespace, because others are not its reader's.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from solver.domain import Placement, Pod, Reason, ReasonCode
from solver.explain.hints import HINT
from solver.explain.unsatisfiable import amount_of
from solver.feasibility import capacity
from solver.feasibility.claims import MOST_RESULTS
from solver.problem.devices.inventory import DeviceRecord, Mask
from solver.problem.devices.layout import GLOBAL
from solver.problem.problem import Problem
from solver.problem.requests.component import Ask
from solver.problem.requests.demand import Verdict

_Place = tuple[DeviceRecord, npt.NDArray[np.int64]]
_Key = tuple[int, bytes]


@dataclass(slots=True, eq=False)
class Oversize:
    """Finds such devices of one problem; what was found is kept, by demand and nodes."""

    problem: Problem
    places: dict[int, list[_Place]] = field(default_factory=dict)
    left: dict[_Key, Mask] = field(default_factory=dict)
    texts: dict[_Key, str] = field(default_factory=dict)

    def serving(self, ask: Ask, roomy: Mask) -> Mask:
        """Give the nodes that no such device keeps from serving a request for all devices; all if it is so on all."""
        if ask.needed or not self._places(ask.demand):
            return roomy
        key = (ask.demand, roomy.tobytes())
        if key not in self.left:
            left = roomy.copy()
            for _, nodes in self._places(ask.demand):
                left[nodes] = False
            self.left[key] = left if left.any() else roomy
        return self.left[key]

    def reasons(self, name: str, asks: Iterable[Ask], roomy: Mask) -> Iterator[Reason]:
        """Name the first such device of each alternative of a request, with a node, and say how many more there are."""
        for ask in asks:
            text = self._text(ask.demand, roomy) if self._places(ask.demand) else ""
            if text:
                yield Reason(code=ReasonCode.NODE_TOO_SMALL, message=f"{name}: {text}")

    def _text(self, demand: int, roomy: Mask) -> str:
        key = (demand, roomy.tobytes())
        if key not in self.texts:
            seen = ((record, nodes[roomy[nodes]]) for record, nodes in self._places(demand))
            found = [(record, int(nodes[0])) for record, nodes in seen if len(nodes)]
            more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
            self.texts[key] = f"{self._told(demand, *found[0])}{more}" if found else ""
        return self.texts[key]

    def _told(self, demand: int, record: DeviceRecord, number: int) -> str:
        if not self.problem.policy.tells_inventory:
            return "a device that matches takes more of its node than it has"
        inventory, requested = self.problem.inventory, dict(self.problem.demands[demand].capacity)
        consumed = dict(capacity.consumption(record.id.driver, record.device, requested) or ())
        resource, taken, there = next(inventory.sizes.excess(record.device, consumed, number))
        has = f"has {amount_of(resource, there)}" if there else "has none"
        name = inventory.nodes[number].name
        return f"device {record.id} takes {amount_of(resource, taken)} {resource}, and node {name} {has}"

    def _places(self, demand: int) -> list[_Place]:
        """Give devices that answer a demand, each with the nodes that see it and are too small."""
        if demand not in self.places:
            self.places[demand] = list(self._found(demand)) if self.problem.takes_node_resources else []
        return self.places[demand]

    def _found(self, demand: int) -> Iterator[_Place]:
        answers = self.problem.answers[demand]
        for index, verdict in answers.verdicts.items():
            record, small = self.problem.inventory.records[index], answers.too_small.get(index)
            if verdict is Verdict.TOO_LARGE:
                every = range(self.problem.node_count) if record.nodes is None else sorted(record.nodes)
                yield record, np.array(every, dtype=np.int64)
            elif small is not None:
                yield record, np.array(sorted(small), dtype=np.int64)


_USED: Final = "in use"
_CAPACITY: Final = "with too little capacity left"
_COUNTERS: Final = "whose shared counters are used up"


class Asked(NamedTuple):
    """One alternative of a request, with its name (empty for `exactly`) and its class."""

    name: str
    ask: Ask
    device_class: str


class DeviceSupply(NamedTuple):
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
    known: dict[tuple[int, bytes], DeviceSupply] = field(default_factory=dict)

    def of(self, ask: Ask, roomy: Mask) -> DeviceSupply:
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

    def _count(self, ask: Ask, wanted: set[int]) -> DeviceSupply:
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
        return DeviceSupply(verdicts, obstacles, free.total() + wide, most, largest)

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
            return _USED
        short = [budget for budget, amount in device.takes[demand] if self._left(node, budget) < amount]
        if not short:
            return ""
        if device.gate in short:
            return _USED if device.is_shareable or len(short) == 1 else _COUNTERS
        return _CAPACITY if device.is_shareable else _COUNTERS

    def _left(self, node: int, budget: int) -> int:
        return self.problem.wide_left(budget) if budget >= GLOBAL else self.problem.states[node][budget]


def joined(reasons: Iterable[Reason]) -> Iterator[Reason]:
    """Add up the nodes of equal reasons."""
    counts: Counter[Reason] = Counter()
    for each in reasons:
        counts[msgspec.structs.replace(each, node_count=0)] += each.node_count
    yield from (msgspec.structs.replace(each, node_count=count) for each, count in counts.items())


def hinted(reason: Reason, hint: str) -> Reason:
    """Append a hint."""
    return msgspec.structs.replace(reason, message=reason.message + HINT + hint) if hint else reason


def sees(reach: frozenset[int] | None, roomy: Mask) -> bool:
    """Whether some of the nodes see what has this reach."""
    return bool(roomy.any()) and (reach is None or bool(roomy[list(reach)].any()))


def outranked(*, is_proven: bool, to: Sequence[str] = ()) -> Reason:
    """Say that a pod lost, to whom among others, and whether no plan places more."""
    if is_proven:
        winners = f" (such as {', '.join(to)})" if to else ""
        message = (
            "alone it would fit, but pods of the same or a higher priority that are decided with it get the room"
            f"{winners}, and no plan places more of them"
        )
        return Reason(code=ReasonCode.OUTRANKED, message=message)
    message = "alone it would fit, but no plan that places it too was found in time, and none was ruled out"
    return Reason(code=ReasonCode.BUDGET, message=message)


def nearness(asked: Asked, supply: DeviceSupply) -> tuple[int, int]:
    """How near an alternative is to fitting: devices missing (negative), then devices that match at all."""
    return (supply.most - asked.ask.needed, supply.verdicts.total())


def too_many(name: str, supply: DeviceSupply) -> Reason:
    """Say that a request takes more devices than an allocation holds."""
    message = (
        f"{name}: allocation mode All matches {supply.largest} devices on a node, and an allocation holds at "
        f"most {MOST_RESULTS}: narrow its selectors, or use a count"
    )
    return Reason(code=ReasonCode.CLAIM_TOO_LARGE, message=message)


def pools_by_number(invalid: int, partial: int) -> Iterator[Reason]:
    """Say how many pools cannot be used, for readers to whom they are not named."""
    for code, count, text in (
        (ReasonCode.POOL_INVALID, invalid, "not used: what drivers publish of {} is contradictory"),
        (ReasonCode.POOL_INCOMPLETE, partial, "being published"),
    ):
        if count:
            what = text.format("it" if count == 1 else "them")
            message = f"{count} pool{' is' if count == 1 else 's are'} {what}"
            yield Reason(code=code, message=message)


OBSTACLES: Final = {
    _USED: ReasonCode.DEVICES_IN_USE,
    _CAPACITY: ReasonCode.DEVICES_CAPACITY,
    _COUNTERS: ReasonCode.DEVICES_COUNTERS,
}
WORDS: Final = {
    Verdict.TAINTED: "tainted",
    Verdict.AVOIDED: "avoided after not getting ready for a pod (tried again after a rest, and given last then)",
    Verdict.CAPACITY: "too small for the requested capacity",
    Verdict.NOT_OWNED: "left to another scheduler by the configuration",
    Verdict.TOO_LARGE: "that takes more of its node than it has",
    Verdict.SPARED: "left aside for what it takes of its node, where others take nothing",
}


def devices_of(count: int) -> str:
    """Give a number of devices in words."""
    return f"{count} device{'s' if count != 1 else ''}"


def matching_of(count: int) -> str:
    """Say how many devices match."""
    return "none matches" if count == 0 else f"{count} match{'es' if count == 1 else ''}"


def code_of(supply: DeviceSupply, needed: int) -> ReasonCode:
    """Name the first hurdle that too few devices passed."""
    if supply.verdicts.get(Verdict.YES):
        if supply.largest < needed:
            return ReasonCode.DEVICES_NONE
        hurdles = [code for word, code in OBSTACLES.items() if supply.obstacles.get(word)]
        is_too_large = not needed and bool(supply.verdicts.get(Verdict.TOO_LARGE))
        otherwise = ReasonCode.DEVICES_NONE if is_too_large else ReasonCode.DEVICES_IN_USE
        return hurdles[0] if hurdles else otherwise
    for verdict, code in (
        (Verdict.TAINTED, ReasonCode.DEVICES_TAINTED),
        (Verdict.AVOIDED, ReasonCode.DEVICES_AVOIDED),
        (Verdict.NOT_OWNED, ReasonCode.DEVICES_NOT_OWNED),
        (Verdict.OFFERED_TWICE, ReasonCode.DEVICES_OFFERED_TWICE),
        (Verdict.FAILED, ReasonCode.SELECTOR_FAILED),
    ):
        if supply.verdicts.get(verdict):
            return code
    return ReasonCode.DEVICES_NONE


_SHOWN: Final = 2


class Winners(NamedTuple):
    """The pods that a plan places, node by node."""

    pods: dict[int, list[Pod]]

    @classmethod
    def of(cls, problem: Problem, placements: Iterable[Placement]) -> "Winners":
        """Sort a plan's pods by their nodes."""
        known = {pod.id: pod for pod in problem.batch.pods}
        found: defaultdict[int, list[Pod]] = defaultdict(list)
        for each in placements:
            found[problem.inventory.node_index[each.node]].append(known[each.pod])
        return cls(dict(found))

    def named(self, reasons: tuple[Reason, ...], nodes: Iterable[int], loser: Pod) -> tuple[Reason, ...]:
        """Name in the first reason some of those to whom a pod lost on the nodes where it would fit alone."""
        if reasons[0].code is not ReasonCode.OUTRANKED:
            return reasons
        namespace, priority = loser.id.namespace, loser.priority
        there = (pod for node in nodes for pod in self.pods.get(node, ()))
        mine = (pod.id.name for pod in there if pod.id.namespace == namespace and pod.priority >= priority)
        return (outranked(is_proven=True, to=tuple(islice(mine, _SHOWN))), *reasons[1:])

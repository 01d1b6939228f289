"""
Reasons about devices: how many match a request, what excludes the others, and the sentences and codes for it.

`OversizedDevices` finds devices that take more of their
node than it has (KEP-5517). `WinnersByNode` names the pods that took the room; only pods of the loser's namespace are
named.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from solver.arrays import Mask
from solver.domain import OPTIONAL_NODE_OPERATIONS, ClaimId, Placement, Pod, Reason, ReasonCode, wording
from solver.domain.quantity import amount_of, plain
from solver.feasibility import capacity
from solver.feasibility.claims import MAX_RESULTS
from solver.fleet.availability import Obstacle
from solver.fleet.request_counts import DeviceSupply
from solver.problem.devices.inventory import DeviceRecord
from solver.problem.problem import Problem
from solver.problem.requests.component import Ask
from solver.problem.requests.demand import Verdict

_Place = tuple[DeviceRecord, npt.NDArray[np.int64]]
_Key = tuple[int, bytes]
_MOST_TAINTS: Final = 2
_WORDS: Final = {
    Verdict.AVOIDED: "avoided because they did not get ready for a pod (retried later, as the last choice)",
    Verdict.CAPACITY: "too small for the requested capacity",
    Verdict.NOT_OWNED: "left to another scheduler by the configuration",
    Verdict.TOO_LARGE: "too large for their node",
    Verdict.UNDECLARED: f"on nodes that do not declare the feature {OPTIONAL_NODE_OPERATIONS}",
    Verdict.SPARED: "left out because others do as well and take less of the node",
}


@dataclass(slots=True, eq=False)
class OversizedDevices:
    """Devices that take more of a node's own resources than it has; results are cached by demand and nodes."""

    problem: Problem
    places: dict[int, list[_Place]] = field(default_factory=dict)
    left: dict[_Key, Mask] = field(default_factory=dict)
    texts: dict[_Key, str] = field(default_factory=dict)

    def serving(self, ask: Ask, roomy: Mask) -> Mask:
        """Return the nodes without such a device, for a request for all devices; all nodes if every node has one."""
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
        """Name the first oversized device of each alternative of a request, with a node, and count the others."""
        for ask in asks:
            text = self._text(ask.demand, roomy) if self._places(ask.demand) else ""
            if text:
                yield Reason(code=ReasonCode.NODE_TOO_SMALL, message=f"{name}: {text}")

    def _text(self, demand: int, roomy: Mask) -> str:
        key = (demand, roomy.tobytes())
        if key not in self.texts:
            seen = ((record, nodes[roomy[nodes]]) for record, nodes in self._places(demand))
            found = [(record, int(nodes[0])) for record, nodes in seen if len(nodes)]
            self.texts[key] = self._sentence(demand, *found[0]) + wording.and_others(len(found)) if found else ""
        return self.texts[key]

    def _sentence(self, demand: int, record: DeviceRecord, number: int) -> str:
        if not self.problem.policy.tells_inventory:
            return "a matching device takes more of its node than it has"
        inventory, requested = self.problem.inventory, dict(self.problem.requests.demands[demand].capacity)
        consumed = dict(capacity.consumption(record.id.driver, record.device, requested) or ())
        resource, taken, there = next(inventory.sizes.excess(record.device, consumed, number))
        has = f"has {amount_of(resource, there)}" if there else "has none"
        name = inventory.nodes[number].name
        what = f"device {record.id} takes {amount_of(resource, taken)} {resource}"
        return f"Insufficient {resource}: {what}, and node {name} {has}"

    def _places(self, demand: int) -> list[_Place]:
        """Return the oversized devices of a demand, each with the nodes that are too small."""
        if demand not in self.places:
            self.places[demand] = list(self._found(demand)) if self.problem.requests.takes_node_resources else []
        return self.places[demand]

    def _found(self, demand: int) -> Iterator[_Place]:
        answers = self.problem.requests.answers[demand]
        for index, verdict in answers.verdicts.items():
            record, unfit = self.problem.inventory.records[index], answers.unfit.get(index, frozenset[int]())
            if verdict is Verdict.TOO_LARGE:
                unfit = frozenset(range(self.problem.node_count)) if record.nodes is None else record.nodes
            small = unfit - self.problem.inventory.undeclared.get(index, frozenset())
            if small:
                yield record, np.array(sorted(small), dtype=np.int64)


class NamedAlternative(NamedTuple):
    """One alternative of a request, with its name (empty for `exactly`) and its device class."""

    name: str
    ask: Ask
    device_class: str


class NamedRequest(NamedTuple):
    """A request: full name, claim entry (if the pod has several), own name, claim, and alternatives."""

    name: str
    place: str
    short: str
    claim: ClaimId
    alternatives: tuple[NamedAlternative, ...]


def hinted(reason: Reason, hint: str) -> Reason:
    """Append a hint."""
    return msgspec.structs.replace(reason, message=reason.message + wording.HINT + hint) if hint else reason


def outranked(*, is_proven: bool, to: Sequence[str] = (), gang: str = "") -> Reason:
    """Return the reason of a pod or gang that fits alone: others took the room (`is_proven`), or time ended."""
    who = f"gang {gang}" if gang else "the pod"
    if is_proven:
        winners = f" (such as {', '.join(to)})" if to else ""
        message = (
            f"{who} would fit alone, but pods of the same or a higher priority in its batch took the room"
            f"{winners}; no plan placed more of them"
        )
        return Reason(code=ReasonCode.OUTRANKED, message=message)
    message = f"{who} would fit alone, but the time limit ended before a plan with it was found or ruled out"
    return Reason(code=ReasonCode.BUDGET, message=message)


def nearness(asked: NamedAlternative, supply: DeviceSupply) -> tuple[int, int, int]:
    """
    Rank an alternative by how near it is to fitting: obstacle, missing devices (negative), then matching devices.

    The nearest is one that fits once devices are free, then one whose devices may be allocated some day. The code of
    the nearest decides which events wake the pod, and each of them may help the others only if it may help this one.
    """
    code = code_of(supply, asked.ask.needed)
    ease = 2 if code in OBSTACLE_CODES.values() else int(code is not ReasonCode.DEVICES_NONE)
    return (ease, supply.most - asked.ask.needed, supply.verdicts.total())


OBSTACLE_CODES: Final = {
    Obstacle.IN_USE: ReasonCode.DEVICES_IN_USE,
    Obstacle.CAPACITY: ReasonCode.DEVICES_CAPACITY,
    Obstacle.COUNTERS: ReasonCode.DEVICES_COUNTERS,
    Obstacle.INCOMPATIBLE: ReasonCode.DEVICES_INCOMPATIBLE,
    Obstacle.CLASHING: ReasonCode.DEVICES_INCOMPATIBLE,
}


def code_of(supply: DeviceSupply, needed: int) -> ReasonCode:
    """Return the code of the first condition that too few devices meet."""
    if supply.verdicts.get(Verdict.YES):
        if supply.largest < needed:
            return ReasonCode.DEVICES_NONE
        hurdles = [code for word, code in OBSTACLE_CODES.items() if supply.obstacles.get(word)]
        is_too_large = not needed and bool(supply.verdicts.keys() & {Verdict.TOO_LARGE, Verdict.UNDECLARED})
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
_MOST_WINNERS: Final = 256
"""Winners that are looked at for a name."""


class WinnersByNode(NamedTuple):
    """The pods that a plan places, node by node."""

    pods: dict[int, list[Pod]]

    @classmethod
    def of(cls, problem: Problem, placements: Iterable[Placement]) -> "WinnersByNode":
        """Group a plan's pods by node."""
        known = {pod.id: pod for pod in problem.batch.pods}
        found: defaultdict[int, list[Pod]] = defaultdict(list)
        for each in placements:
            found[problem.inventory.node_index[each.node]].append(known[each.pod])
        return cls(dict(found))

    def named(
        self, reasons: tuple[Reason, ...], nodes: Iterable[int], loser: Pod, gang: str = ""
    ) -> tuple[Reason, ...]:
        """Add to an OUTRANKED reason the names of pods that took the nodes where the loser would fit alone."""
        if reasons[0].code is not ReasonCode.OUTRANKED:
            return reasons
        there = (pod.id for node in nodes for pod in self.pods.get(node, ()) if pod.priority >= loser.priority)
        first = list(islice(there, _MOST_WINNERS))
        own = [each.name for each in first if each.namespace == loser.id.namespace]
        others = len(first) - len(own)
        of_others = f"{others} of {'other namespaces' if others > 1 else 'another namespace'}"
        names = own[:_SHOWN] or ([of_others] if others else [])
        return (outranked(is_proven=True, to=names, gang=gang), *reasons[1:])


def shortage(problem: Problem, asked: NamedAlternative, supply: DeviceSupply) -> str:
    """Say what a request needs, how many devices match, and what excludes them."""
    verdicts, needed = supply.verdicts, asked.ask.needed
    matching = verdicts.total() - verdicts.get(Verdict.FAILED, 0)
    text = [f"needs {wording.counted(needed, 'device') if needed else 'all devices'}, {_matching(matching)}"]
    if matching:
        text.append(f"{supply.free} free")
    text += _excluded(problem, asked, supply)
    if 0 < supply.largest < min(needed, matching):
        text.append(f"no node has more than {supply.largest} of them")
    elif 0 < supply.most < supply.free and needed:
        text.append(f"at most {supply.most} of them on one node")
    return ", ".join(text)


def too_many(name: str, supply: DeviceSupply) -> Reason:
    """Return the reason of a request for all devices that exceeds the size of an allocation."""
    message = (
        f"{name}: allocation mode All matches {supply.largest} devices on a node, and an allocation holds at "
        f"most {MAX_RESULTS}: narrow its selectors, or use a count"
    )
    return Reason(code=ReasonCode.CLAIM_TOO_LARGE, message=message)


def _matching(count: int) -> str:
    return "none matches" if count == 0 else f"{count} match{'es' if count == 1 else ''}"


def _excluded(problem: Problem, asked: NamedAlternative, supply: DeviceSupply) -> Iterator[str]:
    """Return the numbers of devices by what excludes them."""
    for obstacle, count in sorted(supply.obstacles.items()):
        yield f"{count} {obstacle}{_short(supply) if obstacle is Obstacle.CAPACITY else ''}"
    yield from left_out(problem, asked, supply)


def left_out(problem: Problem, asked: NamedAlternative, supply: DeviceSupply) -> Iterator[str]:
    """Return the numbers of devices that are neither free nor in use, by what excludes them."""
    verdicts = supply.verdicts
    if verdicts.get(Verdict.TAINTED):
        yield f"{verdicts[Verdict.TAINTED]} tainted{_taints(problem, supply)}"
    for verdict, words in _WORDS.items():
        if verdicts.get(verdict):
            yield f"{verdicts[verdict]} {words}{_owned(problem) if verdict is Verdict.NOT_OWNED else ''}"
    if verdicts.get(Verdict.OFFERED_TWICE):
        resource = problem.requests.demands[asked.ask.demand].extended_resource
        both = f"as {resource}, the extended resource of class {asked.device_class}"
        yield f"{verdicts[Verdict.OFFERED_TWICE]} offered by a device plugin of their node too, {both}"


def _owned(problem: Problem) -> str:
    """Say which nodes have devices that are allocated here: ` (devices.owned wants nodes with example.com/a=b)`."""
    policy = problem.policy
    return f" (devices.owned wants {policy.owned.wanted})" if policy.tells_inventory and policy.owned.node_terms else ""


def _taints(problem: Problem, supply: DeviceSupply) -> str:
    """Name the taints of most devices: ` with example.com/faulty:NoSchedule`."""
    if not problem.policy.tells_inventory or not supply.taints:
        return ""
    names = [wording.quoted(str(taint)) for taint, _ in sorted(supply.taints.items(), key=_most_first)]
    return f" with {wording.shortened(names, _MOST_TAINTS)}"


def _most_first(item: tuple[object, int]) -> tuple[int, str]:
    return -item[1], str(item[0])


def _short(supply: DeviceSupply) -> str:
    """Say what a share asks for and what is left: ` (memory: 40Gi asked, at most 20Gi left on one device)`."""
    parts = [
        f"{name}: {plain(each.asked, each.like)} asked, at most {plain(each.left, each.like)} left on one device"
        for name, each in sorted(supply.short.items())
    ]
    return f" ({'; '.join(parts)})" if parts else ""

"""
Devices that a decision leaves out on nodes where others serve the same request (KEP-5517).

A pod is charged for the worst device that it can get on a node, before devices are chosen (`widened_requests`). So a
device must not count that no pod can get now, or for which its node has no room, while others serve as well. Whatever
is left out here comes back with the next decision.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

import numpy as np
import numpy.typing as npt

from solver.domain import Pod
from solver.feasibility import capacity
from solver.problem.devices.inventory import DeviceRecord, Inventory
from solver.problem.devices.usage import Usage
from solver.problem.node_arrays import Room
from solver.problem.requests.component import Component
from solver.problem.requests.demand import Answers, DemandKey, Verdict


@dataclass(frozen=True, slots=True, order=True)
class DeviceNeed:
    """
    What pods of one class want of a demand: how many devices, and what they ask of a node besides.

    `together` are the devices of all pods that are placed together: of a pod, or of a gang. `is_linked` says that a
    constraint compares the devices, so that not every one of them serves as well as another.
    """

    count: int
    together: int
    is_linked: bool
    requests: tuple[tuple[str, int], ...]
    level_slack: tuple[tuple[str, int], ...]
    containers: int

    @classmethod
    def of_pods(
        cls, pods: Sequence[Pod], requests: tuple[tuple[str, int], ...], components: Iterable[tuple[Component, int]]
    ) -> Iterator[tuple[int, "DeviceNeed"]]:
        """Return the needs of equal pods by demand; every container counts as one that uses the claims."""
        pod, size = pods[0], len(pods) if pods[0].gang is not None else 1
        together, linked = Counter[int](), set[int]()
        for each, copies in components:
            for alternatives in each.requests:
                asked = Counter[int]()
                for ask in alternatives:
                    asked[ask.demand] = max(1, asked[ask.demand], ask.needed)
                together.update({number: copies * count for number, count in asked.items()})
                linked.update(asked if each.links else ())
        for number, count in together.items():
            yield number, cls(count, size * count, number in linked, requests, pod.level_slack, len(pod.containers))

    def room(self, resource: str, free: int) -> int:
        """Return how much devices may take where a node has this much left; pod-level requests are a limit too."""
        slack = dict(self.level_slack).get(resource)
        return free - dict(self.requests).get(resource, 0) if slack is None else slack


@dataclass(slots=True, eq=False)
class SpareDevices:
    """Says which devices are left out; `needs` are what the batch wants of each demand, each once."""

    inventory: Inventory
    usage: Usage
    room: Room
    needs: Mapping[int, frozenset[DeviceNeed]]

    def left_out(self, demands: Sequence[DemandKey], answers: Sequence[Answers]) -> tuple[Answers, ...]:
        """Return the answers of all demands without such devices."""
        pairs = zip(demands, answers, strict=True)
        return tuple(self._of(number, key, answer) for number, (key, answer) in enumerate(pairs))

    def _of(self, number: int, key: DemandKey, answers: Answers) -> Answers:
        needs = self.needs.get(number, frozenset())
        if key.is_admin or key.takes_all or not needs:
            return answers
        records = (self.inventory.records[index] for index, said in answers.verdicts.items() if said is Verdict.YES)
        taking = [record for record in records if record.device.takes_node_resources]
        if not taking:
            return answers
        free = self._taking_nothing(answers)
        most, is_linked = max(each.together for each in needs), any(each.is_linked for each in needs)
        enough = frozenset[int]() if is_linked else frozenset(np.flatnonzero(free >= most).tolist())
        spared: defaultdict[int, set[int]] = defaultdict(set)
        for record in taking:
            spared[record.index] |= enough & self._reach(record)
        for node, there in self._by_node(taking, enough, answers).items():
            for record in _OneNode(self, node, int(free[node]), there, answers).unwanted(needs):
                spared[record.index].add(node)
        return self._without(answers, taking, spared)

    def _without(self, answers: Answers, taking: Iterable[DeviceRecord], spared: Mapping[int, set[int]]) -> Answers:
        found = replace(answers, verdicts=answers.verdicts.copy(), spared={})
        for record in taking:
            nodes = spared.get(record.index)
            if nodes and nodes >= self._reach(record):
                found.verdicts[record.index] = Verdict.SPARED
            elif nodes:
                found.spared[record.index] = frozenset(nodes)
        return found

    def _reach(self, record: DeviceRecord) -> frozenset[int]:
        return frozenset(range(len(self.inventory.nodes))) if record.nodes is None else record.nodes

    def _by_node(
        self, taking: Iterable[DeviceRecord], enough: frozenset[int], answers: Answers
    ) -> dict[int, list[DeviceRecord]]:
        """Return the devices of single nodes by node; others are not left out for want of room."""
        found: defaultdict[int, list[DeviceRecord]] = defaultdict(list)
        for record in taking:
            is_open = record.home not in enough and record.home not in answers.unfit.get(record.index, ())
            if record.home >= 0 and is_open:
                found[record.home].append(record)
        return found

    def _taking_nothing(self, answers: Answers) -> npt.NDArray[np.int64]:
        """Count per node the devices that say YES, take nothing of it, and are free for certain."""
        records = (self.inventory.records[index] for index, said in answers.verdicts.items() if said is Verdict.YES)
        plain = (
            each
            for each in records
            if not (each.device.takes_node_resources or each.counters or self.usage.is_held(each.index))
        )
        reaches = Counter(record.nodes for record in plain)
        counts = np.zeros(len(self.inventory.nodes), dtype=np.int64)
        for nodes, count in reaches.items():
            counts[slice(None) if nodes is None else list(nodes)] += count
        return counts


@dataclass(slots=True, eq=False)
class _OneNode:
    """The devices of one node that take something of it, and how many others are free there."""

    spare: SpareDevices
    node: int
    plain: int
    taking: list[DeviceRecord]
    answers: Answers
    amounts: dict[tuple[int, int], dict[str, int]] = field(default_factory=dict)
    """What a device takes, in units by resource, by record and number of containers."""

    def unwanted(self, needs: Iterable[DeviceNeed]) -> Iterator[DeviceRecord]:
        """Yield the devices that are left out: in use, or too large for what is left, and others are enough."""
        usable = [each for each in self.taking if each.index not in self.spare.usage.exclusive]
        kept: list[DeviceRecord] | None = None
        for need in sorted(needs):
            found = self._fitting(need, usable)
            if found is not None and (kept is None or len(found) < len(kept)):
                kept = found
        if kept is not None:
            left = {each.index for each in kept}
            yield from (each for each in self.taking if each.index not in left)

    def _fitting(self, need: DeviceNeed, usable: list[DeviceRecord]) -> list[DeviceRecord] | None:
        """Drop the largest devices until any of the others fit what is left; None where too few are left then."""
        found = list(usable)
        while len(found) + self.plain >= need.count:
            taken = [self._taken(each, need.containers) for each in found]
            short = next((name for name in sorted({*chain(*taken)}) if not self._has_room(need, name, taken)), None)
            if short is None:
                return found
            most = max(each.get(short, 0) for each in taken)
            found = [each for each, amounts in zip(found, taken, strict=True) if amounts.get(short, 0) < most]
        return None

    def _has_room(self, need: DeviceNeed, resource: str, taken: Sequence[Mapping[str, int]]) -> bool:
        """Whether there is room for what `widened_requests` charges for the devices."""
        amounts = [each.get(resource, 0) for each in taken]
        charged = min(need.count * max(amounts), sum(amounts))
        return charged <= need.room(resource, int(self.spare.room.of(resource)[self.node]))

    def _taken(self, record: DeviceRecord, containers: int) -> dict[str, int]:
        key = (record.index, containers)
        if key not in self.amounts:
            consumed = dict(self.answers.consumption.get(record.index, ()))
            nano = capacity.node_resources(record.device, consumed, containers)
            self.amounts[key] = {name: capacity.request_units(name, each) for name, each in nano.items()}
        return self.amounts[key]

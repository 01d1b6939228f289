"""
Devices that a decision leaves out on nodes where others serve the same request (KEP-5517).

A pod is charged for the worst device that it can get on a node, before devices are chosen (`widened_requests`). So a
device must not count that no pod can get now, or for which its node has no room, while others serve as well. Whatever
is left out here comes back with the next decision.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

import numpy as np
import numpy.typing as npt

from solver.domain import Pod
from solver.feasibility import capacity
from solver.problem.devices.inventory import DeviceRecord, Inventory
from solver.problem.devices.ledger import DeviceLedger
from solver.problem.node_arrays import Room
from solver.problem.requests.component import Component
from solver.problem.requests.demand import Answers, DemandKey, Verdict


@dataclass(frozen=True, slots=True, order=True)
class DeviceNeed:
    """
    What pods of one class want of a demand: how many devices, and what they ask of a node besides.

    `together` are the devices of all pods that are placed together: of a pod, or of a gang. `is_linked` says that a
    constraint compares the devices, so that not every one of them serves as well as another. `others` are alternatives
    that do as well (demands, with how many devices), empty where a request has this demand only.
    """

    count: int
    together: int
    is_linked: bool
    others: tuple[tuple[int, int], ...]
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
        others: dict[int, set[tuple[int, int]]] = {}
        for each, copies in components:
            for alternatives in each.requests:
                asked = Counter[int]()
                for ask in alternatives:
                    asked[ask.demand] = max(1, asked[ask.demand], ask.needed)
                together.update({number: copies * count for number, count in asked.items()})
                linked.update(asked if each.links else ())
                for number in asked:
                    rest = {other for other in asked.items() if other[0] != number}
                    others[number] = others.get(number, rest) & rest
        for number, count in together.items():
            instead = tuple(sorted(others[number]))
            is_linked = number in linked
            yield number, cls(count, size * count, is_linked, instead, requests, pod.level_slack, len(pod.containers))

    def room(self, resource: str, free: int) -> int:
        """Return how much devices may take where a node has this much left; pod-level requests are a limit too."""
        slack = dict(self.level_slack).get(resource)
        return free - dict(self.requests).get(resource, 0) if slack is None else slack


@dataclass(slots=True, eq=False)
class SpareDevices:
    """Says which devices are left out; `needs` are what the batch wants of each demand, each once."""

    inventory: Inventory
    ledger: DeviceLedger
    room: Room
    needs: Mapping[int, frozenset[DeviceNeed]]

    def left_out(self, demands: Sequence[DemandKey], answers: Sequence[Answers]) -> tuple[Answers, ...]:
        """Return the answers of all demands without such devices."""
        views = [self._of(number, key, answers[number]) for number, key in enumerate(demands)]
        for number, view in enumerate(views):
            self._leave_to_others(self.needs.get(number, frozenset()), view, views)
        return tuple(self._without(answer, view) for answer, view in zip(answers, views, strict=True))

    def _of(self, number: int, key: DemandKey, answers: Answers) -> "_DemandView":
        needs, view = self.needs.get(number, frozenset()), _DemandView(self._taking_nothing(answers))
        records = (self.inventory.records[index] for index, said in answers.verdicts.items() if said is Verdict.YES)
        view.taking = [record for record in records if record.device.takes_node_resources]
        if key.is_admin or key.takes_all or not needs:
            return view
        most, is_linked = max(each.together for each in needs), any(each.is_linked for each in needs)
        enough = frozenset[int]() if is_linked else frozenset(np.flatnonzero(view.free >= most).tolist())
        for record in view.taking:
            view.spared[record.index] |= enough & self._reach(record)
        for node, there in self._by_node(view.taking, enough, answers).items():
            unwanted = _OneNode(self, node, int(view.free[node]), there, answers).unwanted(needs)
            if unwanted is None:
                view.closed[node] = there
            else:
                view.fitting.add(node)
                view.leave_out(unwanted, node)
        return view

    @staticmethod
    def _leave_to_others(needs: Collection[DeviceNeed], view: "_DemandView", views: Sequence["_DemandView"]) -> None:
        """Leave out the devices of nodes where they serve no pod now, and alternatives do."""
        if not needs or not all(each.others for each in needs):
            return
        for node, there in view.closed.items():
            if all(any(views[other].serves(count, node) for other, count in each.others) for each in needs):
                view.leave_out(there, node)

    def _without(self, answers: Answers, view: "_DemandView") -> Answers:
        if not any(view.spared.values()):
            return answers
        found = replace(answers, verdicts=answers.verdicts.copy(), spared={})
        for record in view.taking:
            nodes = view.spared[record.index]
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
            if not (each.device.takes_node_resources or each.counters or self.ledger.is_held(each.index))
        )
        reaches = Counter(record.nodes for record in plain)
        counts = np.zeros(len(self.inventory.nodes), dtype=np.int64)
        for nodes, count in reaches.items():
            counts[slice(None) if nodes is None else list(nodes)] += count
        return counts


@dataclass(slots=True, eq=False)
class _DemandView:
    """
    The devices that answer one demand.

    `free` counts by node those that take nothing of it, `taking` are the others, and `spared` the nodes where these are
    left out. On the nodes `fitting` some of them fit, on `closed` none.
    """

    free: npt.NDArray[np.int64]
    taking: list[DeviceRecord] = field(default_factory=list)
    spared: defaultdict[int, set[int]] = field(default_factory=lambda: defaultdict(set))
    fitting: set[int] = field(default_factory=set)
    closed: dict[int, list[DeviceRecord]] = field(default_factory=dict)

    def leave_out(self, records: Iterable[DeviceRecord], node: int) -> None:
        """Leave devices out on a node."""
        for record in records:
            self.spared[record.index].add(node)

    def serves(self, count: int, node: int) -> bool:
        """Whether so many devices are there now."""
        return node in self.fitting or bool(self.free[node] >= count)


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

    def unwanted(self, needs: Iterable[DeviceNeed]) -> list[DeviceRecord] | None:
        """
        Return the devices to leave out: in use, or too large for what is left, where others are enough.

        None where too few are left for every need.
        """
        usable = [each for each in self.taking if each.index not in self.spare.ledger.exclusive]
        kept: list[DeviceRecord] | None = None
        for need in sorted(needs):
            found = self._fitting(need, usable)
            if found is not None and (kept is None or len(found) < len(kept)):
                kept = found
        left = {each.index for each in kept or ()}
        return None if kept is None else [each for each in self.taking if each.index not in left]

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

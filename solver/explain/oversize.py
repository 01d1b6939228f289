"""Devices that take more of a node than it has (KEP-5517): nobody gets them there, nor all devices of the node."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from solver.domain import Reason, ReasonCode
from solver.explain.never import amount_of
from solver.feasibility import capacity
from solver.problem.devices.inventory import DeviceRecord, Mask
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
            self.places[demand] = list(self._found(demand)) if self.problem.has_burdens else []
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

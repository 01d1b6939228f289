"""Devices that take more of a node than it has (KEP-5517): nobody gets them there, nor all devices of the node."""

from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt

from solver.domain import Reason, ReasonCode
from solver.explain.never import amount_of
from solver.problem.devices.inventory import DeviceRecord, Mask, excess
from solver.problem.problem import Problem
from solver.problem.requests.component import Ask
from solver.problem.requests.demand import Verdict


def serving(problem: Problem, ask: Ask, roomy: Mask) -> Mask:
    """Give the nodes that no such device keeps from serving a request for all devices; all if it is so everywhere."""
    left = roomy.copy()
    for _, nodes in _oversized(problem, ask) if not ask.needed else ():
        left[nodes] = False
    return left if left.any() else roomy


def reasons(problem: Problem, name: str, asks: Iterable[Ask], roomy: Mask) -> Iterator[Reason]:
    """Name the first such device of each alternative of a request, with a node, and say how many more there are."""
    for ask in asks:
        places = ((record, nodes[roomy[nodes]]) for record, nodes in _oversized(problem, ask))
        found = [(record, nodes[0]) for record, nodes in places if len(nodes)]
        more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        for record, node in found[:1]:
            message = f"{name}: {_told(problem, record, int(node))}{more}"
            yield Reason(code=ReasonCode.NODE_TOO_SMALL, message=message)


def _told(problem: Problem, record: DeviceRecord, number: int) -> str:
    if not problem.policy.tells_inventory:
        return "a device that matches takes more of its node than it has"
    node = problem.inventory.nodes[number]
    resource, taken, there = next(excess(record.device, node))
    has = f"has {amount_of(resource, there)}" if there else "has none"
    return f"device {record.id} takes {amount_of(resource, taken)} {resource}, and node {node.name} {has}"


def _oversized(problem: Problem, ask: Ask) -> Iterator[tuple[DeviceRecord, npt.NDArray[np.int64]]]:
    """Give devices that answer a request, each with the nodes that see it and are too small."""
    inventory, answers = problem.inventory, problem.answers[ask.demand]
    for index, verdict in answers.verdicts.items() if problem.has_burdens else ():
        record, nodes = inventory.records[index], inventory.too_small.get(index)
        if verdict is Verdict.TOO_LARGE:
            every = range(problem.node_count) if record.nodes is None else sorted(record.nodes)
            yield record, np.array(every, dtype=np.int64)
        elif verdict is Verdict.YES and nodes is not None and not problem.demands[ask.demand].is_admin:
            yield record, np.array(sorted(nodes), dtype=np.int64)

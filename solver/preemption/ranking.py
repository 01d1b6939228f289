"""Which nodes are looked at, where there are more than a model bears: those that promise the least harm."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Final

import numpy as np

from solver.domain import Snapshot
from solver.preemption.parties import Party
from solver.problem import fit
from solver.problem.fit import PODS
from solver.problem.memory import Engine
from solver.problem.problem import PodClass, Problem

MOST_NODES: Final = 64
"""Nodes per pod to be placed that are looked at together; the bound is part of what `Preemption.is_proven` means."""
_LIMIT: Final = 512


def nodes(problem: Problem, before: Snapshot, parties: Sequence[Party], engine: Engine) -> tuple[list[int], bool]:
    """
    Give the nodes that may take the problem's pods, the most promising first, and whether those are all.

    `before` is the cluster with the parties. A node promises what the cheapest of its pods would leave behind, counting
    room and devices only: priority of the dearest, then how many.
    """
    possible = _possible(problem)
    most = min(_LIMIT, MOST_NODES * max(1, len(problem.batch.pods)))
    if len(possible) <= 1:
        return possible, True
    stock = problem.inventory
    room = fit.room(stock.nodes, stock.node_index, before.pods)
    usage = engine.usage(stock, before)
    held: defaultdict[int, int] = defaultdict(int)
    for record in usage.exclusive | usage.shared.keys():
        held[stock.records[record].home] += 1
    on_node: defaultdict[str, list[Party]] = defaultdict(list)
    for party in parties:
        for name in party.nodes:
            on_node[name].append(party)
    devices = _devices_of(before)
    keys = {}
    for node in possible:
        free = len(stock.by_home[node]) - held[node]
        keys[node] = min(
            _promise(_missing(problem, each, room, (node, free)), on_node[stock.nodes[node].name], devices)
            for each in problem.classes
        )
    return sorted(possible, key=lambda node: (keys[node], node))[:most], len(possible) <= most


def _possible(problem: Problem) -> list[int]:
    mask = np.zeros(problem.node_count, dtype=np.bool_)
    for each in problem.classes:
        mask |= each.verdicts.allowed & problem.room.fits(each.requests)
    return [int(node) for node in np.flatnonzero(mask)]


def _missing(problem: Problem, pod_class: PodClass, room: fit.Room, at: tuple[int, int]) -> dict[str, int]:
    """What a node lacks for a pod: by resource, and devices under the empty name."""
    node, free_devices = at
    wanted = {PODS: 1, **dict(pod_class.requests)}
    missing = {name: amount - int(room.of(name)[node]) for name, amount in wanted.items() if amount > 0}
    asked = sum(
        part.copies * sum(max(ask.needed for ask in request) for request in problem.components[part.component].requests)
        for part in pod_class.parts
    )
    missing[""] = asked - free_devices
    return {name: amount for name, amount in missing.items() if amount > 0}


def _promise(missing: dict[str, int], parties: Sequence[Party], devices: dict[str, int]) -> tuple[int, int, int]:
    """Send pods away, the cheapest first, until nothing is missing: (highest priority, pods, seconds)."""
    if not missing:
        return (-(1 << 31), 0, 0)
    left, count, seconds = dict(missing), 0, 0
    for party in sorted(parties, key=lambda party: (party.priority, len(party.pods), party.seconds)):
        count += len(party.pods)
        seconds += party.seconds
        freed = [(PODS, len(party.pods)), *((name, amount) for pod in party.pods for name, amount in pod.requests)]
        freed += [("", devices.get(pod.uid, 0)) for pod in party.pods]
        for name, amount in freed:
            left[name] = left.get(name, 0) - amount
        if all(amount <= 0 for amount in left.values()):
            return (party.priority, count, seconds)
    return (1 << 31, count, seconds)


def _devices_of(snapshot: Snapshot) -> dict[str, int]:
    """Devices held by the uid of the pod."""
    held: defaultdict[str, int] = defaultdict(int)
    for claim in snapshot.claims:
        if claim.allocation is not None:
            for each in claim.reserved_for:
                held[each.uid] += len(claim.allocation.results)
    return held

"""
Pods on their places: each on the node of its place, with devices of it and no others.

The pods are placed by the greedy with all their rules, but each may use one node, and of its devices those that are
held for it. Neither a pod nor a gang is placed elsewhere here. What does not fit on its place, because its spec is
another one than the hold was made for, is left to a decision like that of other pods.
"""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import numpy as np
from msgspec.structs import replace

from solver import extract, held_room
from solver.arrays import Amounts, Mask
from solver.domain import Batch, Budget, Pod, PodId, Policy, Seat, Snapshot, open_seats
from solver.extract import Extracted
from solver.greedy import Greedy, Order, units
from solver.greedy.device_fit import FitCache
from solver.greedy.units import Saved
from solver.preemption import nominated_room
from solver.problem.devices.layout import GLOBAL, DeviceType, State
from solver.problem.prepare import prepare
from solver.problem.problem import PodClass, Problem
from solver.problem.solver_cache import SolverCache
from solver.solution import Solution
from solver.volume_matching import assign_volumes


@dataclass(frozen=True, slots=True, eq=False)
class SeatingContext:
    """What all parts of a decision share."""

    policy: Policy
    cache: SolverCache
    budget: Budget


def seated(snapshot: Snapshot, batch: Batch, seats: Mapping[PodId, Seat], context: SeatingContext) -> Extracted:
    """
    Place those pods of a batch that fit on their seats; all other places count as taken, whatever their priority.

    Pods that get no volumes are tried no more, and neither are pods that are equal to them. A pod that does not fit is
    left out where it shares a claim with one that does: the claim might have got devices of its seat, which stays.
    """
    policy, cache, budget = context.policy, context.cache, context.budget
    left, own = batch, {seat.id for seat in seats.values()}
    room = [seat for seat in open_seats(snapshot.holds) if seat.id not in own]
    seen = held_room.as_running(snapshot, room, cache.running_places)
    seen = nominated_room.reserve_for_nominated(seen, batch, policy, cache, budget)
    while True:
        problem = prepare(seen, left, replace(policy, levels=()), cache, budget)
        placer = _SeatPlacer.of(problem, seats)
        solution = placer.run(budget)
        settled = assign_volumes(problem, solution)
        if settled.losers:
            left = left.without(_members(problem, settled.losers))
            continue
        found = extract.extract(problem, settled, placer.records)
        alone = _sharing_alone(problem, found)
        if alone:
            left = left.without(alone)
            continue
        placements = tuple(replace(each, place=seats[each.pod].id) for each in found.placements)
        return Extracted(placements, found.allocations)


def _sharing_alone(problem: Problem, found: Extracted) -> set[PodId]:
    """Return the pods that are not placed and share a claim with one that is."""
    placed = {each.pod for each in found.placements}
    shared = {each.claim.id for each in problem.shared}
    taken = {claim for each in found.placements for claim in each.claims if claim in shared}
    waiting = (pod for pod in problem.batch.pods if pod.id not in placed)
    return {pod.id for pod in waiting if not taken.isdisjoint(pod.claim_ids)}


def _members(problem: Problem, families: Collection[int]) -> set[PodId]:
    return {
        problem.pod(position).id for each in problem.classes if each.family in families for position in each.members
    }


@dataclass(slots=True, eq=False)
class _SeatPlacer:
    """
    Places pods on their seats: a `units.Placer`.

    Members of a family are served in their order. So the next pod of one is the first that has no place, and once it
    does not fit on its seat none of those after it is placed. `records` are the devices of seats by batch position.
    """

    problem: Problem
    greedy: Greedy
    seats: Mapping[int, Seat]
    records: Mapping[int, frozenset[int]]
    placed: Counter[int] = field(default_factory=Counter)
    """How many pods of each family have their places."""

    @classmethod
    def of(cls, problem: Problem, seats: Mapping[PodId, Seat]) -> "_SeatPlacer":
        """Find the seats of a problem's pods; a pod without one has no place here."""
        greedy = Greedy(problem, FitCache(problem), Order.QUEUE_BEST_FIT).start()
        own = {position: seats[pod.id] for position, pod in enumerate(problem.batch.pods) if pod.id in seats}
        return cls(problem, greedy, own, _held_records(problem, own))

    def run(self, budget: Budget) -> Solution:
        """Place what fits, by priority; one pod or gang at least."""
        waiting = units.units(self.problem, self.greedy.sequence())
        for number, unit in enumerate(waiting):
            if number and budget.should_stop():
                break
            units.place(self, unit)
        return self.greedy.solution

    def place(self, family: tuple[PodClass, ...], within: Mapping[int, Mask]) -> bool:
        """Place the next pod of a family on its seat."""
        first = family[0]
        placed = self.placed[first.family]
        position = first.members[placed] if placed < first.size else -1
        seat = self.seats.get(position)
        node = self.problem.inventory.node_index.get(seat.place.node) if seat is not None else None
        if seat is None or node is None or not _is_within(self.problem.pod(position), seat):
            return False
        fits = self.greedy.place_on(family, node, within, lambda *left: self._narrowed(node, position, *left))
        self.placed[first.family] += fits
        return fits

    def _narrowed(self, node: int, position: int, local: State, wide: State) -> tuple[State, State]:
        """Leave of a node's devices, and of those of several nodes, the ones that are held for a pod."""
        layout, records = self.problem.layout, self.records[position]
        places = Counter(layout.place_of[each] for each in records if each in layout.place_of)
        group = self.problem.group(node)
        left, far = list(local), list(wide)
        for number, kind in enumerate(group.types):
            left[kind.gate] = _most(kind, left[kind.gate], places[node, number])
        for number in group.wide:
            kind = layout.wide_types[number]
            far[kind.gate - GLOBAL] = _most(kind, far[kind.gate - GLOBAL], places[-1, number])
        return tuple(left), tuple(far)

    def check_time(self) -> bool:
        """Seats leave no choice that could take long."""
        return False

    def open_nodes(self, pod_class: PodClass) -> Mask:
        """Nodes of seats with room for a pod of a class, devices apart."""
        index = self.problem.inventory.node_index
        nodes = (self.seats[each].place.node for each in pod_class.members if each in self.seats)
        own = np.zeros(self.problem.node_count, dtype=np.bool_)
        own[[index[name] for name in nodes if name in index]] = True
        return self.greedy.open_nodes(pod_class) & own

    def free(self, resource: str) -> Amounts:
        """What nodes have left of a resource."""
        return self.greedy.free(resource)

    def save(self) -> Saved:
        """Remember where it is."""
        return self.greedy.save()

    def restore(self, saved: Saved) -> None:
        """Go back; what was saved can be gone back to again."""
        self.greedy.restore(saved)
        self.placed = Counter(self.problem.classes[each.pod_class].family for each in self.greedy.solution.choices)


def _is_within(pod: Pod, seat: Seat) -> bool:
    """Whether a pod asks for no more of a node than is held for it: the rest may be held for its neighbour."""
    held = dict(seat.place.requests)
    has_room = all(amount <= held.get(resource, 0) for resource, amount in pod.requests)
    return has_room and set(pod.host_ports) <= set(seat.place.host_ports)


def _held_records(problem: Problem, seats: Mapping[int, Seat]) -> dict[int, frozenset[int]]:
    """
    Return by batch position the devices that are held for a pod.

    Those of a claim that pods share are in the place of one of them: they are held for all.
    """
    record_of = problem.inventory.record_of
    own = {
        position: frozenset(record_of[each.device] for each in seat.place.devices if each.device in record_of)
        for position, seat in seats.items()
    }
    if not problem.shared:
        return own
    shared = {each.claim.id for each in problem.shared}
    users = {claim: [p for p in own if claim in problem.pod(p).claim_ids] for claim in shared}
    return {
        position: records.union(
            *(own[other] for claim in problem.pod(position).claim_ids if claim in shared for other in users[claim])
        )
        for position, records in own.items()
    }


def _most(kind: DeviceType, left: int, held: int) -> int:
    """Return what the gate of a type leaves of `held` devices; a shareable device stays as open as it is, or shuts."""
    if kind.is_shareable:
        return left if held else 0
    return min(left, held)

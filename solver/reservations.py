"""
Node reservations against starvation: for pods that have waited too long and get no place in this plan either.

A pod gets a node on which it would fit if all pods had ended that end by themselves; DaemonSet pods and static pods do
not. Of these nodes it gets the one on which it may fit first: where the pods that hold what is missing have not run for
long. A gang gets as many nodes as it needs, in the same order. Its nodes stand empty bit by bit until the last one is
free, so that several are reserved only where that is thought to take no longer than it has waited. An earlier
reservation stays while the pod could still fit there. The share of the nodes that is reserved, in all and for one
namespace, is bounded.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from msgspec import structs

from solver import extract
from solver.domain import (
    PASSED_OVER,
    Batch,
    Budget,
    Claim,
    NodeReservation,
    NodeReservationLimits,
    Plan,
    Pod,
    PodId,
    Reason,
    ReasonCode,
    Snapshot,
    wording,
)
from solver.extract import Extracted
from solver.greedy import Greedy, Order, units
from solver.greedy.device_fit import FitCache
from solver.problem.devices.layout import State, type_at
from solver.problem.node_arrays import PODS
from solver.problem.prepare import prepare
from solver.problem.problem import Part, PodClass, Problem
from solver.problem.requests.component import Line
from solver.problem.solver_cache import SolverCache
from solver.solution import Choice, Solution

_MOST_FAILED_TRIES: Final = 8
_MOST_FAILED_TRIES_OF_ALL: Final = 64
"""Failed tries, of one namespace and of all, after which the other pods and gangs wait for the next decision."""
_NEVER: Final = 1 << 30
"""More devices than a node can lack: it can never serve the pod."""


def extended(
    plan: Plan, problem: Problem, solution: Solution, extracted: Extracted, cache: SolverCache, *, budget: Budget
) -> Plan:
    """Add reservations for the overdue pods that a plan leaves waiting, and a reason that says so."""
    overdue = frozenset(problem.batch.overdue)
    waiting = {each.pod for each in plan.unplaced if each.pod in overdue}
    if not waiting:
        return plan
    after = extract.after(problem, solution, extracted)
    holds = _reservations(after, [pod for pod in problem.batch.pods if pod.id in waiting], cache, budget)
    tells_nodes = problem.policy.tells_inventory
    reasons = {uid: _reason(hold, tells_nodes=tells_nodes) for hold in holds for uid in hold.uids}
    unplaced = tuple(
        structs.replace(each, reasons=(*each.reasons, reasons[each.pod_uid])) if each.pod_uid in reasons else each
        for each in plan.unplaced
    )
    return structs.replace(plan, unplaced=unplaced, node_reservations=holds)


def _reason(hold: NodeReservation, *, tells_nodes: bool) -> Reason:
    noun = "node" if len(hold.nodes) == 1 else "nodes"
    shown = f"{noun} {wording.listed(sorted(hold.nodes))}" if tells_nodes else f"{len(hold.nodes)} {noun}"
    message = f"{PASSED_OVER}: {shown} reserved for it until it fits there"
    return Reason(code=ReasonCode.RESERVATION_PENDING, message=message)


def _reservations(
    after: Problem, waiting: Sequence[Pod], cache: SolverCache, budget: Budget
) -> tuple[NodeReservation, ...]:
    """
    Return the reservations of overdue pods; those that time does not reach keep their earlier ones.

    `after` is the problem as the plan leaves it, `waiting` are the overdue pods in queue order.
    """
    groups = _groups([pod for pod in waiting if not pod.invalid])
    mine = {pod.uid for group in groups for pod in group}
    before = {hold.uids[0]: hold for hold in after.batch.node_reservations if set(hold.uids) & mine}
    others = [hold for hold in after.batch.node_reservations if not set(hold.uids) & mine]
    quota = _Quota(after.policy.node_reservations, after.node_count)
    for hold in others:
        quota.take(hold)
    found: list[NodeReservation] = []
    for group in groups:
        earlier = _earlier(before, group)
        if not quota.is_open(group[0].id.namespace, is_known=earlier is not None):
            continue
        chosen = earlier if budget.should_stop() else _hold(after, group, (*others, *found), cache, earlier)
        if chosen is not None and quota.fits(chosen):
            quota.take(chosen)
            found.append(chosen)
        else:
            quota.failed_tries[group[0].id.namespace] += 1
    return tuple(found)


@dataclass(slots=True, eq=False)
class _Quota:
    """The reserved nodes and the failed tries by namespace; each try costs the preparation of a problem."""

    bounds: NodeReservationLimits
    node_count: int
    held: Counter[str] = field(default_factory=Counter)
    failed_tries: Counter[str] = field(default_factory=Counter)

    def is_open(self, namespace: str, *, is_known: bool) -> bool:
        """Whether one more node might be reserved for a namespace; earlier reservations are always tried again."""
        is_full = self.held.total() >= self.bounds.most(self.node_count) or self.held[
            namespace
        ] >= self.bounds.most_of_namespace(self.node_count)
        is_spent = (
            self.failed_tries[namespace] >= _MOST_FAILED_TRIES or self.failed_tries.total() >= _MOST_FAILED_TRIES_OF_ALL
        )
        return not is_full and (is_known or not is_spent)

    def fits(self, hold: NodeReservation) -> bool:
        """Whether a reservation is within the bounds; that of a gang may be larger if it is the only one."""
        if len(hold.nodes) > 1 and not self.held:
            return len(hold.nodes) <= self.bounds.most_of_gang(self.node_count)
        namespace, count = hold.pod.namespace, len(hold.nodes)
        return self.held.total() + count <= self.bounds.most(self.node_count) and self.held[
            namespace
        ] + count <= self.bounds.most_of_namespace(self.node_count)

    def take(self, hold: NodeReservation) -> None:
        """Count the nodes of a reservation."""
        self.held[hold.pod.namespace] += len(hold.nodes)


def _groups(pods: Sequence[Pod]) -> list[tuple[Pod, ...]]:
    """Group the pods by gang, in the order of the first ones."""
    groups: dict[object, list[Pod]] = {}
    for pod in pods:
        groups.setdefault(pod.id if pod.gang is None else pod.gang, []).append(pod)
    return [tuple(each) for each in groups.values()]


def _earlier(before: Mapping[str, NodeReservation], group: tuple[Pod, ...]) -> NodeReservation | None:
    uids = {pod.uid for pod in group}
    return next((hold for hold in before.values() if set(hold.uids) & uids), None)


def _hold(
    after: Problem,
    group: tuple[Pod, ...],
    others: tuple[NodeReservation, ...],
    cache: SolverCache,
    earlier: NodeReservation | None,
) -> NodeReservation | None:
    """
    Reserve the nodes on which a group fits once the pods are gone that end by themselves.

    Nodes that were reserved for it before come first: to choose others would give up what was kept free so far.
    """
    ids, known = {pod.id for pod in group}, after.inventory.node_index
    ages, waited = _ages(after, _classes_of(after, ids)), _waited(after, group)
    stays = [known[name] for name in earlier.nodes if name in known] if earlier is not None else []
    order = [*stays, *(node for node in ages if node not in stays)]
    snapshot = _when_ended(after.snapshot, group)
    gangs = tuple(gang for gang in after.batch.gangs if gang.id == group[0].gang)
    batch = Batch(pods=group, gangs=gangs, overdue=tuple(ids), node_reservations=others)
    ended = prepare(snapshot, batch, after.policy, cache)
    if not ended.classes:
        return None
    choices = _fitting(ended, order)
    nodes = sorted({choice.node for choice in choices})
    if not nodes or (nodes[1:] and sum(ages[node] for node in nodes if node not in stays) > waited):
        return None
    return NodeReservation(
        pod=group[0].id,
        uids=tuple(pod.uid for pod in group),
        priority=min(pod.priority for pod in group),
        nodes=tuple(after.inventory.nodes[node].name for node in nodes),
        requests=_most_asked(ended, choices),
        takes_devices=any(ended.parts_of(each) for each in ended.classes),
    )


def _waited(after: Problem, group: tuple[Pod, ...]) -> float:
    """Return for how many seconds a group has waited; infinity where it is not known."""
    now, created = after.policy.preemption.now, min(pod.created_at for pod in group)
    return float(max(0, now - created)) if now and created else math.inf


def _when_ended(snapshot: Snapshot, group: tuple[Pod, ...]) -> Snapshot:
    """Return the cluster without the pods that end by themselves, and without their claims."""
    own = {claim for pod in group for claim in pod.claim_ids}
    ending = {pod.uid for pod in snapshot.pods if not pod.belongs_to_node}
    return structs.replace(
        snapshot,
        pods=tuple(pod for pod in snapshot.pods if pod.uid not in ending),
        claims=tuple(claim for claim in snapshot.claims if claim.id in own or not _is_released(claim, ending)),
    )


def _is_released(claim: Claim, ending: set[str]) -> bool:
    return bool(claim.reserved_for) and all(each.uid in ending for each in claim.reserved_for)


def _classes_of(after: Problem, ids: set[PodId]) -> list[PodClass]:
    """Return the classes with these pods."""
    return [each for each in after.classes if any(after.pod(position).id in ids for position in each.members)]


def _fitting(ended: Problem, order: list[int]) -> list[Choice]:
    """Place the pods on as few of the first nodes as doubling finds."""
    if sum(family[0].size for family in ended.families) == 1:
        return _first_fitting(ended, ended.families[0], order)
    count = 1
    while count < 2 * len(order):
        mask = np.zeros(ended.node_count, dtype=np.bool_)
        mask[order[:count]] = True
        run = Greedy(ended.within(mask), FitCache(ended), Order.QUEUE_BEST_FIT).start()
        for unit in units.units(run.problem, [family for family in run.problem.families for _ in family[0].members]):
            units.place(run, unit)
        if run.solution.choices:
            return run.solution.choices
        count *= 2
    return []


def _first_fitting(ended: Problem, family: tuple[PodClass, ...], order: list[int]) -> list[Choice]:
    run = Greedy(ended, FitCache(ended), Order.QUEUE_BEST_FIT).start()
    for node in order:
        mask = np.zeros(ended.node_count, dtype=np.bool_)
        mask[node] = True
        if run.place(family, {each.index: mask for each in family}):
            return run.solution.choices
    return []


def _most_asked(problem: Problem, choices: Sequence[Choice]) -> tuple[tuple[str, int], ...]:
    """Return for each resource the most that the pods on one node request together."""
    asked: dict[int, Counter[str]] = {}
    for choice in choices:
        asked.setdefault(choice.node, Counter()).update(dict(problem.classes[choice.pod_class].requests))
    resources = sorted({resource for each in asked.values() for resource in each})
    return tuple((resource, max(each[resource] for each in asked.values())) for resource in resources)


def _ages(after: Problem, classes: Sequence[PodClass]) -> dict[int, int]:
    """
    Return, by node, the sum of ages of the pods that hold what is missing there: how soon a pod may fit.

    The nodes are ordered by it, then by the devices they lack, other room they lack, and running pods.

    How long pods run is not known, but their lengths differ by orders of magnitude: one that has run for long will run
    for longer than one that began just now. Where half of the pods of any age run for as long again, the last of
    several pods ends after a time that grows with the sum of their ages. That sum is what nodes are compared by.
    """
    lacking, ending = _Lacking(after), _Ending.of(after)
    ranked = []
    for node in range(after.node_count):
        found = [(lacking.devices(after.parts_of(each), node), each) for each in classes]
        devices = min((count for count, _ in found), default=_NEVER)
        if devices < _NEVER:
            room = min(lacking.room(each, node) for each in classes)
            ages = min(ending.ages(node, count, lacking.amounts(each, node)) for count, each in found if count < _NEVER)
            ranked.append((ages, devices, room, len(ending.pods[node]), node))
    return {node: ages for ages, *_, node in sorted(ranked)}


@dataclass(slots=True, eq=False)
class _Ending:
    """The pods of each node that end by themselves, the last one to start first, and the devices that pods hold."""

    pods: list[list[Pod]]
    devices: Counter[str]
    now: int
    """Seconds since the epoch: of the decision where the policy says it, and no pod has started later."""

    @classmethod
    def of(cls, after: Problem) -> "_Ending":
        """Look at the pods of a cluster."""
        now = max((pod.started for pod in after.snapshot.pods), default=0)
        found = cls([[] for _ in range(after.node_count)], Counter(), max(now, after.policy.preemption.now))
        for pod in after.snapshot.pods:
            node = after.inventory.node_index.get(pod.node_name)
            if node is not None and not pod.belongs_to_node:
                found.pods[node].append(pod)
        for there in found.pods:
            there.sort(key=found.age)
        for claim in after.snapshot.claims:
            held = len(claim.allocation.results) if claim.allocation is not None else 0
            for each in claim.reserved_for if held else ():
                found.devices[each.uid] += held
        return found

    def age(self, pod: Pod) -> int:
        """Return for how many seconds a pod has run: at least 1, as one that the kubelet has not started yet."""
        return 1 + (self.now - pod.started if pod.started else 0)

    def ages(self, node: int, devices: int, amounts: Mapping[str, int]) -> int:
        """
        Sum up the ages of the youngest pods that give what is missing; 0 where nothing is.

        Where all of them together hold less than that, their ends are not enough, and all count.
        """
        missing, found = dict(amounts), 0
        for pod in self.pods[node]:
            if devices <= 0 and all(amount <= 0 for amount in missing.values()):
                break
            devices -= self.devices[pod.uid]
            for resource, amount in ((PODS, 1), *pod.requests):
                if resource in missing:
                    missing[resource] -= amount
            found += self.age(pod)
        return found


@dataclass(slots=True, eq=False)
class _Lacking:
    """What nodes lack after the plan; nodes of the same group and state are evaluated once."""

    problem: Problem
    known: dict[tuple[tuple[Part, ...], int, State], int] = field(default_factory=dict)

    def devices(self, parts: tuple[Part, ...], node: int) -> int:
        """Count the devices that are missing for some components; `_NEVER` where the node can never serve them."""
        key = (parts, self.problem.layout.group_of[node], self.problem.available.states[node])
        if key not in self.known:
            self.known[key] = min(_NEVER, sum(part.copies * self._component(part.component, node) for part in parts))
        return self.known[key]

    def room(self, pod_class: PodClass, node: int) -> int:
        """Sum up over all resources the percentage of the request that is missing."""
        asked = {PODS: 1, **dict(pod_class.requests)}
        missing = self.amounts(pod_class, node)
        return sum(100 * min(asked[resource], amount) // asked[resource] for resource, amount in missing.items())

    def amounts(self, pod_class: PodClass, node: int) -> dict[str, int]:
        """Return what a node has too little of for a pod."""
        room = self.problem.available.room
        left = {resource: int(room.of(resource)[node]) for resource, _ in ((PODS, 1), *pod_class.requests)}
        asked = ((PODS, 1), *pod_class.requests)
        return {resource: amount - left[resource] for resource, amount in asked if amount > max(0, left[resource])}

    def _component(self, component: int, node: int) -> int:
        options = self.problem.options(component, self.problem.group(node))
        return min((sum(self._line(line, node) for line in option.lines) for option in options), default=_NEVER)

    def _line(self, line: Line, node: int) -> int:
        problem, ledger = self.problem, self.problem.ledger(node)
        devices = (type_at(problem.layout, problem.group(node), each) for each in line.types)
        return max(0, line.needed - sum(ledger.most(device, line.demand) for device in devices))

"""
Widen the requests of classes by what their devices take of the node's own resources (KEP-5517).

The devices of a pod are not known before the search. So its request grows by the most that any device takes which the
pod can get on the node: exact where the matching devices of a node take the same, else conservative. `spared_devices`
leaves out those that no pod can get now, and `overcharged` says which pods may fit once what others really take is
known. Where nodes differ, a class becomes a family with one class for each amount.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from solver.arrays import MOST, Amounts
from solver.domain import ClaimId, Pod, Reason, ReasonCode
from solver.feasibility import capacity
from solver.problem.problem import Part, PodClass, Problem, Source
from solver.problem.requests.node_allocatable import NOT_SHARED, NodeAllocatable, containers_of, places_of
from solver.problem.skipped_pods import NOT_REACHED
from solver.rules.forms.domains import one_domain
from solver.rules.forms.limits import Limit
from solver.rules.verdicts import ExcludedNodes

ByNode = dict[str, Amounts]
"""Units per node, by resource."""


def widen(problem: Problem, known: NodeAllocatable) -> Problem:
    """
    Widen the requests of every class; a class whose requests come to differ between nodes is split.

    Where every node takes another amount, each class becomes as many as there are nodes. The pods of classes beyond
    `_MOST_CLASSES` are rejected as not reached, gangs whole; the first pod or gang never is.
    """
    asked = _Asked(problem, is_legacy=known.inventory.maps_as_legacy)
    split: dict[int, list[PodClass]] = {}
    rejected: dict[int, tuple[Reason, ...]] = {}
    left = _MOST_CLASSES
    for unit in _units(problem):
        splits = [_Split.of(each, asked, known) for each in unit]
        more = sum(len(each.kinds) - 1 for each in splits)
        if not split or more <= left:
            left -= more
            split.update((each.pod_class.index, each.classes()) for each in splits)
        else:
            split.update((each.pod_class.index, [each.without_nodes()]) for each in splits)
            rejected.update((position, (NOT_REACHED,)) for each in unit for position in each.members)
    classes = [split[each.index][0] for each in problem.classes]
    added = (one for each in problem.classes for one in split[each.index][1:])
    numbered = (replace(each, index=len(classes) + number) for number, each in enumerate(added))
    requests = replace(problem.requests, takes_node_resources=True)
    widened = replace(problem, requests=requests, classes=[*classes, *numbered]).rejecting(rejected)
    return widened.with_limits(_one_pod_each(widened))


_MOST_CLASSES: Final = 10_000
"""How many classes splitting may add to a problem: they take about a second of a decision."""


def _units(problem: Problem) -> list[list[PodClass]]:
    """Group the classes whose pods are left out only together: those of a family, and of a gang; first pods first."""
    units: defaultdict[object, list[PodClass]] = defaultdict(list)
    for each in problem.classes:
        units[problem.pod(each.members[0]).gang or each.family].append(each)
    return sorted(units.values(), key=lambda unit: (-unit[0].priority, not unit[0].is_overdue, unit[0].members[0]))


@dataclass(frozen=True, slots=True, eq=False)
class _Split:
    """A class with the amounts that its devices take: `kinds` by row, and which of them each node has (-1: none)."""

    pod_class: PodClass
    names: Sequence[str]
    kinds: Amounts
    kind_of: Amounts

    @classmethod
    def of(cls, each: PodClass, asked: "_Asked", known: NodeAllocatable) -> "_Split":
        """Add up what the devices of a class take of each node, and rule nodes out that cannot be charged."""
        problem, pod = asked.problem, asked.problem.pod(each.members[0])
        total = _total(each, asked, lambda claim: len(containers_of(pod, claim)))
        _add_fixed(total, known.fixed(pod), problem)
        total, uncovered = _covered(total, pod)
        refused = (*_uncharged(each, asked, pod), *uncovered, *_above_limits(each, asked, known, pod))
        verdicts = each.verdicts.without(
            excluded._replace(nodes=excluded.nodes & each.verdicts.allowed) for excluded in refused
        )
        names = sorted(name for name, amounts in total.items() if amounts.any())
        kind_of = np.full(problem.node_count, -1, dtype=np.int64)
        rows = np.stack([total[name] for name in names], axis=1) if names else kind_of[:, np.newaxis]
        kinds = rows[:1]
        if verdicts.allowed.any():
            kinds, kind_of[verdicts.allowed] = np.unique(rows[verdicts.allowed], axis=0, return_inverse=True)
        return cls(replace(each, verdicts=verdicts), names, kinds, kind_of)

    def without_nodes(self) -> PodClass:
        """Return the class with all nodes ruled out."""
        return replace(self.pod_class, verdicts=self.pod_class.verdicts.within(self.kind_of < -1))

    def classes(self) -> list[PodClass]:
        """Add the amounts to the requests, in one class for each set of nodes where they are the same."""
        if not self.names:
            return [self.pod_class]
        found = []
        for number, kind in enumerate(self.kinds.tolist()):
            widened = dict(self.pod_class.requests)
            for name, amount in zip(self.names, kind, strict=True):
                widened[name] = widened.get(name, 0) + amount
            pairs = tuple(sorted(pair for pair in widened.items() if pair[1] > 0))
            verdicts = self.pod_class.verdicts.within(self.kind_of == number)
            found.append(replace(self.pod_class, verdicts=verdicts, requests=pairs))
        return found


def overcharged(problem: Problem) -> frozenset[int]:
    """Return the positions of pods that may get devices which take less of a node than the pods are charged for."""
    if not problem.requests.takes_node_resources:
        return frozenset()
    uneven = {number for number in range(len(problem.requests.components)) if _is_uneven(problem, number)}
    return frozenset(
        position
        for each in problem.classes
        if any(part.component in uneven for part, _ in _copies(problem, each))
        for position in each.members
    )


def _is_uneven(problem: Problem, component: int) -> bool:
    """Whether not all devices that a component can get take the same."""
    asks = [ask for alternatives in problem.requests.components[component].requests for ask in alternatives]
    kinds = set[tuple[object, ...]]()
    for demand in {ask.demand for ask in asks if not problem.requests.demands[ask.demand].is_admin}:
        for index, verdict in problem.requests.answers[demand].verdicts.items():
            device = problem.inventory.records[index].device
            if verdict.name in {"YES", "SPARED"}:
                sizes = device.capacities if device.node_allocatable else ()
                kinds.add((device.node_allocatable, device.node_overhead, sizes))
    has_alternatives = any(len(each) > 1 for each in problem.requests.components[component].requests)
    takes = any(mapped or overhead for mapped, overhead, _ in kinds)
    return takes and (len(kinds) > 1 or has_alternatives)


_UNREFERENCED: Final = Reason(
    code=ReasonCode.NODE_RESOURCES,
    message="node(s) would charge a claim to no container: none of the pod's containers uses it",
    status="cannot allocate all claims",
)
_EXTENDED: Final = Reason(
    code=ReasonCode.NODE_RESOURCES,
    message="node(s) serve extended resources with devices that take resources of the node, which a pod's status "
    "cannot say",
    status="cannot allocate all claims",
)


def _uncovered(resource: str) -> Reason:
    return Reason(
        code=ReasonCode.NODE_RESOURCES,
        message=f"node(s) have devices that take more {resource} than the pod-level requests cover",
        status=f"pod level request for {resource} is insufficient to cover the aggregated container and "
        "node-allocatable DRA requests",
    )


def _above_limit(resource: str, container: str) -> Reason:
    return Reason(
        code=ReasonCode.NODE_RESOURCES,
        message=f"node(s) have devices that take more {resource} than the pod-level limit leaves for container "
        f"{container}",
        status=f"pod level limit for {resource} is insufficient to cover the limit and DRA overhead for container "
        f"{container}",
    )


def _none(problem: Problem) -> Amounts:
    return np.zeros(problem.node_count, dtype=np.int64)


def _bounded(amounts: Amounts) -> Amounts:
    """Limit amounts to one that no node has: a driver may publish any number, and sums have to stay in 64 bits."""
    bounded: Amounts = np.minimum(amounts, MOST + 1)
    return bounded


@dataclass(slots=True, eq=False)
class _Taken:
    """What devices that the same nodes see take of them, by resource: the most of one, and the sum of all."""

    most: dict[str, int] = field(default_factory=dict)
    every: dict[str, int] = field(default_factory=dict)

    def add(self, nano_units: Mapping[str, int]) -> None:
        """Add a device."""
        for name, nano in nano_units.items():
            amount = min(capacity.request_units(name, nano), MOST + 1)
            self.most[name] = max(self.most.get(name, 0), amount)
            self.every[name] = min(self.every.get(name, 0) + amount, MOST + 1)


@dataclass(slots=True, eq=False)
class _Asked:
    """What devices take of nodes, by demand and by the number of containers that use the claim; see `_by_node`."""

    problem: Problem
    is_legacy: bool
    """Whether the devices map as in Kubernetes 1.36."""
    known: dict[tuple[int, int], dict[bool, ByNode]] = field(default_factory=dict)

    def of(self, copies: Iterable[tuple[int, int]]) -> ByNode:
        """
        Return the most that copies of components take of each node, each with the containers that use it.

        Requests that ask alike count together.
        """
        total: ByNode = {}
        alike = Counter[tuple[int, int]]()
        for component, containers in copies:
            for alternatives in self.problem.requests.components[component].requests:
                if len(alternatives) == 1 and alternatives[0].needed:
                    alike[alternatives[0].demand, containers] += alternatives[0].needed
                else:
                    ways = [self._of_ask(ask.demand, containers, ask.needed) for ask in alternatives]
                    names = {name for way in ways for name in way}
                    most = {name: [way.get(name, _none(self.problem)) for way in ways] for name in names}
                    self._add(total, {name: np.maximum.reduce(amounts) for name, amounts in most.items()})
        for (demand, containers), needed in alike.items():
            self._add(total, self._of_ask(demand, containers, needed))
        return total

    def _add(self, total: ByNode, more: ByNode) -> None:
        for name, amounts in more.items():
            total[name] = _bounded(total.get(name, _none(self.problem)) + amounts)

    def _of_ask(self, demand: int, containers: int, needed: int) -> ByNode:
        """Return the most that so many devices take; 0 stands for all, and no number of them takes more than all."""
        key = (demand, containers)
        found = self.known.get(key)
        if found is None:
            found = self.known[key] = _by_node(self.problem, *key)
        if not needed:
            return found[True]
        return {name: np.minimum(_bounded(most * needed), found[True][name]) for name, most in found[False].items()}


def _by_node(problem: Problem, demand: int, containers: int) -> dict[bool, ByNode]:
    """
    Return for a demand the most that one device takes on each node, and (key True) what all of them take together.

    No pod gets a device on a node that has less than it takes.
    """
    answers, found = problem.requests.answers[demand], {False: ByNode(), True: ByNode()}
    taken: dict[tuple[frozenset[int] | None, frozenset[int]], _Taken] = {}
    reaches: dict[tuple[frozenset[int] | None, frozenset[int]], Sequence[int]] = {}
    for index, verdict in answers.verdicts.items() if not problem.requests.demands[demand].is_admin else ():
        record = problem.inventory.records[index]
        if record.device.takes_node_resources and verdict.name == "YES":
            key = (record.nodes, answers.lost(index))
            if key not in taken:
                taken[key], reaches[key] = _Taken(), sorted(answers.reach(record, problem.node_count))
            consumed = dict(answers.consumption.get(index, ()))
            taken[key].add(capacity.node_resources(record.device, consumed, containers))
    for key, each in taken.items():
        for name, amount in each.most.items():
            most = found[False].setdefault(name, _none(problem))
            most[reaches[key]] = np.maximum(most[reaches[key]], amount)
            every = found[True].setdefault(name, _none(problem))
            every[reaches[key]] = _bounded(every[reaches[key]] + each.every[name])
    return found


def _total(each: PodClass, asked: _Asked, containers: Callable[[ClaimId], int | None]) -> ByNode:
    """Add up the claims that are to be allocated; `containers` says how many use one, None leaves it out."""
    counted = ((part.component, containers(source.claim)) for part, source in _copies(asked.problem, each))
    return asked.of((component, count) for component, count in counted if count is not None)


def _add_fixed(total: ByNode, fixed: Mapping[str, int], problem: Problem) -> None:
    for resource, amount in fixed.items():
        total[resource] = _bounded(total.get(resource, _none(problem)) + min(amount, MOST + 1))


def _uncharged(each: PodClass, asked: _Asked, pod: Pod) -> Iterator[ExcludedNodes]:
    """
    Refuse the nodes where a claim takes something that can be charged to no container.

    That is a claim for extended resources: nodeAllocatableResourceClaimStatuses names claims of spec.resourceClaims
    alone, so that kube-scheduler's write is refused. With devices of Kubernetes 1.36 it is each claim that no container
    uses, too.
    """
    special = {special.id for special in each.specials[:1] if special is not None}
    unused = {claim for claim in pod.claim_ids if asked.is_legacy and not containers_of(pod, claim)}
    for claims, reason in ((special, _EXTENDED), (unused, _UNREFERENCED)):
        total = _total(each, asked, lambda claim: 0 if claim in claims else None)  # noqa: B023 - called at once
        yield from (ExcludedNodes(amounts > 0, reason) for amounts in total.values())


def _above_limits(each: PodClass, asked: _Asked, known: NodeAllocatable, pod: Pod) -> Iterator[ExcludedNodes]:
    """
    Refuse the nodes where a container's limit and what its claims take are above the limit of the pod (KEP-2837).

    A mapping counts in full for each container that uses the claim. Kubernetes 1.36 does not compare limits.
    """
    for container in pod.containers if not asked.is_legacy else ():
        slack = dict(container.limit_slack)
        if not slack:
            continue
        used = {pod.claim_ids[place] for place in places_of(pod, container)}
        total = _total(each, asked, lambda claim: 1 if claim in used else None)  # noqa: B023 - called at once
        _add_fixed(total, known.fixed_in(pod, container), asked.problem)
        for resource in sorted(total.keys() & slack.keys()):
            yield ExcludedNodes(total[resource] > slack[resource], _above_limit(resource, container.name))


def _copies(problem: Problem, each: PodClass) -> Iterator[tuple[Part, Source]]:
    """Yield every copy of a component that a pod needs, of its own claims and of shared ones."""
    owners = [(each.parts, each.sources[0])]
    owners += [(shared.parts, shared.sources) for shared in map(problem.shared.__getitem__, each.shared)]
    for parts, sources in owners:
        for part, copies in zip(parts, sources, strict=True):
            yield from ((part, source) for source in copies)


def _covered(total: ByNode, pod: Pod) -> tuple[ByNode, list[ExcludedNodes]]:
    """Take away what pod-level requests hold already, and refuse the nodes where that is not enough."""
    slack = dict(pod.level_slack)
    inside = sorted(total.keys() & slack.keys())
    return total, [ExcludedNodes(total.pop(name) > slack[name], _uncovered(name)) for name in inside]


def _one_pod_each(problem: Problem) -> Iterator[Limit]:
    """Let one pod of the batch have a shared claim whose devices may map resources of their node."""
    for shared in problem.shared:
        if any(_may_map(problem, part.component) for part in shared.parts):
            takes = {each.index: 1 for each in problem.classes if shared.index in each.shared}
            message = f"node(s) would share claim {shared.claim.id.name}, which takes resources of its node"
            status = NOT_SHARED.format(shared.claim.id.name)
            reason = Reason(code=ReasonCode.CLAIM_FULL, message=message, node_count=1, status=status)
            yield Limit("node_allocatable-claim", one_domain(problem.node_count), (1,), takes, reason)


def _may_map(problem: Problem, component: int) -> bool:
    """Whether a component can get a device that maps resources of its node."""
    asks = (ask for alternatives in problem.requests.components[component].requests for ask in alternatives)
    demands = {ask.demand for ask in asks if not problem.requests.demands[ask.demand].is_admin}
    return any(
        verdict.name == "YES" and bool(problem.inventory.records[index].device.node_allocatable)
        for demand in demands
        for index, verdict in problem.requests.answers[demand].verdicts.items()
    )

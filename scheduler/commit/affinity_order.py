"""
Pods are bound only after the pods that their required affinity needs.

Otherwise a pod could be bound while the commit of the pod it has to be with fails. So every unit of a plan gets
dependencies: for each of its pods, one pod under way that satisfies the pod's affinity, unless a running pod or one of
the unit's own does. The unit binds when these are bound, and is refused where one of them is not.

The dependencies have no cycle, because a unit depends only on units that began before it. `AffinityOrder.begin` looks
for an order in which every unit finds its dependencies begun: a topological sort in which any one of several pods
satisfies an edge. Where the rest of the units forms cycles (a with b, b with a) there is no such order. Then one unit
begins without a dependency, as the first pod of a group does by the API's rule for required self-affinity. It is taken
from a component that depends on no other one, so that as few units as possible begin this way.
"""

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from scheduler.cluster import Cluster, Unit
from solver.domain import Pod, PodAffinityTerm, PodId, Reason, ReasonCode, wording

Dependencies = tuple[tuple[PodId, asyncio.Event], ...]
"""Pods that a unit depends on, each with the end of its commit."""


@dataclass(slots=True, eq=False)
class _PodClass:
    """Pods under way with the same namespace, labels and node: they satisfy the same terms. `begun` have begun."""

    members: list[PodId] = field(default_factory=list)
    begun: list[PodId] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class _Candidate:
    """
    A unit that has not begun, the keys and classes of its own pods, and its terms.

    A term stands for a pod with required affinity: the classes of pods under way of which one pod satisfies it. A pod
    that a running pod satisfies, or only a pod of its own unit, has no term.
    """

    unit: Unit
    own: frozenset[PodId]
    classes: frozenset[_PodClass]
    terms: tuple[tuple[_PodClass, ...], ...]

    @property
    def is_self_sufficient(self) -> bool:
        """Whether its own pods satisfy each of its terms."""
        return all(not self.classes.isdisjoint(each) for each in self.terms)

    def partners(self) -> list[PodId | None]:
        """Return for each term a pod of another unit that has begun; None where there is none."""
        return [
            next((key for each in classes for key in each.begun if key not in self.own), None) for classes in self.terms
        ]


class _Run(NamedTuple):
    """A unit that has begun, the end of its commit, and what it depends on."""

    unit: Unit
    done: asyncio.Event
    dependencies: Dependencies


class AffinityOrder:
    """Knows the pods that are being committed, and which of them each unit depends on."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster: Final = cluster
        self._under_way: Final[dict[PodId, asyncio.Event]] = {}
        self._runs: Final[dict[int, _Run]] = {}

    def begin(self, units: Sequence[Unit]) -> None:
        """Return the units of a plan, which are assumed, their dependencies; each is under way until it `end`s."""
        pods = [each.pod for unit in units for each in unit.placements]
        has_affinity = any((pod := self._cluster.observed_pod(key)) is not None and pod.affinity for key in pods)
        index = _PodClassIndex(self._cluster, (*self._under_way, *pods) if has_affinity else ())
        index.begin(self._under_way)
        waiting = [index.candidate(unit) for unit in units]
        while waiting:
            later = [each for each in waiting if not self._begin_if_ready(each, index)]
            if later and len(later) == len(waiting):
                first = _least_dependent(later)
                self._begin(first, index, first.partners())
                later.remove(first)
            waiting = later

    def _begin_if_ready(self, each: _Candidate, index: "_PodClassIndex") -> bool:
        partners = each.partners()
        is_ready = None not in partners
        if is_ready:
            self._begin(each, index, partners)
        return is_ready

    def _begin(self, each: _Candidate, index: "_PodClassIndex", partners: Iterable[PodId | None]) -> None:
        done, keys = asyncio.Event(), [key for key in dict.fromkeys(partners) if key is not None]
        self._runs[id(each.unit)] = _Run(each.unit, done, tuple((key, self._under_way[key]) for key in keys))
        for placement in each.unit.placements:
            self._under_way[placement.pod] = done  # of a deleted pod of this name, another unit may be under way
        index.begin(each.own)

    def dependencies(self, unit: Unit) -> Dependencies:
        """Return the pods that a unit depends on, which has begun."""
        return self._runs[id(unit)].dependencies

    def end(self, unit: Unit) -> None:
        """Wake the units that depend on a unit, and forget it; a unit that has ended already is ignored."""
        run = self._runs.pop(id(unit), None)
        if run is None:
            return
        run.done.set()
        for placement in unit.placements:
            if self._under_way.get(placement.pod) is run.done:
                del self._under_way[placement.pod]

    async def wait(self, dependencies: Dependencies, namespace: str) -> tuple[Reason, ...]:
        """Wait for the ends of commits; give, for a reader of this namespace, which pods were not bound."""
        for _, done in dependencies:
            await done.wait()
        if dependencies:
            await asyncio.sleep(0)  # first the task whose commit failed forgets its assumptions
        return tuple(
            Reason(
                code=ReasonCode.CONFLICT,
                message=f"{wording.seen(key, namespace)}, which the pod must run beside, was not bound",
            )
            for key, _ in dependencies
            if (pod := self._cluster.pod(key)) is None or not pod.node_name
        )


class _PodClassIndex:
    """The pods that are under way, or are about to be, by class."""

    def __init__(self, cluster: Cluster, keys: Iterable[PodId]) -> None:
        self._cluster: Final = cluster
        self._class_of: Final[dict[PodId, _PodClass]] = {}
        self._satisfying: Final[dict[tuple[tuple[PodAffinityTerm, ...], str], tuple[_PodClass, ...]]] = {}
        classes: defaultdict[object, _PodClass] = defaultdict(_PodClass)
        for key in dict.fromkeys(keys):
            pod = cluster.pod(key)
            if pod is not None:
                self._class_of[key] = found = classes[key.namespace, pod.labels, pod.node_name]
                found.members.append(key)
        self._classes: Final = tuple(classes.values())

    def begin(self, keys: Iterable[PodId]) -> None:
        """Note that pods have begun."""
        for key in keys:
            if key in self._class_of:
                self._class_of[key].begun.append(key)

    def candidate(self, unit: Unit) -> _Candidate:
        """Find the terms of a unit."""
        own = frozenset(each.pod for each in unit.placements)
        classes = frozenset(self._class_of[key] for key in own if key in self._class_of)
        return _Candidate(unit, own, classes, tuple(self._terms(unit, own)))

    def _terms(self, unit: Unit, own: frozenset[PodId]) -> Iterator[tuple[_PodClass, ...]]:
        for placement in unit.placements:
            pod = self._cluster.observed_pod(placement.pod)
            if pod is None or not pod.affinity or self._cluster.has_affinity_match(pod, placement.node, own):
                continue
            classes = self._classes_satisfying(pod, placement.node)
            if any(key not in own for each in classes for key in each.members):
                yield classes

    def _classes_satisfying(self, pod: Pod, node: str) -> tuple[_PodClass, ...]:
        """Return the classes of which one pod satisfies a pod's required affinity on a node."""
        key = (pod.affinity, node)
        if key not in self._satisfying:
            found = (each for each in self._classes if self._cluster.satisfies_affinity(each.members[0], pod, node))
            self._satisfying[key] = tuple(found)
        return self._satisfying[key]


def _least_dependent(candidates: Sequence[_Candidate]) -> _Candidate:
    """
    Return a unit of a strongly connected component that depends on no other component.

    Such a unit is one from which the fewest others are reached: from any other component at least one more is. Of equal
    ones a self-sufficient unit comes first, then the first in order. Units with equal classes and terms are one vertex,
    for a plan may have thousands of equal pods.
    """
    vertices: dict[tuple[frozenset[_PodClass], tuple[tuple[_PodClass, ...], ...]], int] = {}
    vertex_of = [vertices.setdefault((each.classes, each.terms), len(vertices)) for each in candidates]
    providers: defaultdict[_PodClass, set[int]] = defaultdict(set)
    for (classes, _), vertex in vertices.items():
        for pod_class in classes:
            providers[pod_class].add(vertex)
    edges = [set[int]().union(*(providers[each] for term in terms for each in term)) for _, terms in vertices]
    reach = [len(_reachable(vertex, edges)) for vertex in range(len(edges))]
    order = range(len(candidates))
    return candidates[min(order, key=lambda at: (reach[vertex_of[at]], not candidates[at].is_self_sufficient, at))]


def _reachable(start: int, edges: Sequence[Iterable[int]]) -> set[int]:
    found, stack = {start}, [start]
    while stack:
        new = set(edges[stack.pop()]) - found
        found |= new
        stack += new
    return found

"""
Pods are bound only after the pods that their required affinity needs.

Otherwise a pod could be bound while the commit of the pod it has to be with fails. So every unit of a plan gets
dependencies: for each of its pods, one pod under way that satisfies the pod's affinity, unless a running pod or one of
the unit's own does. The unit binds when these are bound, and is refused where one of them is not.

The dependencies have no cycle, because a unit depends only on units that began before it (`begin_order`).
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from scheduler.cluster import Cluster, Unit
from scheduler.commit.affinity.begin_order import BeginCandidate, BeginOrder
from scheduler.commit.affinity.selected_pods import Bits, SelectedPods, bits_of, label_keys
from scheduler.loop_turns import LoopTurns
from solver.domain import PodAffinityTerm, PodId, Reason, ReasonCode, wording

Dependencies = tuple[tuple[PodId, asyncio.Event], ...]
"""Pods that a unit depends on, each with the end of its commit."""
_Affinity = tuple[PodAffinityTerm, ...]


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

    async def begin(self, units: Sequence[Unit]) -> None:
        """
        Give the units of a plan, which are assumed, their dependencies; each is under way until it `end`s.

        In turns: units of earlier plans may end meanwhile, which is the same as a little later.
        """
        turns, ends = LoopTurns(), dict(self._under_way)

        def begin(unit: Unit, partners: Sequence[PodId | None]) -> None:
            done, keys = asyncio.Event(), [key for key in dict.fromkeys(partners) if key is not None]
            self._runs[id(unit)] = _Run(unit, done, tuple((key, ends[key]) for key in keys))
            for placement in unit.placements:  # of a deleted pod of this name, another unit may be under way
                self._under_way[placement.pod] = ends[placement.pod] = done

        index = _AffinityIndex(self._cluster)
        for _ in index.steps([each.pod for unit in units for each in unit.placements], ends):
            await turns.pause()
        candidates = [index.candidate(unit) async for unit in turns.each(units)]
        for _ in BeginOrder(candidates, index.class_of, tuple(ends), begin).steps():
            await turns.pause()

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


class _AffinityIndex:
    """
    Classes of pods that are under way, or are about to be, and which of them satisfy the affinity of a pod.

    Pods of a class have the same namespace, labels and node: they satisfy the same terms. Where no pod that is placed
    has affinity there are none.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster: Final = cluster
        self.class_of: Final[dict[PodId, int]] = {}
        self._counts: Final = Counter[int]()
        self._satisfying: Final[dict[tuple[_Affinity, str], Bits]] = {}
        self._label_keys: Final = set[str]()
        self._topology_keys: Final = set[str]()
        self._selected: Final = SelectedPods(cluster.namespace, self._label_keys)
        self._domains: Final = defaultdict[tuple[str, str], Bits](int)
        self._running: Final[dict[str, SelectedPods]] = {}

    def steps(self, placed: Sequence[PodId], under_way: Iterable[PodId]) -> Iterator[None]:
        """Index pods; the caller may pause after each step."""
        affinities = dict[_Affinity, None]()
        for key in placed:
            pod = self._cluster.observed_pod(key)
            if pod is None or not pod.affinity or pod.affinity in affinities:
                continue
            affinities[pod.affinity] = None
            for term in pod.affinity:
                self._topology_keys.add(term.topology_key)
                self._label_keys.update(label_keys(term))
            yield
        if affinities:
            yield from self._classify(dict.fromkeys((*under_way, *placed)))

    def candidate(self, unit: Unit) -> BeginCandidate[Unit]:
        """Find the terms of a unit."""
        own = frozenset(each.pod for each in unit.placements)
        counts = Counter(self.class_of[key] for key in own if key in self.class_of)
        mine, mine_only = bits_of(counts), bits_of(each for each in counts if counts[each] == self._counts[each])
        every = dict.fromkeys(self._term(each.pod, each.node) for each in unit.placements)
        terms = [term for term in every if term & ~mine_only]
        others = tuple(term & ~mine_only for term in terms)
        return BeginCandidate(unit, own, tuple(counts), others, all(term & mine for term in terms))

    def _classify(self, keys: Iterable[PodId]) -> Iterator[None]:
        """Number the classes, and find the domains in which each of them is."""
        known: dict[object, int] = {}
        domains: dict[str, list[tuple[str, str]]] = {}
        for key in keys:
            pod = self._cluster.pod(key)
            if pod is None:
                continue
            kind = (key.namespace, pod.labels, pod.node_name)
            if kind not in known:
                known[kind] = len(known)
                self._selected.add(pod)
                if pod.node_name not in domains:
                    domains[pod.node_name] = [
                        domain for domain in self._labels(pod.node_name) if domain[0] in self._topology_keys
                    ]
                for domain in domains[pod.node_name]:
                    self._domains[domain] |= 1 << known[kind]
            self.class_of[key] = known[kind]
            self._counts[known[kind]] += 1
            yield

    def _labels(self, node: str) -> tuple[tuple[str, str], ...]:
        known = self._cluster.node(node)
        return known.labels if known is not None else ()

    def _term(self, key: PodId, node: str) -> Bits:
        """Return the classes of which one pod satisfies a pod's affinity; none where a running pod does."""
        pod = self._cluster.observed_pod(key)
        if pod is None or not pod.affinity:
            return 0
        known = (pod.affinity, node)
        if known not in self._satisfying:
            self._satisfying[known] = self._find(pod.affinity, node)
        return self._satisfying[known]

    def _find(self, affinity: _Affinity, node: str) -> Bits:
        domain_of = dict(self._labels(node))
        if any(term.topology_key not in domain_of for term in affinity):
            return 0
        found = _all_select(self._selected, affinity)
        for term in affinity if found else ():
            found &= self._domains[term.topology_key, domain_of[term.topology_key]]
        return 0 if not found or _all_select(self._on(node), affinity) else found

    def _on(self, node: str) -> SelectedPods:
        """Return the pods that the watch shows on a node, one for each namespace and labels."""
        if node not in self._running:
            self._running[node] = SelectedPods(self._cluster.namespace, self._label_keys)
            for pod in {(pod.id.namespace, pod.labels): pod for pod in self._cluster.observed_pods_on(node)}.values():
                self._running[node].add(pod)
        return self._running[node]


def _all_select(pods: SelectedPods, affinity: _Affinity) -> Bits:
    """Return the pods that each term selects."""
    found = pods.everything
    for term in affinity:
        if not found:
            break
        found &= pods.selected(term)
    return found

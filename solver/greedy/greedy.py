"""
First fit and best fit on the problem: one pass over the pods.

Pods are taken by strict priority. Within a priority the order differs by run: that of the queue, or by size.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from operator import itemgetter

import numpy as np
import numpy.typing as npt

from solver.arrays import Amounts, Mask
from solver.greedy import units
from solver.greedy.device_fit import Condition, DeviceFit, FitCache, reach
from solver.greedy.node_score import FIRST, FREE, NEVER, RANK, NodeRatings, Rating, ScoreCache
from solver.greedy.placement_state import Tracker, trackers
from solver.greedy.quota_tracker import QuotaTracker
from solver.greedy.units import Saved
from solver.problem.costs.cost_model import CostTracker
from solver.problem.devices.layout import State
from solver.problem.node_arrays import PODS
from solver.problem.problem import Part, PodClass, Problem
from solver.solution import Choice, SharedChoice, Solution

_Nodes = slice | npt.NDArray[np.int64]
"""All nodes, or some."""
Narrowed = Callable[[State, State], tuple[State, State]]
"""Of what a node and the cluster have left of devices the part that a pod may use."""


class Order(Enum):
    """In which order the pods of one priority are tried, and how a node is chosen."""

    QUEUE_FIRST_FIT = "queue, first fit"
    QUEUE_BEST_FIT = "queue, best fit"
    SMALL_BEST_FIT = "small first, best fit"
    LARGE_BEST_FIT = "large first, best fit"


def never() -> bool:
    """Never stop."""
    return False


def largest(problem: Problem, family: tuple[PodClass, ...]) -> int:
    """Return how many devices a pod of a family asks for at most."""
    return max(map(problem.devices_of, family))


@dataclass(slots=True, eq=False)
class Greedy:
    """One run: what is left of nodes and devices while pods are placed one after the other."""

    problem: Problem
    fit_cache: FitCache
    order: Order
    first: frozenset[int] = frozenset()
    """Gangs (by their first class) that choose before all others."""
    solution: Solution = field(default_factory=Solution)
    _left: dict[str, Amounts] = field(default_factory=dict)
    wide: State = ()
    condition_of: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    changed: list[int] = field(default_factory=list)
    """Nodes that pods were placed on, in order."""
    standings: dict[tuple[tuple[Part, ...], int, State], NodeRatings] = field(default_factory=dict)
    anchors: dict[int, Mask] = field(default_factory=dict)
    trackers: list[Tracker] = field(default_factory=list)
    stop: Callable[[], bool] = never
    is_cut: bool = False
    """Whether time ended while nodes were rated or domains were tried: the others are passed over."""
    quotas: QuotaTracker = field(init=False)
    scores: ScoreCache = field(init=False)
    preferring: CostTracker = field(init=False)
    scoring: CostTracker = field(init=False)

    def __post_init__(self) -> None:
        self.quotas = QuotaTracker.of(self.problem.rules.quotas)
        self.scores = ScoreCache(self.fit_cache, self.stop)
        self.preferring = CostTracker(self.problem.costs.preferences)
        self.scoring = CostTracker(self.problem.costs.scores)

    def start(self) -> "Greedy":
        """Take stock of what is left before the first pod."""
        problem = self.problem
        self._left = {resource: amounts.copy() for resource, amounts in problem.available.room.free.items()}
        self.wide = problem.available.wide_state
        self.trackers = trackers(problem)
        keys, key_of = problem.device_keys()
        self.scores.conditions, self.condition_of = list(keys), key_of.copy()
        return self

    @classmethod
    def served(cls, problem: Problem) -> dict[int, Mask]:
        """Return the nodes whose devices serve one pod of each class, by the class's index; room is not looked at."""
        greedy, found = cls(problem, FitCache(problem), Order.QUEUE_BEST_FIT).start(), {}
        for each in problem.classes:
            parts = problem.parts_of(each)
            mask = np.ones(problem.node_count, dtype=np.bool_)
            if parts:
                mask = greedy.scores.of(parts, greedy.wide, greedy.condition_of)[greedy.condition_of] < NEVER
            found[each.index] = mask
        return found

    def run(self, stop: Callable[[], bool] = never) -> Solution:
        """Place what can be placed, or what could be by the time that `stop` says that it is up: one unit at least."""
        self.stop = self.scores.stop = stop
        self.start()
        waiting = units.units(self.problem, self.sequence())
        waiting.sort(key=lambda unit: unit.rule is None or unit.rule.classes[0] not in self.first)
        for number, unit in enumerate(waiting):
            before = len(self.solution.choices)
            is_over = bool(number) and stop()
            if not is_over:
                units.place(self, unit)
            if is_over or self.has_been_cut:
                is_done = not is_over and (number == 0 or len(self.solution.choices) > before)
                families = (family for each in waiting[number + is_done :] for family in each.families)
                self.solution.unreached = Counter(family[0].family for family in families)
                return self.solution
        while not stop() and self._try_again():
            pass
        return self.solution

    @property
    def has_been_cut(self) -> bool:
        """Whether time ended while nodes were rated or domains were tried."""
        return self.is_cut or self.scores.is_cut

    def check_time(self) -> bool:
        """Note and return whether time has ended; what is left then is not reached."""
        self.is_cut = self.has_been_cut or self.stop()
        return self.is_cut

    def _try_again(self) -> bool:
        """Try pods again whose affinity needs a pod that was placed after them."""
        concerned = self.problem.rules.inter_pod.concerned
        if not concerned:
            return False
        in_gangs = {index for rule in self.problem.rules.gangs for index in rule.classes}
        placed = Counter(self.problem.classes[choice.pod_class].family for choice in self.solution.choices)
        missing = [each for each in self.sequence() if each[0].index in concerned - in_gangs]
        tried: set[int] = set()
        is_better = False
        for family in missing:
            first = family[0]
            if placed[first.family] < first.size and first.family not in tried:
                if self.place(family, {}):
                    placed[first.family] += 1
                    is_better = True
                else:
                    tried.add(first.family)
        return is_better

    def sequence(self) -> list[tuple[PodClass, ...]]:
        """One entry per pod, by priority and then by the order of this run; a gang goes by its first pod."""
        sign = int(self.order is Order.SMALL_BEST_FIT) - int(self.order is Order.LARGE_BEST_FIT)
        entries: list[tuple[tuple[int, bool, int, int], tuple[PodClass, ...]]] = []
        for family in self.problem.families:
            tier, size = family[0].tier, sign and sign * largest(self.problem, family)
            before = -tier.priority, not tier.is_overdue, size
            entries += (((*before, member), family) for member in family[0].members)
        return [family for _, family in sorted(entries, key=itemgetter(0))]

    def save(self) -> Saved:
        """Remember everything that placing changes."""
        return Saved(
            free={resource: amounts.copy() for resource, amounts in self._left.items()},
            wide=self.wide,
            condition_of=self.condition_of.copy(),
            anchors=dict(self.anchors),
            trackers=[each.copy() for each in self.trackers],
            quotas=self.quotas.copy(),
            cost_trackers=(self.preferring.copy(), self.scoring.copy()),
            choices=len(self.solution.choices),
            shared=dict(self.solution.shared),
        )

    def restore(self, saved: Saved) -> None:
        """Go back; what was saved stays as it is."""
        self.standings.clear()
        self._left = {resource: amounts.copy() for resource, amounts in saved.free.items()}
        self.wide, self.condition_of = saved.wide, saved.condition_of.copy()
        self.anchors = dict(saved.anchors)
        self.trackers, self.quotas = [each.copy() for each in saved.trackers], saved.quotas.copy()
        self.preferring, self.scoring = (each.copy() for each in saved.cost_trackers)
        del self.solution.choices[saved.choices :]
        self.solution.shared = dict(saved.shared)

    def place(self, family: tuple[PodClass, ...], within: Mapping[int, Mask]) -> bool:
        """
        Place one pod in the best of the ways that its family has; one that takes no device beats all others.

        `within` narrows the nodes of some classes.
        """
        fresh = tuple(each for each in family[0].shared if each not in self.anchors)
        joined = tuple(part for each in fresh for part in self.problem.shared[each].parts)
        best: tuple[Rating, int, PodClass] | None = None
        for pod_class in family if len(family) == 1 else sorted(family, key=lambda each: each.guarantee < 0):
            chosen = self._choose(pod_class, pod_class.parts + joined, within.get(pod_class.index))
            if chosen is not None and (best is None or chosen < best[:2]):
                best = (*chosen, pod_class)
        if best is None:
            return False
        self._take(best[2], best[2].parts + joined, fresh, best[1])
        return True

    def occupy(self, choice: Choice) -> None:
        """Count a pod as placed whose devices do not matter any more."""
        pod_class = self.problem.classes[choice.pod_class]
        self._use(pod_class, choice.node)

    def open_nodes(self, pod_class: PodClass) -> Mask:
        """Nodes that a class may use and that have room for one pod more, devices apart."""
        mask = self._roomy(pod_class, slice(None))
        for each in pod_class.shared:
            if each in self.anchors:
                mask = mask & self.anchors[each]
        for tracker in self.trackers:
            allowed = tracker.mask(pod_class)
            mask = mask if allowed is None else mask & allowed
        return mask

    def _roomy(self, pod_class: PodClass, nodes: _Nodes) -> Mask:
        """Whether nodes are allowed to a class and have room for a pod of it."""
        mask: Mask = pod_class.verdicts.allowed[nodes] & (self.free(PODS)[nodes] >= 1)
        for resource, amount in pod_class.requests:
            if amount > 0:
                mask = mask & (self.free(resource)[nodes] >= amount)
        return mask

    def free(self, resource: str) -> Amounts:
        """What nodes have left of a resource; nothing of one that none has."""
        if resource not in self._left:
            self._left[resource] = np.zeros(self.problem.node_count, dtype=np.int64)
        return self._left[resource]

    def _choose(self, pod_class: PodClass, parts: tuple[Part, ...], within: Mask | None) -> tuple[Rating, int] | None:
        """Return the best node behind its rating, which is the same for all nodes where the first fit counts."""
        is_first_fit = self.order is Order.QUEUE_FIRST_FIT
        if not parts:
            mask = self.open_nodes(pod_class)
            mask = mask if within is None else mask & within
            return (FIRST if is_first_fit else FREE, self._best_liked(pod_class, mask)) if mask.any() else None
        if not self.problem.node_count:
            return None
        per_node = self._ratings(pod_class, parts)
        if within is not None:
            per_node = np.where(within, per_node, NEVER)
        best = int(np.argmax(per_node < NEVER)) if is_first_fit else int(np.argmin(per_node))
        least = int(per_node[best])
        if is_first_fit or least == NEVER:
            return (FIRST, best) if least < NEVER else None
        costs = self.preferring.marginal(pod_class.index)
        if costs is None:
            return (Rating(least // RANK, 0, least), best)
        fits, ranks = per_node < NEVER, per_node // RANK
        fits &= ranks == ranks[fits].min()
        fits &= costs == costs[fits].min()
        best = int(np.argmin(np.where(fits, per_node, NEVER)))
        return (Rating(int(ranks[best]), int(costs[best]), int(per_node[best])), best)

    def _ratings(self, pod_class: PodClass, parts: tuple[Part, ...]) -> npt.NDArray[np.int64]:
        """
        Rate every node for a class, `NEVER` where it cannot go.

        A pod changes one node: for the next one of a class only those are rated anew that pods were placed on since.
        Rules among pods reach farther, and a class of one pod is not asked again.
        """
        if self.trackers or pod_class.shared or (pod_class.size == 1 and not self.quotas.rules.of_class):
            return self._rated_at(pod_class, parts, slice(None), self.open_nodes(pod_class))
        key = parts, *self.quotas.key(pod_class)
        known = self.standings.get(key)
        if known is None or known.wide != self.wide:
            ratings = self._rated_at(pod_class, parts, slice(None), self._roomy(pod_class, slice(None)))
            if len(self.standings) < self.problem.params.greedy_cached_classes:
                self.standings[key] = NodeRatings(ratings, len(self.changed), self.wide)
            return ratings
        if known.changes < len(self.changed):
            nodes = np.array(self.changed[known.changes :], dtype=np.int64)
            known.ratings[nodes] = self._rated_at(pod_class, parts, nodes, self._roomy(pod_class, nodes))
            known.changes = len(self.changed)
        return known.ratings

    def _rated_at(
        self, pod_class: PodClass, parts: tuple[Part, ...], nodes: _Nodes, mask: Mask
    ) -> npt.NDArray[np.int64]:
        """Rate some nodes, of which `mask` leaves those that matter."""
        conditions, ratings = self.condition_of[nodes], np.full(len(mask), NEVER, dtype=np.int64)
        for quota, where in self.quotas.variants(pod_class, self.problem.node_count):
            here = mask if where is None else mask & where[nodes]
            scores = self.scores.of(parts, self.wide, conditions[here], quota)
            ratings = np.where(here, scores[conditions], ratings)
        return ratings

    def _best_liked(self, pod_class: PodClass, mask: Mask) -> int:
        """For pods that take no device: the first node, or the one that is preferred, and of those the best score."""
        if self.order is Order.QUEUE_FIRST_FIT:
            return int(np.argmax(mask))
        costs = self.preferring.marginal(pod_class.index)
        if costs is not None:
            mask = mask & (costs == costs[mask].min())
        scores = self.scoring.marginal(pod_class.index)
        if scores is None:
            scores = self.problem.inventory.has_devices.astype(np.int64)
        return int(np.argmin(np.where(mask, scores, NEVER)))

    def _use(self, pod_class: PodClass, node: int) -> None:
        """Count everything that a pod takes or changes besides devices."""
        self.changed.append(node)
        self.free(PODS)[node] -= 1
        for resource, amount in pod_class.requests:
            if amount > 0:
                self.free(resource)[node] -= amount
        for tracker in self.trackers:
            tracker.take(pod_class, node)
        for cost_tracker in (self.preferring, self.scoring):
            if cost_tracker.depends_on_others:
                cost_tracker.take(pod_class.index, node)

    def _take(self, pod_class: PodClass, parts: tuple[Part, ...], fresh: tuple[int, ...], node: int) -> None:
        quota = self.quotas.state(pod_class, node) if parts else ()
        served = self.scores.serve(parts, int(self.condition_of[node]), self.wide, quota) if parts else None
        if parts and served is None:
            raise AssertionError("a node was chosen that cannot serve the pod")
        self._use(pod_class, node)
        if served is not None:
            after, self.wide = served.after, served.after.wide
            self.quotas.take(pod_class, node, quota, after.quota)
            self.condition_of[node] = self.scores.number((after.group, after.state, after.is_unused))
        self._choose_served(pod_class, fresh, node, served)

    def _choose_served(self, pod_class: PodClass, fresh: tuple[int, ...], node: int, served: DeviceFit | None) -> None:
        """Note a placed pod, and the shared claims that it is the first to use."""
        picks = served.picks if served is not None else ()
        own = len(pod_class.parts)
        self.solution.choices.append(Choice(pod_class.index, node, picks[:own]))
        for each in fresh if served is not None else ():
            count = len(self.problem.shared[each].parts)
            choice = SharedChoice(each, node, picks[own : own + count])
            own += count
            self.solution.shared[each] = choice
            self.anchors[each] = reach(self.problem, choice)

    def place_on(self, family: tuple[PodClass, ...], node: int, within: Mapping[int, Mask], narrowed: Narrowed) -> bool:
        """
        Place one pod on a node, in the first of its ways that fits there; return whether it did.

        Of devices it gets those that are left by `narrowed`, which is given what the node and the cluster have left.
        """
        for pod_class in family:
            inside = within.get(pod_class.index)
            if not self.open_nodes(pod_class)[node] or not (inside is None or inside[node]):
                continue
            fresh = tuple(each for each in pod_class.shared if each not in self.anchors)
            parts = pod_class.parts + tuple(part for each in fresh for part in self.problem.shared[each].parts)
            if not parts:
                self._take(pod_class, parts, fresh, node)
                return True
            group, state, is_unused = self.scores.conditions[int(self.condition_of[node])]
            local, wide = narrowed(state, self.wide)
            quota = self.quotas.state(pod_class, node)
            served = self.scores.fits.serve(parts, Condition(group, local, wide, is_unused, quota))
            if served is not None:
                self._use(pod_class, node)
                after, self.wide = served.after, _less(self.wide, wide, served.after.wide)
                self.quotas.take(pod_class, node, quota, after.quota)
                self.condition_of[node] = self.scores.number((group, _less(state, local, after.state), after.is_unused))
                self._choose_served(pod_class, fresh, node, served)
                return True
        return False


def _less(state: State, before: State, after: State) -> State:
    """Take from a state what was taken between two others."""
    return tuple(left - (was - now) for left, was, now in zip(state, before, after, strict=True))

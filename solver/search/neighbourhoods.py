"""
Large neighbourhood search (LNS): the exact model of a few nodes at a time, everything else as it is.

For problems whose general model is too large. A step destroys the placements on some nodes, offers those nodes to their
pods and to all pods without a place, and repairs with CP-SAT; the result stays if it is not worse by level. The
neighbourhood grows while it is solved to optimality and shrinks where it is not.

A gang is released whole or not at all: nodes with pods of a gang take part only together with all of its nodes. For a
gang that waits, a neighbourhood is the nodes of one domain and nodes for the pods that are in its way.
"""

import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

import numpy as np

from solver.arrays import Amounts
from solver.domain import Budget, SearchStage
from solver.engines.cpsat import Effort
from solver.model import build, objective
from solver.model.objective import Values, evaluate
from solver.problem.devices.layout import State
from solver.problem.problem import Problem
from solver.rules.forms.gang_rules import DomainTuple, GangRule
from solver.search import bound, restricted_problem
from solver.search.bound import BoundedSolution, Bounds
from solver.solution import Choice, Solution

Used = Mapping[int, Sequence[Choice]]
"""The batch's pods by node."""


@dataclass(slots=True, eq=False)
class GangNeighbourhoods:
    """The gangs of a problem that can be moved: nothing but being a gang ties their pods."""

    problem: Problem
    rng: random.Random
    rule_of: dict[int, GangRule] = field(init=False)
    fixed_classes: frozenset[int] = field(init=False)
    """Classes whose pods stay where they are."""
    served: dict[tuple[int, int, State], int] = field(default_factory=dict)
    rooms: dict[int, Amounts] = field(default_factory=dict)

    def __post_init__(self) -> None:
        problem = self.problem
        coupled = {each.index for each in problem.classes if problem.is_coupled(each, by_gangs=False)}
        gangs = problem.rules.gangs if problem.params.runs(SearchStage.GANG_LNS) else ()
        self.rule_of = {index: rule for rule in gangs if not coupled & set(rule.classes) for index in rule.classes}
        self.fixed_classes = frozenset(
            each.index for each in problem.classes if problem.is_coupled(each) and each.index not in self.rule_of
        )

    def waiting(self, used: Used) -> list[int]:
        """Return the first classes of gangs none of whose pods has a place."""
        placed = {choice.pod_class for choice in chain.from_iterable(used.values())}
        rules = {rule.classes[0]: rule for rule in self.rule_of.values()}
        return [first for first, rule in rules.items() if not placed & set(rule.classes)]

    def whole(self, picked: Iterable[int], used: Used, fixed: set[int], most: int) -> list[int]:
        """Take nodes in order, each with all nodes of the gangs that it has pods of; what would be too many is left."""
        homes = self._homes(used)
        taken: set[int] = set()
        for node in picked:
            more, rest = set[int](), [node]
            while rest and len(taken) + len(more) <= most:
                each = rest.pop()
                if each not in more and each not in taken:
                    more.add(each)
                    rest += [home for rule in self._rules_on(each, used) for home in homes[rule.classes[0]]]
            if len(taken) + len(more) <= most and not more & fixed:
                taken |= more
        return sorted(taken)

    def inside(self, nodes: Iterable[int], used: Used) -> list[GangRule]:
        """Return the gangs that have pods on some nodes."""
        found = {rule.classes[0]: rule for node in nodes for rule in self._rules_on(node, used)}
        return list(found.values())

    def around(self, rule: GangRule, used: Used, fixed: set[int], node_limit: int) -> list[int]:
        """Pick nodes of one domain for a gang that waits, and nodes for the pods that are there today."""
        rooms = {index: self._room(index) for index in rule.classes}
        rows = rule.domain_tuples(rule.required, {i: room > 0 for i, room in rooms.items()}) if rule.required else [()]
        homes = [home for row in rows if (home := self._home(rule, row, used, fixed))]
        if not homes:
            return []
        homes.sort(key=lambda home: sum(len(used.get(node, ())) for node in home))
        chosen = 0
        while chosen + 1 < len(homes) and self.rng.random() > self.problem.params.lns_domain_share:
            chosen += 1
        home = homes[chosen]
        receiving = self._receiving(home, used, fixed)
        count = max(self.problem.params.lns_gang_nodes, node_limit - len(home))
        return home + self.rng.sample(receiving, min(count, len(receiving)))

    def _home(self, rule: GangRule, row: DomainTuple, used: Used, fixed: set[int]) -> list[int]:
        """Return nodes of a domain for all of a gang, those with the fewest pods first; none if too few would fit."""
        room: Counter[int] = Counter()
        for index in rule.classes:
            amounts, inside = self._room(index), rule.mask(index, rule.required, row)
            nodes = np.flatnonzero(amounts if inside is None else np.where(inside, amounts, 0)).tolist()
            for node in nodes:
                room[node] = max(room[node], int(amounts[node]))
        nodes = [node for node in room if node not in fixed]
        self.rng.shuffle(nodes)
        nodes.sort(key=lambda node: len(used.get(node, ())) / room[node])
        left = rule.size
        for count, node in enumerate(nodes):
            left -= room[node]
            if left <= 0:
                return nodes[: count + 1]
        return nodes if rule.size - left >= rule.need else []

    def _receiving(self, home: list[int], used: Used, fixed: set[int]) -> list[int]:
        """Return other nodes that the pods on some nodes could use."""
        classes = {choice.pod_class for node in home for choice in used.get(node, ())}
        mask = np.zeros(self.problem.node_count, dtype=np.bool_)
        for index in classes:
            mask |= self._room(index) > 0
        return [node for node in np.flatnonzero(mask).tolist() if node not in fixed and node not in home]

    def _room(self, index: int) -> Amounts:
        """How many pods of a class each node could have if none of the batch were there."""
        if index not in self.rooms:
            pod_class = self.problem.classes[index]
            found = build.room_for(self.problem, pod_class)
            for node in np.flatnonzero(found).tolist() if pod_class.parts else ():
                found[node] = min(int(found[node]), self._served(index, node))
            self.rooms[index] = found
        return self.rooms[index]

    def _served(self, index: int, node: int) -> int:
        key = (index, self.problem.layout.group_of[node], self.problem.available.states[node])
        if key not in self.served:
            self.served[key] = build.most_served(self.problem, self.problem.classes[index], node)
        return self.served[key]

    def _rules_on(self, node: int, used: Used) -> list[GangRule]:
        classes = {choice.pod_class for choice in used.get(node, ())}
        return [self.rule_of[each] for each in sorted(classes) if each in self.rule_of]

    def _homes(self, used: Used) -> dict[int, set[int]]:
        """Nodes of every gang that is placed, by its first class."""
        homes: defaultdict[int, set[int]] = defaultdict(set)
        for node, choices in used.items():
            for choice in choices:
                if choice.pod_class in self.rule_of:
                    homes[self.rule_of[choice.pod_class].classes[0]].add(node)
        return homes


def improve(problem: Problem, start: Solution, bounds: Bounds, budget: Budget) -> BoundedSolution:
    """Search until the bounds are met or the budget ends; never worse than the start."""
    search = _Search(problem, start, bounds, budget)
    while search.is_open() and search.step():
        pass
    return BoundedSolution(search.best, search.bounds, search.spent)


@dataclass(slots=True, eq=False)
class _Search:
    """The best solution so far; `node_limit` is the size of the next neighbourhood."""

    problem: Problem
    best: Solution
    bounds: Bounds
    budget: Budget
    spent: float = 0.0
    node_limit: int = field(init=False)
    presolve: bool = False
    known: Values = ()
    rng: random.Random = field(init=False)
    used: dict[int, list[Choice]] = field(default_factory=dict)
    gang_moves: GangNeighbourhoods = field(init=False)

    def __post_init__(self) -> None:
        self.rng = random.Random(self.budget.seed)  # noqa: S311 - a reproducible search, not a secret
        self.gang_moves = GangNeighbourhoods(self.problem, self.rng)
        self.node_limit = self.problem.params.lns_first_nodes
        self._adopt(self.best)

    def is_open(self) -> bool:
        """Whether something is left to gain and to spend."""
        if self.spent >= self.budget.deterministic_seconds or self.budget.should_stop():
            return False
        is_open = [limit is None or limit > value for limit, value in zip(self.bounds.levels, self.known, strict=True)]
        if any(
            each
            for each, level in zip(is_open, objective.objective_levels(self.problem), strict=True)
            if level.decides_pods
        ):
            return True
        return any(is_open) and self.spent < self.problem.params.lns_packing_seconds

    def step(self) -> bool:
        """Solve one neighbourhood; return whether there was one."""
        params = self.problem.params
        self.spent += params.lns_step_seconds * params.lns_overhead_share  # so that steps without a search end too
        nodes, gangs = self._pick_neighbourhood()
        if not nodes:
            return False
        effort = Effort.within(self.budget, params.lns_step_seconds, presolve=self.presolve)
        solved = restricted_problem.solve(
            self.problem, self.best, nodes, effort, gangs=gangs, stop=self.budget.should_stop
        )
        self.spent += solved.deterministic_seconds
        if solved.is_optimal:
            self.node_limit = min(params.lns_most_nodes, self.node_limit + 1)
        else:
            self.node_limit = max(params.lns_fewest_nodes, self.node_limit - 2)
            self.presolve = not self.presolve  # bin packing needs presolve, most else is faster without
        if solved.solution is not self.best and evaluate(self.problem, solved.solution) >= self.known:
            self._adopt(solved.solution)
        return True

    def _pick_waiting_class(self, waiting: list[int]) -> int:
        """Pick a class with pods without a place: mostly one that the first level still open is about."""
        level = next((i for i, limit in enumerate(self.bounds.levels) if limit is None or limit > self.known[i]), 0)
        levels = self.problem.placed_levels
        first = [each for each in waiting if level < len(levels) and levels[level].worth.get(each)]
        is_first = bool(first) and self.rng.random() < self.problem.params.lns_first_level_share
        return self.rng.choice(first if is_first else waiting)

    def _adopt(self, solution: Solution) -> None:
        known = evaluate(self.problem, solution)
        gained = bool(self.known) and known > self.known
        self.best, self.known, self.used = solution, known, {}
        for choice in solution.choices:
            self.used.setdefault(choice.node, []).append(choice)
        limits = self.bounds.levels
        open_levels = [i for i, limit in enumerate(limits) if limit is None or limit > known[i]]
        if gained and open_levels and limits[open_levels[0]] is None:
            # Both hold: with better values of earlier levels a bound of a later one can only be lower.
            self.bounds = self.bounds.tightened(bound.bounds(self.problem, known, self.budget))

    def _pick_neighbourhood(self) -> tuple[list[int], list[GangRule]]:
        """Pick nodes that waiting pods could use and nodes that the batch uses, with the gangs on them."""
        fixed = {shared.node for shared in self.best.shared.values()}
        fixed.update(choice.node for choice in self.best.choices if choice.pod_class in self.gang_moves.fixed_classes)
        gangs: list[GangRule] = []
        wanted: list[int] = []
        waiting = [
            *restricted_problem.waiting(self.problem, self.best.choices),
            *self.gang_moves.waiting(self.used),
        ]
        share = int(self.node_limit * self.problem.params.lns_waiting_share) if waiting else 0
        if waiting:
            pod_class = self.problem.classes[self._pick_waiting_class(waiting)]
            rule = self.gang_moves.rule_of.get(pod_class.index)
            if rule is not None:
                gangs.append(rule)
                wanted = self.gang_moves.around(rule, self.used, fixed, self.node_limit)
                share = len(wanted)
            else:
                fits = pod_class.verdicts.allowed & self.problem.available.room.fits(pod_class.requests)
                wanted = [node for node in np.flatnonzero(fits).tolist() if node not in fixed]
                self.rng.shuffle(wanted)
        used = [node for node in self.used if node not in fixed]
        picked = wanted[:share]
        picked += self.rng.sample(used, min(max(0, self.node_limit - len(picked)), len(used)))
        nodes = self.gang_moves.whole(dict.fromkeys(picked), self.used, fixed, max(share, 2 * self.node_limit))
        return nodes, [*gangs, *self.gang_moves.inside(nodes, self.used)]

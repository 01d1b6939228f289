"""
The neighbourhoods of gangs: a gang is released whole or not at all.

Nodes with pods of a gang take part only together with all of its nodes. For a gang that waits, a neighbourhood is the
nodes of one domain and nodes for the pods that are in its way.
"""

import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

import numpy as np

from solver.arrays import Amounts
from solver.domain import SearchStage
from solver.model import build
from solver.problem.devices.layout import State
from solver.problem.problem import Problem
from solver.rules.forms.gang_rules import DomainTuple, GangRule
from solver.solution import Choice

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
        coupled = {each.index for each in problem.classes if problem.is_coupled(each, by_gangs=False, by_quotas=False)}
        gangs = problem.rules.gangs if problem.params.runs(SearchStage.GANG_LNS) else ()
        self.rule_of = {index: rule for rule in gangs if not coupled & set(rule.classes) for index in rule.classes}
        tied = (each.index for each in problem.classes if problem.is_coupled(each, by_quotas=False))
        self.fixed_classes = frozenset(index for index in tied if index not in self.rule_of)

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

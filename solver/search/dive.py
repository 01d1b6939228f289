"""From fractions of patterns to a plan: take whole patterns, price anew for what is left, again and again."""

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from solver.search.patterns import Columns, Master, Pattern
from solver.search.values import Values, values
from solver.solution import Choice, Solution

_FEW_VARIABLES: Final = 400
"""Nodes with so many variables are left to the exact model."""
_FEW_NODES: Final = 4
"""So many are left to it whatever their size."""
_NO_CEILING: Final = 1 << 50


@dataclass(slots=True, eq=False)
class _Dive:
    """A solution in the making: what levels have to reach yet, nodes still free by kind, pods left by family."""

    columns: Columns
    kept: Solution
    known: Values
    free: list[list[int]]
    left: Counter[int]
    choices: list[Choice] = field(default_factory=list)

    def count(self) -> int:
        """How many nodes are free."""
        return sum(map(len, self.free))

    def size(self) -> int:
        """How many variables the exact model of the free nodes has."""
        pairs = zip(self.columns.kinds, self.free, strict=True)
        return sum(len(kind.variables.form.lower) * len(nodes) for kind, nodes in pairs)

    def take_whole(self, master: Master) -> bool:
        """Take every pattern as often as it is used at least; whether there was any."""
        before = self.size()
        for pattern, count in _in_order(master):
            for _ in range(math.floor(count + 1e-6)):
                self.take(pattern)
        return self.size() < before

    def take_one(self, master: Master) -> bool:
        """Take the pattern that is used most; whether there was any."""
        return any(self.take(pattern) for pattern, _ in _in_order(master))

    def solution(self) -> Solution:
        """What stands so far."""
        return Solution(self.kept.choices + self.choices, self.kept.shared)

    def priced(self, master: Master) -> Master:
        """Solve the master of what is left."""
        rest = replace(self.columns, nodes=[len(nodes) for nodes in self.free], pods=self.left)
        found = rest.bound(master.level, self.known, _NO_CEILING)
        self.columns.spent = rest.spent
        return found

    def take(self, pattern: Pattern) -> bool:
        """Put a pattern on a free node, as far as its pods are left; False where there is no node or no pod."""
        taken, held = Counter[int](), []
        for choice in pattern.choices if self.free[pattern.kind] else ():
            family = self.columns.problem.classes[choice.pod_class].family
            if taken[family] < self.left[family]:
                taken[family] += 1
                held.append(choice._replace(node=self.free[pattern.kind][0]))
        if held:
            self.free[pattern.kind].pop(0)
            self.left -= taken
            self.choices += held
            is_whole = len(held) == len(pattern.choices)
            worth = pattern.worth if is_whole else values(self.columns.problem, Solution(held))
            self.known = tuple(value - placed for value, placed in zip(self.known, worth, strict=True))
        return bool(held)


def dive(columns: Columns, master: Master, kept: Solution) -> tuple[Solution, list[int]]:
    """
    Make a solution of a solved master, and name the nodes that were filled last and are worth a closer look.

    `kept` holds the choices that are not for the columns to decide.
    """
    state = _Dive(columns, kept, master.known, [list(kind.nodes) for kind in columns.kinds], Counter(columns.pods))
    while state.size() > _FEW_VARIABLES and state.count() > _FEW_NODES and not columns.is_spent() and master.used:
        if not state.take_whole(master) and not state.take_one(master):
            break
        master = state.priced(master)
    few = sorted(node for nodes in state.free for node in nodes)
    state.take_whole(master)
    while state.take_one(master):
        pass
    return state.solution(), few


def laid_out(columns: Columns, known: Values, used: Mapping[Pattern, int], kept: Solution) -> Solution:
    """Make a solution of patterns, each used so many times; pods that were placed already are left out."""
    state = _Dive(columns, kept, known, [list(kind.nodes) for kind in columns.kinds], Counter(columns.pods))
    for pattern, count in used.items():
        for _ in range(count):
            state.take(pattern)
    return state.solution()


def _in_order(master: Master) -> list[tuple[Pattern, float]]:
    """Patterns by how much they are used, most first; the same on every machine."""
    return sorted(master.used.items(), key=lambda item: (-round(item[1], 6), item[0].kind, item[0].counts))

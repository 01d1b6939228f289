"""
From fractions of patterns to a plan: take patterns, price anew for what is left, again and again.

What the relaxation of the rest is still worth tells at once whether a pattern was a mistake: it is taken back then,
and the next one is tried (a dive with limited backtracking). Only patterns whose pods are all left count, so that the
relaxation does not promise what the rest cannot give.
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from solver.search.patterns import Columns, Master, Pattern
from solver.search.values import Values, values
from solver.solution import Choice, Solution

_FEW_VARIABLES: Final = 400
"""Nodes with so many variables may be left to the exact model."""
_FEW_NODES: Final = 4
"""So many may be left to it whatever their size."""
_MOST_TRIES: Final = 8
"""So many patterns are tried in one place; then the best of them stands."""
_MOST_MISTAKES: Final = 60
"""So many are taken back in one dive."""
_NO_CEILING: Final = 1 << 50
_ROUNDING: Final = 1e-6


class Dived(NamedTuple):
    """A solution, and the nodes that were filled last: worth a closer look where something was lost on the way."""

    solution: Solution
    few: list[int]


@dataclass(slots=True, eq=False)
class _Dive:
    """A solution in the making: what levels have to reach yet, nodes still free by kind, pods left by family."""

    columns: Columns
    known: Values
    free: list[list[int]]
    left: Counter[int]
    choices: list[Choice] = field(default_factory=list)

    def after(self, patterns: Mapping[Pattern, int]) -> "_Dive":
        """What it is with some patterns taken."""
        free, left = [list(nodes) for nodes in self.free], Counter(self.left)
        state = _Dive(self.columns, self.known, free, left, list(self.choices))
        for pattern, count in patterns.items():
            for _ in range(count):
                state.take(pattern)
        return state

    def nodes(self) -> list[int]:
        """Nodes that are free."""
        return sorted(node for nodes in self.free for node in nodes)

    def is_small(self) -> bool:
        """Whether the exact model of the free nodes would be."""
        pods = sum(1 for count in self.left.values() if count)
        pairs = list(zip(self.columns.kinds, self.free, strict=True))
        size = sum(len(nodes) * (pods + kind.others()) for kind, nodes in pairs)
        return size <= _FEW_VARIABLES or sum(len(nodes) for _, nodes in pairs) <= _FEW_NODES

    def priced(self, level: int) -> Master:
        """Solve the master of what is left."""
        rest = replace(self.columns, nodes=[len(nodes) for nodes in self.free], pods=self.left)
        found = rest.bound(level, self.known, _NO_CEILING)
        self.columns.spent = rest.spent
        return found

    def total(self, master: Master) -> int:
        """What is left to reach, less what the relaxation of the rest can reach: the larger the better."""
        return math.floor(master.score + _ROUNDING) - self.known[master.level]

    def take(self, pattern: Pattern) -> bool:
        """Put a pattern on a free node, as far as its pods are left; False where there is no node or no pod."""
        taken, held = Counter[int](), []
        for choice in self.columns.choices(pattern) if self.free[pattern.kind] else ():
            family = self.columns.problem.classes[choice.pod_class].family
            if taken[family] < self.left[family]:
                taken[family] += 1
                held.append(choice._replace(node=self.free[pattern.kind][0]))
        if held:
            self.free[pattern.kind].pop(0)
            self.left -= taken
            self.choices += held
            is_whole = taken == Counter(dict(pattern.counts))
            worth = pattern.worth if is_whole else values(self.columns.problem, Solution(held))
            self.known = tuple(value - placed for value, placed in zip(self.known, worth, strict=True))
        return bool(held)


def dive(columns: Columns, master: Master, kept: Solution) -> Dived:
    """
    Make a solution of a solved master.

    `kept` holds the choices that are not for the columns to decide.
    """
    state = _Dive(columns, master.known, [list(kind.nodes) for kind in columns.kinds], Counter(columns.pods))
    target, mistakes, few = state.total(master), 0, None
    while master.used and not columns.is_spent():
        if few is None and state.is_small():
            few = state.nodes()
        tried: list[tuple[int, _Dive, Master]] = []
        for move in _moves(master):
            after = state.after(move)
            rest = after.priced(master.level)
            tried.append((after.total(rest), after, rest))
            if tried[-1][0] >= target or mistakes >= _MOST_MISTAKES or columns.is_spent():
                break
            mistakes += 1
        reached, state, master = max(tried, key=lambda each: each[0])
        target = min(target, reached)
    few = state.nodes() if few is None else few
    for pattern, _ in _in_order(master):
        while state.take(pattern):
            pass
    return Dived(Solution(kept.choices + state.choices, kept.shared), few)


def laid_out(columns: Columns, known: Values, used: Mapping[Pattern, int], kept: Solution) -> Solution:
    """Make a solution of patterns, each used so many times; pods that were placed already are left out."""
    state = _Dive(columns, known, [list(kind.nodes) for kind in columns.kinds], Counter(columns.pods)).after(used)
    return Solution(kept.choices + state.choices, kept.shared)


def _moves(master: Master) -> Iterator[Mapping[Pattern, int]]:
    """What can be taken next: all that is used at least once, as often; else single patterns, most used first."""
    ordered = _in_order(master)
    whole = {pattern: math.floor(count + _ROUNDING) for pattern, count in ordered if count + _ROUNDING >= 1}
    if whole:
        yield whole
    yield from ({pattern: 1} for pattern, _ in ordered[:_MOST_TRIES])


def _in_order(master: Master) -> list[tuple[Pattern, float]]:
    """Patterns by how much they are used, most first; the same on every machine."""
    order = sorted(master.used.items(), key=lambda item: (item[0].kind, item[0].counts, item[0].worth))
    return sorted(order, key=lambda item: -round(item[1], 6))

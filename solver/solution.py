"""A solution of a problem, in types and counts: what greedy and search produce and extraction makes concrete."""

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

from solver.problem.devices.layout import Group
from solver.problem.problem import Problem


class Pick(NamedTuple):
    """One copy of a component served: the option taken, and (type, devices) for each of its lines."""

    option: int
    lines: tuple[tuple[tuple[int, int], ...], ...]


class Choice(NamedTuple):
    """One pod of a class on a node; `picks[j][k]` serves the k-th copy of the j-th part."""

    pod_class: int
    node: int
    picks: tuple[tuple[Pick, ...], ...]


class SharedChoice(NamedTuple):
    """
    A shared claim allocated as seen from a node, or from a site (see `model.cells`).

    `site` describes the site that the picks refer to; None where they refer to the node's own description.
    """

    shared: int
    node: int
    picks: tuple[tuple[Pick, ...], ...]
    site: Group | None = None

    def described(self, problem: Problem) -> Group:
        """Give the description that the picks refer to."""
        return problem.group(self.node) if self.site is None else self.site


@dataclass(slots=True, eq=False)
class Solution:
    """
    Choices in the order in which members of their classes are served; and the shared claims allocated.

    `unreached` counts by family the pods that were not tried because time had ended.
    """

    choices: list[Choice] = field(default_factory=list)
    shared: dict[int, SharedChoice] = field(default_factory=dict)
    unreached: Counter[int] = field(default_factory=Counter)

"""Kinds of nodes: which nodes are equal in everything that a batch can see of them, room included."""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from solver.engines.cpsat import Questions
from solver.model import build, cells
from solver.model.form import OutOfTimeError
from solver.model.variables import Variables
from solver.problem.fit import PODS
from solver.problem.problem import Problem

_Key = tuple[object, ...]


@dataclass(slots=True, eq=False)
class Kind:
    """Equal nodes, the model of one of them, and the engine that is asked for what it can hold."""

    nodes: list[int]
    variables: Variables
    questions: Questions = field(init=False)

    def __post_init__(self) -> None:
        self.questions = Questions(self.variables.form)

    def others(self) -> int:
        """How many variables of the model are not about how many pods of a class there are."""
        return len(self.variables.form.lower) - len(self.variables.pods)


def kinds(problem: Problem, nodes: list[int], most: int, stop: Callable[[], bool] = lambda: False) -> list[Kind] | None:
    """Sort nodes by kind; None where there are more kinds than `most`, or `stop` says that the time is up."""
    wanted = [each for each in problem.classes if each.size]
    if not wanted:
        return []
    masks = np.array([each.verdicts.allowed for each in wanted], dtype=np.bool_).reshape(len(wanted), -1)
    resources = [PODS, *sorted({resource for each in wanted for resource, amount in each.requests if amount > 0})]
    room = np.stack([problem.room.of(resource) for resource in resources])
    preferred = list(problem.tastes.preferences.of_class.values())
    limits: dict[_Key, list[int]] = {}
    found: defaultdict[_Key, list[int]] = defaultdict(list)
    for node in nodes:
        allowed = masks[:, node]
        if not allowed.any() or room[0, node] <= 0:
            continue
        costs = tuple(int(column[node]) for column in preferred)
        look = (problem.layout.group_of[node], problem.states[node], problem.is_whole[node], allowed.tobytes(), costs)
        if look not in limits:
            if stop():
                return None
            limits[look] = _most_taken(problem, node, resources)
        if not limits[look][0]:
            continue  # its devices serve none of them
        free = tuple(min(int(have), limit) for have, limit in zip(room[:, node], limits[look], strict=True))
        found[look, free].append(node)
        if len(found) > most:
            return None
    try:
        made = [
            Kind(members, build.build(problem, cells.single(problem, members[:1]), stop=stop))
            for members in found.values()
        ]
    except OutOfTimeError:
        return None
    return [kind for kind in made if kind.variables.pods]


def _most_taken(problem: Problem, node: int, resources: list[str]) -> list[int]:
    """Amounts that pods on a node could take at most if it had no end of them: what is free beyond is no difference."""
    taken = dict.fromkeys(resources, 0)
    for each in problem.classes:
        if not each.size or not each.verdicts.allowed[node]:
            continue
        most = build.most_served(problem, each, node)
        taken[PODS] += most
        for resource, amount in each.requests:
            if amount > 0:
                taken[resource] += most * amount
    return [taken[resource] for resource in resources]

"""
Equal nodes and equal pods of a repair, so that they can be counted instead of named.

A pod type is all pods that any node treats alike. A stay type is movable pods that take the same of a node and have
successors of one pod type. Nodes are of one kind that have the same devices and room left without their movable pods,
are open to the same pod types, have the same movable pods, and are in the same domains.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from solver.arrays import Amounts
from solver.engines.cpsat import ReusableModel
from solver.model import build, cells
from solver.model.form import Expression
from solver.model.variables import Variables
from solver.model.victims import PotentialVictims
from solver.problem.node_arrays import PODS
from solver.problem.problem import PodClass, Problem
from solver.problem.rules_among_pods import PodRules
from solver.repair.repair_case import RepairCase
from solver.rules.forms.gang_rules import GangRule

NO_LEVEL = -1
"""The level of pod types whose pods may be anywhere."""
STUCK = -1
"""The pod type of successors that no node could take."""


class GangShape(NamedTuple):
    """Gangs that want to be in one domain of a level, whichever it is: their pods by pod type."""

    level: int
    sizes: tuple[tuple[int, int], ...]


class StayType(NamedTuple):
    """What a movable pod takes of its node, and the pod type of its successor."""

    pod_type: int
    requests: tuple[tuple[str, int], ...]
    claims: tuple[object, ...]


@dataclass(frozen=True, eq=False)
class PodTypes:
    """
    The pod types of a case.

    `classes` are the classes of each pod type, `levels` the domains of nodes at each level that gangs have to share,
    `level_of` the level of each type. `shapes` count the gangs that have to be in one domain.
    """

    case: RepairCase
    classes: Sequence[tuple[int, ...]]
    level_of: Sequence[int]
    levels: Sequence[Amounts]
    shapes: Mapping[GangShape, tuple[GangRule, ...]]

    @classmethod
    def of(cls, case: RepairCase) -> "PodTypes | None":
        """Form the types; None where pods depend on each other in ways that counts do not show."""
        problem = case.problem
        if not _is_countable(case):
            return None
        levels: list[Amounts] = []
        level_of_class: dict[int, int] = {}
        rules: list[tuple[int, GangRule]] = []
        for rule in problem.rules.gangs:
            open_levels = [level for level in rule.required if not level.held]
            if not open_levels:
                continue
            arrays = {id(array): array for level in open_levels for array in level.domain_of.values()}
            if len(arrays) > 1 or any(index not in open_levels[0].domain_of for index in rule.classes):
                return None
            domains = next(iter(arrays.values()))
            number = next((i for i, each in enumerate(levels) if np.array_equal(each, domains)), len(levels))
            levels += [domains] if number == len(levels) else []
            level_of_class |= dict.fromkeys(rule.classes, number)
            rules.append((number, rule))
        groups: dict[tuple[object, ...], list[int]] = {}
        for each in problem.classes:
            level = level_of_class.get(each.index, NO_LEVEL)
            groups.setdefault((*_look(each), level), []).append(each.index)
        classes = [tuple(members) for members in groups.values()]
        type_of = {index: number for number, members in enumerate(classes) for index in members}
        shapes: defaultdict[GangShape, list[GangRule]] = defaultdict(list)
        for level, rule in rules:
            sizes = Counter[int]()
            for index in rule.classes:
                sizes[type_of[index]] += problem.classes[index].size
            shapes[GangShape(level, tuple(sorted(sizes.items())))].append(rule)
        level_of = [level_of_class.get(members[0], NO_LEVEL) for members in classes]
        return cls(case, classes, level_of, levels, {shape: tuple(found) for shape, found in shapes.items()})

    @cached_property
    def type_of_class(self) -> dict[int, int]:
        """The pod type of each class."""
        return {index: number for number, members in enumerate(self.classes) for index in members}

    @cached_property
    def needed(self) -> tuple[int, ...]:
        """How many pods of each type have to get a place, whatever moves."""
        problem, successors = self.case.problem, self.case.unit_of_successor
        counts = Counter[int]()
        for each in problem.classes:
            members = sum(problem.pod(position).id not in successors for position in each.members)
            counts[self.type_of_class[each.index]] += members
        return tuple(counts[number] for number in range(len(self.classes)))

    @cached_property
    def stay_type_of(self) -> tuple[StayType, ...]:
        """The stay type of each movable pod."""
        case, problem = self.case, self.case.problem
        types: dict[int, int] = {}
        for each in problem.classes:
            for position in each.members:
                number = case.unit_of_successor.get(problem.pod(position).id)
                if number is not None:
                    types[number] = self.type_of_class[each.index]
        claims: defaultdict[int, list[tuple[object, ...]]] = defaultdict(list)
        for claim in case.usage.claims:
            budgets = tuple(sorted((budget, amount) for _, budget, amount in claim.budgets))
            claims[claim.victims[0]].append((budgets, tuple(sorted(each for _, each in claim.shares))))
        return tuple(
            StayType(types.get(number, STUCK), pod.requests, tuple(sorted(claims[number], key=repr)))
            for number, pod in enumerate(case.movable)
        )

    @cached_property
    def counted(self) -> Problem:
        """The problem with one class for each pod type, and without rules between pods."""
        problem = self.case.problem
        first = {members[0]: number for number, members in enumerate(self.classes)}
        classes: list[PodClass] = []
        for each in problem.classes:
            merged = self.classes[first[each.index]] if each.index in first else ()
            members = tuple(position for index in merged for position in problem.classes[index].members)
            sources = tuple(source for index in merged for source in problem.classes[index].sources)
            classes.append(replace(each, members=members, sources=sources))
        return replace(problem, classes=classes, rules=PodRules(reserved=problem.rules.reserved))


def _look(each: PodClass) -> tuple[object, ...]:
    """Return what tells a class from others: gang, priority and name are nothing to a node."""
    return (each.requests, each.parts, np.packbits(each.verdicts.allowed).tobytes(), each.volumes, each.within)


def _is_countable(case: RepairCase) -> bool:
    problem = case.problem
    if problem.available.wide_state or problem.shared:
        return False
    families = [each.family for each in problem.classes]
    if len(set(families)) < len(families) or any(
        problem.is_coupled(each, by_gangs=False) for each in problem.classes if each.size
    ):
        return False
    return all(
        len(claim.victims) == 1 and all(node >= 0 for node, *_ in (*claim.budgets, *claim.shares))
        for claim in case.usage.claims
    )


@dataclass(slots=True, eq=False)
class NodeKind:
    """
    Equal nodes, and the model of one of them.

    `pods` are its variables by pod type, `stays` those of its movable pods by stay type. `movable` has the movable pods
    of each node by stay type, by number. `domains` are those of its nodes at each level.
    """

    nodes: list[int]
    variables: Variables
    pods: dict[int, int]
    stays: dict[int, list[int]]
    movable: dict[int, dict[int, list[int]]]
    domains: tuple[int, ...]
    pricing_model: ReusableModel = field(init=False)

    def __post_init__(self) -> None:
        self.pricing_model = ReusableModel(self.variables.form)

    @property
    def most_moves(self) -> int:
        """How many pods of one node may move."""
        return sum(len(each) for each in self.stays.values())


@dataclass(frozen=True, slots=True, eq=False)
class KindsOfNodes:
    """All kinds of nodes that could take a pod, and the stay types by number."""

    kinds: tuple[NodeKind, ...]
    stay_types: tuple[StayType, ...]


def kinds_of_nodes(types: PodTypes) -> KindsOfNodes:
    """Sort the nodes; those that could take no pod are left out, and nothing moves away from them."""
    case, problem = types.case, types.counted
    wanted = [each for each in problem.classes if each.size]
    numbers: dict[StayType, int] = {}
    number_of = [numbers.setdefault(each, len(numbers)) for each in types.stay_type_of]
    on_node: defaultdict[int, list[int]] = defaultdict(list)
    for number, pod in enumerate(case.movable):
        node = problem.inventory.node_index.get(pod.node_name)
        if node is not None:
            on_node[node].append(number)
    resources = [PODS, *sorted({name for each in wanted for name, _ in each.requests} - {PODS})]
    room = np.stack([problem.available.room.of(resource) for resource in resources])
    masks = np.array([each.verdicts.allowed for each in wanted], dtype=np.bool_).reshape(len(wanted), -1)
    scales: defaultdict[int, list[tuple[int, int, int]]] = defaultdict(list)
    for (node, budget), (unit, rest) in case.usage.units.items():
        scales[node].append((budget, unit, rest))
    found: defaultdict[tuple[object, ...], list[int]] = defaultdict(list)
    for node in np.flatnonzero(masks.any(axis=0) & (room[0] > 0)).tolist():
        stays = tuple(sorted(number_of[number] for number in on_node[node]))
        domains = tuple(int(each[node]) for each in types.levels)
        look = (problem.device_key(node), masks[:, node].tobytes(), room[:, node].tobytes(), stays, domains)
        found[(*look, tuple(sorted(scales[node])))].append(node)
    usage_on = _UsageByNode.of(case)
    kinds = (_kind(types, nodes, on_node, number_of, usage_on) for nodes in found.values())
    return KindsOfNodes(tuple(kind for kind in kinds if kind.pods), tuple(numbers))


@dataclass(frozen=True, slots=True, eq=False)
class _UsageByNode:
    """What movable pods take, so that the part of a node is found at once."""

    usage: PotentialVictims
    pods: Mapping[int, list[int]]
    claims: Mapping[int, list[int]]

    @classmethod
    def of(cls, case: RepairCase) -> "_UsageByNode":
        pods: defaultdict[int, list[int]] = defaultdict(list)
        claims: defaultdict[int, list[int]] = defaultdict(list)
        for index, pod in enumerate(case.usage.pods):
            pods[pod.victim].append(index)
        for index, claim in enumerate(case.usage.claims):
            claims[claim.victims[0]].append(index)
        return cls(case.usage, pods, claims)

    def on(self, node: int, units: Sequence[int]) -> PotentialVictims:
        """Return what some movable pods of a node take, numbered from 0."""
        found = PotentialVictims(count=len(units))
        for number, unit in enumerate(units):
            found.pods += [self.usage.pods[index]._replace(victim=number) for index in self.pods.get(unit, ())]
            found.claims += [
                self.usage.claims[index]._replace(victims=(number,)) for index in self.claims.get(unit, ())
            ]
        found.units = {key: scale for key, scale in self.usage.units.items() if key[0] == node}
        return found


def _kind(
    types: PodTypes,
    nodes: list[int],
    on_node: Mapping[int, list[int]],
    number_of: Sequence[int],
    usage: _UsageByNode,
) -> NodeKind:
    problem, first = types.counted, nodes[0]
    units = on_node[first]
    variables = build.build(problem, cells.single(problem, [first]), usage.on(first, units))
    stays: defaultdict[int, list[int]] = defaultdict(list)
    for variable, unit in enumerate(units):
        stays[number_of[unit]].append(variable)
        if types.stay_type_of[unit].pod_type == STUCK:
            variables.form.require(Expression({variable: 1}), "stays", low=1)
    pods = {types.type_of_class[pod_class]: variable for (pod_class, _), variable in variables.pods.items()}
    movable: dict[int, dict[int, list[int]]] = {}
    for node in nodes:
        movable[node] = {}
        for unit in on_node[node]:
            movable[node].setdefault(number_of[unit], []).append(unit)
    domains = tuple(int(each[first]) for each in types.levels)
    return NodeKind(nodes, variables, pods, dict(stays), movable, domains)

"""From counts to names: which nodes of a kind use which column, which of their equal pods leave, and who comes."""

from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from solver.domain import PodId
from solver.engines import cpsat
from solver.engines.cpsat import Effort, EngineStatus
from solver.model.form import Expression, IntegerForm
from solver.repair.column_use import NodeColumn, Use
from solver.repair.move_rules import MoveCost
from solver.repair.node_kinds import NO_LEVEL, NodeKind, PodTypes
from solver.repair.repair_case import MovesFound, RepairCase

_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True, eq=False)
class _Offer:
    """A column on one node: the pods that would leave, the cheapest of their kind, and what that costs."""

    node: int
    column: NodeColumn
    leaving: tuple[int, ...]
    costs: tuple[MoveCost, ...]


def chosen(types: PodTypes, kinds: Sequence[NodeKind], use: Use, least: int) -> MovesFound:
    """Name the pods that leave, with the least harm for the columns used, and the pods that come to each node."""
    case = types.case
    costs = [case.rules.cost(pod) for pod in case.movable]
    offers = _settled(case, [offer for kind in _offers(kinds, use, costs) for offer in kind], use)
    moved = tuple(sorted(unit for offer in offers for unit in offer.leaving))
    is_proven = least >= len(moved)
    return MovesFound(
        moved,
        least,
        is_proven=is_proven,
        is_least_harm=is_proven and len(set(costs)) <= 1,
        places=_places(types, kinds, use, offers, frozenset(moved)),
    )


def _offers(kinds: Sequence[NodeKind], use: Use, costs: Sequence[MoveCost]) -> Iterator[list[_Offer]]:
    """Offer each column to each node of its kind."""
    for column in use.columns:
        offers = []
        for node in kinds[column.kind].nodes:
            leaving: list[int] = []
            for stay, count in column.moved:
                units = sorted(kinds[column.kind].movable[node][stay], key=lambda unit: (costs[unit], unit))
                leaving += units[:count]
            offers.append(_Offer(node, column, tuple(leaving), tuple(costs[unit] for unit in leaving)))
        yield offers


def _settled(case: RepairCase, offers: Sequence[_Offer], use: Use) -> list[_Offer]:
    """Choose an offer for as many nodes as each column is used on, level by level of harm."""
    form = IntegerForm()
    variables = [form.variable(0, 1) for _ in offers]
    by_column: defaultdict[NodeColumn, Expression] = defaultdict(Expression)
    by_node: defaultdict[int, Expression] = defaultdict(Expression)
    for offer, variable in zip(offers, variables, strict=True):
        by_column[offer.column].add(variable)
        by_node[offer.node].add(variable)
    for column, total in by_column.items():
        form.require(total, "column", low=use.columns[column], high=use.columns[column])
    for total in by_node.values():
        form.require(total, "node once", high=1)
    values: list[int] | None = None
    for level in (None, *_levels(offers, variables)):
        effort = Effort.within(case.budget, _SECONDS, presolve=True)
        result = cpsat.maximize(form, level, effort, hint=values)
        if result.values is None:
            break
        values = result.values
        if level is not None:
            form.require(level, "least harm", low=level.value(values))
        if result.status is not EngineStatus.OPTIMAL:
            break
    return [offer for offer, variable in zip(offers, variables, strict=True) if values and values[variable]]


def _levels(offers: Sequence[_Offer], variables: Sequence[int]) -> Iterator[Expression]:
    """Harm as levels to maximise: pods of each priority from the highest, lost work, earlier moves."""
    priorities = sorted({cost.priority for offer in offers for cost in offer.costs}, reverse=True)
    levels = [
        [sum(cost.priority == priority for cost in offer.costs) for offer in offers] for priority in priorities[:-1]
    ]
    levels.append([sum(cost.lost_seconds for cost in offer.costs) for offer in offers])
    levels.append([sum(cost.moved_before for cost in offer.costs) for offer in offers])
    for amounts in levels:
        level = Expression({variable: -amount for variable, amount in zip(variables, amounts, strict=True) if amount})
        if level.terms:
            yield level


def _places(
    types: PodTypes, kinds: Sequence[NodeKind], use: Use, offers: Sequence[_Offer], moved: frozenset[int]
) -> dict[int, tuple[PodId, ...]]:
    """Deal the pods that need a place to the nodes that have it for their types; gangs to their domains first."""
    queues = _queues(types, use, moved)
    places: defaultdict[int, list[PodId]] = defaultdict(list)
    for offer in sorted(offers, key=lambda offer: offer.node):
        kind = kinds[offer.column.kind]
        for pod_type, count in offer.column.pods:
            level = types.level_of[pod_type]
            queue = queues.get((pod_type, -1 if level == NO_LEVEL else kind.domains[level]), deque())
            for _ in range(min(count, len(queue))):
                places[offer.node].append(queue.popleft())
    return {node: tuple(pods) for node, pods in places.items()}


def _queues(types: PodTypes, use: Use, moved: frozenset[int]) -> Mapping[tuple[int, int], deque[PodId]]:
    """Line up the pods that need a place, by pod type and domain (-1: any)."""
    case, problem = types.case, types.case.problem
    queues: defaultdict[tuple[int, int], deque[PodId]] = defaultdict(deque)
    for pod_type, classes in enumerate(types.classes):
        if types.level_of[pod_type] != NO_LEVEL:
            continue
        for position in (position for index in classes for position in problem.classes[index].members):
            pod = problem.pod(position).id
            if case.unit_of_successor.get(pod, -1) in moved or pod not in case.unit_of_successor:
                queues[pod_type, -1].append(pod)
    for shape, rules in types.shapes.items():
        domains = [domain for (each, domain), count in sorted(use.gangs.items()) if each == shape for _ in range(count)]
        for rule, domain in zip(rules, domains, strict=True):
            for index in rule.classes:
                members = (problem.pod(position).id for position in problem.classes[index].members)
                queues[types.type_of_class[index], domain].extend(members)
    return queues

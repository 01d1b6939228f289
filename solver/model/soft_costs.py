"""
What places cost beyond devices: of a class in a cell, of topology spread, of preferred pod affinity.

Over cells of several nodes this is a relaxation: the cheapest node of a cell stands for all of it, and domains that
share a cell are pooled.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import numpy as np

from solver.model.cells import Cell
from solver.model.form import Expression
from solver.model.variables import Variables
from solver.problem.costs.cost_model import AffinityCost, CostModel, SpreadCost
from solver.rules.forms.domains import NO_DOMAIN, Domains

Counted = Sequence[tuple[Cell, int]]
"""Variables that count pods, with the cell of each."""
OfClass = Mapping[int, Counted]


def cost(variables: Variables, cost_model: CostModel) -> Expression:
    """Return the costs as an expression to maximise; spread and affinity costs get variables."""
    total, of_class = Expression(), variables.by_class()
    for pod_class, costs in cost_model.of_class.items():
        for cell, variable in of_class.get(pod_class, ()):
            least = int(costs[cell.nodes[0]] if len(cell.nodes) == 1 else costs[cell.indices].min())
            if least:
                total.add(variable, -least)
    for spread_cost in cost_model.spread_costs:
        _add_spread_cost(variables, spread_cost, of_class, total)
    for affinity_cost in cost_model.affinity_costs:
        _add_affinity_cost(variables, affinity_cost, total)
    return total


def _add_spread_cost(variables: Variables, spread_cost: SpreadCost, of_class: OfClass, total: Expression) -> None:
    """Count the pods of each domain by places, the cheapest first; equal places are one variable."""
    counted = [pair for each in sorted(spread_cost.classes) for pair in of_class.get(each, ())]
    classes = (variables.problem.classes[each] for each in sorted(spread_cost.classes))
    size = sum({each.family: each.size for each in classes}.values())
    for domains, members in _pooled(variables, spread_cost.domain_of, counted):
        most = min(sum(variables.form.upper[each] for each in members), size)
        filled = Expression()
        places: list[tuple[int, int]] = []
        for price, count in sorted(spread_cost.cheapest(np.array(domains, dtype=np.int64), most).items()):
            variable = variables.form.variable(0, min(count, most))
            places.append((variable, min(count, most)))
            filled.add(variable)
            if price:
                total.add(variable, -price)
        for member in members:
            filled.add(member, -1)
        variables.form.require(filled, spread_cost.rule, low=0)
        variables.hint_completions.append(partial(_fill, places=places, members=members))


def _fill(values: list[int], places: list[tuple[int, int]], members: list[int]) -> None:
    left = sum(values[each] for each in members)
    for variable, most in places:
        values[variable] = min(left, most)
        left -= values[variable]


def _pooled(variables: Variables, domain_of: Domains, counted: Counted) -> Iterator[tuple[list[int], list[int]]]:
    """Domains that are connected by cells, with the variables in them; a cell with a node in no domain is left out."""
    reaches = variables.reaches(domain_of)
    pool_of = reaches.pools(cell for cell, _ in counted)
    pools: defaultdict[int, list[int]] = defaultdict(list)
    for domain, pool in pool_of.items():
        pools[pool].append(domain)
    members: defaultdict[int, list[int]] = defaultdict(list)
    for cell, variable in counted:
        domains = reaches.of(cell)
        if NO_DOMAIN not in domains:
            members[pool_of[next(iter(domains))]].append(variable)
    for pool, inside in members.items():
        yield sorted(pools[pool]), inside


def _add_affinity_cost(variables: Variables, affinity_cost: AffinityCost, total: Expression) -> None:
    """A pod counts as accompanied where a mate is; `has_mates` says so for each domain, and each kind of pod there."""
    mates = _by_domain(variables, affinity_cost, affinity_cost.mates)
    own: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
    for (pod_class, cell), variable in variables.pods.items():
        if pod_class not in affinity_cost.classes:
            continue
        if len(variables.cell(cell).nodes) > 1:  # relaxed: as if there were mates
            continue
        domain = int(affinity_cost.domain_of[variables.cell(cell).nodes[0]])
        own[domain, affinity_cost.needed(pod_class)].append(variable)
    for (domain, needed), members in own.items():
        for member in members:
            total.add(member, -affinity_cost.cost)
        if domain != NO_DOMAIN and domain in mates:
            _reward(variables, (affinity_cost, needed), members, mates[domain], total)


def _by_domain(variables: Variables, affinity_cost: AffinityCost, classes: frozenset[int]) -> dict[int, list[int]]:
    """Variables of mates by domain; those of a cell of several nodes may be in each of its domains."""
    found: defaultdict[int, list[int]] = defaultdict(list)
    for (pod_class, cell), variable in variables.pods.items():
        if pod_class in classes:
            for domain in np.unique(affinity_cost.domain_of[variables.cell(cell).indices]).tolist():
                found[domain].append(variable)
    return found


def _reward(
    variables: Variables, wanted: tuple[AffinityCost, int], members: list[int], mates: list[int], total: Expression
) -> None:
    affinity_cost, needed = wanted
    form = variables.form
    most = sum(form.upper[each] for each in members)
    has_mates, accompanied = form.variable(0, 1), form.variable(0, most)
    enough = Expression(dict.fromkeys(mates, -1))
    enough.add(has_mates, needed)
    form.require(enough, affinity_cost.rule, high=0)
    there = Expression(dict.fromkeys(members, -1))
    there.add(accompanied)
    form.require(there, affinity_cost.rule, high=0)
    form.require(Expression({accompanied: 1, has_mates: -most}), affinity_cost.rule, high=0)
    total.add(accompanied, affinity_cost.cost)

    def complete(values: list[int]) -> None:
        values[has_mates] = int(sum(values[each] for each in mates) >= needed)
        values[accompanied] = sum(values[each] for each in members) if values[has_mates] else 0

    variables.hint_completions.append(complete)

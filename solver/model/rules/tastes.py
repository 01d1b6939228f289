"""
What places cost beyond devices: of a class in a cell, of pods that crowd a domain, of pods that stand alone.

Over cells of several nodes this is a relaxation: the cheapest node of a cell stands for all of it, and domains that
share a cell are pooled.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import partial

import numpy as np

from solver.model.form import Expression
from solver.model.variables import Variables
from solver.problem.limits import NO_DOMAIN, Domains
from solver.problem.tastes.taste import Company, Crowd, Taste

Counted = dict[int, int]
"""Variables that count pods, with the cell of each."""


def cost(variables: Variables, taste: Taste) -> Expression:
    """Give what a taste costs, as an expression to maximise; crowds and pods that stand alone get variables."""
    total = Expression()
    for (pod_class, cell), variable in variables.pods.items():
        costs = taste.of_class.get(pod_class)
        if costs is not None:
            least = int(costs[list(variables.cell(cell).nodes)].min())
            if least:
                total.add(variable, -least)
    for crowd in taste.crowds:
        _add_crowd(variables, crowd, total)
    for company in taste.companies:
        _add_company(variables, company, total)
    return total


def _counted(variables: Variables, classes: frozenset[int]) -> Counted:
    return {variable: cell for (each, cell), variable in variables.pods.items() if each in classes}


def _add_crowd(variables: Variables, crowd: Crowd, total: Expression) -> None:
    """Count the pods of each domain by places, the cheapest first; equal places are one variable."""
    counted = _counted(variables, crowd.classes)
    for domains, members in _pooled(variables, crowd.domain_of, counted):
        most = min(
            sum(variables.form.upper[each] for each in members),
            sum(
                each.size
                for each in variables.problem.classes
                if each.index in crowd.classes and each.family == each.index
            )
            or 1 << 20,
        )
        filled, sorted_places = Expression(), sorted(_prices(crowd, domains, most).items())
        places: list[tuple[int, int]] = []
        for price, count in sorted_places:
            variable = variables.form.variable(0, min(count, most))
            places.append((variable, min(count, most)))
            filled.add(variable)
            if price:
                total.add(variable, -price)
        for member in members:
            filled.add(member, -1)
        variables.form.require(filled, crowd.rule, low=0)
        variables.completions.append(partial(_fill, places=places, members=members))


def _fill(values: list[int], places: list[tuple[int, int]], members: list[int]) -> None:
    left = sum(values[each] for each in members)
    for variable, most in places:
        values[variable] = min(left, most)
        left -= values[variable]


def _prices(crowd: Crowd, domains: list[int], most: int) -> Counter[int]:
    """How many places there are for each price in some domains, up to so many in each."""
    found: Counter[int] = Counter()
    for domain in domains:
        base, step = int(crowd.base[domain]), int(crowd.step[domain])
        if step:
            found.update(range(base, base + step * most, step))
        else:
            found[base] += most
    return found


def _pooled(variables: Variables, domain_of: Domains, counted: Counted) -> Iterator[tuple[list[int], list[int]]]:
    """Domains that are connected by cells, with the variables in them; a cell with a node in no domain is left out."""
    domains_of = {
        cell: sorted({int(domain_of[node]) for node in variables.cell(cell).nodes})
        for cell in dict.fromkeys(counted.values())
    }
    pool_of = _connected([each for each in domains_of.values() if NO_DOMAIN not in each])
    pools: defaultdict[int, list[int]] = defaultdict(list)
    for domain, pool in pool_of.items():
        pools[pool].append(domain)
    members: defaultdict[int, list[int]] = defaultdict(list)
    for variable, cell in counted.items():
        if NO_DOMAIN not in domains_of[cell]:
            members[pool_of[domains_of[cell][0]]].append(variable)
    for pool, inside in members.items():
        yield sorted(pools[pool]), inside


def _connected(sets: list[list[int]]) -> dict[int, int]:
    """Give every domain one that stands for all that it is connected with."""
    root: dict[int, int] = {}

    def find(domain: int) -> int:
        while root.setdefault(domain, domain) != domain:
            domain = root[domain]
        return domain

    for domains in sets:
        for domain in domains:
            root[find(domain)] = find(domains[0])
    return {domain: find(domain) for domain in list(root)}


def _add_company(variables: Variables, company: Company, total: Expression) -> None:
    """A pod counts as accompanied where a mate is; `has_mates` says so for each domain, and each kind of pod there."""
    mates = _by_domain(variables, company, company.mates)
    own: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
    for (pod_class, cell), variable in variables.pods.items():
        if pod_class not in company.classes:
            continue
        if len(variables.cell(cell).nodes) > 1:  # relaxed: as if there were mates
            continue
        domain = int(company.domain_of[variables.cell(cell).nodes[0]])
        own[domain, company.needed(pod_class)].append(variable)
    for (domain, needed), members in own.items():
        for member in members:
            total.add(member, -company.cost)
        if domain != NO_DOMAIN and domain in mates:
            _reward(variables, (company, needed), members, mates[domain], total)


def _by_domain(variables: Variables, company: Company, classes: frozenset[int]) -> dict[int, list[int]]:
    """Variables of mates by domain; those of a cell of several nodes may be in each of its domains."""
    found: defaultdict[int, list[int]] = defaultdict(list)
    for (pod_class, cell), variable in variables.pods.items():
        if pod_class in classes:
            for domain in np.unique(company.domain_of[list(variables.cell(cell).nodes)]).tolist():
                found[domain].append(variable)
    return found


def _reward(
    variables: Variables, wanted: tuple[Company, int], members: list[int], mates: list[int], total: Expression
) -> None:
    company, needed = wanted
    form = variables.form
    most = sum(form.upper[each] for each in members)
    has_mates, accompanied = form.variable(0, 1), form.variable(0, most)
    enough = Expression(dict.fromkeys(mates, -1))
    enough.add(has_mates, needed)
    form.require(enough, company.rule, high=0)
    there = Expression(dict.fromkeys(members, -1))
    there.add(accompanied)
    form.require(there, company.rule, high=0)
    form.require(Expression({accompanied: 1, has_mates: -most}), company.rule, high=0)
    total.add(accompanied, company.cost)

    def complete(values: list[int]) -> None:
        values[has_mates] = int(sum(values[each] for each in mates) >= needed)
        values[accompanied] = sum(values[each] for each in members) if values[has_mates] else 0

    variables.completions.append(complete)

"""Gangs: none of their pods or enough of them, all in one domain where a level demands it, few where it prefers it."""

from collections import defaultdict

from solver.model.form import Expression
from solver.model.variables import Variables
from solver.rules.forms.domains import NO_DOMAIN, Domains
from solver.rules.forms.gang_rules import GangRule, TopologyLevel

Placed = dict[int, list[tuple[int, int]]]
"""The variables that count the pods of each class of a gang, each with its cell."""


def add_gang_rules(variables: Variables) -> None:
    """Write the rows of every gang."""
    if not variables.problem.rules.gangs:
        return
    rule_of = {index: number for number, rule in enumerate(variables.problem.rules.gangs) for index in rule.classes}
    placed: defaultdict[int, Placed] = defaultdict(lambda: defaultdict(list))
    for (pod_class, cell), variable in variables.pods.items():
        if pod_class in rule_of:
            placed[rule_of[pod_class]][pod_class].append((variable, cell))
    for number, per_class in placed.items():
        rule = variables.problem.rules.gangs[number]
        if rule.need:
            _whole(variables, rule, per_class)
        for level in rule.required:
            _in_one_domain(variables, rule, level, per_class)


def domains_used(variables: Variables) -> Expression:
    """Count, negative, the domains of preferred levels that gangs are placed in, without those of running members."""
    cost = Expression()
    for rule in variables.problem.rules.gangs:
        for level in rule.preferred:
            for used in _used(variables, rule, level):
                cost.add(used, -1)
    return cost


def _whole(variables: Variables, rule: GangRule, placed: Placed) -> None:
    """At least `need` pods, or none."""
    is_placed = variables.form.variable(0, 1)
    families: defaultdict[int, Expression] = defaultdict(Expression)
    total = Expression()
    for pod_class, counts in placed.items():
        family = variables.problem.classes[pod_class].family
        for variable, _ in counts:
            total.add(variable)
            families[family].add(variable)
    for family, expression in families.items():
        expression.add(is_placed, -variables.problem.classes[family].size)
        variables.form.require(expression, "gang whole", high=0)
    counted = tuple(total.terms)
    total.add(is_placed, -rule.need)
    variables.form.require(total, "gang whole", low=0)
    variables.indicate(is_placed, counted)


def _in_one_domain(variables: Variables, rule: GangRule, level: TopologyLevel, placed: Placed) -> None:
    """
    All pods that a required level binds are in one domain.

    Where some cell spans several domains there are no rows: the relaxation then ignores the level.
    """
    totals = _totals(variables, level, placed)
    if totals is None:
        return
    one = Expression()
    binds_all = all(index in level.domain_of for index in rule.classes)
    for total in totals.values():
        used = variables.form.variable(0, 1)
        one.add(used)
        most = Expression(dict(total.terms))
        most.add(used, -rule.size)
        variables.form.require(most, "gang in one domain", high=0)
        if rule.need and binds_all:
            least = Expression(dict(total.terms))
            least.add(used, -rule.need)
            variables.form.require(least, "gang in one domain", low=0)
        variables.indicate(used, total.terms)
    variables.form.require(one, "gang in one domain", high=1)


def _used(variables: Variables, rule: GangRule, level: TopologyLevel) -> list[int]:
    """Return a variable per domain that is 1 if pods of the gang are there; each node without a domain is one."""
    placed: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
    for (pod_class, cell), variable in variables.pods.items():
        if pod_class in level.domain_of:
            placed[pod_class].append((variable, cell))
    found = []
    for domain, total in (_totals(variables, level, placed, is_relaxed=True) or {}).items():
        if domain in level.held:
            continue
        used = variables.form.variable(0, 1)
        variables.indicate(used, total.terms)
        total.add(used, -rule.size)
        variables.form.require(total, "gang domain used", high=0)
        found.append(used)
    return found


def _totals(
    variables: Variables, level: TopologyLevel, placed: Placed, *, is_relaxed: bool = False
) -> dict[int, Expression] | None:
    """
    Sum up the pods per domain of a level; None where a cell spans several domains.

    If `is_relaxed`, such cells are left out, and a node without a domain is one of its own (-2 - node).
    """
    totals: defaultdict[int, Expression] = defaultdict(Expression)
    bound = ((level.domain_of[each], counts) for each, counts in placed.items() if each in level.domain_of)
    for domains, variable, cell in ((domains, *count) for domains, counts in bound for count in counts):
        domain = _domain(domains, variables.cell(cell).nodes)
        if domain is not None:
            totals[domain].add(variable)
        elif not is_relaxed:
            return None
    return totals


def _domain(domains: Domains, nodes: tuple[int, ...]) -> int | None:
    """Return the domain of all nodes of a cell, None where they are in several."""
    here = {int(domains[node]) for node in nodes}
    if len(here) > 1 or (here == {NO_DOMAIN} and len(nodes) > 1):
        return None
    domain = here.pop()
    return domain if domain != NO_DOMAIN else -2 - nodes[0]

"""Limits per domain: host ports, volumes, attachments, and whatever else comes as so much per node or zone."""

from collections import defaultdict

import numpy as np

from solver.model.form import Expression
from solver.model.variables import Variables
from solver.problem.limits import NO_DOMAIN, Limit


def keep_limits(variables: Variables) -> None:
    """
    Take no more in a domain than is left there.

    Cells of several nodes know no domains: what is taken in such a cell, and in all of them, stays within what the
    domains of their nodes have left together.
    """
    for limit in variables.problem.limits:
        _keep(variables, limit)


def _keep(variables: Variables, limit: Limit) -> None:
    used: defaultdict[frozenset[int], Expression] = defaultdict(Expression)
    together, reached = Expression(), set[int]()
    domains_of: dict[int, frozenset[int]] = {}
    for (pod_class, cell), variable in variables.pods.items():
        if pod_class not in limit.takes:
            continue
        if cell not in domains_of:
            nodes = list(variables.cell(cell).nodes)
            domains_of[cell] = frozenset(np.unique(limit.domain_of[nodes]).tolist())
        domains = domains_of[cell]
        if NO_DOMAIN in domains:
            continue
        used[domains].add(variable, limit.takes[pod_class])
        if len(domains) > 1:
            together.add(variable, limit.takes[pod_class])
            reached |= domains
    if reached and frozenset(reached) not in used:
        used[frozenset(reached)] = together
    for domains, total in used.items():
        variables.form.require(total, limit.rule, high=sum(max(0, limit.left[each]) for each in domains))

"""Limits per domain: host ports, volumes, attachments, and whatever else comes as so much per node or zone."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np

from solver.model.cells import Cell
from solver.model.form import Expression
from solver.model.variables import Variables
from solver.problem.limits import NO_DOMAIN, Limit


def keep_limits(variables: Variables) -> None:
    """
    Take no more in a domain than is left there.

    Cells of several nodes know no domains: what is taken in such a cell, and in all of them, stays within what the
    domains of their nodes have left together.
    """
    if not variables.problem.limits:
        return
    of_class = variables.by_class()
    for limit in variables.problem.limits:
        _keep(variables, limit, of_class)


def _keep(variables: Variables, limit: Limit, of_class: Mapping[int, Sequence[tuple[Cell, int]]]) -> None:
    used: defaultdict[frozenset[int], Expression] = defaultdict(Expression)
    together, reaches = Expression(), variables.reaches(limit.domain_of)
    for pod_class, takes in limit.takes.items():
        variables.form.step(len(of_class.get(pod_class, ())))
        for cell, variable in of_class.get(pod_class, ()):
            domains = reaches.of(cell)
            if NO_DOMAIN in domains:
                continue
            used[domains].add(variable, takes)
            if len(domains) > 1:
                together.add(variable, takes)
    reached = frozenset().union(*(domains for domains in used if len(domains) > 1))
    if reached and reached not in used:
        used[reached] = together
    left = np.maximum(np.array(limit.left, dtype=np.int64), 0)
    for domains, total in used.items():
        high = int(left[list(domains)].sum())
        if sum(amount * variables.form.upper[variable] for variable, amount in total.terms.items()) > high:
            variables.form.require(total, limit.rule, high=high)

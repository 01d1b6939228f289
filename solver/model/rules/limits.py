"""Limits per domain: host ports, volumes, attachments, and whatever else comes as so much per node or zone."""

from collections import defaultdict

from solver.model.form import Expression
from solver.model.variables import Variables
from solver.problem.limits import NO_DOMAIN


def keep_limits(variables: Variables) -> None:
    """Take no more in a domain than is left there; cells of several nodes are left out (they relax anyway)."""
    used: defaultdict[tuple[int, int], Expression] = defaultdict(Expression)
    limits = variables.problem.limits
    if not limits:
        return
    by_class: defaultdict[int, list[int]] = defaultdict(list)
    for position, limit in enumerate(limits):
        for pod_class in limit.takes:
            by_class[pod_class].append(position)
    for (pod_class, cell), variable in variables.pods.items():
        nodes = variables.cell(cell).nodes
        for position in by_class.get(pod_class, ()):
            limit = limits[position]
            domains = {int(limit.domain_of[node]) for node in nodes}
            if len(domains) == 1 and domains != {NO_DOMAIN}:
                used[position, domains.pop()].add(variable, limit.takes[pod_class])
    for (position, domain), total in used.items():
        variables.form.require(total, limits[position].rule, high=max(0, limits[position].left[domain]))

"""
Rows about pods: how many of a class go to each cell, and what they need there.

They take cpu, memory and the like of their nodes. Each of their components is served in exactly one way. Claims that
they share are allocated in one place. Limits bound what pods take per domain: host ports, volumes, attachments.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from solver.model import victims
from solver.model.cells import Cell
from solver.model.form import Expression
from solver.model.variables import PartAt, Variables
from solver.problem.node_arrays import PODS, exact_sum
from solver.problem.requests.component import Option
from solver.rules.forms.domains import NO_DOMAIN
from solver.rules.forms.limits import Limit


def serve_every_copy(variables: Variables) -> None:
    """Copies over all options are as many as the owner needs; with one option there is nothing to choose."""
    for at, options in variables.options.items():
        count = variables.count(at.owner, at.cell)
        needed = variables.parts(at.owner)[at.part].copies
        if len(options) == 1:
            variables.copies[at] = {options[0][0]: Expression({count: needed})}
            continue
        total = Expression({count: -needed})
        variables.copies[at] = {}
        for option, _ in options:
            variable = variables.form.variable(0, needed * variables.form.upper[count])
            variables.copies[at][option] = Expression({variable: 1})
            total.add(variable)
        variables.form.require(total, "one option per component", low=0, high=0)


def add_limits(variables: Variables) -> None:
    """
    Take no more in a domain than is left there.

    Cells of several nodes know no domains: what is taken in such a cell, and in all of them, stays within what the
    domains of their nodes have left together.
    """
    if not variables.problem.rules.limits:
        return
    of_class = variables.by_class()
    for limit in variables.problem.rules.limits:
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
        if variables.form.most(total) > high:
            variables.form.require(total, limit.rule, high=high)


def place_each_once(variables: Variables) -> None:
    """No family of classes places more pods than it has."""
    totals: defaultdict[int, Expression] = defaultdict(Expression)
    classes = variables.problem.classes
    for (pod_class, _), variable in variables.pods.items():
        totals[classes[pod_class].family].add(variable)
    for family, total in totals.items():
        variables.form.require(total, "each pod once", high=classes[family].size)


def fit_nodes(variables: Variables) -> None:
    """Pods take no more of a node's resources than it has left; rows that cannot bind are left out."""
    room = variables.problem.available.room
    used: defaultdict[tuple[int, str], Expression] = defaultdict(Expression)
    for (pod_class, cell), variable in variables.pods.items():
        used[cell, PODS].add(variable)
        for resource, amount in variables.problem.classes[pod_class].requests:
            if amount > 0:
                used[cell, resource].add(variable, amount)
    excess = victims.add_kept_room(variables, used)
    for (cell, resource), total in used.items():
        free = exact_sum(np.maximum(room.of(resource)[variables.cell(cell).indices], 0))
        free += excess.get((cell, resource), 0)
        if variables.form.most(total) > free:
            variables.form.require(total, "node resources", high=free)


def allocate_shared_once(variables: Variables) -> None:
    """A shared claim is allocated in one place, and only for a placed pod; its pods go where it can be used."""
    places: defaultdict[int, Expression] = defaultdict(Expression)
    users: defaultdict[tuple[int, int], Expression] = defaultdict(Expression)
    for (shared, _), variable in variables.allocated.items():
        places[shared].add(variable)
    for (pod_class, cell), variable in variables.pods.items():
        each = variables.problem.classes[pod_class]
        for shared in each.shared:
            limit = Expression({variable: 1})
            for at in cells_serving(variables, shared, cell):
                limit.add(variables.allocated[shared, at], -min(each.size, variables.form.upper[variable]))
                users[shared, at].add(variable)
            variables.form.require(limit, "shared claim", high=0)
    for total in places.values():
        variables.form.require(total, "shared claim once", high=1)
    for key, variable in variables.allocated.items():
        wanted = Expression({variable: 1})
        for user in users[key].terms:
            wanted.add(user, -1)
        variables.form.require(wanted, "shared claim wanted", high=0)


def allocate_all_of_a_user(variables: Variables) -> None:
    """
    A shared claim for all devices has those that are all of them on the node of one of its pods.

    Once it is allocated, pods go where its devices reach, also where there would be more of them.
    """
    users: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
    for (pod_class, cell), variable in variables.pods.items():
        for shared in variables.problem.classes[pod_class].shared:
            users[shared].append((variables.cell(cell).group.index, variable))
    for at, index, option in _on_sites(variables):
        part = variables.parts(at.owner)[at.part]
        meaning = variables.meaning(part.component, option, variables.cell(at.cell))
        unseen = Expression(dict(variables.copies[at][index].terms))
        for group, variable in users[at.owner.number]:
            if group in meaning:
                unseen.add(variable, -part.copies)
        variables.form.require(unseen, "all devices", high=0)


def _on_sites(variables: Variables) -> Iterator[tuple[PartAt, int, Option]]:
    """Go through the options of shared claims on sites that take all devices."""
    for at, options in variables.options.items():
        if at.owner.is_shared and variables.cell(at.cell).is_site:
            yield from ((at, index, each) for index, each in options if any(line.takes_each for line in each.lines))


def cells_serving(variables: Variables, shared: int, cell: int) -> list[int]:
    """Cells in which a shared claim can be allocated so that pods of a cell can use it."""
    nodes = set(variables.cell(cell).nodes)
    serving = [cell] if (shared, cell) in variables.allocated else []
    serving += [
        site.index
        for site in variables.cells.sites
        if (shared, site.index) in variables.allocated and nodes & set(site.nodes)
    ]
    return serving

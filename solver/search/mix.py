"""
The best mix of the patterns known, in whole numbers: what the master would say if it could not halve nodes.

Patterns that were priced in for the relaxation mostly hold a plan that is as good, or nearly (the restricted master
heuristic). A pattern may promise pods that another one places already: it is taken without them.
"""

from collections import Counter, defaultdict
from typing import Final

from solver.engines import cpsat
from solver.engines.cpsat import Effort
from solver.model.form import Expression, IntegerForm
from solver.search.patterns import Columns, Master, Pattern

_SECONDS: Final = 0.1
_OVERHEAD_SECONDS: Final = 0.002
_MOST_PATTERNS: Final = 4_000


def mixed(columns: Columns, master: Master, hint: Counter[Pattern], ceiling: int) -> Counter[Pattern]:
    """
    Choose how often each pattern is used, so that a level is worth most and earlier ones keep their values.

    `hint` is such a choice, `ceiling` a bound of the level. Empty where none was found, or where there is too much.
    """
    patterns = list(columns.patterns.values())
    if columns.is_spent() or len(patterns) > _MOST_PATTERNS:
        return Counter()
    form, levels, used = _form(columns, patterns, master.level)
    for expression, value in zip(levels[:-1], master.known, strict=False):
        form.require(expression, "earlier level", low=value)
    values = [hint[pattern] for pattern in patterns]
    served: Counter[int] = Counter()
    for pattern in patterns:
        for family, count in pattern.counts:
            served[family] += count * hint[pattern]
    values += [min(served[family], columns.pods[family]) for family in used]
    budget = columns.budget
    effort = Effort(
        seconds=budget.remaining_seconds(),
        deterministic_seconds=min(_SECONDS, budget.deterministic_seconds - columns.spent),
        seed=budget.seed,
        workers=budget.workers,
        presolve=True,
    )
    result = cpsat.maximize(form, levels[-1], effort, hint=values, cutoff=ceiling)
    columns.spent += result.deterministic_seconds + _OVERHEAD_SECONDS
    found = result.values or []
    return Counter({pattern: count for pattern, count in zip(patterns, found, strict=False) if count})


def _form(columns: Columns, patterns: list[Pattern], level: int) -> tuple[IntegerForm, list[Expression], list[int]]:
    """Count patterns, then pods by family, who are served by the patterns used; the levels up to one; the families."""
    form = IntegerForm()
    nodes: defaultdict[int, Expression] = defaultdict(Expression)
    served: defaultdict[int, Expression] = defaultdict(Expression)
    levels = [Expression() for _ in range(level + 1)]
    placed = columns.problem.placed_levels
    for pattern in patterns:
        variable = form.variable(0, columns.nodes[pattern.kind])
        nodes[pattern.kind].add(variable)
        for family, count in pattern.counts:
            served[family].add(variable, -count)
        for index in range(len(placed), level + 1):
            if pattern.worth[index]:
                levels[index].add(variable, pattern.worth[index])
    for kind, total in nodes.items():
        form.require(total, "nodes of a kind", high=columns.nodes[kind])
    for family, total in served.items():
        variable = form.variable(0, columns.pods[family])
        total.add(variable)
        form.require(total, "each pod once", high=0)
        for expression, (_, worth) in zip(levels, placed, strict=False):
            if worth.get(family):
                expression.add(variable, worth[family])
    return form, levels, list(served)

"""
The least harm, decided exactly: who has to go so that all pods of a problem are placed.

Levels, in order: pods evicted by priority, the highest first; parties (a gang counts one, so whole gangs go rather than
more of them); the seconds for which they have run. That no PodDisruptionBudget is broken, and no more go than may, are
rows: the eviction subresource would refuse it. For several units together how many pods are placed comes before it all.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from solver.domain import Budget, GangId, Snapshot
from solver.engines import cpsat
from solver.engines.cpsat import Effort
from solver.engines.status import EngineStatus
from solver.model import assignment, build, cells
from solver.model.assignment import UnknownChoiceError
from solver.model.form import Expression, IntegerForm, Level, OutOfTimeError
from solver.model.rules.keeping import Residents
from solver.model.variables import Variables
from solver.preemption.parties import Bond, Party, bonds
from solver.problem.problem import PodClass, Problem
from solver.search.bound import require_at_least
from solver.solution import Solution

_DETERMINISTIC_SECONDS: Final = 2.0
"""How hard each level is tried; a few hundred pods on sixty nodes take a hundredth of it."""


@dataclass(frozen=True, slots=True)
class Evicted:
    """
    Positions of the parties that go, and whether no others do less harm (among the nodes that were looked at).

    `pods` are the positions of the batch's pods that are placed then.
    """

    parties: tuple[int, ...]
    is_proven: bool
    pods: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """
    A problem without the parties, and what they hold; `nodes` are those where its pods may be placed.

    `most` is how many pods may go. `start` is a solution with all of them gone.
    """

    problem: Problem
    before: Snapshot
    parties: Sequence[Party]
    held: Residents
    nodes: Sequence[int]
    most: int
    start: Solution


def least(case: Case, budget: Budget) -> Evicted | None:
    """Find the parties to evict for all pods; None where no set of them helps, or none was found in the time."""
    variables = _model(case, budget)
    if variables is None or not _require_placed(variables):
        return None
    return _evicted(variables, case, [], budget)


def most_helped(case: Case, budget: Budget) -> Evicted | None:
    """
    Find the parties to evict so that as many pods as possible are placed, and for those the least harm.

    Of a gang all pods of the problem are placed or none. None where that was not proven.
    """
    variables = _model(case, budget)
    if variables is None:
        return None
    totals = _totals(variables)
    _keep_whole(variables, totals)
    placed = Expression({variable: 1 for total in totals.values() for variable in total.terms})
    found = _evicted(variables, case, [Level("placed", placed)], budget)
    return found if found is not None and found.is_proven else None


def _model(case: Case, budget: Budget) -> Variables | None:
    """Write the model; None where the time is up before it stands."""
    single = cells.single(case.problem, case.nodes)
    try:
        return build.build(case.problem, single, case.held, stop=budget.should_stop)
    except OutOfTimeError:
        return None


def _evicted(variables: Variables, case: Case, first: list[Level], budget: Budget) -> Evicted | None:
    """Decide level by level; where there are levels before those of harm, all are proven or nothing is found."""
    form, kept = variables.form, range(case.held.count)  # the first variables are those of the parties
    _protect(form, case)
    whole = {bond: _bind(variables, bond, numbers) for bond, numbers in bonds(case.parties).items()}
    form.levels = [*first, *_levels(case.parties, whole)]
    best, proven = _hint(variables, case), True
    found: list[int] | None = None
    for position, level in enumerate(form.levels):
        effort = Effort(
            seconds=budget.remaining_seconds(),
            deterministic_seconds=min(_DETERMINISTIC_SECONDS, budget.deterministic_seconds),
            seed=budget.seed,
            workers=budget.workers,
            presolve=True,
        )
        result = cpsat.maximize(form, level.expression, effort, hint=best)
        if result.values is not None:
            found = best = result.values
        proven = proven and result.status is EngineStatus.OPTIMAL
        if found is None or (first and not proven):
            return None
        require_at_least(form, position, level.expression.value(found))
    if found is None:
        return None
    return Evicted(tuple(number for number in kept if not found[number]), proven, _placed(variables, found))


def _placed(variables: Variables, values: list[int]) -> tuple[int, ...]:
    """Name the pods that are placed, the first ones of those that are alike."""
    totals = _totals(variables)
    families = variables.problem.families
    return tuple(
        sorted(each for family in families for each in family[0].members[: totals[family[0].index].value(values)])
    )


def _totals(variables: Variables) -> defaultdict[int, Expression]:
    """Count the pods that are placed of each family."""
    totals: defaultdict[int, Expression] = defaultdict(Expression)
    for (pod_class, _), variable in variables.pods.items():
        totals[variables.problem.classes[pod_class].family].add(variable)
    return totals


def _require_placed(variables: Variables) -> bool:
    """Demand that every pod is placed; whether that can be at all."""
    totals = _totals(variables)
    for family in variables.problem.families:
        if family[0].index not in totals:
            return False
        variables.form.require(totals[family[0].index], "placed", low=family[0].size)
    return True


def _keep_whole(variables: Variables, totals: Mapping[int, Expression]) -> None:
    """Place all pods of a gang or none; classes never mix gangs."""
    gangs: defaultdict[GangId, list[PodClass]] = defaultdict(list)
    for family in variables.problem.families:
        gang = variables.problem.pod(family[0].members[0]).gang
        if gang is not None:
            gangs[gang].append(family[0])
    for classes in gangs.values():
        whole = variables.form.variable(0, 1)
        for each in classes:
            total = totals.get(each.index, Expression())
            variables.form.require(Expression({**total.terms, whole: -each.size}), "gang whole", low=0, high=0)
        variables.completions.append(partial(_complete_whole, whole, totals.get(classes[0].index, Expression())))


def _complete_whole(whole: int, total: Expression, values: list[int]) -> None:
    values[whole] = int(total.value(values) > 0)


def _protect(form: IntegerForm, case: Case) -> None:
    """Break no PodDisruptionBudget, and evict no more than may be: evicted is what is not kept."""
    of_budget: defaultdict[int, Counter[int]] = defaultdict(Counter)
    everybody = Expression()
    for number, party in enumerate(case.parties):
        if not party.is_moved:
            everybody.add(number, -len(party.pods))
        for each in party.budgets:
            of_budget[each][number] += 1
    total = -sum(everybody.terms.values())
    if total > case.most:
        form.require(everybody, "evictions", high=case.most - total)
    for each, counts in of_budget.items():
        allowed = case.before.budgets[each].allowed
        if counts.total() > allowed:
            spent = Expression({number: -count for number, count in counts.items()})
            form.require(spent, "PodDisruptionBudget", high=allowed - counts.total())


def _bind(variables: Variables, bond: Bond, numbers: Sequence[int]) -> tuple[int, int]:
    """Keep as many of a gang as it needs, or none; give the variable that is 1 while it is kept, and its size."""
    form = variables.form
    whole = form.variable(int(bond.must_stay), 1)
    kept = Expression(dict.fromkeys(numbers, 1))
    kept.add(whole, -bond.need)
    form.require(kept, "gang", low=0)
    for number in numbers:
        form.require(Expression({number: 1, whole: -1}), "gang", high=0)

    def complete(values: list[int]) -> None:
        values[whole] = int(sum(values[number] for number in numbers) >= bond.need)

    variables.completions.append(complete)
    return whole, len(numbers)


def _levels(parties: Sequence[Party], gangs: Mapping[Bond, tuple[int, int]]) -> list[Level]:
    """
    Name what to maximise: spared pods kept, pods kept of each priority, parties kept (a whole gang is one), work kept.

    Pods that are not evicted but moved come last: as few as can be.
    """
    tiers: defaultdict[int, Expression] = defaultdict(Expression)
    moved = [number for number, party in enumerate(parties) if party.is_moved]
    for number, party in enumerate(parties):
        for pod in () if party.is_moved else party.pods:
            tiers[pod.priority].add(number)
    levels = [Level(f"kept:{priority}", tiers[priority]) for priority in sorted(tiers, reverse=True)]
    spared = {number: party.spared for number, party in enumerate(parties) if party.spared}
    if spared:
        levels.insert(0, Level("spared", Expression(spared)))
    stays = Expression({number: 1 for number, party in enumerate(parties) if not party.is_moved})
    for whole, size in gangs.values():
        stays.add(whole, 1 - size)
    levels.append(Level("parties", stays))
    levels.append(Level("work", Expression({number: each.seconds for number, each in enumerate(parties)})))
    if moved:
        levels.append(Level("moved", Expression(dict.fromkeys(moved, 1))))
    return levels


def _hint(variables: Variables, case: Case) -> list[int] | None:
    """Start from the solution: everybody stays who is not on its nodes and holds nothing cluster-wide."""
    try:
        values = assignment.values_of(variables, case.start)
    except UnknownChoiceError:
        return None
    names = [node.name for node in case.problem.inventory.nodes]
    used = {names[choice.node] for choice in case.start.choices}
    used |= {names[shared.node] for shared in case.start.shared.values()}
    wide = {party for draw in case.held.draws for party in draw.parties if any(node < 0 for node, *_ in draw.budgets)}
    for number, party in enumerate(case.parties):
        values[number] = int(not (party.nodes & used) and number not in wide)
    for bond, numbers in bonds(case.parties).items():
        if sum(values[number] for number in numbers) < bond.need:
            for number in numbers:
                values[number] = 0
    for complete in variables.completions:
        complete(values)
    return values
